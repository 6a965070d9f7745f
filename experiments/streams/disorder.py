"""Streams that do not arrive in order, played on the local host under a virtual clock.

Event times and arrivals are on one clock, in ticks. Rows that arrive in [n·epoch, (n+1)·epoch) are
epoch n, and the epoch emits its results at its end. A punctuation of the stream acts in its
own epoch; slack decides a watermark after an epoch and it acts in the next, so its
results are produced an epoch later. Every latency here includes that delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.aggregates.aggregate import Aggregate
from lowwater.ticks import TICKS_PER_SECOND as SECOND
from lowwater.ticks import instant
from lowwater.watermarks.policy import WatermarkPolicy

SCHEMA = lw.feed("ts timestamp, arrived bigint, value double, mark boolean").schema


@dataclass(frozen=True)
class Arrivals:
    """Rows in the order of arrival. Those with `mark` set are punctuations, not data."""

    ts: np.ndarray
    arrived: np.ndarray
    value: np.ndarray
    mark: np.ndarray

    @classmethod
    def of(cls, ts: np.ndarray, arrived: np.ndarray, value: np.ndarray) -> Arrivals:
        """Put rows into the order of arrival."""
        order = np.argsort(arrived, kind="stable")
        return cls(ts[order], arrived[order], value[order], np.zeros(len(ts), bool))

    def punctuated(self, marks: np.ndarray) -> Arrivals:
        """Return the stream with each punctuation right after the last row before its time."""
        by_time = np.argsort(self.ts, kind="stable")
        last = np.maximum.accumulate(by_time)  # of all rows up to a time, the last to arrive
        rows = np.searchsorted(self.ts[by_time], marks)
        after = last[rows - 1] + 1
        return Arrivals(
            np.insert(self.ts, after, marks),
            np.insert(self.arrived, after, self.arrived[after - 1]),
            np.insert(self.value, after, np.nan),
            np.insert(self.mark, after, values=True),
        )

    def epochs(self, length: int) -> list[pa.Table]:
        """Cut the stream by arrival, into epochs of `length` ticks, from the first row on."""
        columns = [pa.array(self.ts), self.arrived, self.value, self.mark]
        table = pa.table([pa.array(c) for c in columns], SCHEMA.names).cast(SCHEMA)
        number = self.arrived // length
        cuts = np.searchsorted(number, np.arange(number[0], number[-1] + 2))
        return [table.slice(a, b - a) for a, b in pairwise(cuts)]


@dataclass(frozen=True)
class Windows:
    """Sliding windows over `ts`, in ticks, and which of them are judged: those that end in a span.

    Windows that the beginning of the stream cuts, or that only its end would close, are not judged.
    """

    range: int
    slide: int
    since: int
    until: int

    @property
    def ends(self) -> np.ndarray:
        """Where the judged windows end."""
        first = -(-(self.since + self.range) // self.slide)
        return np.arange(first, self.until // self.slide + 1) * self.slide

    def extents(self, stream: Arrivals) -> list[np.ndarray]:
        """Return all values of each judged window, late or not: the exact answer is theirs."""
        data = ~stream.mark
        order = np.argsort(stream.ts[data], kind="stable")
        ts, value = stream.ts[data][order], stream.value[data][order]
        low, high = np.searchsorted(ts, self.ends - self.range), np.searchsorted(ts, self.ends)
        return [value[a:b] for a, b in zip(low, high, strict=True)]


@dataclass(frozen=True)
class Answers:
    """The finals of the judged windows.

    Attributes
    ----------
    answer
        The finals; NaN where none came, as all rows of the window were late.
    latency
        Seconds from the arrival of the last row that is in an answer to its production: how long
        the answer lay ready and was held back. (WID 8.2 leaves open how latency is measured. Under
        this reading all that it reports of latency can be true.)
    age
        Seconds from a window's end to the production of its final.
    """

    answer: np.ndarray
    latency: float
    age: float


def play(
    stream: Arrivals,
    progress: WatermarkPolicy,
    windows: Windows,
    aggregate: Aggregate,
    *,
    epoch: int,
) -> Answers:
    """Run the query over the stream, one shard, in epochs of `epoch` ticks."""
    feed, sink = lw.feed(SCHEMA), lw.to_memory()
    query = (
        lw.stream(feed, time="ts", watermark=progress)
        .window(range=_span(windows.range), slide=_span(windows.slide))
        .agg(answer=aggregate, newest=lw.max("arrived"))
    )
    first = int(stream.arrived[0]) // epoch * epoch
    clock = lw.VirtualClock(instant(first + epoch), _span(epoch))
    tables = stream.epochs(epoch)
    query.run(epochs={feed: tables}, sink=sink, clock=clock, shards=1)
    places = {int(end): i for i, end in enumerate(windows.ends)}
    answer, produced, newest = (np.full(len(places), np.nan) for _ in range(3))
    for number, rows in sink.epochs.items():
        ends = rows.column("window").combine_chunks().field("end").cast(pa.int64()).to_numpy()
        chosen = [i for i, end in enumerate(ends) if end in places]
        at = [places[ends[i]] for i in chosen]
        answer[at] = rows.column("answer").to_numpy()[chosen]
        newest[at] = rows.column("newest").to_numpy()[chosen]
        produced[at] = clock.now(number)
    return Answers(
        answer,
        float(np.nanmean(produced - newest)) / SECOND,
        float(np.nanmean(produced - windows.ends)) / SECOND,
    )


def _span(length: int) -> timedelta:
    return timedelta(microseconds=length)
