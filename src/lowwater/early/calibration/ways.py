"""Ways to predict a final: each has a centre and a scale, and learns (final - centre) / scale.

Symbols: x is the early value and n its rows; m is the expected number of missing rows by n alone,
M by n and the usual size of the group; l is the usual value of the group.

| kind | ways (centre, scale) |
|---|---|
| counted, scaled | ratio (x, x), corrected (x + v·m, v·(m + ⅓)), usual (x + v·M, v·√(M + ⅓)), \
difference (x, l), level (l, l), where v is the usual value of a row |
| distinct | ratio (x, x), by missing rows (x, x·m/(n + m)), difference (x, l), level (l, l) |
| rising, falling | difference (x, l), level (l, l), ratio (x, x) |
| level, other | difference (x, l), by missing rows (x, l·m/(n + m)), by chance \
(x, l·√(m/(n·(n + m)))), blend ((n·x + m·l)/(n + m), l·√m/(n + m)) |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lowwater.control.completeness import Floats
from lowwater.early.calibration.early_rows import Kind
from lowwater.early.calibration.groups import GroupView


@dataclass(frozen=True, eq=False)
class Basis:
    """What the ways use: early values x, their rows n, missing rows, usual values l.

    `completed` are the early values divided by the completeness, where they grow with the rows, and
    `common` is the usual value of all groups together.
    """

    x: Floats
    n: Floats
    view: GroupView
    level: Floats
    completed: Floats
    common: Floats

    def take(self, chosen: np.ndarray) -> Basis:
        """Return the basis of the results `chosen`."""
        view = self.view.take(chosen)
        parts = (part[chosen] for part in (self.level, self.completed, self.common))
        return Basis(self.x[chosen], self.n[chosen], view, *parts)


Way: TypeAlias = Callable[[Basis], tuple[Floats, Floats]]


def ratio(b: Basis) -> tuple[Floats, Floats]:
    """Predict by the ratio of the final to the early value."""
    return b.x, np.abs(b.x)


def difference(b: Basis) -> tuple[Floats, Floats]:
    """Predict by the difference between the final and the early value."""
    return b.x, b.level


def common_difference(b: Basis) -> tuple[Floats, Floats]:
    """Predict by the difference, where that of small groups is as large as that of large ones."""
    return b.x, b.common


def units(b: Basis) -> tuple[Floats, Floats]:
    """Predict a small whole number by the difference between the final and the early value."""
    return b.x, np.ones_like(b.x)


def usual_value(b: Basis) -> tuple[Floats, Floats]:
    """Predict by the usual value, whatever has arrived."""
    sign = np.where(b.x < 0, -1.0, 1.0)
    return sign * b.level, b.level


def corrected(b: Basis) -> tuple[Floats, Floats]:
    """Predict by the share of rows that has arrived."""
    each, missing = _value_of_a_row(b), b.view.missing
    return b.x + each * missing, np.abs(each) * (missing + 1 / 3)


def by_usual_size(b: Basis) -> tuple[Floats, Floats]:
    """Predict by the share of rows and the usual size; errors are like those of a Poisson count."""
    each, missing = _value_of_a_row(b), b.view.missing_usual
    return b.x + each * missing, np.abs(each) * np.sqrt(missing + 1 / 3)


def by_missing_rows(b: Basis) -> tuple[Floats, Floats]:
    """Predict the early value, with errors proportional to the share of missing rows."""
    missing = b.view.missing_usual
    return b.x, b.level * missing / (b.n + missing)


def by_chance(b: Basis) -> tuple[Floats, Floats]:
    """Predict the early value, with errors as if the missing rows were drawn by chance."""
    missing = b.view.missing_usual
    return b.x, b.level * np.sqrt(missing / (b.n * (b.n + missing)))


def blend(b: Basis) -> tuple[Floats, Floats]:
    """Predict a mean of the early value and the usual one, weighted by rows."""
    missing, (usual, scale) = b.view.missing_usual, usual_value(b)
    whole = b.n + missing
    return (b.n * b.x + missing * usual) / whole, scale * np.sqrt(missing + 0.1) / whole


def _value_of_a_row(b: Basis) -> Floats:
    """Return the mean value of a row, between that of the arrived rows and the usual one."""
    sign = np.where(b.x < 0, -1.0, 1.0)
    return (b.x + sign * b.level) / (b.n + b.view.size)


_SUMS: tuple[Way, ...] = (corrected, by_usual_size, ratio, difference, usual_value)
_MEANS: tuple[Way, ...] = (difference, by_missing_rows, by_chance, blend)
_EXTREMES: tuple[Way, ...] = (difference, usual_value, ratio)
WAYS: dict[Kind, tuple[Way, ...]] = {
    "counted": (*_SUMS, units),
    "scaled": (*_SUMS, common_difference),
    "distinct": (*_SUMS, units),
    "level": _MEANS,
    "other": _MEANS,
    "rising": (*_EXTREMES, common_difference),
    "falling": (*_EXTREMES, common_difference),
}
"""The ways of each kind of aggregate; the first ones are trusted before anything is learned."""


def predictions(kind: Kind, basis: Basis) -> tuple[Floats, Floats]:
    """Return (centres, scales) of all ways of a kind, as arrays of ways × results."""
    both = [way(basis) for way in WAYS[kind]]
    tiny = 1e-9 * np.maximum(basis.level, np.abs(basis.x)) + 1e-300
    centres = np.stack([centre for centre, _ in both])
    return centres, np.maximum(np.stack([scale for _, scale in both]), tiny)
