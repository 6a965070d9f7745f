"""Early results and the finals that follow: who is remembered until then.

Not every group can be. Groups are chosen by a hash of their keys, always the same ones, so that
what is known of a group is known of all its windows; where there are too many, half of them are let
go, and so on. What is remembered is part of the control log, so it is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_GROUPS = 32
MOST_WAITING = 192
HASHES = 1 << 30

Waiting = dict[str, Any]
"""An early result: the group and window it is of (`key`), and what was known of it."""


class Pairing:
    """Remembers early results of an operator until their finals come."""

    def begin(self) -> dict[str, Any]:
        """Return what is remembered before the first."""
        return {"level": 0, "waiting": []}

    def limit(self, memory: Mapping[str, Any]) -> int:
        """Return the hash below which groups are remembered."""
        return HASHES >> int(memory["level"])

    def finals(
        self, memory: Mapping[str, Any], found: Mapping[str, Any]
    ) -> tuple[list[tuple[Waiting, Any]], list[Waiting]]:
        """Return the early results whose finals are among `found`, and those that still wait."""
        pairs = [(w, found[w["key"]]) for w in memory["waiting"] if w["key"] in found]
        return pairs, [w for w in memory["waiting"] if w["key"] not in found]

    def remember(
        self, memory: Mapping[str, Any], waiting: Sequence[Waiting], early: Sequence[Waiting]
    ) -> dict[str, Any]:
        """Return the memory with more early results; `hash` says of which group each is."""
        level, kept = int(memory["level"]), [*waiting, *early]
        while len({w["hash"] for w in kept}) > MOST_GROUPS:
            level += 1
            kept = [w for w in kept if w["hash"] < HASHES >> level]
        return {"level": level, "waiting": kept[-MOST_WAITING:]}
