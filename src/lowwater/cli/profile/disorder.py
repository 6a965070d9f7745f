"""The disorder of rows in files: late degrees, bursts and silences, and settings that suit them.

The late degree of a row is how far its time is behind the newest time that arrived before it
(semantics 25). A row of degree 0 is in order. With a slack of K, rows of a degree above K are late.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowwater.cli.replay.read import Recording
from lowwater.errors import SpecError

COVERED = (0.95, 0.99, 0.999)
"""Shares of rows. For each share, the profile suggests a slack that covers it."""
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
"""A silence is reported if it exceeds this many times the 99 % quantile of the pauses."""


@dataclass(frozen=True)
class Profile:
    """The disorder of a stream, in ticks of its time.

    `times` and `degrees` hold the time and the late degree of each row in the order of arrival;
    `arrivals` holds the times of arrival, or is None. `skipped` counts the rows that lack a time.
    """

    times: np.ndarray
    degrees: np.ndarray
    arrivals: np.ndarray | None
    skipped: int
    timed: bool
    per_unit: int = 1

    @property
    def rows(self) -> int:
        """The number of rows that are not skipped."""
        return len(self.times)

    @property
    def in_order(self) -> float:
        """The share of rows in order. A row is in order if no row that arrived before it is newer.

        Rows with equal arrival times have no known order, so the share is the mean over all orders.
        If k of these rows are newer than a row, it precedes all of them in 1 of k + 1 orders. It is
        then in order, unless a row with an earlier arrival time is newer.
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
        """The share of rows in order, if equal arrival times keep the order of the file."""
        return float(np.mean(self.degrees == 0))

    def late(self, share: float) -> int:
        """Return the late degree, in ticks, that a `share` of the rows does not exceed."""
        return int(np.quantile(self.degrees, share, method="inverted_cdf"))

    @property
    def burstiness(self) -> float | None:
        """The unevenness of arrivals: (σ − μ) / (σ + μ), for pauses with mean μ and deviation σ.

        It is −1 for a regular stream, 0 for a random (Poisson) stream, and near 1 for bursts.
        """
        pauses = self.pauses
        mean, spread = (float(pauses.mean()), float(pauses.std())) if len(pauses) else (0.0, 0.0)
        return (spread - mean) / (spread + mean) if spread + mean else None

    @property
    def pauses(self) -> np.ndarray:
        """The pauses between rows, in ticks of arrival time or, if it is unknown, of event time."""
        ticks = self.times if self.arrivals is None else self.arrivals
        return np.diff(np.sort(ticks))

    def peak(self) -> tuple[int, int, float] | None:
        """Return (width, most, mean): the largest and the mean number of rows per `width` ticks."""
        ticks = np.sort(self.times if self.arrivals is None else self.arrivals)
        span = int(ticks[-1] - ticks[0])
        if span <= 0:
            return None
        width = math.ceil(span / self.rows * _ROWS_IN_A_BIN)
        width = round_up(width) if self.timed else width
        counts = np.bincount((ticks - ticks[0]) // width)
        return width, int(counts.max()), self.rows / len(counts)

    def silence(self) -> int | None:
        """Return the longest silence in ticks; None if no silence is unusually long."""
        pauses = self.pauses
        if not self.timed or self.arrivals is None or not len(pauses):
            return None
        longest, usual = int(pauses.max()), float(np.quantile(pauses, 0.99))
        return longest if longest > _LONG_SILENCE * max(usual, 1.0) else None

    def slack(self, share: float) -> int:
        """Return a slack in ticks that covers a `share` of rows, rounded up to a plain length."""
        exact = self.late(share)
        return round_up(exact) if self.timed and exact else exact

    def covered(self, slack: int) -> float:
        """Return the share of rows whose late degree is at most `slack`."""
        return float(np.mean(self.degrees <= slack))

    def length(self, ticks: int) -> str:
        """Return a length of `ticks` as text, in the form that `--watermark` reads."""
        return format_length(ticks) if self.timed else f"{ticks / self.per_unit:g}"


def profile_of(
    times: tuple[np.ndarray, np.ndarray],
    arrivals: tuple[np.ndarray, np.ndarray] | None,
    *,
    timed: bool,
    per_unit: int = 1,
) -> Profile:
    """Return the profile of rows; `times` and `arrivals` are pairs of arrays (ticks, valid).

    Rows without a time and rows without an arrival are skipped.
    """
    ticks, valid = times
    known = valid if arrivals is None else valid & arrivals[1]
    if not known.any():
        raise SpecError(
            "no row has a valid time, so the stream has no order to measure; name other columns "
            "with --time and --arrival"
        )
    order = np.flatnonzero(known)
    arrived = None
    if arrivals is not None:
        order = order[np.argsort(arrivals[0][order], kind="stable")]
        arrived = arrivals[0][order]
    ordered = ticks[order]
    degrees = np.maximum.accumulate(ordered) - ordered
    return Profile(ordered, degrees, arrived, int((~known).sum()), timed, per_unit)


def round_up(ticks: int) -> int:
    """Return `ticks` rounded up to a plain length, in ticks: 12.3 s becomes 15 s.

    >>> format_length(round_up(12_300_000)), format_length(round_up(95 * 60_000_000))
    ('15 seconds', '2 hours')
    """
    ends = [unit for _, unit in _UNITS[1:]] + [_STEPS[-1] * _UNITS[-1][1]]
    for (_, unit), end in zip(_UNITS, ends, strict=True):
        for step in _STEPS:
            if ticks <= step * unit <= end:
                return step * unit
    return ticks


def format_length(ticks: int) -> str:
    """Return a duration of `ticks` as text, in its two largest units.

    >>> format_length(7_500_000_000), format_length(1_500), format_length(0)
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


def profile_record(profile: Profile) -> dict[str, Any]:
    """Return `profile` in the types of JSON; lengths are in seconds, or numbers if not `timed`."""
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
        "peak": peak and {"width": peak[0] / scale, "rows": peak[1], "mean": peak[2]},
        "longest_silence": None if silence is None else silence / scale,
        "suggested": [
            {
                "share": share,
                "slack": profile.slack(share) / scale,
                "covers": profile.covered(profile.slack(share)),
                "watermark": watermark_text(profile, share),
            }
            for share in COVERED
        ],
    }


def watermark_text(profile: Profile, share: float) -> str:
    """Return a policy that covers a `share` of the rows, as text for `--watermark`."""
    slack = profile.slack(share)
    if slack == 0:
        return "ordered"
    length = profile.length(slack)
    idle = "" if profile.silence() is None else f", idle timeout {length}"
    return f"slack {length}{idle}"


def profile_recording(recording: Recording) -> Profile:
    """Return the profile of the rows of a recording."""
    table, clock, axis = recording.table, recording.clock, recording.axis
    times = axis.to_ticks(table.column(recording.time))
    arrivals = None if clock.progress else clock.ticks(table)
    return profile_of(times, arrivals, timed=axis.kind == "time", per_unit=axis.per_unit)
