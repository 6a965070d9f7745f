"""Distinct: of rows that are equal in some columns and near in time, the first to arrive.

A row that was let through is remembered, by its columns and its time t, until mark > t + within:
until then a row may come that would repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.kernels.bands import MIN, Band, open_from
from lowwater.kernels.groups import group_rows
from lowwater.kernels.matching import Sorted, reached
from lowwater.kernels.one_stream import OneStream
from lowwater.kernels.repeats import came_after, first_arrivals
from lowwater.kernels.row_buckets import Kept
from lowwater.kernels.row_epoch import Arrivals, RowEpoch
from lowwater.kernels.rows import DEAD, LATE_DEGREE, TICK


@dataclass(frozen=True)
class DistinctPlan(OneStream):
    """A stream without rows that repeat `columns` at most `within` ticks apart.

    NULL equals NULL, NaN equals NaN, and −0.0 equals 0.0.
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
        """Whether one shard must see all rows."""
        return not self.columns

    def with_shards(self, shards: int) -> DistinctPlan:
        """Return the plan for so many shards, or for one if it can have no more."""
        return replace(self, shards=1 if self.sequential else shards)

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """Rows that may be equal meet in one shard."""
        return (self.columns,)

    @property
    def near(self) -> Band:
        """Which times are near each other."""
        return Band(-self.within, self.within)

    def explain(self) -> list[str]:
        """Say what leaves, and what is kept for how long."""
        near = f", at most {self.axis.say(self.within)} apart" if self.within else ", at one time"
        return [
            f"distinct    the first row of each {', '.join(self.columns) or 'kind'}{near}",
            "state       what was let through, until the mark says that nothing can repeat it",
        ]


class DistinctEpoch(RowEpoch):
    """An epoch of a distinct.

    A row behind the mark that repeats nothing remembered may repeat what is forgotten: it is late,
    never let through. A dead row is late in any case, since what is remembered depends on how the
    stream was cut into epochs.
    """

    def __init__(self, plan: DistinctPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state)
        self.plan = plan
        self.counts["duplicates"] = 0

    def advance(self, arrivals: list[Arrivals], marks: list[int | None]) -> None:
        """Let rows through, remember them, forget what the mark has passed."""
        (rows,), (before,), (after,) = arrivals, self.marks, marks
        in_time = ~rows.dead & (rows.ticks >= (MIN if before is None else before))
        new, repeats = self._told_apart(rows, in_time)
        self.account(0, rows, ~new & ~repeats)
        self.counts["duplicates"] += int(repeats.sum())
        shown = rows.table.drop_columns([TICK, LATE_DEGREE, DEAD])
        self.give(shown.take(pa.array(np.flatnonzero(new))))
        self.marks = marks
        limit, store = open_from(self.plan.near, after), self.stores[0]
        store.cut(limit, wanted=False)
        keys = rows.table.select([*dict.fromkeys(self.plan.columns), TICK])
        store.add(Kept.of(keys).where(new & (rows.ticks >= limit)))

    def _told_apart(self, rows: Arrivals, in_time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows are the first of their kind, and which repeat one."""
        near, columns = self.plan.near, self.plan.columns
        store = self.stores[0]
        known = [store.read(b).table for b in reached(store.all, near, rows.ticks)]
        before = sum(map(len, known))
        keys = rows.table.select([*dict.fromkeys(columns), TICK])
        both = pa.concat_tables([*known, keys]).combine_chunks()
        codes, _ = group_rows([both.column(c).combine_chunks() for c in columns], len(both))
        ticks = both.column(TICK).to_numpy()
        kept, code = Sorted(codes, ticks, np.arange(before)), codes[before:]
        start, end = kept.between(code, near.first(rows.ticks), near.last(rows.ticks))
        repeats = ~rows.dead & (end > start)
        candidates = in_time & ~repeats
        new = first_arrivals(code, rows.ticks, near, candidates)
        behind = np.flatnonzero(~rows.dead & ~repeats & ~in_time)
        repeats |= candidates & ~new
        repeats[behind] = came_after(code, rows.ticks, near, np.flatnonzero(new), behind)
        return new, repeats
