"""The plan of a join in order of time (QDJ 4): the results of a row, and when they are emitted.

Both streams share one watermark, the *window end* E: the lower of their watermarks. The stream that
is ahead waits for the other, as in a sync buffer. The watermark m of the results is computed from
E. A pair has the time t that the plan chooses; the pair is emitted unless one of its rows arrived
when m was past t. If t is the later row's time, as in QDJ, m equals E. A row of self at ts:

    situation 1    ts <= E - W       dropped                      late: all its results are behind m
    situation 2    E - W < ts < E    joins other from E on        partly late: some are behind m
    situation 3    ts = E            joins rows in the window     in time
    situation 4    ts > E            waits in the sync buffer     in time; results wait for m

QDJ's window of W ticks is a band that ends at W - 1. In QDJ's algorithm 1 the window end is the
time of a row; here it is a watermark, as if each stream had a row without partners there.
Otherwise m would depend on the time of the next row, and the operators after the join would have
no watermark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lowwater.control.watermark import Watermarks
from lowwater.errors import SpecError
from lowwater.operators.join.band import Band, open_from, shifted
from lowwater.operators.join.plan import SELF, JoinPlan, Time
from lowwater.ticks import END, FIRST_TICK
from lowwater.watermarks.adaptive.quality_model import OrderedJoinQuality, QualityModel


@dataclass(frozen=True)
class OrderedJoinPlan(JoinPlan):
    """A join that emits results in the order of their time; one shard processes all rows."""

    order: str = "time"
    """A constant in the fingerprint, because the state of a join in free order is different."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.time == "both":
            raise SpecError(
                "time='both' and order='time' contradict each other: results have one order; take "
                "time='self', 'other', 'min' or 'max'"
            )

    @property
    def sequential(self) -> bool:
        """Always true: the order is total, so a single shard must process all rows."""
        return True

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the plan in the table of compatible features."""
        return super().labels | {"ordered join"}

    @cached_property
    def own_times(self) -> dict[Time, str]:
        """{side: column} of the time that results are sorted by; empty for "min" and "max"."""
        return {side: name for side, name in super().own_times.items() if side == self.time}

    # -- watermarks ------------------------------------------------------------------------------

    @property
    def rounds_marks(self) -> bool:
        """Always false: every watermark emits the results before it."""
        return False

    def align(self, port: int, mark: int) -> int:
        """Return `mark` itself: every watermark emits different results."""
        return mark

    def acting(self, ports: Sequence[Watermarks]) -> Sequence[Watermarks]:
        """Return the window end for both ports, since both streams share it."""
        lows = [marks.low for marks in ports]
        end = None if None in lows else min(low for low in lows if low is not None)
        return [Watermarks(end) for _ in ports]

    def marks_out(self, ports: Sequence[Watermarks]) -> Mapping[str, Watermarks]:
        """Return {column: watermarks} for the time column that results are sorted by."""
        return {self.result_times[0]: Watermarks(self.mark_out(*(m.low for m in ports)))}

    def mark_out(self, mark_self: int | None, mark_other: int | None) -> int | None:
        """Return the watermark of the results, computed from the lower of the two watermarks."""
        if mark_self is None or mark_other is None:
            return None
        end = min(mark_self, mark_other)
        return super().mark_out(end, end)

    def last_end(self, at: np.ndarray) -> np.ndarray:
        """Return the largest window end at which pairs with the times `at` are still made."""
        if isinstance(self.band, Band):
            return shifted(at, -(self.mark_out(0, 0) or 0))
        last = int(self.band.last(0))
        return (
            at if self.mark_out(last, last) == last and self.band.size > 1 else self.band.last(at)
        )

    def quality_model(self, granule: int, error: float | None, *, ordered: bool) -> QualityModel:
        """Return the model that estimates the join's quality, given the slacks (QDJ 5.12)."""
        if ordered:
            return super().quality_model(granule, error, ordered=ordered)
        delay = -(self.mark_out(0, 0) or 0) / granule
        return OrderedJoinQuality(self.band_in(granule), self.time, delay)

    # -- the results of a row --------------------------------------------------------------------

    def results_of(self, port: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (earliest, latest) result times of rows of side `port` with times `at`."""
        reach = self.reaches[port]
        first, last = (self.time_of(port, at, u) for u in (reach.first(at), reach.last(at)))
        if not self.preserved[port]:
            return first, last
        return np.minimum(first, at), np.maximum(last, at)

    def time_of(self, port: int, at: np.ndarray, partner: np.ndarray) -> np.ndarray:
        """Return the times of pairs whose rows have times `at` (side `port`) and `partner`."""
        if self.time == "min":
            return np.asarray(np.minimum(at, partner))
        if self.time == "max":
            return np.asarray(np.maximum(at, partner))
        return at if (self.time == "self") == (port == SELF) else partner

    def due(
        self, at: np.ndarray, since: int, until: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (first, last, some): the range of partner times for pairs in [since, until).

        `at` are times of rows of self; `some` is false for a row without such partner times.
        """
        first, last = self.band.first(at), self.band.last(at)
        before, after = at < since, at >= until
        if self.time == "self":
            return first, last, ~(before | after)
        late, soon = np.maximum(first, since), np.minimum(last, until - 1)
        if self.time == "other":
            first, last, some = late, soon, np.ones(len(at), bool)
        elif self.time == "max":
            first, last, some = np.where(before, late, first), soon, ~after
        else:
            first, last, some = late, np.where(after, soon, last), ~before
        return first, last, some & (first <= last)

    def kept_from(self, port: int, mark: int) -> int:
        """Return the first time of rows of side `port` that results at `mark` or later may need.

        If unmatched rows of the other side are results, their possible partners are needed, too.
        """
        if mark in (FIRST_TICK, END):
            return mark
        met = open_from(self.reaches[port], mark)
        own_time = (self.time == "self") == (port == SELF)
        either = {"min": max(mark, met), "max": min(mark, met)}
        needed = either.get(self.time, mark if own_time else met)
        if self.preserved[port]:
            needed = min(needed, mark)
        return min(needed, met) if self.preserved[1 - port] else needed

    def explain(self) -> list[str]:
        """Return lines that describe the condition, the order of results and the state."""
        lines = [line for line in super().explain() if not line.startswith(("state", "shards"))]
        return [
            *lines,
            f"order       by {self.result_times[0]}; results wait for both watermarks",
            "state       rows of each side, until the watermark has passed all their results",
            "shards      one, since order is total",
        ]
