"""Early results of windows, played on the local host (PROD, chapter 4).

Event times, arrivals and the clock are one axis, in ticks. Epochs are cut where something happens:
epoch n takes in the rows that arrive from `cuts[n - 1]` up to `cuts[n]`, and emits its results at
`cuts[n]`. A prod that is answered at a cut comes in the epoch that ends at the cut before; so its
answer has every row that had arrived by then.

Punctuations are part of the stream: a punctuation comes with the first row at or past its time, and
not before the last row that is before it. Latency is that of PROD 4.1: from the arrival of the
first row of a window to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.aggregates.aggregate import Aggregate
from lowwater.early.accuracy import accuracy
from lowwater.early.policies import ProdPolicy
from lowwater.query.stream import Stream
from lowwater.sources.feed import Feed
from lowwater.ticks import TICKS_PER_SECOND as SECOND
from lowwater.watermarks.policy import WatermarkPolicy

MARK = "mark"
Estimate = Literal["raw", "complete"]
ESTIMATES: tuple[Estimate, ...] = ("raw", "complete")


Prods: TypeAlias = ProdPolicy | Mapping[int, int] | None
"""A policy, or which window, by its end, is to be answered at which cut."""
Leads: TypeAlias = Callable[[int], np.ndarray]
"""Returns for each of a number of windows how long before its end it is asked for."""


@dataclass(frozen=True)
class Moments:
    """A clock that stands at the end of each epoch, and goes on by a tick after the last."""

    cuts: np.ndarray

    def now(self, epoch: int) -> int:
        """Return the time of an epoch."""
        last = len(self.cuts) - 1
        return int(self.cuts[min(epoch, last)]) + max(epoch - last, 0)


@dataclass(frozen=True)
class Rows:
    """Rows: event times, arrivals and numbers. Rows with `mark` set are punctuations.

    `came` is the start of latency, where that is before a row reaches the windows.
    """

    ts: np.ndarray
    arrived: np.ndarray
    values: Mapping[str, np.ndarray]
    mark: np.ndarray
    came: np.ndarray | None = None

    @classmethod
    def of(cls, ts: np.ndarray, arrived: np.ndarray, **values: np.ndarray) -> Rows:
        """Put rows into the order of arrival."""
        order = np.argsort(arrived, kind="stable")
        sorted_values = {name: v[order] for name, v in values.items()}
        return cls(ts[order], arrived[order], sorted_values, np.zeros(len(ts), bool))

    def punctuated(self, marks: np.ndarray) -> Rows:
        """Return the stream with punctuations; those past the last row never come."""
        marks, at = self.mark_arrivals(marks)
        arrived = np.concatenate([self.arrived, at])
        # A punctuation follows the rows that come with it, since an epoch processes data first.
        order = np.argsort(arrived, kind="stable")
        nothing = np.full(len(marks), np.nan)
        values = {n: np.concatenate([v, nothing])[order] for n, v in self.values.items()}
        is_mark = np.arange(len(arrived)) >= len(self.ts)
        came = None if self.came is None else np.concatenate([self.came, at])[order]
        ts = np.concatenate([self.ts, marks])[order]
        return Rows(ts, arrived[order], values, is_mark[order], came)

    def mark_arrivals(self, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the punctuations that come, and their arrivals."""
        order = np.argsort(self.ts, kind="stable")
        place = np.searchsorted(self.ts[order], marks)
        marks, place = marks[place < len(order)], place[place < len(order)]
        arrived = self.arrived[order]
        latest = np.maximum.accumulate(arrived)  # of all rows up to a time
        soonest = np.minimum.accumulate(arrived[::-1])[::-1]  # of all rows from a time on
        before = np.where(place > 0, latest[np.maximum(place - 1, 0)], 0)
        return marks, np.maximum(before, soonest[place])

    def first(self, start: int, end: int) -> int:
        """Return when the first row of a window came; without any, its end."""
        inside = ~self.mark & (self.ts >= start) & (self.ts < end)
        return int((self.arrived if self.came is None else self.came)[inside].min(initial=end))

    @property
    def feed(self) -> Feed:
        """A feed of such rows."""
        numbers = "".join(f", {name} double" for name in self.values)
        return lw.feed(f"ts timestamp, {MARK} boolean{numbers}")

    def epochs(self, feed: Feed, cuts: np.ndarray) -> list[pa.Table]:
        """Cut the stream by arrival; rows after the last cut are not played."""
        columns = [pa.array(self.ts), pa.array(self.mark), *map(pa.array, self.values.values())]
        table = pa.table(columns, feed.schema.names).cast(feed.schema)
        places = [0, *np.searchsorted(self.arrived, cuts).tolist()]
        return [table.slice(a, b - a) for a, b in pairwise(places)]


