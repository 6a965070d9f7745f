"""The pairs that new rows of one side form with known rows of the other side, by key and time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lowwater.operators.join.match import SortedRows
from lowwater.operators.join.pair_counts import PairCounts, covered, summed
from lowwater.operators.join.plan import OTHER, JoinPlan
from lowwater.operators.join.row_sample import KeyedRows


@dataclass(frozen=True)
class Found:
    """Pairs of new rows, by index in `rows`, with `known` rows of the other side.

    New row i is in pairs with the known rows at the places `[start[i], end[i])`. Before they were
    sorted, these were at `places`.
    """

    rows: np.ndarray
    start: np.ndarray
    end: np.ndarray
    known: KeyedRows
    places: np.ndarray

    @classmethod
    def of(cls, plan: JoinPlan, port: int, rows: KeyedRows, known: KeyedRows) -> Found | None:
        """Return the pairs of `rows`, of side `port`; None if there is none."""
        probes, codes, by_time = coded(rows.keys, known)
        at, reach = rows.ticks[probes], plan.reaches[port]
        start, end = by_time.between(codes, reach.first(at), reach.last(at))
        met = end > start
        if not met.any():
            return None
        order = by_time.order
        return cls(probes[met], start[met], end[met], known.take(order), order)

    @cached_property
    def pairs(self) -> np.ndarray:
        """The number of pairs of each known row, times the rows that it stands for."""
        times = covered(len(self.known), self.start, self.end)
        return times if self.known.level is None else times * self.known.stands

    def weigh(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of `values`, one for each known row, over the pairs of each new row."""
        return summed(values, self.start, self.end)

    def book(
        self, counts: PairCounts, kind: int, port: int, rows: KeyedRows, chosen: np.ndarray
    ) -> None:
        """Book the pairs with the known rows in a mask; `rows`, the new ones, are of `port`."""
        if port == OTHER:
            counts.book(kind, self.known.ticks, self.pairs * chosen)
        else:
            counts.book(kind, rows.ticks[self.rows], self.weigh(self.known.stands * chosen))

    def where(self, chosen: np.ndarray) -> Found:
        """Return only the new rows in a mask."""
        if chosen.all():
            return self
        rows, start, end = self.rows[chosen], self.start[chosen], self.end[chosen]
        return replace(self, rows=rows, start=start, end=end)


FEW = 1_024
"""Of more rows than this, those are chosen first whose keys end in the bits of a wanted key."""
_LOW = 0xFFFF


def coded(keys: np.ndarray, known: KeyedRows) -> tuple[np.ndarray, np.ndarray, SortedRows]:
    """Return the indices of the `keys` that known rows have, their codes, and the known rows.

    The known rows are sorted by (code, time).
    """
    distinct, codes = np.unique(known.keys, return_inverse=True)
    by_time = SortedRows(codes, known.ticks, np.arange(len(known)))
    probes = likely(keys, distinct)
    keys = keys[probes]
    place = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
    same = distinct[place] == keys
    if same.all():
        return probes, place, by_time
    return probes[same], place[same], by_time


def likely(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return indices of `keys`, among them all that are `wanted`."""
    if len(keys) <= FEW:
        return np.arange(len(keys))
    marked = np.zeros(_LOW + 1, bool)
    marked[wanted & _LOW] = True
    return np.flatnonzero(marked[keys & _LOW])
