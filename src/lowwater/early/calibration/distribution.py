"""The distribution of a final, given its early value.

With probability p the early value is the final already (`settled`). Otherwise the final follows a
mixture of the predictions of several ways (`ways`). Each way takes part twice: with errors of the
class of the group over a long time, which lean towards the errors of all classes, and with the
recent errors of all classes. The weights of a class are the shares of past finals for which each
prediction was responsible, one step of expectation maximisation after the other: so a way that
predicts well gains weight, and a way that is seldom right keeps a little. After a change the ways
disagree, and the mixture is wide. `low`, the estimate and `high` are quantiles of one distribution.

All that is learned are whole numbers: histograms of errors and shares of responsibility.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lowwater.control.completeness import Floats
from lowwater.early.calibration.early_rows import Kind
from lowwater.early.calibration.groups import CLASSES, FAMILIAR, GroupView
from lowwater.early.calibration.ways import WAYS, Basis, predictions
from lowwater.learners.error_bins import (
    BINS,
    aged,
    bin_of,
    density,
    error_at,
    place,
)
from lowwater.learners.whole_numbers import Counts, WholeNumbers, counts_of

LONG, SHORT, CREDITED = 400, 12, 12
"""The numbers of windows after which errors of a class, recent errors and weights are halved."""
LEAN, LEAN_WEIGHTS = 40.0, 15.0
"""How many errors, and how many responsibilities, of all classes are added to those of a class."""
LEAST = 0.005
"""The least weight of a prediction."""
_FINE = 100
_EDGES = np.array(
    [0, 0.005, 0.02, 0.04, 0.06, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.94, 0.96, 0.98, 0.995, 1]
)
_COARSE = np.array([0, 0.1, 0.25, 0.4, 0.47, 0.53, 0.6, 0.75, 0.9, 1])
_PAST = (np.arange(CLASSES) >= FAMILIAR).astype(np.int64)
"""For each class, 0 if its groups have a past, 1 for strangers."""
_FREE, _FAINT = 5.0, 40.0
"""How many errors of any size are assumed at first, and the number of errors that halves it."""
_WIDEST = 3.0
"""Errors up to this size are about equally likely, on the axis of bins, before any is known."""


@dataclass(frozen=True)
class DistributionMemory:
    """Errors by class and way, recent errors by way, and responsibilities by class."""

    VERSION: ClassVar[int] = 1

    long: WholeNumbers | None = None
    short: WholeNumbers | None = None
    weights: WholeNumbers | None = None

    @cached_property
    def _made(self) -> dict[Kind, Distribution]:
        return {}

    def of(self, kind: Kind) -> Distribution:
        """Return the distribution of an aggregate; its tables are computed once for a memory."""
        return self._made.setdefault(kind, Distribution(kind, self))


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of the finals of one aggregate, from a memory."""

    kind: Kind
    memory: DistributionMemory

    @property
    def ways(self) -> int:
        """The number of ways."""
        return len(WAYS[self.kind])

    @cached_property
    def _long(self) -> Counts:
        return counts_of(self.memory.long, (CLASSES, self.ways, BINS))

    @cached_property
    def _short(self) -> Counts:
        return counts_of(self.memory.short, (2, self.ways, BINS))

    @cached_property
    def _responsible(self) -> Counts:
        return counts_of(self.memory.weights, (CLASSES, 2 * self.ways))

    @cached_property
    def _shares(self) -> Floats:
        """The share of errors in each bin, as classes and recent × ways × bins."""
        free = np.where(np.abs(error_at(np.linspace(0.5, BINS - 0.5, BINS))) < _WIDEST, 1.0, 0.01)
        known = _by_past(self._long)
        count = known.sum(axis=-1, keepdims=True)
        every = _share(free / free.sum() * _FREE * _FAINT / (count + _FAINT) + known)
        by_class = _share(self._long + LEAN * every[_PAST])
        recent = _share(self._short + LEAN / 4 * every)
        return np.concatenate([by_class, recent])

    @cached_property
    def _cumulative(self) -> Floats:
        sums = np.cumsum(self._shares, axis=-1)
        zeros = np.zeros((*sums.shape[:2], 1))
        return np.concatenate([zeros, sums / sums[..., -1:]], axis=-1)

    @cached_property
    def _weights(self) -> Floats:
        """The weight of each prediction, as classes × predictions."""
        free = np.full(2 * self.ways, 0.2)
        free[0] = 10.0
        every = _share(_by_past(self._responsible) / _FINE + free)
        mine = _share(self._responsible / _FINE + LEAN_WEIGHTS * every[_PAST])
        return LEAST + (1 - LEAST * 2 * self.ways) * mine

    def _rows(self, view: GroupView) -> Counts:
        """Return the row of the tables for each prediction, as predictions × results."""
        way = np.arange(self.ways)[:, None]
        recent = CLASSES + _PAST[view.kind]
        return np.concatenate([view.kind * self.ways + way, recent * self.ways + way])

    def _below(self, rows: Counts, at: Floats) -> Floats:
        """Return the probability of errors below the positions `at` in the tables' `rows`."""
        flat = self._cumulative.reshape(-1, BINS + 1)
        bin = np.minimum(at.astype(np.int64), BINS - 1)
        low, high = flat[rows, bin], flat[rows, bin + 1]
        return np.asarray(low + (at - bin) * (high - low))

    def quantiles(
        self, basis: Basis, settled: Floats, levels: Floats, *, grows: bool
    ) -> list[Floats]:
        """Return the quantiles at `levels`, each for all results.

        If `grows`, the final is at least the early value.
        """
        return self._quantiles(basis, settled, levels, _EDGES, grows=grows)

    def median(self, basis: Basis, settled: Floats, *, grows: bool) -> Floats:
        """Return the medians, for less work than `quantiles`, and nearly as exact."""
        (middle,) = self._quantiles(basis, settled, np.full(1, 0.5), _COARSE, grows=grows)
        return middle

    def _quantiles(
        self, basis: Basis, settled: Floats, levels: Floats, edges: Floats, *, grows: bool
    ) -> list[Floats]:
        """Return quantiles from a point of each prediction between two of the levels `edges`."""
        centres, scales = (np.concatenate([a, a]) for a in predictions(self.kind, basis))
        rows = self._rows(basis.view)
        weights = self._weights[basis.view.kind].T
        below = self._below(rows, place(_errors(basis.x, centres, scales)))
        gone = np.minimum(below, 0.999) if grows else np.zeros_like(below)
        flat = self._cumulative.reshape(-1, BINS + 1)
        axis = (flat + np.arange(len(flat))[:, None]).ravel()
        inside = gone + (1 - gone) * ((edges[1:] + edges[:-1]) / 2)[:, None, None]
        bins = np.interp(inside + rows, axis, np.tile(np.arange(BINS + 1.0), len(flat)))
        values = centres + scales * error_at(bins)
        if grows:
            values = np.maximum(values, basis.x)
        mass = np.diff(edges)[:, None, None] * weights
        mixed = _Mixed.of(values.reshape(-1, len(basis.x)), mass.reshape(-1, len(basis.x)))
        under = np.zeros(len(basis.x)) if grows else (weights * below).sum(axis=0)
        return _with_atom(mixed, basis.x, settled, under, levels)

    def taught(self, basis: Basis, final: Floats, windows: tuple[int, int]) -> DistributionMemory:
        """Return the memory after finals that differ from their early values.

        `windows` is the number of windows that were known before, and are known with these.
        """
        centres, scales = predictions(self.kind, basis)
        errors = _errors(final, centres, scales)
        bins, rows = bin_of(errors), self._rows(basis.view)
        shares = self._shares.reshape(-1, BINS)[rows, np.concatenate([bins, bins])]
        likely = shares * np.concatenate([density(errors) / scales] * 2)
        likely *= self._weights[basis.view.kind].T
        likely /= np.maximum(likely.sum(axis=0), 1e-300)
        binned = self._binned(basis, bins)
        return DistributionMemory(
            WholeNumbers(aged(self._long, *windows, LONG) + binned),
            WholeNumbers(aged(self._short, *windows, SHORT) + _by_past(binned)),
            WholeNumbers(self._credit(basis, likely) + aged(self._responsible, *windows, CREDITED)),
        )

    def _binned(self, basis: Basis, bins: Counts) -> Counts:
        places = (basis.view.kind * self.ways + np.arange(self.ways)[:, None]) * BINS + bins
        size = CLASSES * self.ways * BINS
        return np.bincount(places.ravel(), minlength=size).reshape(CLASSES, self.ways, BINS)

    def _credit(self, basis: Basis, likely: Floats) -> Counts:
        credit = np.zeros((CLASSES, 2 * self.ways), np.int64)
        np.add.at(credit, basis.view.kind, np.round(likely.T * _FINE).astype(np.int64))
        return credit


