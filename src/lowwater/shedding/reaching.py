"""Which rows reach nothing but windows that are left out.

All is stretches of time: results of an operator that nobody needs, rows at a port that make only
such results. A row may be left out exactly if every window it belongs to is (DROP 3.4, rule 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowwater.control import Stretches
from lowwater.control.intervals import joined
from lowwater.windows import Sliding


def window_runs(spec: Sliding, results: Stretches) -> Stretches:
    """Return the runs [first, end) of window ids whose results lie in some stretches.

    >>> window_runs(Sliding(range=10), ((9, 10), (20, 40)))
    ((0, 1), (2, 4))
    """
    offset = spec.origin + spec.range - 1  # where the result of window 0 lies
    return joined(
        (-((offset - start) // spec.slide), (end - 1 - offset) // spec.slide + 1)
        for start, end in results
    )


def unread_rows(spec: Sliding, results: Stretches) -> Stretches:
    """Return the times whose rows belong only to windows with results in some stretches.

    >>> unread_rows(Sliding(range=10, slide=5), ((14, 40),))
    ((10, 35),)
    """
    runs = window_runs(spec, results)
    return joined((int(spec.end(a - 1)), int(spec.start(b))) for a, b in runs)


def shrunk(stretches: Stretches, back: int, ahead: int) -> Stretches:
    """Return the times t with all of [t - back, t + ahead] in one stretch.

    >>> shrunk(((0, 10), (20, 22)), 2, 1)
    ((2, 9),)
    """
    return joined((start + back, end - ahead) for start, end in stretches)


def within(stretches: Stretches, at: np.ndarray) -> np.ndarray:
    """Return which positions lie in a stretch.

    >>> within(((0, 2), (5, 6)), np.array([-1, 0, 2, 5])).tolist()
    [False, True, False, True]
    """
    edges = np.array(stretches, np.int64).reshape(-1)
    return np.asarray(np.searchsorted(edges, at, "right") % 2 == 1)


def next_outside(stretches: Stretches, at: np.ndarray) -> np.ndarray:
    """Return the first position from each on that lies in no stretch.

    >>> next_outside(((0, 2), (5, 6)), np.array([-1, 0, 2, 5])).tolist()
    [-1, 2, 2, 6]
    """
    edges = np.array([*stretches, (0, 0)], np.int64)
    place = (np.searchsorted(edges[:-1].reshape(-1), at, "right")) // 2
    return np.where(within(stretches, at), edges[place, 1], at)


def last_outside(stretches: Stretches, at: np.ndarray) -> np.ndarray:
    """Return the last position up to each that lies in no stretch.

    >>> last_outside(((0, 2), (5, 6)), np.array([-1, 0, 2, 5])).tolist()
    [-1, -1, 2, 4]
    """
    edges = np.array([*stretches, (0, 0)], np.int64)
    place = (np.searchsorted(edges[:-1].reshape(-1), at, "right")) // 2
    return np.where(within(stretches, at), edges[place, 0] - 1, at)


def needed_windows(
    results: Stretches, spec: Any, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last of some windows that are not left out.

    The last is before the first where all are.
    """
    if not results or not isinstance(spec, Sliding):
        return first, last
    runs = window_runs(spec, results)
    return next_outside(runs, first), last_outside(runs, last)
