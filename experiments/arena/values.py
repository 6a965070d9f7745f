"""Pairs of early and final values: each group of each window, at a lead before the window's end.

The pairs are made by brute force, without the engine. A window is asked for at the end of the first
epoch whose newest time is within the lead of the window's end. Its finals hold the rows that a
fixed slack admits: the smallest one that keeps `KEPT` of all rows. The estimator is judged and
taught in the order in which a query would do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.arena.constants import Constants, closing_epochs
from experiments.arena.incidence import DELAY, Incidences
from experiments.arena.stream import ArenaStream, Floats, Ticks
from experiments.arena.verdict import LONG
from lowwater.early.arrivals import Arrivals, count_arrivals
from lowwater.early.calibration.early_rows import Kind

KEPT = 0.99
"""The share of rows that reach their finals."""
KINDS: dict[str, Kind] = {
    "count": "counted",
    "sum": "scaled",
    "avg": "level",
    "median": "level",
    "max": "rising",
    "distinct": "distinct",
}
"""The aggregates that are judged, by name."""
BINS_PER_WINDOW, SPANS = 8, 2


@dataclass(frozen=True, eq=False)
class ValuePairs:
    """Early and final values, one of each per window and group, in order of the windows.

    `asked` and `known` are the epochs of the early value and of the final, `share` the completeness
    of the window as the model of arrivals expects it, `arrived` the rows of the early value.
    """

    window: Ticks
    group: Ticks
    asked: Ticks
    known: Ticks
    end: Ticks
    share: Floats
    arrived: Floats
    rows: Floats
    early: dict[str, Floats]
    final: dict[str, Floats]
    long: bool = True
    """Whether the stream is at least `LONG` times as long as its slack."""

    def take(self, chosen: np.ndarray) -> ValuePairs:
        """Return the pairs at the places `chosen`."""
        parts = {k: v[chosen] for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        values = [{n: v[chosen] for n, v in d.items()} for d in (self.early, self.final)]
        return ValuePairs(**parts, early=values[0], final=values[1], long=self.long)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.window)

    @cached_property
    def past_size(self) -> Floats:
        """The mean number of rows in the past finals of each pair's group; NaN without one."""
        sizes = np.full(len(self), np.nan)
        for at in _parts(self.group):
            known, asked = self.known[at], self.asked[at]
            total = np.concatenate([[0.0], np.cumsum(self.rows[at])])
            before = np.searchsorted(known, asked, side="left")
            sizes[at] = np.where(before > 0, total[before] / np.maximum(before, 1), np.nan)
        return sizes


