"""The prodder: which prods are due after an epoch, and what became of the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lowwater.control import Arrived, Known, Prod
from lowwater.prodding.arrivals import Arrivals
from lowwater.prodding.clock import EventClock
from lowwater.prodding.grids import Asked
from lowwater.prodding.learning import Learning
from lowwater.prodding.pairing import Pairing
from lowwater.prodding.policies import Memory, Moment, ProdPolicy

Observed = Mapping[str, Sequence[tuple[float, float]]]

PROD_TALLIES = ("asked", "answered", "empty", "early")
"""Prods that were asked; that found something; that found nothing; and the rows they found."""


@dataclass(frozen=True)
class Prodder:
    """Turns policies, streams of prods and demands of the handle into prods.

    `inputs` are the streams whose rows tell the time; those whose rows are prods are none of them.
    """

    policies: tuple[ProdPolicy, ...]
    asked: tuple[Asked, ...]
    inputs: tuple[int, ...]
    clock: EventClock
    arrivals: Arrivals | None = None
    complete: bool = True
    learning: Mapping[int, Learning] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    """Under which names policies remember, where those have been changed since."""

    @property
    def settings(self) -> dict[str, Any]:
        """What of the policies can be changed while the query runs."""
        return {n: v for policy in reversed(self.policies) for n, v in policy.settings.items()}

    def tuned(self, values: Mapping[str, Any]) -> Prodder:
        """Return one with other policies, which remember what those have remembered."""
        policies = tuple(policy.tuned(values) for policy in self.policies)
        if policies == self.policies:
            return self
        return replace(self, policies=policies, names=self.names or tuple(map(repr, self.policies)))

    def advance(self, memory: Memory, known: Known) -> tuple[dict[str, Any], tuple[Prod, ...]]:
        """Return what to remember after an epoch, and the prods for the next one."""
        kept = self._counted(memory, known.measured)
        kept["clock"] = self.clock.advance(kept.get("clock", {}), self._newest(known), known.now)
        kept["arrivals"] = self._arrivals(kept, known)
        kept["learned"], observed = self._learn(memory, known)
        if known.ended:
            return {**kept, "waiting": []}, ()
        prods = [Prod.from_json(p) for m in known.measured for p in m.get("prods", ())]
        prods += known.asked
        if known.open:
            kept["lag"] = self._lag(known)
            kept["policies"], due = self._ask(kept, known.now, observed)
            prods += due
        return self._numbered(kept, prods)

    def _ask(
        self, memory: Memory, now: int, observed: Observed | None = None
    ) -> tuple[dict[str, Any], list[Prod]]:
        """Ask the policies; what each remembers is kept under its own name."""
        moment = Moment(now, self.clock, memory["clock"], observed or {}, memory.get("lag", 0))
        kept, prods = {}, []
        for name, policy in zip(self.names or map(repr, self.policies), self.policies, strict=True):
            remembered = memory.get("policies", {}).get(name, {})
            kept[name], due = policy.advance(remembered, self.asked, moment)
            prods += due
        return kept, prods

    def due(self, memory: Memory, known: Known) -> bool:
        """Say whether a policy would ask for something now."""
        return "clock" in memory and bool(self._ask(memory, known.now)[1])

    # -- what is known of early results ---------------------------------------------------------

    def learned(self, memory: Memory, operator: int) -> Mapping[str, Any]:
        """Return what is known of the early results of an operator."""
        known: Mapping[str, Any] | None = memory.get("learned", {}).get(str(operator))
        if known is not None:
            return known
        learning = self.learning.get(operator)
        return {} if learning is None else learning.begin()

    @staticmethod
    def remembered(known: Memory) -> int:
        """Return the hash below which groups are remembered until their finals come."""
        return Pairing().limit(known["pairing"])

    def leads(self, memory: Memory, known: Known, operator: int, ends: np.ndarray) -> np.ndarray:
        """Return how far ahead of the ends of their windows answers are, in slides."""
        clock = self.clock.advance(memory.get("clock", {}), self._newest(known), known.now)
        event = self.clock.now(clock, known.now)
        grid = next(one.grid for one in self.asked if one.operator == operator)
        if event is None or grid is None:
            return np.zeros(len(ends))
        return (ends - event) / grid.slide

    def _learn(self, memory: Memory, known: Known) -> tuple[dict[str, Any], Observed]:
        """Return what is known after an epoch, and the leads and accuracies it showed."""
        kept, observed = dict(memory.get("learned", {})), {}
        for told in (m["learned"] for m in known.measured if "learned" in m):
            for name, news in told.items():
                one = self.learning[int(name)]
                kept[name], observed[name] = one.advance(
                    self.learned(memory, int(name)),
                    news.get("finals", {}),
                    news.get("early", ()),
                    known.now,
                )
        return kept, observed

    def _arrivals(self, memory: Memory, known: Known) -> list[dict[str, Any]]:
        """Return what is remembered of how rows arrive, by input."""
        if self.arrivals is None:
            return []
        learned = []
        for n in self.inputs:
            before = memory["arrivals"][n] if "arrivals" in memory else self.arrivals.begin()
            blocks = [
                m["arrivals"] for m in known.measured if m.get("input") == n and "arrivals" in m
            ]
            learned.append(self.arrivals.advance(before, blocks, known.inputs[n].marks.low))
        return learned

    def foreseen(self, memory: Memory, now: int) -> list[Arrived | None]:
        """Return which share of the rows of each input will have arrived after the next epoch.

        None where answers are not to make up for the others.
        """
        at = Moment(now, self.clock, memory["clock"]).at_answer
        if self.arrivals is None or at is None or not self.complete:
            return [None for _ in self.inputs]
        return [self.arrivals.foreseen(learned, at) for learned in memory["arrivals"]]

    def arrived(self, memory: Memory, known: Known) -> list[Arrived | None]:
        """Return which share of the rows of each input has arrived, those of an epoch with them."""
        clock = self.clock.advance(memory.get("clock", {}), self._newest(known), known.now)
        at = self.clock.now(clock, known.now)
        if self.arrivals is None or at is None:
            return [None for _ in self.inputs]
        return [self.arrivals.arrived(learned, at) for learned in self._arrivals(memory, known)]

    def _lag(self, known: Known) -> int:
        """Return how far the marks of the inputs are behind the newest time."""
        mine = [known.inputs[n] for n in self.inputs]
        lags = [
            i.newest - i.marks.low for i in mine if i.newest is not None and i.marks.low is not None
        ]
        return max([0, *lags])

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
        kept = {**dict.fromkeys(PROD_TALLIES, 0), **memory}
        found = dict.fromkeys(map(str, kept.get("waiting", ())), 0)
        for m in measured:
            for number, rows in m.get("answers", {}).items():
                found[number] = found.get(number, 0) + rows
        kept["answered"] += sum(rows > 0 for rows in found.values())
        kept["empty"] += sum(rows == 0 for rows in found.values())
        kept["early"] += sum(m.get("early", 0) for m in measured)
        return kept
