"""How disordered a stream is: late degrees, bursts, silences, and what follows for the settings.

The late degree of a row is how far it is behind the newest that came before it (semantics 25): a
row is in order if its degree is 0. A slack of K loses what is later than K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowwater.errors import SpecError

COVERED = (0.95, 0.99, 0.999)
"""For which share of the rows a slack is suggested."""
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 50, 60, 100, 200, 300, 500)
_UNITS = (
    ("millisecond", 1_000),
    ("second", 1_000_000),
    ("minute", 60_000_000),
    ("hour", 3_600_000_000),
    ("day", 86_400_000_000),
)
_ROWS_IN_A_BIN = 20
_LONG_SILENCE = 20
"""A silence is worth a heartbeat if it is so many times as long as 99 % of all pauses."""


@dataclass(frozen=True)
class Profile:
    """What is known of a stream, in ticks of its time.

    `degrees` and `times` are those of each row, in the order of arrival; `arrivals` is when rows
    arrived, where that is known. `skipped` rows have no time.
    """

    times: np.ndarray
    degrees: np.ndarray
    arrivals: np.ndarray | None
    skipped: int
    timed: bool
    per_unit: int = 1

    @property
    def rows(self) -> int:
        """How many rows have a time."""
        return len(self.times)

    @property
    def in_order(self) -> float:
        """The share of rows that are not behind any that came before them.

        Rows that arrived at the same instant have no order among them: the share is the mean over
        all orders that they may have come in. A row that no earlier arrival has overtaken is in
        order if it comes before those k of its own instant that are newer: in 1 of k + 1 orders.
        """
        if self.arrivals is None:
            return self.in_order_as_recorded
        order = np.lexsort((-self.times, self.arrivals))
        arrivals, times = self.arrivals[order], self.times[order]
        first = np.r_[True, arrivals[1:] != arrivals[:-1]]
        starts, instant = np.flatnonzero(first), np.cumsum(first) - 1
        newest = np.maximum.accumulate(times[starts])
        before = np.r_[times.min(), newest[:-1]][instant]
        fresh = first | np.r_[True, times[1:] != times[:-1]]
        newer = np.maximum.accumulate(np.where(fresh, np.arange(len(times)), 0)) - starts[instant]
        return float(np.mean((times >= before) / (newer + 1)))

    @property
    def in_order_as_recorded(self) -> float:
        """The same, with rows of the same instant in the order in which the file has them."""
        return float(np.mean(self.degrees == 0))

    def late(self, share: float) -> int:
        """Return the late degree that a share of the rows does not exceed."""
        return int(np.quantile(self.degrees, share, method="inverted_cdf"))

    @property
    def burstiness(self) -> float | None:
        """How uneven rows come: (σ − μ) / (σ + μ) of the pauses between them.

        −1 if they come like a clock, 0 if by chance (Poisson), towards 1 in bursts.
        """
        pauses = self.pauses
        mean, spread = (float(pauses.mean()), float(pauses.std())) if len(pauses) else (0.0, 0.0)
        return (spread - mean) / (spread + mean) if spread + mean else None

    @property
    def pauses(self) -> np.ndarray:
        """The pauses between rows: by arrival where it is known, else by their own times."""
        ticks = self.times if self.arrivals is None else self.arrivals
        return np.diff(np.sort(ticks))

    def peak(self) -> tuple[int, int, float] | None:
        """Return a width of time, the rows in the busiest stretch of it, and those in the mean."""
        ticks = np.sort(self.times if self.arrivals is None else self.arrivals)
        span = int(ticks[-1] - ticks[0])
        if span <= 0:
            return None
        width = round_up(math.ceil(span / self.rows * _ROWS_IN_A_BIN)) if self.timed else None
        width = width or math.ceil(span / self.rows * _ROWS_IN_A_BIN)
        counts = np.bincount((ticks - ticks[0]) // width)
        return width, int(counts.max()), self.rows / len(counts)

    def silence(self) -> int | None:
        """Return the longest silence, if it is out of the ordinary."""
        pauses = self.pauses
        if not self.timed or self.arrivals is None or not len(pauses):
            return None
        longest, usual = int(pauses.max()), float(np.quantile(pauses, 0.99))
        return longest if longest > _LONG_SILENCE * max(usual, 1.0) else None

    def slack(self, share: float) -> int:
        """Return a slack, in ticks, that covers a share of the rows, rounded up to a length."""
        exact = self.late(share)
        return round_up(exact) if self.timed and exact else exact

    def covered(self, slack: int) -> float:
        """Return the share of rows that are not later than a slack."""
        return float(np.mean(self.degrees <= slack))

    def said(self, ticks: int) -> str:
        """Return a length as a person says it, and as `--progress` reads it."""
        if not self.timed:
            return f"{ticks / self.per_unit:g}"
        return spoken(ticks)


def profile_of(
    times: tuple[np.ndarray, np.ndarray],
    arrivals: tuple[np.ndarray, np.ndarray] | None,
    *,
    timed: bool,
    per_unit: int = 1,
) -> Profile:
    """Measure a stream: (ticks, valid) of its times, and of when its rows arrived.

    Rows without an arrival never came, and are left out, as are those without a time.
    """
    ticks, valid = times
    kept = valid if arrivals is None else valid & arrivals[1]
    if not kept.any():
        raise SpecError("no row has a time, so nothing can be said about their order")
    order = np.flatnonzero(kept)
    came = None
    if arrivals is not None:
        order = order[np.argsort(arrivals[0][order], kind="stable")]
        came = arrivals[0][order]
    mine = ticks[order]
    degrees = np.maximum.accumulate(mine) - mine
    return Profile(mine, degrees, came, int((~kept).sum()), timed, per_unit)


def round_up(ticks: int) -> int:
    """Return a length that one says, not shorter than another: 12.3 s becomes 15 s.

    >>> spoken(round_up(12_300_000)), spoken(round_up(95 * 60_000_000))
    ('15 seconds', '2 hours')
    """
    ends = [unit for _, unit in _UNITS[1:]] + [_STEPS[-1] * _UNITS[-1][1]]
    for (_, unit), end in zip(_UNITS, ends, strict=True):
        for step in _STEPS:
            if ticks <= step * unit <= end:
                return step * unit
    return ticks


def spoken(ticks: int) -> str:
    """Return a length of time in its largest units.

    >>> spoken(7_500_000_000), spoken(1_500), spoken(0)
    ('2 hours 5 minutes', '1.5 milliseconds', '0 seconds')
    """
    if ticks == 0:
        return "0 seconds"
    parts: list[str] = []
    for name, unit in reversed(_UNITS[1:]):
        count, ticks = divmod(ticks, unit)
        parts += [_counted(count, name)] if count else []
    if parts:
        return " ".join(parts[:2])
    return _counted(ticks / 1_000, "millisecond")


def _counted(count: float, name: str) -> str:
    return f"{count:g} {name}{'' if count == 1 else 's'}"


def as_object(profile: Profile) -> dict[str, Any]:
    """Return all that is known, for another program; lengths are seconds, or units of a number."""
    scale = 1_000_000 if profile.timed else profile.per_unit
    peak, silence = profile.peak(), profile.silence()
    return {
        "rows": profile.rows,
        "without_time": profile.skipped,
        "in_order": profile.in_order,
        "in_order_as_recorded": profile.in_order_as_recorded,
        "late_degree": {
            **{f"{q:g}": profile.late(q) / scale for q in QUANTILES},
            "max": int(profile.degrees.max()) / scale,
        },
        "burstiness": profile.burstiness,
        "peak": None
        if peak is None
        else {"width": peak[0] / scale, "rows": peak[1], "mean": peak[2]},
        "longest_silence": None if silence is None else silence / scale,
        "suggested": [
            {
                "share": share,
                "slack": profile.slack(share) / scale,
                "covers": profile.covered(profile.slack(share)),
                "progress": progress_for(profile, share),
            }
            for share in COVERED
        ],
    }


def progress_for(profile: Profile, share: float) -> str:
    """Return what to say to `--progress`."""
    slack = profile.slack(share)
    if slack == 0:
        return "ordered"
    lull = "" if profile.silence() is None else f", lull {profile.said(slack)}"
    return f"slack {profile.said(slack)}{lull}"