@dataclass(frozen=True)
class Ask:
    """A query over windows of `range` and `slide` ticks, and the aggregates it asks for.

    Without a watermark policy it follows the punctuations of the stream.
    """

    range: int
    slide: int
    aggregates: Mapping[str, Aggregate]
    progress: WatermarkPolicy | None = None

    def over(self, feed: Feed) -> Stream:
        """Return the query over a feed."""
        stream = lw.stream(feed, time="ts", watermark=self.progress or lw.punctuated(MARK))
        window = stream.window(range=_span(self.range), slide=_span(self.slide))
        return window.agg(**self.aggregates)


def _span(length: int) -> timedelta:
    return timedelta(microseconds=length)


@dataclass(frozen=True)
class Answers:
    """The answers of each window: by name the final value and the early one, NaN without one.

    `first` is when the first row of the window arrived, `finally_at` and `early_at` when results
    were produced, in ticks; of several early results, those of the first.
    """

    ends: np.ndarray
    full: np.ndarray
    """Which windows lie inside the stream: the first ones are cut by its beginning."""
    first: np.ndarray
    finally_at: np.ndarray
    early_at: np.ndarray
    completeness: np.ndarray
    """The share of its rows that an early result said it rests on."""
    final: Mapping[str, np.ndarray]
    early: Mapping[str, np.ndarray]
    low: Mapping[str, np.ndarray]
    high: Mapping[str, np.ndarray]

    @property
    def answered(self) -> np.ndarray:
        """Which windows have an early result."""
        return np.asarray(~np.isnan(self.early_at))

    def accuracy(self, name: str, *, full: bool = True) -> np.ndarray:
        """Return the accuracy of each early result, in percent."""
        chosen = self.answered & (self.full | (not full))
        return np.asarray(100 * accuracy(self.early[name][chosen], self.final[name][chosen]))

    def gains(self, *, full: bool = True) -> np.ndarray:
        """Return by how many seconds early results came sooner than final ones."""
        chosen = self.answered & (self.full | (not full))
        return np.asarray((self.finally_at - self.early_at)[chosen] / SECOND)

    def latencies(self, *, early: bool) -> np.ndarray:
        """Return the latencies of results of full windows, in seconds."""
        at = self.early_at if early else self.finally_at
        return np.asarray(((at - self.first) / SECOND)[self.full & ~np.isnan(at)])


