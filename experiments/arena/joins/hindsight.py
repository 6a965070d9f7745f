"""What is known in hindsight: the best constant slacks, and when the needs of pairs change."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from experiments.arena.joins.families import Ticks
from experiments.arena.joins.simulate import Pairs

TRIED = 400
"""The largest number of slacks of the first side that are tried."""
BEFORE, SINCE = 40, 20
"""The epochs before and after a change whose medians are compared."""
FACTOR, LEAST = 2.0, 4.0
"""The factor by which these differ, and the least number of pairs in an epoch on one side."""
AFTER = 20
"""The epochs after a change that are judged apart."""
REGIME = 200
"""The least number of pairs of a regime that is judged apart."""


def constant(pairs: Pairs, completeness: float, judged: np.ndarray) -> int:
    """Return the smallest slack of both sides that makes this share of the judged pairs."""
    needed = np.sort(pairs.needed.max(axis=0)[judged])
    return int(needed[_last(completeness, len(needed))])


def two_constants(pairs: Pairs, completeness: float, judged: np.ndarray) -> tuple[int, int]:
    """Return one slack for each side with the smallest sum that makes this share of the pairs."""
    needed = pairs.needed[:, judged]
    mine, theirs = needed[:, np.argsort(needed[1], kind="stable")]
    last = _last(completeness, len(mine))
    first = np.unique(mine)
    if len(first) > TRIED:
        first = first[np.unique(np.linspace(0, len(first) - 1, TRIED).astype(int))]
    best: tuple[int, int] | None = None
    for slack in first.tolist():
        made = theirs[mine <= slack]
        if len(made) > last and (best is None or slack + int(made[last]) < sum(best)):
            best = slack, int(made[last])
    assert best is not None  # noqa: S101 - the longest slack makes all pairs
    return best


def _last(completeness: float, number: int) -> int:
    return min(int(np.ceil(completeness * number)), number) - 1


def changes(pairs: Pairs) -> list[int]:
    """Return the epochs in which the number or the needs of pairs change for some time."""
    epoch, epochs = pairs.epoch.max(axis=0), len(pairs.newest[0])
    number = np.bincount(epoch, minlength=epochs).astype(float)
    needs = np.bincount(epoch, pairs.needed.sum(axis=0) + pairs.length, minlength=epochs)
    each = needs / np.maximum(number, 1)
    found: list[int] = []
    for i in range(BEFORE, epochs - SINCE):
        if not found or i - found[-1] >= BEFORE:
            many = max(np.median(number[i - BEFORE : i]), np.median(number[i : i + SINCE])) >= LEAST
            found += [i] if many and any(_jumps(track, i) for track in (number, each)) else []
    return found


def _jumps(track: np.ndarray, at: int) -> bool:
    before, after = np.median(track[at - BEFORE : at]), np.median(track[at : at + SINCE])
    sudden = abs(track[at] - before) > abs(track[at] - after)
    return bool(sudden and max(before, after) > FACTOR * min(before, after))


def after_changes(moments: list[int], epoch: Ticks) -> np.ndarray:
    """Return which of `epoch` are among the first ones after a change."""
    since = np.array(moments, np.int64)
    at = np.searchsorted(since, epoch, side="right") - 1
    return (at >= 0) & (epoch < since[np.maximum(at, 0)] + AFTER) if moments else epoch < 0


def worst_regime(moments: list[int], epoch: Ticks, made: np.ndarray) -> float:
    """Return the least share of pairs made between two changes; 1 if no regime is long enough."""
    spans = pairwise([0, *moments, int(epoch.max(initial=0)) + 1])
    shares = [made[(epoch >= a) & (epoch < b)] for a, b in spans]
    return min((float(one.mean()) for one in shares if len(one) >= REGIME), default=1.0)
