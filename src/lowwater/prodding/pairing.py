"""Early results and the finals that follow: who is remembered until then.

Not every group can be. Groups are chosen by a hash of their keys, always the same ones, so that
what is known of a group is known of all its windows; where there are too many, half of them are let
go, and so on. Where there are too many windows of few groups, it is every other window. So what is
remembered of a window is all its answers, or rather, of several at one position, the first: that is
the one that tells most, and the furthest off. What is remembered is part of the control log, so it
is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lowwater.prodding.positions import position_of

MOST_GROUPS = 32
MOST_WAITING = 192
FEWEST_GROUPS = 4
HASHES = 1 << 30

Waiting = dict[str, Any]
"""An early result: the group and window it is of (`key`), and what was known of it."""


class Pairing:
    """Remembers early results of an operator until their finals come."""

    def begin(self) -> dict[str, Any]:
        """Return what is remembered before the first."""
        return {"level": 0, "thin": 0, "waiting": []}

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
        level, thin = int(memory["level"]), int(memory["thin"])
        first: dict[tuple[str, int], Waiting] = {}
        for w in [*waiting, *early]:
            first.setdefault((w["key"], position_of(w["share"])), w)
        kept = _some(first.values(), level, thin)
        while len(_groups(kept)) > MOST_GROUPS or len(kept) > MOST_WAITING:
            if len(_groups(kept)) > FEWEST_GROUPS:
                level += 1
            else:
                thin += 1
            kept = _some(kept, level, thin)
        return {"level": level, "thin": thin, "waiting": kept}


def _groups(waiting: Iterable[Waiting]) -> set[int]:
    return {w["hash"] for w in waiting}


def _some(waiting: Iterable[Waiting], level: int, thin: int) -> list[Waiting]:
    """Return those of the groups and windows that are remembered."""
    groups, windows = HASHES >> level, 1 << thin
    return [w for w in waiting if w["hash"] < groups and w["wid"] % windows == 0]