def _parts(codes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the places of each value of `codes`, in their order."""
    order = np.argsort(codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[order])) + 1
    yield from (part for part in np.split(order, cuts) if len(part))


def pairs(stream: ArenaStream, lead: float) -> ValuePairs:
    """Return the pairs of a stream, asked `lead` windows before each window ends."""
    stream = stream.tumbling(stream.range)
    found = Incidences.of(stream)
    ends = found.ends
    slack = Constants.of(stream, found, np.ones(len(ends), bool)).least(KEPT)
    near = np.searchsorted(stream.newest, ends - round(lead * stream.range), side="left")
    asked = np.minimum(near, len(stream.cuts) - 1)
    known = np.maximum(closing_epochs(stream, ends + slack), asked + 1)
    rows = _Rows.of(stream, ends, slack)
    final = rows.aggregates(np.ones(len(rows.epoch), bool))
    early = rows.aggregates(rows.epoch <= asked[rows.window])
    _, at_early, at_final = np.intersect1d(early["code"], final["code"], return_indices=True)
    window, group = np.divmod(early["code"][at_early].astype(np.int64), rows.groups)
    share = _shares(stream, ends, asked, slack)
    made = ValuePairs(
        window,
        group,
        asked[window],
        known[window],
        ends[window],
        share[window],
        early["count"][at_early],
        final["count"][at_final],
        {n: early[n][at_early] for n in KINDS},
        {n: final[n][at_final] for n in KINDS},
        bool(ends[-1] - ends[0] >= LONG * slack),
    )
    # The newest time never comes near the ends of the last windows: they are not asked for.
    reached = (near < len(stream.cuts))[window]
    return made.take(np.flatnonzero(reached & (made.known > made.asked)))


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows that reach their windows in time: window, group, epoch and value of each."""

    window: Ticks
    group: Ticks
    epoch: Ticks
    value: Floats
    groups: int

    @classmethod
    def of(cls, stream: ArenaStream, ends: Ticks, slack: int) -> _Rows:
        """Return the rows that a slack admits to the windows with the ends `ends`."""
        end = stream.ts // stream.range * stream.range + stream.range
        epoch = stream.row_epoch
        needed = stream.newest[np.maximum(epoch - DELAY, 0)] - end + 1
        kept = stream.matches & ((epoch < DELAY) | (needed <= slack))
        names, group = np.unique(stream.key[kept], return_inverse=True)
        window = np.searchsorted(ends, end[kept])
        return cls(window, group, epoch[kept], stream.value[kept], len(names))

    def aggregates(self, chosen: np.ndarray) -> dict[str, Floats]:
        """Return the aggregates of each window and group, over the rows `chosen`."""
        code = self.window * self.groups + self.group
        return _aggregates(code[chosen], self.value[chosen])


def _aggregates(code: Ticks, value: Floats) -> dict[str, Floats]:
    """Return the aggregates of the values of each code, in ascending order of the codes."""
    order = np.lexsort([value, code])
    code, value = code[order], value[order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    count = np.diff(np.append(starts, len(code)))
    total = np.add.reduceat(value, starts) if len(starts) else np.zeros(0)
    whole = np.floor(value)
    fresh = (np.diff(whole, prepend=np.nan) != 0) | (np.diff(code, prepend=-1) != 0)
    distinct = np.add.reduceat(fresh.astype(float), starts) if len(starts) else np.zeros(0)
    last = starts + count - 1
    middle = (value[starts + (count - 1) // 2] + value[starts + count // 2]) / 2
    return {
        "code": code[starts].astype(np.float64),
        "count": count.astype(np.float64),
        "sum": total,
        "avg": total / np.maximum(count, 1),
        "median": middle,
        "max": value[last],
        "distinct": distinct,
    }


def _shares(stream: ArenaStream, ends: Ticks, asked: Ticks, slack: int) -> Floats:
    """Return the completeness of each window when it is asked for, by the model of arrivals."""
    model = Arrivals(max(1, stream.range // BINS_PER_WINDOW), SPANS * stream.range)
    memory, shares = model.begin(), np.ones(len(ends))
    running = np.maximum.accumulate(stream.ts)
    places = np.searchsorted(stream.row_epoch, np.arange(len(stream.cuts) + 1))
    order = np.argsort(asked, kind="stable")
    due = np.searchsorted(asked[order], np.arange(len(stream.cuts) + 1))
    for epoch, newest in enumerate(stream.newest.tolist()):
        a, b = places[epoch], places[epoch + 1]
        if b > a:
            blocks = [count_arrivals(stream.ts[a:b], (running - stream.ts)[a:b], model.width)]
            memory = model.advance(memory, blocks, newest - slack)
        wanted = order[due[epoch] : due[epoch + 1]]
        if len(wanted):
            arrived = model.arrived(memory, newest)
            shares[wanted] = arrived.completeness(ends[wanted] - stream.range, ends[wanted])
    return shares


def changes(stream: ArenaStream, windows: int) -> np.ndarray:
    """Return the windows at which the delays or the number of rows change for some time.

    A change is a factor of 2 between the medians of 20 windows before and 10 windows after.
    """
    number = stream.ts // stream.range
    nth = np.unique(number, return_inverse=True)[1]
    rows = np.bincount(nth, minlength=windows)[:windows].astype(float)
    late = np.maximum.accumulate(stream.ts) - stream.ts
    delay = np.bincount(nth, late + stream.epoch, minlength=windows)[:windows] / np.maximum(rows, 1)
    found: list[int] = []
    for i in range(20, windows - 10):
        for track in (rows, delay):
            before, after = np.median(track[i - 20 : i]), np.median(track[i : i + 10])
            jumps = max(before, after) > 2 * min(before, after)
            sudden = abs(track[i] - before) > abs(track[i] - after)
            if jumps and sudden and (not found or i - found[-1] >= 20):  # noqa: PLR2004
                found.append(i)
    return np.array(found, np.int64)
