"""Parameters of policies that are changed while a query runs, as the control log keeps them.

What is changed is decided at the end of an epoch and is part of its entry and of all that follow:
every decision is made with the values that its own entry names. A query that is started again goes
on with them. Only where it is then written with another value than it had when it was retuned, that
one holds: who has changed the query has said what it is to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Protocol, Self


@dataclass(frozen=True)
class Retuning:
    """A demand from outside: new values, by the names of parameters."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Tuned:
    """A parameter that was changed: to what, from what the query is written with, and when."""

    value: Any
    written: Any
    epoch: int


class Tunable(Protocol):
    """A policy some of whose parameters can be changed while a query runs."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The values of these parameters, by name."""

    def tuned(self, values: Mapping[str, Any]) -> Self:
        """Return the policy with other values, of those that are its own."""


def settled(
    before: Mapping[str, Tuned],
    asked: Iterable[object],
    written: Mapping[str, Any],
    epoch: int,
) -> dict[str, Tuned]:
    """Return what is changed after an epoch: as before, and as was asked for meanwhile."""
    found = {n: t for n, t in before.items() if n in written and written[n] == t.written}
    for one in asked:
        if isinstance(one, Retuning):
            found |= {n: Tuned(v, written[n], epoch) for n, v in one.values.items() if n in written}
    return found


def in_force(tuned: Mapping[str, Tuned], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that stand instead of those that a query is written with."""
    return {name: one.value for name, one in settled(tuned, (), written, 0).items()}


def to_json(tuned: Mapping[str, Tuned]) -> dict[str, Any]:
    """Return what `from_json` reads."""
    return {name: list(astuple(one)) for name, one in tuned.items()}


def from_json(kept: Mapping[str, Any]) -> dict[str, Tuned]:
    """Read it back."""
    return {name: Tuned(*one) for name, one in kept.items()}
