"""The load shedder: after every epoch it decides which windows are left out, before they begin.

What it remembers is JSON, for it lives in the control log: an epoch that is run again finds the
same windows left out. Decisions are made ahead, since a window that has begun cannot be left out,
and made anew while it has not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from lowwater.control import Dropped, Loaded, Shed, Stretches
from lowwater.control.intervals import common, joined, without
from lowwater.shedding.decisions import Place, Rule, decide, stretches
from lowwater.shedding.load import (
    PATIENCE,
    Bound,
    Costs,
    Epoch,
    costliest,
    expected,
    learn,
    settled,
    surprise,
)
from lowwater.shedding.policy import Shedding, check_gaps, gap_of, plain, results_in
from lowwater.shedding.rules import Root, Slots
from lowwater.windows import FOREVER

AHEAD = 4
"""Decisions reach so many times as far ahead as an epoch has come of late."""
LEAST_RUNS, MOST_RUNS = 8, 500
"""And for at least, and at most, so many runs."""
REMEMBERED = 256
"""So many stretches that are over are remembered, for late rows of them to be told as shed."""
TIRED = 0.7
"""A query that was shut down comes back when rows arrive so much slower than then."""


@dataclass(frozen=True)
class LoadShedder:
    """Decides for the windows of a query, `roots`, which share one drop.

    `inputs` are the streams that flow into them, and to how many operators rows of each go.
    """

    how: Shedding
    roots: tuple[Root, ...]
    slots: Slots
    inputs: Mapping[int, int]

    @property
    def most(self) -> int:
        """How many slots may be missing in a row."""
        return self.slots.gap(self.roots)

    @property
    def measures(self) -> bool:
        """Whether it goes by how long epochs take."""
        return self.how.latency is not None

    @property
    def settings(self) -> dict[str, Any]:
        """What of it can be changed while the query runs."""
        return {"max_gap": plain(self.how.max_gap)}

    def tuned(self, values: Mapping[str, Any]) -> LoadShedder:
        """Return one that allows other gaps."""
        if "max_gap" not in values:
            return self
        gap = values["max_gap"]
        check_gaps(gap)
        queries = list(dict.fromkeys(root.query for root in self.roots))
        roots = tuple(
            replace(r, gap=results_in(gap_of(r.query, gap, queries), r.spec.slide))
            for r in self.roots
        )
        return replace(self, how=replace(self.how, max_gap=gap), roots=roots)

    def advance(self, memory: Mapping[str, Any], known: Loaded) -> Shed:
        """Return what is left out from the next epoch on."""
        newest = [known.inputs[n].newest for n in self.inputs]
        seen = max((n for n in newest if n is not None), default=None)
        load = self._load(memory.get("load", {}), known)
        finals = [m["finals"] for m in known.measured if "finals" in m]
        if seen is None:
            return Shed(known.before, {**memory, "load": load, "news": []})
        first = self.slots.first_after(seen)
        place, news = self._begun(memory, first)
        rule = self._rule(load)
        until = first + self._ahead(memory, first, rule)
        chosen = [left_out for _, left_out in decide(place, rule, until)] if rule.p else []
        ahead = self._times(stretches(first, chosen))
        start = self.slots.start(first)
        over = common(known.before.stretches, ((-FOREVER, start),))
        kept: dict[str, Any] = {
            "place": place.to_json(),
            "until": until,
            "rule": [rule.p, rule.batch, rule.most],
            "stride": self._stride(memory, first),
            "windows": memory.get("windows", 0) + self._windows(news),
            "news": self._told(news, memory, known, start),
            "load": load,
        }
        if finals:
            kept["finals"] = finals[0]
        closed = self._closed(known, load, start)
        remembered = _still_told(over, known)
        return Shed(Dropped(joined([*remembered, *ahead]), closed), kept)

    # -- what has begun ----------------------------------------------------------------------------

    def _begun(self, memory: Mapping[str, Any], first: int) -> tuple[Place, Stretches]:
        """Return where decisions stand, and the runs of slots left out that have begun since."""
        if "place" not in memory:
            return Place(first), ()
        place = Place(**memory["place"])
        if first <= place.slot:
            return place, ()
        p, batch, *most = memory["rule"]
        # What was decided then went by the gap that was allowed then.
        rule = Rule(p, batch, most[0] if most else self.most, self.how.seed)
        start, chosen = place.slot, []
        for after, left_out in decide(place, rule, min(first, memory["until"])):
            place = after
            chosen.append(left_out)
        return place.skipped_to(first), stretches(start, chosen)

    def _told(
        self, news: Stretches, memory: Mapping[str, Any], known: Loaded, start: int
    ) -> list[list[Any]]:
        """Return what there is to say of stretches that are left out for good.

        Each is [start, end, p, load, reason, the operator that alone is meant].
        """
        if "place" not in memory:
            return []
        load, p = memory["load"].get("load"), memory["rule"][0]
        why = "latency" if self.measures else "p"
        told: list[list[Any]] = [[*s, p, load, why, None] for s in self._times(news)]
        begun = ((self.slots.start(memory["place"]["slot"]), start),)
        for operator, since, until in known.before.closed:
            own = without(common(((since, until),), begun), known.before.stretches)
            told += [[*s, 1.0, load, "closed", operator] for s in own]
        return told

    def _windows(self, runs: Stretches) -> int:
        """Return how many windows slots stand for."""
        each = sum(self.slots.slide // root.spec.slide for root in self.roots)
        return each * sum(end - start for start, end in runs)

    def _times(self, runs: Stretches) -> Stretches:
        return tuple((self.slots.start(a), self.slots.start(b)) for a, b in runs)

    # -- how far ahead -----------------------------------------------------------------------------

    def _stride(self, memory: Mapping[str, Any], first: int) -> float:
        """Return how many slots an epoch comes forward, of late."""
        if "place" not in memory:
            return 0.0
        before: float = memory["stride"]
        return float(max(first - memory["place"]["slot"], 0.8 * before))

    def _ahead(self, memory: Mapping[str, Any], first: int, rule: Rule) -> int:
        """Return how many slots to decide over."""
        run = rule.batch + 1
        wanted = int(AHEAD * self._stride(memory, first))
        return min(max(wanted, LEAST_RUNS * run), MOST_RUNS * run)

    # -- how much ----------------------------------------------------------------------------------

    def _rule(self, load: Mapping[str, Any]) -> Rule:
        most = self.most
        if self.how.latency is None:
            return Rule(self.how.p or 0.0, most, most, self.how.seed)
        return Rule(load.get("p", 0.0), min(load.get("run", 1), most), most, self.how.seed)

    def _load(self, memory: Mapping[str, Any], known: Loaded) -> dict[str, Any]:
        """Return what is known of the load after an epoch."""
        took = [m["took"] for m in known.measured if "took" in m]
        if self.how.latency is None or not took:
            return dict(memory)
        epoch = self._epoch(memory, known, took[0])
        costs_memory, costs = learn(memory.get("costs", {}), epoch)
        coming = expected(memory, epoch)
        off = 0.0
        if "cost" in memory:
            off = surprise(memory["surprise"], Costs(*memory["cost"]), epoch)
        bound = Bound(self.slots.params, self.most, self.how.latency, off)
        need = bound.needs(costs, coming, epoch)
        beyond = 0 if need.reachable else memory.get("beyond", 0) + 1
        return {
            "now": known.now,
            "costs": costs_memory,
            "cost": list(astuple(costs)),
            "surprise": off,
            "rate": coming.rate,
            "results": coming.results,
            "waiting": epoch.waiting,
            "elapsed": epoch.elapsed,
            "p": settled(memory.get("p", 0.0), need.p),
            "run": need.run,
            "load": need.load,
            "beyond": beyond,
            "closed": self._shut(memory.get("closed", {}), known, beyond, coming.rate),
        }

    def _epoch(self, memory: Mapping[str, Any], known: Loaded, took: int) -> Epoch:
        rows = sum(
            m.get("rows", 0) * self.inputs.get(m.get("input", -1), 0) for m in known.measured
        )
        shed = sum(
            counts.get("shed", 0) for m in known.measured for counts in m.get("counts", {}).values()
        )
        told = [m for m in known.measured if "waiting" in m]
        waiting = sum(m["waiting"] * self.inputs.get(m["input"], 0) for m in told)
        reached = [known.inputs[n] for n in self.inputs]
        behind = [r.newest - r.marks.low for r in reached if r.newest and r.marks.low is not None]
        elapsed = known.now - memory.get("now", known.now - took)
        slack = max([0, *behind]) if not any(r.ended for r in reached) else 0
        operators = {root.operator for root in self.roots}
        results = sum(m.get("results", 0) for m in known.measured if m.get("operator") in operators)
        return Epoch(
            took,
            elapsed,
            max(0, rows - shed),
            shed,
            results,
            waiting if told else None,
            slack,
            memory.get("p", 0.0),
        )

    # -- queries that are shut down ----------------------------------------------------------------

    def _shut(
        self, closed: Mapping[str, float], known: Loaded, beyond: int, rate: float
    ) -> dict[str, float]:
        """Return the queries that are shut down, and at what rate of arrival each was."""
        found = {n: at for n, at in closed.items() if rate > TIRED * at}
        if beyond and beyond % PATIENCE == 0:
            rows = dict.fromkeys((root.operator for root in self.roots), 0)
            for m in known.measured:
                for number, counts in m.get("counts", {}).items():
                    if int(number) in rows:
                        rows[int(number)] += counts.get("in", 0)
            chosen = costliest(rows, [int(n) for n in found])
            if chosen is not None:
                found[str(chosen)] = rate
        return found

    def _closed(
        self, known: Loaded, load: Mapping[str, Any], start: int
    ) -> tuple[tuple[int, int, int], ...]:
        """Return the stretches for which queries are shut down: from where they had not begun."""
        wanted = {int(n) for n in load.get("closed", {})}
        found = []
        for operator, since, until in known.before.closed:
            if operator in wanted and until == FOREVER:
                wanted.discard(operator)
                found.append((operator, since, until))
            elif since < min(until, start):
                found.append((operator, since, min(until, start)))
        return (*found, *((operator, start, FOREVER) for operator in sorted(wanted)))


def _still_told(over: Stretches, known: Loaded) -> Sequence[tuple[int, int]]:
    """Return stretches that may still be needed, and the newest of the others."""
    lows = [marks.low for marks in known.ports]
    reached = [low for low in lows if low is not None]
    low = min(reached) if reached and len(reached) == len(lows) else -FOREVER
    return [s for n, s in enumerate(over) if s[1] > low or len(over) - n <= REMEMBERED]
