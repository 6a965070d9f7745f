"""Slack that is chosen while the stream runs: from late degrees, or from a quality target (QDJ).

What is chosen is a matter of all inputs of a query together, and reaches each as `Seen.slack`. It
delays the punctuation and nothing else: no row waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.progress.policy import Progress, Tracker
from lowwater.progress.slack import TimeSlack
from lowwater.windows import Axis


@dataclass(frozen=True, kw_only=True)
class Chosen(Progress):
    """A policy whose slack is chosen at run time.

    Attributes
    ----------
    interval
        How long late degrees are gathered, in event time, before the slack is chosen anew
        (quality_track_duration in QDJ 6.1.2).
    granularity
        In which steps the slack is chosen (k_granularity).
    decay
        What late degrees of the interval before still count (decay_factor).
    """

    interval: Any = "1 second"
    granularity: Any = "10 milliseconds"
    decay: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        number("decay", self.decay, above=0.0, below=1.0)

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker:  # noqa: D102
        self.spans(axis)
        return TimeSlack(None)

    def spans(self, axis: Axis) -> tuple[int, int]:
        """Return interval and granularity in ticks."""
        found = []
        for name, value in (("track", self.interval), ("granularity", self.granularity)):
            span = axis.span(value, name=name)
            if span <= 0:
                raise SpecError(f"{name}={value!r} must be greater than zero")
            found.append(span)
        return found[0], found[1]


@dataclass(frozen=True, kw_only=True)
class Adaptive(Chosen):
    """The largest late degree seen is the slack: rows as late as any before are waited for."""

    def spans(self, axis: Axis) -> tuple[int, int]:
        """Return spans that fit any axis: nothing is chosen in intervals."""
        return 1, 1


@dataclass(frozen=True, kw_only=True)
class Quality(Chosen):
    """The smallest slack by which a model of the result's quality meets the target.

    Attributes
    ----------
    target
        Produced over what should have been produced: pairs of a join, or rows in windows.
    error
        Instead: the relative error that a window's final may have; `share` is how many of the
        windows must be within it.
    overall
        Whether the target is for the whole run; by default for each interval.
    """

    target: float | None = None
    error: float | None = None
    share: float = 0.95
    overall: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.target is None) == (self.error is None):
            raise SpecError(
                "quality takes a target, quality(0.95), or for aggregates a relative error, "
                "quality(error=0.01)"
            )
        if self.target is not None:
            number("quality", self.target, above=0.0, upto=1.0)
        else:
            number("error", self.error, above=0.0)
        number("share", self.share, above=0.0, upto=1.0)


@dataclass(frozen=True, kw_only=True)
class Pd(Chosen):
    """Slack by a proportional-derivative controller on the quality that was measured (QDJ 6.2.3).

    After an interval it grows by `proportional` · e + `derivative` · (e − e before), where e is the
    target minus what was measured; both are durations per unit of quality.
    """

    target: float
    proportional: Any = "1 second"
    derivative: Any = "100 milliseconds"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("pd", self.target, above=0.0, upto=1.0)

    def gains(self, axis: Axis) -> tuple[int, int]:
        """Return both gains in ticks."""
        names = ("proportional", "derivative")
        found = tuple(axis.span(getattr(self, name), name=name) for name in names)
        for name, span in zip(names, found, strict=True):
            if span < 0:
                raise SpecError(f"{name}={getattr(self, name)!r} must not be negative")
        return found[0], found[1]


def number(
    name: str, value: Any, *, above: float, upto: float | None = None, below: float | None = None
) -> None:
    """Refuse what is no number between two bounds."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value > above
    fits = fits and (upto is None or value <= upto) and (below is None or value < below)
    if not fits:
        bounds = f"above {above:g}"
        bounds += "" if upto is None else f" and at most {upto:g}"
        bounds += "" if below is None else f" and below {below:g}"
        raise SpecError(f"{name}={value!r} must be a number {bounds}")
