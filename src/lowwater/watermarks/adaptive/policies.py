"""Watermark policies whose slack is chosen at run time, from late degrees or quality (QDJ).

The adapter chooses the slacks of all inputs of a query together. Each tracker receives its slack as
`InputReport.slack`. Slack only delays the watermark; it buffers no rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.watermarks.policy import WatermarkPolicy, positive
from lowwater.watermarks.slack import TimeSlack, TimeSlackMemory
from lowwater.watermarks.tracker import Tracker
from lowwater.windows.axis import Axis

UNSET = {"interval": "1 second", "granularity": "10 milliseconds"}
"""The options of a policy by which no user has set them."""
UNITS = 100
"""The default interval of a target on numbers, in units of these numbers."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveSlack(WatermarkPolicy):
    """A policy whose slack is chosen at run time.

    - `interval`: The event time between two choices of the slack (quality_track_duration in QDJ
      6.1.2).
    - `granularity`: The step size of the slack (k_granularity).
    - `decay`: The factor on the weight of late degrees after each interval (decay_factor).
    """

    interval: Any = "1 second"
    granularity: Any = "10 milliseconds"
    decay: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        number("decay", self.decay, above=0.0, below=1.0)

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker[TimeSlackMemory]:  # noqa: D102
        self.spans(axis)
        return TimeSlack(None)

    def spans(self, axis: Axis) -> tuple[int, int]:
        """Return `interval` and `granularity` in ticks."""
        named = {"interval": self.interval, "granularity": self.granularity}
        if axis.kind != "time" and named == UNSET:
            return UNITS * axis.per_unit, axis.per_unit
        spans = {name: axis.span(value, name=name) for name, value in named.items()}
        for name, span in spans.items():
            if span <= 0:
                raise SpecError(f"{name}={named[name]!r} must be greater than zero")
        return spans["interval"], spans["granularity"]


@dataclass(frozen=True, kw_only=True)
class Adaptive(AdaptiveSlack):
    """A policy whose slack is the largest late degree so far."""

    def spans(self, axis: Axis) -> tuple[int, int]:
        """Return (1, 1), in ticks, because this policy changes the slack after every epoch."""
        return 1, 1


@dataclass(frozen=True)
class ValueBound:
    """The largest relative error of a result; with `rows`, the largest share of missing rows."""

    error: float
    rows: bool = False


@dataclass(frozen=True, kw_only=True)
class Quality(AdaptiveSlack):
    """A policy with the smallest slack that meets a target.

    - `target`: The share of results that must be produced: pairs of a join, or rows in windows.
    - `by_window`: Whether the target applies to each result instead of all rows together.
    - `error`: Instead of `target`, the largest relative error of a final.
    - `share`: With `by_window` or `error`, the share of results for which that must hold.
    """

    target: float | None = None
    error: float | None = None
    share: float = 0.95
    by_window: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.target is None) == (self.error is None):
            raise SpecError(
                f"lw.quality({self.target!r}, error={self.error!r}) needs either a target or "
                f"error=; write lw.quality(0.95), or for aggregates lw.quality(error=0.01)"
            )
        if self.target is not None:
            number("quality", self.target, above=0.0, upto=1.0)
        else:
            number("error", self.error, above=0.0)
        number("share", self.share, above=0.0, upto=1.0)
        if self.by_window and self.target is None:
            raise SpecError(
                f"lw.quality(error={self.error!r}, by_window=True): an error applies to each "
                f"result anyway; leave by_window= out"
            )

    @property
    def bound(self) -> ValueBound | None:
        """The bound on the error or the missing rows of single results; None if there is none."""
        if self.error is not None:
            return ValueBound(float(self.error))
        return ValueBound(1.0 - float(self.target or 0.0), rows=True) if self.by_window else None


@dataclass(frozen=True, kw_only=True)
class PdSlack(AdaptiveSlack):
    """A policy with a proportional-derivative controller of measured quality (QDJ 6.2.3).

    After each interval the slack grows by `proportional` · e + `derivative` · (e − previous e),
    where e is the target minus the measured quality. Both gains are durations per unit of quality.
    """

    target: float
    proportional: Any = "1 second"
    derivative: Any = "100 milliseconds"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("target", self.target, above=0.0, upto=1.0)

    def gains(self, axis: Axis) -> tuple[int, int]:
        """Return the gains `proportional` and `derivative` in ticks."""
        p, d = self.proportional, self.derivative
        proportional = positive("proportional", axis.span(p, name="proportional"), p)
        return proportional, positive("derivative", axis.span(d, name="derivative"), d)


def number(
    name: str, value: Any, *, above: float, upto: float | None = None, below: float | None = None
) -> None:
    """Raise SpecError unless `value` is a number above `above`, up to `upto` and below `below`."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value > above
    fits = fits and (upto is None or value <= upto) and (below is None or value < below)
    if not fits:
        bounds = f"above {above:g}"
        bounds += "" if upto is None else f" and at most {upto:g}"
        bounds += "" if below is None else f" and below {below:g}"
        raise SpecError(f"{name}={value!r} must be a number {bounds}")