@dataclass(frozen=True)
class Play:
    """A punctuated stream, and the windows that are asked for, by their ends."""

    rows: Rows
    ask: Ask
    cuts: np.ndarray
    ends: np.ndarray
    feed: Feed
    tables: Sequence[pa.Table]

    @classmethod
    def of(cls, rows: Rows, ask: Ask, cuts: np.ndarray, ends: np.ndarray | None = None) -> Play:
        """Cut a stream into epochs; without `ends`, windows are those that punctuations close."""
        feed = rows.feed
        judged = np.sort(rows.ts[rows.mark]) if ends is None else ends
        return cls(rows, ask, cuts, judged, feed, rows.epochs(feed, cuts))

    @classmethod
    def asked(cls, rows: Rows, ask: Ask, lead: int | Leads) -> tuple[Play, dict[int, int]]:
        """Cut a stream so that each window is answered `lead` ticks before its end.

        Epochs end where a window is to be answered and where a punctuation has arrived. Also
        returned: which window is asked for at which cut, by its end.
        """
        first, last = int(rows.ts.min()), int(rows.ts.max())
        ends = np.arange(first // ask.slide + 1, last // ask.slide + 1) * ask.slide
        ends, marked = rows.mark_arrivals(ends)
        asks = ends - (lead(len(ends)) if callable(lead) else lead)
        cuts = np.unique(np.concatenate([[first + 1], asks[asks > first + 1], marked + 1]))
        play = cls.of(rows.punctuated(ends), ask, cuts)
        return play, {int(a): int(e) for a, e in zip(asks, ends, strict=True) if a > first + 1}

    def run(self, prods: Prods, estimate: Estimate = "raw") -> Answers:
        """Run the query and return its answers, window by window."""
        return self.answers(self.results(prods, estimate))

    def results(self, prods: Prods, estimate: Estimate = "raw") -> Mapping[int, pa.Table]:
        """Run the query in one shard, under a policy or with prods at some of the cuts."""
        sink, epochs = lw.to_memory(), {self.feed: self.tables}
        given: Any = prods
        if isinstance(prods, Mapping):
            asks = lw.feed("upto timestamp")
            epochs[asks] = self._prods(asks, prods)
            given = lw.stream(asks, time="upto", watermark=lw.ordered())
        self.ask.over(self.feed).run(
            epochs=epochs,
            sink=sink,
            clock=Moments(self.cuts),
            shards=1,
            early=given,
            estimate=estimate,
        )
        return sink.epochs

    def _prods(self, feed: Feed, prods: Mapping[int, int]) -> list[pa.Table]:
        """Return the epochs of prods: each comes in the epoch before the one that answers it."""
        answered = [prods.get(int(cut)) for cut in self.cuts[1:]]
        columns = [[] if upto is None else [upto] for upto in (*answered, None)]
        return [pa.table({"upto": pa.array(c, pa.int64())}).cast(feed.schema) for c in columns]

    def answers(self, epochs: Mapping[int, pa.Table]) -> Answers:
        """Return results window by window."""
        size, ends, names = self.ask.range, self.ends, list(self.ask.aggregates)
        found = _AnswerTable(ends, names)
        for epoch, table in epochs.items():
            found.add(table, Moments(self.cuts).now(epoch))
        first = np.array([self.rows.first(e - size, e) for e in ends])
        full = ends - size >= self.rows.ts.min()
        return Answers(
            ends,
            full,
            first,
            found.at["final"],
            found.at["early"],
            found.completeness,
            *found.values.values(),
        )


class _AnswerTable:
    """Collects results by window."""

    def __init__(self, ends: np.ndarray, names: Sequence[str]) -> None:
        self.places = {int(end): i for i, end in enumerate(ends)}
        self.names = names
        self.at = {kind: np.full(len(ends), np.nan) for kind in ("final", "early")}
        self.completeness = np.full(len(ends), np.nan)
        self.values = {
            what: {name: np.full(len(ends), np.nan) for name in names}
            for what in ("final", "early", "low", "high")
        }

    def add(self, table: pa.Table, moment: int) -> None:
        """Note the results of an epoch; an early one does not replace another."""
        prodded = "kind" in table.column_names
        for row in table.to_pylist():
            kind = row["kind"] if prodded else "final"
            place = self.places.get(_ticks(row["window"]["end"]))
            if place is None or not np.isnan(self.at[kind][place]):
                continue
            self.at[kind][place] = moment
            for name in self.names:
                self.values[kind][name][place] = _number(row[name])
            if kind == "early":
                self._note(row, place)

    def _note(self, row: Mapping[str, Any], place: int) -> None:
        """Note the completeness and the interval of an early result."""
        self.completeness[place] = _number(row["completeness"])
        for side in ("low", "high"):
            for name in self.names:
                self.values[side][name][place] = _number(row[side][name])


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _ticks(moment: Any) -> int:
    return int(moment.timestamp()) * SECOND + int(moment.microsecond)
