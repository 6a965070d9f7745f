"""Accuracy of early answers: of one, and running, per query and per group (PROD 3.4, 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lowwater.control.arrived import Floats

Judge: TypeAlias = Callable[[Any, Any, float], float]
"""A user's accuracy of (early value, final value, seconds between them)."""

MOST_GROUPS = 100
OTHERS = "others"
_FADE = 0.5 ** (1 / 100.0)  # an answer counts half after a hundred others


def accuracy(early: npt.ArrayLike, final: npt.ArrayLike) -> Floats:
    """Return max(0, 1 − |F − E| / |F|); for F = 0, 1 where E = 0 and else 0 (semantics 17).

    Both missing (NaN), or the same infinity, is accurate; only one of them is not.

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
    """Return the accuracy of pairs of values, by the user's function if there is one."""
    if judge is not None:
        triples = zip(early, final, seconds, strict=True)
        return np.array([float(judge(e, f, s)) for e, f, s in triples], np.float64)
    try:
        return accuracy(*(_numbers(v) for v in (early, final)))
    except (TypeError, ValueError):  # text and the like is right or wrong
        return np.array([float(e == f) for e, f in zip(early, final, strict=True)], np.float64)


def _numbers(values: Sequence[Any]) -> Floats:
    if any(isinstance(v, str | bytes) for v in values):
        raise TypeError("text has no distance")
    return np.array([np.nan if v is None else v for v in values], np.float64)


class RunningAccuracy:
    """How accurate early answers have been: of late, ever, and at worst.

    Of each group the same, for the first `MOST_GROUPS` that were seen; the rest count as "others".
    """

    def begin(self) -> dict[str, Any]:
        """Return the memory before the first pair."""
        return {"all": _nothing(), "groups": {}}

    def advance(
        self, memory: Mapping[str, Any], accuracies: npt.ArrayLike, groups: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return the memory after some pairs; `groups` names the group of each, or is empty."""
        values = np.asarray(accuracies, np.float64)
        kept = dict(memory["groups"])
        places: dict[str, list[int]] = {}
        for place, group in enumerate(groups):
            if group not in kept and len(kept) < MOST_GROUPS:
                kept[group] = _nothing()
            places.setdefault(group if group in kept else OTHERS, []).append(place)
        for group, where in places.items():
            kept[group] = _with(kept.get(group, _nothing()), values[where].tolist())
        return {"all": _with(memory["all"], values.tolist()), "groups": kept}


def _nothing() -> list[float | None]:
    return [0, None, None, None]


def _with(kept: Sequence[Any], values: Sequence[float]) -> list[float | None]:
    """Return count, recent mean, mean and worst after more values, each counted in its turn.

    They are few, one for most groups: plain numbers are quicker than arrays here.
    """
    if not values:
        return list(kept)
    count, recent, mean, worst = kept[0], *(v or 0.0 for v in kept[1:3]), kept[3]
    for value in values:
        count += 1
        # A mean with fading weights that add up to one from the first value on.
        recent += (value - recent) * (1 - _FADE) / (1 - _FADE**count)
        mean += (value - mean) / count
    worst = min([*values, 1.0 if worst is None else worst])
    return [count, *(round(v, 6) for v in (recent, mean, worst))]


class ExpectedAccuracy:
    """Mean accuracy at a missing share: by tenths, which lean on one line through all of them.

    The line is 1 − κ · missing, κ being learned and one half before anything is known.
    """

    tenths, lean, fade = 10, 5.0, 0.5 ** (1 / 200)

    def begin(self) -> dict[str, Any]:
        """Return the memory before the first pair: `lean` pairs at which κ was one half."""
        none = [0.0] * self.tenths
        return {"lost": 0.5 * self.lean, "missing": self.lean, "weight": none, "sum": none}

    def at(self, memory: Mapping[str, Any], missing: Floats) -> Floats:
        """Return the accuracy to be expected."""
        line = 1 - memory["lost"] / memory["missing"] * missing
        place = self._tenth(missing)
        weight, total = np.asarray(memory["weight"])[place], np.asarray(memory["sum"])[place]
        return np.asarray(np.clip((total + self.lean * line) / (weight + self.lean), 0.0, 1.0))

    def learn(self, memory: Mapping[str, Any], missing: Floats, found: Floats) -> dict[str, Any]:
        """Return the memory after one window more."""
        place, share = self._tenth(missing), 1 / len(found)
        weight = np.bincount(place, minlength=self.tenths) * share
        total = np.bincount(place, found, minlength=self.tenths) * share
        keep = np.where(weight > 0, self.fade, 1.0)
        return {
            "lost": self.fade * memory["lost"] + float(np.mean(1 - found)),
            "missing": self.fade * memory["missing"] + float(np.mean(missing)),
            "weight": [round(float(w), 4) for w in keep * memory["weight"] + weight],
            "sum": [round(float(s), 4) for s in keep * memory["sum"] + total],
        }

    def _tenth(self, missing: Floats) -> npt.NDArray[np.int64]:
        return np.clip((missing * self.tenths).astype(np.int64), 0, self.tenths - 1)
