"""What the controller asks of those that decide with it, and of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lowwater.control.arrived import Arrived
from lowwater.control.prods import Prod
from lowwater.control.records import Marks, Reached, Seen
from lowwater.control.sidelined import Sidelined
from lowwater.control.tuning import Tunable


class ProgressTracker(Protocol):
    """What the controller asks of a progress policy."""

    mark_when: str | None

    def begin(self) -> dict[str, Any]:
        """Return the memory of a stream that has not begun."""

    def advance(
        self, memory: Mapping[str, Any], seen: Seen, now: int
    ) -> tuple[dict[str, Any], Marks]:
        """Return the new memory and the marks after an epoch."""


@dataclass(frozen=True)
class Gauge:
    """How the progress of one input is learned.

    `wall`: the wall clock at the end of an epoch is part of what is known. Where windows may end
    anywhere, the clock alone moves a mark only by `grain`, and only while something is open.
    """

    tracker: ProgressTracker
    wall: bool = False
    grain: int = 0


@dataclass(frozen=True)
class Known:
    """What a prodder is told after an epoch: `asked` are demands that came from outside meanwhile.

    `open` says that operators hold something, `ended` that all streams have ended.
    """

    inputs: Sequence[Reached]
    measured: Sequence[Mapping[str, Any]]
    now: int
    asked: Sequence[Prod] = ()
    open: bool = True
    ended: bool = False


class Prodder(Tunable, Protocol):
    """What the controller asks of a source of prods."""

    def advance(
        self, memory: Mapping[str, Any], known: Known
    ) -> tuple[dict[str, Any], tuple[Prod, ...]]:
        """Return what to remember after an epoch, and the prods for the next one."""

    def due(self, memory: Mapping[str, Any], known: Known) -> bool:
        """Say whether something would be asked for now."""

    def foreseen(self, memory: Mapping[str, Any], now: int) -> Sequence[Arrived | None]:
        """Return which share of the rows of each input will have arrived after the next epoch.

        None where answers are not to make up for the others.
        """


class Adapter(Tunable, Protocol):
    """What the controller asks of one that chooses slacks, of all inputs together."""

    def advance(
        self,
        memory: Mapping[str, Any],
        seen: Sequence[Seen],
        measured: Sequence[Mapping[str, Any]],
    ) -> tuple[dict[str, Any], Sequence[Seen]]:
        """Return what to remember after an epoch, and what each input showed with its slack."""


class Flow(Protocol):
    """How progress flows through a plan: from its inputs to the ports of its operators."""

    def reach(self, inputs: Sequence[Reached], held: Sequence[Sidelined] = ()) -> tuple[Marks, ...]:
        """Return the marks of all ports, each rounded to what its operator can use.

        They do not count what is `held` as complete.
        """

    def as_if_ended(self, inputs: Sequence[Reached], prods: Sequence[Prod]) -> tuple[Marks, ...]:
        """Return the marks of all ports that prods are answered by."""

    def foreseen(self, inputs: Sequence[Arrived | None]) -> Sequence[Arrived | None]:
        """Return which share of the rows at each port will have arrived, for those who need it."""

    @property
    def contradictable(self) -> frozenset[int]:
        """The operators whose late rows contradict a punctuation of the stream."""
