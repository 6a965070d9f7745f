"""Retuned parameters: values of policies that change while a query runs, held in the control log.

The controller applies a change at the end of an epoch and records it in that entry and all later
ones: every decision uses the values in its own entry. A restarted query keeps them. If its code
sets a different value than it did when it was retuned, the code wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RetuneRequest:
    """A request from outside: new values, by the names of parameters."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Override:
    """A changed parameter: its value, the value in the query's code, and the epoch of change."""

    value: Any
    written: Any
    epoch: int


def settled(
    before: Mapping[str, Override], asked: Iterable[object], written: Mapping[str, Any], epoch: int
) -> dict[str, Override]:
    """Return the overrides after an epoch: those before it, and those requested during it."""
    overrides = {n: t for n, t in before.items() if n in written and written[n] == t.written}
    for request in (one.values for one in asked if isinstance(one, RetuneRequest)):
        overrides |= {n: Override(v, written[n], epoch) for n, v in request.items() if n in written}
    return overrides


def in_force(tuned: Mapping[str, Override], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the retuned values that replace values in the query's code."""
    return {name: one.value for name, one in settled(tuned, (), written, 0).items()}
