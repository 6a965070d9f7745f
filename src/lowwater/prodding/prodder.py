"""The prodder: which prods are due after an epoch, and what became of the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowwater.control import Known, Prod
from lowwater.prodding.clock import EventClock
from lowwater.prodding.grids import Asked
from lowwater.prodding.policies import Memory, Moment, ProdPolicy

TALLIES = ("asked", "answered", "empty", "early")
"""Prods that were asked; that found something; that found nothing; and the rows they found."""


@dataclass(frozen=True)
class Prodder:
    """Turns policies, streams of prods and demands of the handle into prods.

    `inputs` are the streams whose rows tell the time, `streams` those whose rows are prods.
    """

    policies: tuple[ProdPolicy, ...]
    asked: tuple[Asked, ...]
    inputs: tuple[int, ...]
    clock: EventClock

    def advance(self, memory: Memory, known: Known) -> tuple[dict[str, Any], tuple[Prod, ...]]:
        """Return what to remember after an epoch, and the prods for the next one."""
        kept = self._counted(memory, known.measured)
        kept["clock"] = self.clock.advance(kept.get("clock", {}), self._newest(known), known.now)
        if known.ended:
            return {**kept, "waiting": {}}, ()
        prods = [Prod.from_json(p) for m in known.measured for p in m.get("prods", ())]
        prods += known.asked
        if known.open:
            kept["policies"], due = self._ask(kept, known.now)
            prods += due
        return self._numbered(kept, prods)

    def _ask(self, memory: Memory, now: int) -> tuple[dict[str, Any], list[Prod]]:
        """Ask the policies; what each remembers is kept under its own name."""
        moment = Moment(now, self.clock, memory["clock"])
        kept, prods = {}, []
        for policy in self.policies:
            name = repr(policy)
            remembered = memory.get("policies", {}).get(name, {})
            kept[name], due = policy.advance(remembered, self.asked, moment)
            prods += due
        return kept, prods

    def due(self, memory: Memory, known: Known) -> bool:
        """Say whether a policy would ask for something now."""
        return "clock" in memory and bool(self._ask(memory, known.now)[1])

    def _newest(self, known: Known) -> int | None:
        newest = [known.inputs[n].newest for n in self.inputs]
        return max((n for n in newest if n is not None), default=None)

    @staticmethod
    def _numbered(
        kept: dict[str, Any], prods: Sequence[Prod]
    ) -> tuple[dict[str, Any], tuple[Prod, ...]]:
        first = kept["asked"]
        numbered = tuple(replace(p, number=first + n) for n, p in enumerate(prods))
        kept["asked"] += len(numbered)
        kept["waiting"] = [p.number for p in numbered]
        return kept, numbered

    @staticmethod
    def _counted(memory: Memory, measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Count what the prods of the epoch before have found."""
        kept = {**dict.fromkeys(TALLIES, 0), **memory}
        found = dict.fromkeys(map(str, kept.get("waiting", ())), 0)
        for m in measured:
            for number, rows in m.get("answers", {}).items():
                found[number] = found.get(number, 0) + rows
        kept["answered"] += sum(rows > 0 for rows in found.values())
        kept["empty"] += sum(rows == 0 for rows in found.values())
        kept["early"] += sum(m.get("early", 0) for m in measured)
        return kept
