"""One decision: the slacks for the streams of one operator, from late degrees and from its quality.

The quality tracker is here, too: what the operator produced and what late rows have missed, for
each interval and overall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from lowwater.control import Source
from lowwater.progress.adapting import ByFeedback, ByModel, Observed, Remembered
from lowwater.progress.below import Below, Port, typical, with_lag
from lowwater.progress.late_degrees import LateDegrees
from lowwater.progress.steered import Steered, Steering
from lowwater.progress.tracking import Windowed, by_source, in_time, quality_of

Memory = dict[str, Any]
REMEMBERED = 32
"""How many intervals the status tells."""
MOMENTS = 16
"""At how many moments it is remembered how far one stream was ahead."""
STEPS = 10
"""How often in an interval slack is chosen for a join, if epochs are as short."""
ENOUGH = 5.0
"""How many rows the target must allow to be lost, of those that are known, to choose by them."""
Known: TypeAlias = Remembered | Steering
Measured = Literal["rows", "windows", "pairs", "late"]


@dataclass(frozen=True)
class Deciding:
    """How slacks are chosen for one operator.

    `ports` are the inputs that lead to each of its ports; of those `by_source`, each source has a
    slack of its own. `measured` says what is counted at the operator, None if nothing is: then the
    model must be believed. `remembered` is for how long lost pairs are counted, `orders` are the
    operators before it that late rows do not pass.
    """

    operator: int
    name: str
    ports: tuple[tuple[int, ...], ...]
    below: Below
    rule: ByFeedback | ByModel | Steered
    target: float
    track: int
    granule: int
    measured: Measured | None
    error: float = 0.0
    orders: tuple[int, ...] = ()
    remembered: int = 0
    by_source: frozenset[int] = frozenset()

    @property
    def steps(self) -> int:
        """How often in an interval slack is chosen.

        For windows once: they end in lumps, and what was lost shows only when late rows come, well
        after the slack that lost it was chosen. Pairs come and are missed all the time.
        """
        return STEPS if len(self.ports) > 1 else 1

    @property
    def remembers(self) -> type[Known]:
        """What its rule remembers."""
        return Steering if isinstance(self.rule, Steered) else Remembered

    def begin(self) -> Memory:
        """Return the memory of a run that has not begun."""
        return {
            "interval": None,
            "step": 0,
            "ended": False,
            "calm": False,
            "sure": isinstance(self.rule, Steered),
            "longer": 0,
            "count": [0, 0, 0, 0],
            "news": [0, 0],
            "total": [0, 0],
            "unseen": 0,
            "windows": [],
            "lags": [],
            "slacks": [0 for _ in self.ports],
            "sources": [],
            "own": [],
            "rules": [],
            "recent": [],
            "met": [0, 0],
            "estimated": None,
        }

    def advance(
        self,
        memory: Memory,
        inputs: Mapping[str, Memory],
        measured: Sequence[Mapping[str, Any]],
    ) -> Memory:
        """Count what an epoch produced and lost; at the end of a step, choose slacks."""
        new = self._counted(memory, measured)
        ends = [[inputs[str(n)]["ends"][-1:] for n in port] for port in self.ports]
        newest = [max(e) for port in ends for e in port if e]
        if not newest:
            return new
        if all(any(port) for port in ends) and len(ends) > 1:
            mine, other = (min(max(e) for e in port if e) for port in ends[:2])
            new["lags"] = [*new["lags"], (mine - other) / self.granule][-MOMENTS:]
        interval, passed = divmod(max(newest), self.track)
        before, step = memory["interval"], passed * self.steps // self.track
        if before is not None and (interval, step) <= (before, memory["step"]):
            return self._cautious(new, inputs)
        new |= {"interval": interval, "step": step}
        if interval == before:
            if not memory["rules"]:
                return self._cautious(new, inputs)
            return {**self._chosen(new, inputs, passed / self.track), "ended": True}
        if before is not None and interval > before + 1:
            new["longer"] = memory["longer"] + 1
        if not memory["rules"] and self._in_order(inputs):
            judged = self._judged({**new, "estimated": 1.0}, before)
            return {**judged, "news": [0, 0], "lags": [], "calm": True}
        return {**self._chosen(self._judged(new, before), inputs, 1.0), "ended": True}

    def _in_order(self, inputs: Mapping[str, Memory]) -> bool:
        """Whether no row has been late so far: then there is nothing to choose by."""
        mine = (inputs[str(n)]["fresh"] for port in self.ports for n in port)
        return all(degrees["bins"] == [0] for fresh in mine for _, degrees in fresh)

    def _cautious(self, memory: Memory, inputs: Mapping[str, Memory]) -> Memory:
        """Wait for rows as late as any seen, as long as too few are known to choose by."""
        if memory["sure"] or self._in_order(inputs):
            return memory
        latest = [self._fresh(port, inputs).largest * self.granule for port in self.ports]
        found = [max(known, new) for known, new in zip(memory["slacks"], latest, strict=True)]
        return {**memory, "slacks": found}

    def _counted(self, memory: Memory, measured: Sequence[Mapping[str, Any]]) -> Memory:
        """Return what is known with what an epoch produced and lost."""
        new = {**memory, "ended": False, "calm": False}
        told = [m for m in measured if "shard" in m]
        if self.measured == "late":
            each = [[m for m in told if m["operator"] == order] for order in self.orders]
            return _plus(new, *in_time(each))
        if self.measured is None:
            return new
        mine = [m for m in told if m["operator"] == self.operator]
        found = quality_of(self.measured, mine, Windowed(memory["windows"], self.error))
        new |= {"unseen": memory["unseen"] + found.unseen, "windows": found.windows}
        if self.by_source and self.measured == "rows":
            new["own"] = _added(memory["own"], by_source(mine))
        return _plus(new, *found.counts)

    # -- adapter -----------------------------------------------------------------------------------

    def _chosen(self, memory: Memory, inputs: Mapping[str, Memory], passed: float) -> Memory:
        """Choose slacks for the next step, when so much of an interval has passed."""
        fresh = [self._fresh(port, inputs) for port in self.ports]
        ports = self._ports(memory, fresh, inputs)
        rules = {self._key(k): self.remembers.from_json(kept) for k, kept in memory["rules"]}
        if self.measured is None and all(d.total for d in fresh):
            estimated = self.below.estimate(ports, [s / self.granule for s in memory["slacks"]])
            memory = _plus(memory, estimated, 1.0 - estimated)
        given, lost = memory["news"]
        *_, results, rows = memory["count"]
        ports = [replace(p, rows=rows / results if results else p.rows) for p in ports]
        seen = Observed(tuple(fresh), tuple(memory["lags"]), given, given + lost, passed)
        rules[None], slacks = self._ask(rules.get(None, self.remembers()), seen, ports)
        own = {source: counts for source, *counts in memory["own"]}
        by_source = self._sources(rules, seen, ports, inputs, own)
        known = rules[None].degrees
        sure = all(d.total * (1.0 - self.target) >= ENOUGH for d in known if d.total)
        sure = sure or isinstance(self.rule, Steered)
        if not sure:
            slacks = [max(s, d.largest) for s, d in zip(slacks, known, strict=True)]
        now = [replace(p, degrees=d) for p, d in zip(ports, known, strict=True)]
        return {
            **memory,
            "sure": sure,
            "news": [0, 0],
            "lags": memory["lags"][-1:],
            "slacks": [s * self.granule for s in slacks],
            "sources": [[*place, s * self.granule] for place, s in by_source.items()],
            "own": [[source, 0, 0, *total] for source, (_, _, *total) in own.items()],
            "rules": [[list(k) if k else None, r.to_json()] for k, r in rules.items()],
            "estimated": round(self.below.estimate(now, slacks), 6),
        }

    def _judged(self, memory: Memory, interval: int | None) -> Memory:
        """Note how an interval was that has ended.

        Of one in which no window ended and no pair came, nothing can be said: what was lost in it
        counts with the next.
        """
        if interval is None:
            return memory
        given, lost, *held = memory["count"]
        quality, kept = None, [given, lost]
        met, judged = memory["met"]
        if given > 0:
            quality, kept = min(given / (given + lost), 1.0), [0, 0]
            met, judged = met + (quality >= self.target), judged + 1
        end = (interval + 1) * self.track
        told = [end, quality, memory["estimated"], memory["slacks"]]
        return {
            **memory,
            "count": [*kept, *held],
            "recent": [*memory["recent"], told][-REMEMBERED:],
            "met": [met, judged],
        }

    def _ask(
        self, known: Known, seen: Observed, ports: Sequence[Port]
    ) -> tuple[Known, Sequence[int]]:
        """Ask the rule for a slack, and part it among the ports."""

        def model(degrees: Sequence[LateDegrees], lags: Sequence[float]) -> Any:
            moments = [with_lag(ports, degrees, lag) for lag in typical(lags)]

            def quality(slack: Any) -> Any:
                if np.ndim(slack):
                    return np.array([quality(s) for s in np.ravel(slack)]).reshape(np.shape(slack))
                found = [self.below.estimate(at, self.below.parted(at, slack)) for at in moments]
                return float(np.mean(found))

            return quality

        rule: Any = self.rule
        after, slack = rule.step(known, seen, model)
        now = with_lag(ports, after.degrees, seen.lags[-1] if seen.lags else None)
        return after, self.below.cheapest(now, int(slack))

    def _sources(
        self,
        rules: dict[tuple[int, Source] | None, Known],
        seen: Observed,
        ports: Sequence[Port],
        inputs: Mapping[str, Memory],
        own: Mapping[Source, Sequence[int]],
    ) -> dict[tuple[int, Source], int]:
        """Return a slack for each source, by its own late degrees and, if known, its own losses."""
        found = {}
        for at, port in enumerate(self.ports):
            for n in port:
                if n not in self.by_source:
                    continue
                came = {s: LateDegrees.from_json(d) for s, d in inputs[str(n)]["fresh"]}
                known = [k[1] for k in rules if k is not None and k[0] == n]
                for source in dict.fromkeys([*known, *came]):
                    mine = came.get(source, LateDegrees.none(self.granule))
                    of = tuple(mine if i == at else d for i, d in enumerate(seen.degrees))
                    before = rules.get((n, source), self.remembers())
                    alone = replace(seen, degrees=of)
                    if own:
                        given, lost, *_ = own.get(source, (0, 0))
                        alone = replace(alone, given=given, wanted=given + lost)
                    after, slacks = self._ask(before, alone, ports)
                    rules[n, source], found[n, source] = after, slacks[at]
        return found

    @staticmethod
    def _key(kept: Sequence[Any] | None) -> tuple[int, Source] | None:
        return None if kept is None else (kept[0], kept[1])

    # -- what is known at the ports ----------------------------------------------------------------

    def _fresh(self, port: Sequence[int], inputs: Mapping[str, Memory]) -> LateDegrees:
        """Return the late degrees since slacks were last chosen, of all streams at a port."""
        known = LateDegrees.none(self.granule)
        for n in port:
            for _, degrees in inputs[str(n)]["fresh"]:
                known = known + LateDegrees.from_json(degrees)
        return known

    def _ports(
        self, memory: Memory, fresh: Sequence[LateDegrees], inputs: Mapping[str, Memory]
    ) -> list[Port]:
        lag = memory["lags"][-1] if memory["lags"] else None
        epochs = [[_epoch(inputs[str(n)]["ends"]) for n in port] for port in self.ports]
        ports = [
            Port(d, min(e, default=0) / self.granule) for d, e in zip(fresh, epochs, strict=True)
        ]
        return with_lag(ports, fresh, lag)


def _plus(memory: Memory, *more: float) -> Memory:
    """Return what is known with so much more produced and lost, of results and their rows."""
    counts = {
        name: [a + b for a, b in zip(memory[name], (*more, 0, 0), strict=False)]
        for name in ("count", "news", "total")
    }
    return {**memory, **counts}


def _added(own: Sequence[Sequence[Any]], more: Mapping[Source, tuple[int, int]]) -> list[list[Any]]:
    """Return what sources gave and lost, since slacks were chosen and in all, with more of it."""
    known = {source: counts for source, *counts in own}
    for source, (given, lost) in more.items():
        new = (given, lost, given, lost)
        known[source] = [a + b for a, b in zip(known.get(source, [0] * 4), new, strict=True)]
    return [[source, *counts] for source, counts in known.items()]


def _epoch(ends: Sequence[int]) -> int:
    """Return how far the newest time runs on, at least, before the mark after an epoch acts.

    It acts after the rows of the next epoch, so a row that meets it is one to two epochs away. The
    mean would be the better guess where losses grow evenly with lateness; they do not, and a target
    that is missed costs more than a wait.
    """
    return min((b - a for a, b in pairwise(ends)), default=0)
