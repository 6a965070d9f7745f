"""The accuracy of one early result, and tallies of accuracies by group (PROD 3.4, 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from lowwater.control.completeness import Floats

Judge: TypeAlias = Callable[[Any, Any, float], float]
"""A user's function from (early value, final value, seconds between them) to an accuracy."""

MOST_GROUPS = 100
OTHERS = "others"
_FADE = 0.5 ** (1 / 100.0)  # the weight of a result halves after a hundred others


def accuracy(early: npt.ArrayLike, final: npt.ArrayLike) -> Floats:
    """Return the accuracy max(0, 1 − |F − E| / |F|) of early values E and finals F.

    Equal values, or two NaN, have accuracy 1. Others have 0 if F is 0, or if E or F is not finite.

    >>> accuracy([90.0, 0.0, 1.0, np.nan, np.nan], [100.0, 0.0, 0.0, np.nan, 1.0]).tolist()
    [0.9, 1.0, 0.0, 1.0, 0.0]
    """
    e, f = np.asarray(early, np.float64), np.asarray(final, np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        close = np.maximum(0.0, 1.0 - np.abs(f - e) / np.abs(f))
    same = (e == f) | (np.isnan(e) & np.isnan(f))
    usable = np.isfinite(e) & np.isfinite(f) & (f != 0)
    return np.where(same, 1.0, np.where(usable, close, 0.0))


def judged(
    early: Sequence[Any], final: Sequence[Any], seconds: Sequence[float], judge: Judge | None = None
) -> Floats:
    """Return the accuracy of each (early, final) pair, computed by `judge` if it is not None."""
    if judge is not None:
        triples = zip(early, final, seconds, strict=True)
        return np.array([float(judge(e, f, s)) for e, f, s in triples], np.float64)
    try:
        return accuracy(*(_numbers(v) for v in (early, final)))
    except (TypeError, ValueError):  # values without a distance, such as text
        return np.array([float(e == f) for e, f in zip(early, final, strict=True)], np.float64)


def _numbers(values: Sequence[Any]) -> Floats:
    if any(isinstance(v, str | bytes) for v in values):
        raise TypeError("text has no distance")
    return np.array([np.nan if v is None else v for v in values], np.float64)


@dataclass(frozen=True)
class AccuracyTally:
    """The count of accuracies, their recent mean (older values fade), overall mean and minimum."""

    count: int = 0
    recent: float | None = None
    mean: float | None = None
    worst: float | None = None

    def with_values(self, values: Sequence[float]) -> AccuracyTally:
        """Return the tally with `values` added.

        A group has few values, mostly one, so plain numbers are faster than arrays here.
        """
        if not values:
            return self
        count, recent, mean = self.count, self.recent or 0.0, self.mean or 0.0
        for value in values:
            count += 1
            # A mean with fading weights that add up to one from the first value on.
            recent += (value - recent) * (1 - _FADE) / (1 - _FADE**count)
            mean += (value - mean) / count
        worst = min([*values, 1.0 if self.worst is None else self.worst])
        return AccuracyTally(count, *(round(v, 6) for v in (recent, mean, worst)))

    def to_json(self) -> list[float | None]:
        """Return the list [count, recent, mean, worst], which is shorter in JSON than an object."""
        return [self.count, self.recent, self.mean, self.worst]

    @classmethod
    def from_json(cls, written: Sequence[Any]) -> AccuracyTally:
        """Return the tally that `to_json` wrote."""
        return cls(*written)


@dataclass(frozen=True)
class RunningAccuracy:
    """The accuracies of an aggregate: one tally of all early results, and one of each group.

    The first `MOST_GROUPS` groups have their own tallies; other groups share the tally "others".
    """

    VERSION: ClassVar[int] = 1

    overall: AccuracyTally = AccuracyTally()
    groups: dict[str, AccuracyTally] = field(default_factory=dict)

    def advance(self, accuracies: npt.ArrayLike, groups: Sequence[str] = ()) -> RunningAccuracy:
        """Return the tallies with `accuracies` added; `groups`, if given, has the group of each."""
        values = np.asarray(accuracies, np.float64)
        tallies = dict(self.groups)
        places: dict[str, list[int]] = {}
        for place, group in enumerate(groups):
            if group not in tallies and len(tallies) < MOST_GROUPS:
                tallies[group] = AccuracyTally()
            places.setdefault(group if group in tallies else OTHERS, []).append(place)
        for group, where in places.items():
            before = tallies.get(group, AccuracyTally())
            tallies[group] = before.with_values(values[where].tolist())
        return RunningAccuracy(self.overall.with_values(values.tolist()), tallies)


_TENTHS, _LEAN, _KEEP = 10, 5.0, 0.5 ** (1 / 200)


@dataclass(frozen=True)
class ExpectedAccuracy:
    """The expected accuracy of early results as a function of the missing share of rows.

    Each tenth of missing shares (0–0.1, 0.1–0.2, …) has its own mean accuracy. This mean includes
    `_LEAN` windows with assumed accuracy 1 − κ · missing share. κ = `lost` / `missing` is learned.
    """

    lost: float = 0.5 * _LEAN
    missing: float = _LEAN
    weight: list[float] = field(default_factory=lambda: [0.0] * _TENTHS)
    sum: list[float] = field(default_factory=lambda: [0.0] * _TENTHS)

    def at(self, missing: Floats) -> Floats:
        """Return the expected accuracy for each missing share in `missing`."""
        line = 1 - self.lost / self.missing * missing
        place = _tenth(missing)
        weight, total = np.asarray(self.weight)[place], np.asarray(self.sum)[place]
        return np.asarray(np.clip((total + _LEAN * line) / (weight + _LEAN), 0.0, 1.0))

    def learn(self, missing: Floats, accuracies: Floats) -> ExpectedAccuracy:
        """Return the expected accuracy, updated by the early results of one more window."""
        place, share = _tenth(missing), 1 / len(accuracies)
        weight = np.bincount(place, minlength=_TENTHS) * share
        total = np.bincount(place, accuracies, minlength=_TENTHS) * share
        keep = np.where(weight > 0, _KEEP, 1.0)
        return ExpectedAccuracy(
            _KEEP * self.lost + float(np.mean(1 - accuracies)),
            _KEEP * self.missing + float(np.mean(missing)),
            [round(float(w), 4) for w in keep * self.weight + weight],
            [round(float(s), 4) for s in keep * self.sum + total],
        )


def _tenth(missing: Floats) -> npt.NDArray[np.int64]:
    return np.clip((missing * _TENTHS).astype(np.int64), 0, _TENTHS - 1)
