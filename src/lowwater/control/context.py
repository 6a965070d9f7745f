"""Context records: the decisions and watermarks in force while an epoch runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lowwater.control.drop import DropPlan
from lowwater.control.hold import HeldInterval
from lowwater.control.watermark import Watermarks


@dataclass(frozen=True)
class InputProgress:
    """The progress of an input: watermarks, newest admitted time, and whether it has ended.

    `jumps` is the number of epochs that were admitted although most of their rows were further
    ahead than `max_ahead`.
    """

    marks: Watermarks = field(default_factory=Watermarks)
    newest: int | None = None
    ended: bool = False
    jumps: int = 0

    @property
    def lag(self) -> int:
        """The ticks from the watermark to the newest time; 0 if one of the two is unknown."""
        known = self.newest is not None and self.marks.low is not None
        return max(0, self.newest - self.marks.low) if known else 0  # type: ignore[operator]


@dataclass(frozen=True)
class SlackReference:
    """The watermarks of a port from which the slack that its rows need is measured.

    A watermark that is decided after epoch n - 2 closes windows after the rows of epoch n - 1, so
    it makes rows of epoch n late.

    - `newest`: The watermarks of the port after epoch n - 2 if all slacks were 0.
    - `acting`: The watermarks that were decided after epoch n - 2, which make rows late.
    """

    newest: Watermarks = field(default_factory=Watermarks)
    acting: Watermarks = field(default_factory=Watermarks)


@dataclass(frozen=True)
class EpochContext:
    """The decisions in force when an epoch begins, fixed by the control log.

    - `inputs`: The progress of each input.
    - `ports`: The watermarks at the ports of all operators; rows behind them are late.
    - `wall`: The wall clock; None if no input's `max_ahead` is measured from the wall clock.
    - `opened`: The machine's clock when the epoch was opened; None for a single epoch of a test.
    - `limits`: {input: latest time that `max_ahead` allows in this epoch}, where it does not follow
      from the newest time.
    - `held`: The intervals of time whose rows are held.
    - `dropped`: The windows that are dropped.
    - `references`: By port number, where needed slack is measured from.
    - `set_aside`: Whether all rows of the epoch are malformed on purpose.
    """

    inputs: tuple[InputProgress, ...] = ()
    ports: tuple[Watermarks, ...] = ()
    wall: int | None = None
    held: tuple[HeldInterval, ...] = ()
    dropped: DropPlan = field(default_factory=DropPlan)
    opened: int | None = None
    limits: Mapping[int, int] = field(default_factory=dict)
    references: Mapping[int, SlackReference] = field(default_factory=dict)
    set_aside: bool = False
