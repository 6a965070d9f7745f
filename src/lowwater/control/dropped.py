"""Windows that are left out under load (DROP), and who decides over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lowwater.control.intervals import Stretches, joined
from lowwater.control.tuning import Tunable

if TYPE_CHECKING:
    from lowwater.control.records import Marks, Reached


@dataclass(frozen=True)
class Dropped:
    """Windows whose results lie in `stretches` of time are left out.

    Where some queries are shut down altogether, `closed` has stretches of theirs: (operator, start,
    end).
    """

    stretches: Stretches = ()
    closed: tuple[tuple[int, int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.stretches or self.closed)

    def of(self, operator: int) -> Stretches:
        """Return where the results of an operator that leave the query are left out."""
        mine = [(start, end) for number, start, end in self.closed if number == operator]
        return joined([*self.stretches, *mine]) if mine else self.stretches

    def to_json(self) -> list[Any]:
        """Return it as JSON."""
        return [self.stretches, self.closed]

    @classmethod
    def from_json(cls, kept: Sequence[Any]) -> Dropped:
        """Read what `to_json` wrote."""
        stretches, closed = ([tuple(one) for one in several] for several in kept)
        return cls(tuple(stretches), tuple(closed))


@dataclass(frozen=True)
class Loaded:
    """What a shedder is told after an epoch.

    `ports` are the marks that were in force in it, `before` what was left out.
    """

    inputs: Sequence[Reached]
    measured: Sequence[Mapping[str, Any]]
    now: int
    ports: Sequence[Marks]
    before: Dropped


@dataclass(frozen=True)
class Shed:
    """What is left out from the next epoch on, and what is remembered."""

    dropped: Dropped = field(default_factory=Dropped)
    memory: Mapping[str, Any] = field(default_factory=dict)


class Shedder(Tunable, Protocol):
    """What the controller asks of a policy that leaves windows out."""

    @property
    def measures(self) -> bool:
        """Whether it goes by how long epochs take."""

    def advance(self, memory: Mapping[str, Any], known: Loaded) -> Shed:
        """Decide after an epoch, over windows that have not begun (semantics 20)."""