@dataclass(frozen=True, eq=False)
class _Mixed:
    """The points of a mixture in ascending order for each result, and the mass up to each."""

    values: Floats
    until: Floats

    @classmethod
    def of(cls, values: Floats, mass: Floats) -> _Mixed:
        """Return the mixture of points × results."""
        order = np.argsort(values.T, axis=1)
        mass = np.take_along_axis(mass.T, order, axis=1)
        until = np.cumsum(mass, axis=1)
        until = (until - mass / 2) / until[:, -1:]
        return cls(np.take_along_axis(values.T, order, axis=1), until)

    def at(self, level: Floats) -> Floats:
        """Return the quantiles at `level`, levels × results, linear between two points."""
        last = self.values.shape[1] - 1
        above = np.stack([(self.until < one[:, None]).sum(axis=1) for one in level])
        above = np.minimum(np.maximum(above, 1), last)
        rows = np.arange(level.shape[1])
        before, after = self.until[rows, above - 1], self.until[rows, above]
        part = (level - before) / np.maximum(after - before, 1e-12)
        low, high = self.values[rows, above - 1], self.values[rows, above]
        return np.asarray(low + np.minimum(np.maximum(part, 0.0), 1.0) * (high - low))


def _with_atom(
    mixed: _Mixed, raw: Floats, settled: Floats, under: Floats, levels: Floats
) -> list[Floats]:
    """Return quantiles of a mixture of `raw`, with probability `settled`, and of `mixed`."""
    level = levels[:, None]
    moves = np.maximum(1 - settled, 1e-9)
    first = under * moves
    below, above = level < first, level > first + settled
    at = np.where(below, level, level - settled) / moves
    value = mixed.at(np.minimum(np.maximum(at, 0.0), 1.0))
    value = np.where(below, np.minimum(value, raw), np.maximum(value, raw))
    return list(np.where(below | above, value, raw))


def _errors(final: Floats, centres: Floats, scales: Floats) -> Floats:
    """Return the distances of finals from centres by the scales, of a thousand at most."""
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(np.maximum((final - centres) / scales, -1e3), 1e3))


def _by_past(counts: Counts) -> Counts:
    """Return the sums over the classes of groups with a past, and over those of strangers."""
    return np.stack([counts[:FAMILIAR].sum(axis=0), counts[FAMILIAR:].sum(axis=0)])


def _share(counts: Floats) -> Floats:
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))
