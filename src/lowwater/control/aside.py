"""Who decides which rows are put aside, and when they are worked off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lowwater.control.prods import Prod
from lowwater.control.records import Control, Marks, Reached
from lowwater.control.sidelined import Sidelined


@dataclass(frozen=True)
class Backlog:
    """What a sideliner is told after an epoch.

    `ports` are the marks that would be in force if no rows were put aside, `answered` the prods
    that the epoch has answered, `prodding` what was remembered of early results before it.
    """

    inputs: Sequence[Reached]
    measured: Sequence[Mapping[str, Any]]
    now: int
    ports: Sequence[Marks]
    held: Sequence[Sidelined]
    answered: Sequence[Prod]
    prodding: Mapping[str, Any]
    ended: bool


@dataclass(frozen=True)
class Aside:
    """What is put aside from the next epoch on, and what is worked off in it.

    `release` says for each port of an operator that holds rows how many each shard gives out.
    """

    held: tuple[Sidelined, ...] = ()
    release: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)

    def told(self, control: Mapping[int, Control]) -> dict[int, Control]:
        """Return what ports are told, with what they are to work off."""
        found = dict(control)
        for port, release in self.release.items():
            found[port] = Control(found.get(port, Control()).marks, release=release)
        return found


class Sideliner(Protocol):
    """What the controller asks of a policy that puts rows aside."""

    def advance(self, memory: Mapping[str, Any], known: Backlog) -> Aside:
        """Decide after an epoch."""

    def due(self, memory: Mapping[str, Any]) -> bool:
        """Say whether rows wait, so that an epoch without new ones is worth running."""
