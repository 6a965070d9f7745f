"""Retuned settings: new values for settings of policies while a query runs.

The controller applies a change at the end of an epoch and writes it to the epoch's entry in the
control log and to all later entries; every decision uses the values in its own entry. A restarted
query keeps the new values. If the query's code now sets another value than before, the code wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RetuneRequest:
    """A request to retune a query; `values` is {setting: new value}."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Override:
    """A retuned setting: its value, the value in the query's code, and the epoch of the change."""

    value: Any
    written: Any
    epoch: int


def settled(
    before: Mapping[str, Override], asked: Iterable[object], written: Mapping[str, Any], epoch: int
) -> dict[str, Override]:
    """Return new overrides from `asked`, and those of `before` whose value in code is unchanged."""
    overrides = {n: t for n, t in before.items() if n in written and written[n] == t.written}
    for request in (one.values for one in asked if isinstance(one, RetuneRequest)):
        overrides |= {n: Override(v, written[n], epoch) for n, v in request.items() if n in written}
    return overrides


def in_force(tuned: Mapping[str, Override], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return {setting: retuned value} for the settings whose value in code is unchanged."""
    return {name: one.value for name, one in settled(tuned, (), written, 0).items()}
