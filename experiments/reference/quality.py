"""The quality model of the thesis for joins in order of time, any number of streams (QDJ 5.12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowwater.watermarks.adaptive.join_model import Slack, arrived
from lowwater.watermarks.adaptive.lateness import LatenessHistogram


@dataclass(frozen=True)
class Side:
    """One stream of a join that emits in order of time.

    `window` is how long its rows are kept; `ahead` how far its newest time is ahead of that of the
    stream that is furthest behind, for whose rows its own wait. Where that varies, `ahead` holds
    what it was at several moments, the same for all sides, and quality is the mean over them.
    """

    degrees: LatenessHistogram
    window: int
    ahead: Any = 0.0


def quality_of_sides(sides: Sequence[Side], slack: Slack) -> Any:
    """Return the share of results that a join of any number of streams gives, in order of time.

    A result of time t has a row of time t and others that are younger than their windows; it is
    given if all are there when the windows end at t. Of all combinations of ages, those with no age
    of 0 are none of its: prod(S_k) - prod(S_k - F_k), where S_k is how full window k is. For two
    streams that is (5.12), with the outer sums to W - 1.
    """
    whole, rest, all_whole, all_rest = np.ones(1), np.ones(1), 1.0, 1.0
    for side in sides:
        wait = np.asarray(slack, np.float64)[..., None] + np.atleast_1d(side.ahead)
        full = arrived(side.degrees, side.window, wait)
        whole, rest = whole * full, rest * (full - side.degrees.cdf(wait))
        all_whole, all_rest = all_whole * side.window, all_rest * (side.window - 1)
    return plain(((whole - rest) / (all_whole - all_rest)).mean(axis=-1))


def quality(
    self_degrees: LatenessHistogram,
    other_degrees: LatenessHistogram,
    window_self: int,
    window_other: int,
    slack: Slack,
    *,
    lag: Any = 0.0,
) -> Any:
    """Return the quality of a join with `order="time"` (5.12).

    `lag` is how far the newest time of `self` is ahead of that of `other`, negative if behind; of
    several, as they were at different moments, the quality is the mean. Two slacks need not differ:
    only the later of the two ends of waiting counts (QDJ 5.4, case 3).

    >>> late = LatenessHistogram(1, np.array([0.6, 0.2, 0.1, 0.1]))
    >>> round(quality(late, late, 3, 2, 0), 6)
    0.465
    """
    ahead, behind = np.maximum(lag, 0.0), np.maximum(-np.asarray(lag), 0.0)
    sides = [Side(self_degrees, window_self, ahead), Side(other_degrees, window_other, behind)]
    return quality_of_sides(sides, slack)


def plain(values: Any) -> Any:
    """Return an array, or a float for one without dimensions."""
    return float(values) if np.ndim(values) == 0 else values
