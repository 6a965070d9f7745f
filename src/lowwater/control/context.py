"""Context records: the decisions and watermarks in force while an epoch runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.control.drop import DropPlan
from lowwater.control.hold import HeldInterval
from lowwater.control.watermark import Watermarks


@dataclass(frozen=True)
class InputProgress:
    """The progress of an input: the watermarks of its policy and its newest admitted time."""

    marks: Watermarks = field(default_factory=Watermarks)
    newest: int | None = None
    ended: bool = False

    @property
    def lag(self) -> int:
        """How far the watermark is behind the newest time, in ticks; 0 while one is unknown."""
        known = self.newest is not None and self.marks.low is not None
        return max(0, self.newest - self.marks.low) if known else 0  # type: ignore[operator]


@dataclass(frozen=True)
class EpochContext:
    """The decisions in force when an epoch begins, fixed by the control log (semantics 6).

    - `inputs`: The progress of each input.
    - `ports`: The watermarks at the ports of all operators: they decide which rows are late.
    - `wall`: The reading of the wall clock, from which `max_ahead` may count.
    - `held`: The intervals of time whose rows are held.
    - `dropped`: The windows that are dropped.
    """

    inputs: tuple[InputProgress, ...] = ()
    ports: tuple[Watermarks, ...] = ()
    wall: int | None = None
    held: tuple[HeldInterval, ...] = ()
    dropped: DropPlan = field(default_factory=DropPlan)
