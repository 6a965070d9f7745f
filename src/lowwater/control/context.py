"""Context records: the decisions and watermarks in force while an epoch runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.control.drop import DropPlan
from lowwater.control.hold import HeldInterval
from lowwater.control.watermark import Watermarks


@dataclass(frozen=True)
class InputProgress:
    """The progress of an input: watermarks, newest admitted time, and whether it has ended."""

    marks: Watermarks = field(default_factory=Watermarks)
    newest: int | None = None
    ended: bool = False

    @property
    def lag(self) -> int:
        """The ticks from the watermark to the newest time; 0 if one of the two is unknown."""
        known = self.newest is not None and self.marks.low is not None
        return max(0, self.newest - self.marks.low) if known else 0  # type: ignore[operator]


@dataclass(frozen=True)
class EpochContext:
    """The decisions in force when an epoch begins, fixed by the control log.

    - `inputs`: The progress of each input.
    - `ports`: The watermarks at the ports of all operators; rows behind them are late.
    - `wall`: The wall clock; None if no input's `max_ahead` is measured from the wall clock.
    - `held`: The intervals of time whose rows are held.
    - `dropped`: The windows that are dropped.
    """

    inputs: tuple[InputProgress, ...] = ()
    ports: tuple[Watermarks, ...] = ()
    wall: int | None = None
    held: tuple[HeldInterval, ...] = ()
    dropped: DropPlan = field(default_factory=DropPlan)
