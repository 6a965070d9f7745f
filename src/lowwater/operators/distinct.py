"""Distinct: of rows with equal columns and near times, only the first to arrive is emitted.

The columns and the time t of an emitted row stay in state until watermark > t + within, because a
repeat of the row may arrive until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.values import spread
from lowwater.errors import SpecError
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.group_codes import group_rows
from lowwater.operators.join.band import Band, open_from
from lowwater.operators.join.match import SortedRows, reached
from lowwater.operators.kernel import register
from lowwater.operators.row_kernel import PortRows, RowKernel
from lowwater.operators.row_store import StoredRows
from lowwater.operators.unary import UnaryPlan
from lowwater.ticks import FIRST_TICK

_STRIDE = 8
"""The number of rows that `_advanced` examines in its first round; every next round doubles it."""


@dataclass(frozen=True)
class DistinctPlan(UnaryPlan):
    """The plan of a distinct: of rows with equal `columns` and near times, the first is emitted.

    Times up to `within` ticks apart are near. NULL equals NULL, NaN equals NaN, −0.0 equals 0.0.
    """

    columns: tuple[str, ...]
    within: int = 0
    shards: int = 2
    word: ClassVar[str] = "distinct"

    def __post_init__(self) -> None:
        if self.within < 0:
            raise SpecError(f"within={self.within} is negative: give 0 for rows of equal time")

    @property
    def sequential(self) -> bool:
        """Whether a single shard must process all rows: true if no columns are compared."""
        return not self.columns

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """The compared columns: rows that are equal in them go to the same shard."""
        return (self.columns,)

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the plan in the table of compatible features."""
        return frozenset({"distinct within" if self.within else "distinct"})

    @property
    def near(self) -> Band:
        """The band of the time differences at which equal rows are repeats."""
        return Band(-self.within, self.within)

    def explain(self) -> list[str]:
        """Return lines that describe the results and the state."""
        near = f", at most {self.axis.say(self.within)} apart" if self.within else ", at one time"
        return [
            f"distinct    the first row of each {', '.join(self.columns) or 'kind'}{near}",
            "state       emitted rows, until the watermark is too late for a repeat",
        ]


@register(DistinctPlan)
class DistinctKernel(RowKernel):
    """One epoch of one shard of a distinct.

    A row behind the watermark is late if it repeats no row in state, because it may repeat an
    evicted row. A dead row (`DEAD`) is always late: whether the row that it repeats has been
    evicted depends on how the stream was cut into epochs.
    """

    def __init__(self, plan: DistinctPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state)
        self.plan = plan
        self.counts["duplicates"] = 0

    def advance(self, arrivals: list[PortRows], watermarks: list[int | None]) -> None:
        """Emit and store the new rows, and evict rows that no future row can repeat."""
        (rows,), (before,), (after,) = arrivals, self.watermarks, watermarks
        in_time = ~rows.dead & (rows.ticks >= (FIRST_TICK if before is None else before))
        new, repeats = self._compare(rows, in_time)
        self.account(0, rows, ~new & ~repeats)
        self.counts["duplicates"] += int(repeats.sum())
        plain = rows.table.drop_columns([TICK, LATE_DEGREE, DEAD])
        self.emit(plain.take(pa.array(np.flatnonzero(new))))
        self.watermarks = watermarks
        limit, store = open_from(self.plan.near, after), self.stores[0]
        store.cut(limit, wanted=False)
        keys = rows.table.select([*dict.fromkeys(self.plan.columns), TICK])
        store.add(StoredRows.of(keys).where(new & (rows.ticks >= limit)))

    def _compare(self, rows: PortRows, in_time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return two masks: the rows that are new, and the rows that repeat another row."""
        near, columns = self.plan.near, self.plan.columns
        store = self.stores[0]
        known = [store.read(b).table for b in reached(store.all, near, rows.ticks)]
        before = sum(map(len, known))
        keys = rows.table.select([*dict.fromkeys(columns), TICK])
        both = pa.concat_tables([*known, keys]).combine_chunks()
        codes, _ = group_rows([both.column(c).combine_chunks() for c in columns], len(both))
        ticks = both.column(TICK).to_numpy()
        stored, code = SortedRows(codes, ticks, np.arange(before)), codes[before:]
        start, end = stored.between(code, near.first(rows.ticks), near.last(rows.ticks))
        repeats = ~rows.dead & (end > start)
        candidates = in_time & ~repeats
        new = first_arrivals(code, rows.ticks, near, candidates)
        behind = np.flatnonzero(~rows.dead & ~repeats & ~in_time)
        repeats |= candidates & ~new
        repeats[behind] = follows_near(code, rows.ticks, near, np.flatnonzero(new), behind)
        return new, repeats


def first_arrivals(
    code: np.ndarray, ticks: np.ndarray, near: Band, candidates: np.ndarray
) -> np.ndarray:
    """Return a mask of the new rows: the candidates that repeat no new row before them.

    Each round marks the first undecided row of every code as new and rejects the rows near it. A
    row is near at most two new rows, so the cost of all rounds is linear in the number of rows.

    >>> code, ticks = np.zeros(4, int), np.array([5, 3, 1, 7])
    >>> first_arrivals(code, ticks, Band(-2, 2), np.ones(4, bool)).tolist()
    [True, False, True, False]
    """
    new = np.zeros(len(code), bool)
    rows = np.flatnonzero(candidates)
    by_time = SortedRows(code, ticks, rows)
    if near.lo == near.hi == 0:
        new[by_time.order[by_time.begins()]] = True
        return new
    queue = rows[np.argsort(code[rows], kind="stable")]
    at = np.flatnonzero(np.diff(code[queue], prepend=-1))
    stop = np.append(at[1:], len(queue))
    decided = np.zeros(len(code), bool)
    while len(at):
        chosen = queue[at]
        new[chosen] = True
        t = ticks[chosen]
        struck, _ = spread(*by_time.between(code[chosen], near.first(t), near.last(t)))
        decided[by_time.order[struck]] = True
        at = _advanced(queue, decided, at, stop)
        left = at < stop
        at, stop = at[left], stop[left]
    return new


def _advanced(
    queue: np.ndarray, decided: np.ndarray, at: np.ndarray, stop: np.ndarray
) -> np.ndarray:
    """For each place at[i], return the place of the next undecided row in `queue`, or stop[i]."""
    at = at.copy()
    moving, stride = np.arange(len(at)), _STRIDE
    while len(moving):
        ahead = at[moving, None] + np.arange(stride)
        ended = ahead >= stop[moving, None]
        undecided = ended | ~decided[queue[np.where(ended, 0, ahead)]]
        some = undecided.any(axis=1)
        at[moving] += np.where(some, undecided.argmax(axis=1), stride)
        moving, stride = moving[~some], 2 * stride
    return at


def follows_near(
    code: np.ndarray, ticks: np.ndarray, near: Band, new: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Return a mask over `rows`: whether the row repeats an earlier arrival from `new`."""
    t = ticks[rows]
    by_time = SortedRows(code, ticks, new)
    place, which = spread(*by_time.between(code[rows], near.first(t), near.last(t)))
    earlier = by_time.order[place] < rows[which]
    return np.bincount(which[earlier], minlength=len(rows)) > 0
