"""The ends of intervals: quantiles of the distribution compete with plain quantiles, by record.

Plain quantiles are those of past differences between finals and early values, of their ratios, of
both from the early value divided by the completeness, and of finals by the larger one of the early
and the usual value, over all groups together. They are blunt, but they cannot be far off for long,
as a distribution can whose class has few finals. Each final
adds the pinball losses of all ends, and whether it was beyond them, to the record of its cell
(`competition`). A plain quantile is chosen if its loss is smaller than that of the distribution's,
and if finals were beyond it seldom enough: an interval promises at least its level.

All of the memory are whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lowwater.control.completeness import Floats
from lowwater.early.calibration.competition import LEAN, Cell
from lowwater.early.calibration.early_rows import POSITIONS, SCALED, WHOLE, Kind
from lowwater.early.calibration.groups import SIZES
from lowwater.early.calibration.ways import Basis
from lowwater.learners.error_bins import BINS, aged, bin_of, error_at
from lowwater.learners.whole_numbers import Counts, WholeNumbers, counts_of

SPAN, MEMORY = 120, 400
"""The numbers of windows after which the record, and plain errors, are halved."""
RARE, ENOUGH, BEYOND = 0.995, 200, 2.0
"""An upper end of a group with a past is at most `BEYOND` times the quantile `RARE` of finals.

Finals are compared with the larger one of the early and the usual value, after `ENOUGH` finals.
"""
FEWEST = 20
"""The number of windows from which on ends compete."""
MISSED = 1.1
"""How often another candidate may have been missed, by the share that its level allows."""
_FINE = 1 << 14
_FARTHEST = 1e3


@dataclass(frozen=True)
class EndsMemory:
    """Plain errors, and the record of the candidates."""

    VERSION: ClassVar[int] = 1

    errors: WholeNumbers | None = None
    record: WholeNumbers | None = None

    @cached_property
    def _made(self) -> dict[tuple[Kind, float], IntervalEnds]:
        return {}

    def of(self, kind: Kind, tail: float) -> IntervalEnds:
        """Return the ends of an aggregate; its tables are computed once for a memory."""
        return self._made.setdefault((kind, tail), IntervalEnds(kind, tail, self))


@dataclass(frozen=True, eq=False)
class IntervalEnds:
    """The ends of the intervals of one aggregate; the share `tail` of finals lies beyond each."""

    kind: Kind
    tail: float
    memory: EndsMemory

    @property
    def plain(self) -> int:
        """The number of plain quantiles."""
        return 3 + 2 * (self.kind in SCALED)

    @cached_property
    def _errors(self) -> Counts:
        return counts_of(self.memory.errors, (self.plain, BINS))

    @cached_property
    def _record(self) -> Counts:
        cells = (2, len(POSITIONS) + 1, len(SIZES) + 1)
        return counts_of(self.memory.record, (*cells, 1 + 2 * (1 + self.plain)))

    def _quantile(self, level: float) -> Floats:
        """Return the quantile of each kind of plain errors."""
        counts = self._errors + 1e-9
        sums = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
        return error_at(np.array([np.interp(level, s, np.arange(1.0, BINS + 1)) for s in sums]))

    @cached_property
    def _quantiles(self) -> Floats:
        """The quantiles of plain errors, as sides × plain."""
        return np.stack([self._quantile(self.tail), self._quantile(1 - self.tail)])

    @cached_property
    def _most(self) -> float:
        """The largest upper end, by the larger one of the early and the usual value."""
        if self._errors[-1].sum() < ENOUGH:
            return np.inf
        return max(BEYOND * float(self._quantile(RARE)[-1]), 1.0)

    @cached_property
    def _best(self) -> Counts:
        """The number of the best candidate of each side and cell."""
        sums = self._record.astype(np.float64)
        every = sums.sum(axis=2, keepdims=True)
        usual = every[..., 1:] / np.maximum(every[..., :1], 1)
        means = (sums[..., 1:] + LEAN * usual) / (sums[..., :1] + LEAN)
        losses, missed = np.split(means, 2, axis=-1)
        often = missed > MISSED * self.tail * _FINE
        often[..., 0] = False
        return np.asarray(np.argmin(np.where(often, np.inf, losses), axis=-1))

    def chosen(self, basis: Basis, cell: Cell, mixed: Sequence[Floats], windows: int) -> Floats:
        """Return (low, high): the best candidates of each result.

        `mixed` has the quantiles of the distribution. Groups without a past have no record.
        """
        if windows < FEWEST:
            return np.stack(mixed)
        every, rows = self._candidates(basis, mixed), np.arange(len(basis.x))
        best = np.where(cell.past, 0, self._best[:, cell.position, cell.size])
        ends = np.stack([side[which, rows] for side, which in zip(every, best, strict=True)])
        return np.sort(ends, axis=0)

    def taught(
        self,
        basis: Basis,
        cell: Cell,
        mixed: Sequence[Floats],
        final: Floats,
        windows: tuple[int, int],
    ) -> EndsMemory:
        """Return the memory after finals.

        `windows` is the number of windows that were known before, and are known with these.
        """
        centres, scales = self._rivals(basis)
        errors = _bounded(final - centres, scales)
        known = aged(self._errors, *windows, MEMORY).copy()
        np.add.at(known, (np.arange(self.plain)[:, None], bin_of(errors)), 1)
        record = aged(self._record, *windows, SPAN).copy()
        for side, ends in enumerate(self._candidates(basis, mixed)):
            over = final - ends if side else ends - final
            losses = np.maximum((1 - self.tail) * over, -self.tail * over)
            parts = np.concatenate([_bounded(losses, basis.level), over > 0]) * _FINE
            parts = np.concatenate([np.ones((1, len(final))), np.round(parts)]).T
            parts *= basis.view.known[:, None]
            np.add.at(record[side], (cell.position, cell.size), parts.astype(np.int64))
        return EndsMemory(WholeNumbers(known), WholeNumbers(record))

    def _rivals(self, basis: Basis) -> tuple[Floats, Floats]:
        """Return the centres and the scales of plain errors, as plain × results."""
        bases = [basis.x, basis.completed] if self.kind in SCALED else [basis.x]
        centres = [one for one in bases for _ in range(2)]
        scales = [scale for one in bases for scale in (basis.common, np.abs(one))]
        centres.append(np.zeros_like(basis.x))  # finals themselves
        scales.append(np.maximum(np.abs(basis.x), basis.level))
        return np.stack(centres), np.maximum(np.stack(scales), 1e-9 * basis.level + 1e-300)

    def _candidates(self, basis: Basis, mixed: Sequence[Floats]) -> Floats:
        """Return the candidates, as sides × candidates × results."""
        centres, scales = self._rivals(basis)
        plain = centres + scales * self._quantiles[:, :, None]
        low, high = mixed
        high = np.where(basis.view.known, np.minimum(high, self._most * scales[-1]), high)
        every = np.concatenate([np.stack([low, high])[:, None], plain], axis=1)
        if self.kind in WHOLE:
            every = np.round(every)
        return (
            np.maximum(every, basis.x) if self.kind not in {"scaled", "level", "other"} else every
        )


def _bounded(distances: Floats, scales: Floats) -> Floats:
    """Return the distances by the scales, `_FARTHEST` at most."""
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(np.maximum(distances / scales, -_FARTHEST), _FARTHEST))
