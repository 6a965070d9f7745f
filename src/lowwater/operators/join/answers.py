"""The methods of a join's plan about drops, completeness and quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from lowwater.control.completeness import Completeness
from lowwater.operators.join.band import Band, SameWindow
from lowwater.operators.operator import LossCount, OperatorPlan
from lowwater.watermarks.adaptive.quality_model import (
    FreeJoinQuality,
    QualityModel,
    SortedJoinQuality,
)


class JoinAnswers(OperatorPlan):
    """The base class of join plans; it has the methods that planner and dataflow call."""

    band: Band | SameWindow
    how: str
    ends_quality: bool = True

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the plan in the table of compatible features."""
        return frozenset({"join" if self.how == "inner" else "outer join"})

    @property
    def reach(self) -> tuple[int, int]:
        """(back, ahead): partners of a row at time t have times in [t - back, t + ahead]."""
        if isinstance(self.band, Band):
            far = max(abs(self.band.lo), abs(self.band.hi))
            return far, far
        return self.band.size - 1, self.band.size - 1

    def completeness_out(self, ports: Sequence[Completeness | None]) -> Completeness | None:
        """Return the completeness of pairs: a pair has arrived when both its rows have arrived."""
        mine, theirs = ports
        return None if mine is None or theirs is None else mine.where_both(theirs)

    def quality_model(self, granule: int, error: float | None, *, ordered: bool) -> QualityModel:
        """Return the model that estimates the join's quality, given the slack of each side."""
        return SortedJoinQuality() if ordered else FreeJoinQuality(self.band_in(granule))

    def band_in(self, granule: int) -> tuple[float, float]:
        """Return the bounds (lo, hi) of the band, each divided by `granule`, which is in ticks."""
        band = self.band
        reach = (band.lo, band.hi) if isinstance(band, Band) else (-band.size / 2, band.size / 2)
        return reach[0] / granule, reach[1] / granule

    def loss_count(self, error: float | None, *, ordered: bool) -> LossCount | None:
        """Return what the kernel counts as lost: "late" rows, "pairs", or None for nothing."""
        if ordered:
            return "late"
        return "pairs" if self.flush is None else None

    def pair_span(self, least: int) -> int:
        """Return the unit of time in which pairs are counted: the width of the band, or `least`."""
        band = self.band
        width = band.size if isinstance(band, SameWindow) else band.hi - band.lo
        return max(width, least)

    def counting_losses(self, measured: LossCount, unit: int) -> Self:
        """Return the plan whose kernel counts made and lost pairs, in units of time."""
        return replace(self, pair_unit=unit)  # type: ignore[type-var]
