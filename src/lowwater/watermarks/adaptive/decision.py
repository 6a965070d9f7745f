"""The choice of slacks for the input streams of one operator, to meet a quality target.

A `SlackDecision` also tracks quality: it counts the results that the operator produced and the
results that were lost to late rows, per interval and for the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from lowwater.control.measures import Measures
from lowwater.control.watermark import SourceKey
from lowwater.watermarks.adaptive.decision_memory import (
    DecisionMemory,
    LatenessMemory,
    SourceTally,
    Tally,
    TrackRecord,
)
from lowwater.watermarks.adaptive.lateness import LatenessHistogram
from lowwater.watermarks.adaptive.quality_model import Port, QualityModel, typical, with_lag
from lowwater.watermarks.adaptive.rules import MOMENTS, FeedbackRule, PdRule, RuleInput, RuleState
from lowwater.watermarks.adaptive.tracker import by_source, in_time, quality_of

REMEMBERED = 32
"""The number of past intervals that the memory holds, for the status."""
STEPS = 10
"""The slacks of a join are chosen at most this many times in one interval."""
ENOUGH = 5.0
"""A rule is trusted once the target allows this many lost rows among the rows counted so far."""
Inputs = Mapping[int, LatenessMemory]
Measured = Literal["rows", "pairs", "late"]


@dataclass(frozen=True)
class SlackDecision:
    """The component that chooses the slacks for one operator; all its parameters are fixed.

    - `operator`, `name`: The number and the name of the operator.
    - `ports`: For each port of the operator, the numbers of the inputs that lead to the port.
    - `below`: The model that estimates the operator's quality.
    - `rule`, `target`: The rule that chooses the slack, and the quality target.
    - `track`, `granule`: The length of an interval, and the step size of the slack, in ticks.
    - `measured`: The items that the operator counts; None if the model estimates quality instead.
    - `orders`: The sort operators before this operator; late rows do not pass a sort operator.
    - `unit`: The unit of time, in ticks, in which a join counts pairs.
    - `by_source`: The inputs in which every source has its own slack.
    """

    operator: int
    name: str
    ports: tuple[tuple[int, ...], ...]
    below: QualityModel
    rule: FeedbackRule | PdRule
    target: float
    track: int
    granule: int
    measured: Measured | None
    orders: tuple[int, ...] = ()
    unit: int = 0
    by_source: frozenset[int] = frozenset()

    @property
    def steps(self) -> int:
        """The number of times that slacks are chosen in one interval.

        For windows it is 1: many windows close together, and their losses are counted long after
        the choice of the slack that caused them. Joins produce and lose pairs continuously.
        """
        return STEPS if len(self.ports) > 1 else 1

    def begin(self) -> DecisionMemory:
        """Return the memory before the first epoch."""
        sure = isinstance(self.rule, PdRule)
        return DecisionMemory(sure=sure, slacks=(0,) * len(self.ports))

    def advance(self, memory: DecisionMemory, inputs: Inputs, measured: Measures) -> DecisionMemory:
        """Return the memory after an epoch, with new counts and, if a choice is due, new slacks."""
        new = self._counted(memory, measured)
        ends = [[inputs[n].ends[-1] for n in port if inputs[n].ends] for port in self.ports]
        newest = [end for port in ends for end in port]
        if not newest:
            return new
        if all(ends) and len(ends) > 1:
            mine, other = (min(port) for port in ends[:2])
            new = replace(new, lags=(*new.lags, (mine - other) / self.granule)[-MOMENTS:])
        interval, passed = divmod(max(newest), self.track)
        before, step = memory.interval, passed * self.steps // self.track
        if before is not None and (interval, step) <= (before, memory.step):
            return self._cautious(new, inputs)
        new = replace(new, interval=interval, step=step)
        if interval == before:
            if memory.rule is None:
                return self._cautious(new, inputs)
            return replace(self._chosen(new, inputs, passed / self.track), ended=True)
        if before is not None and interval > before + 1:
            new = replace(new, longer=memory.longer + 1)
        if memory.rule is None and self._in_order(inputs):
            after = self._judged(replace(new, estimated=1.0), before)
            return replace(after, since_choice=Tally(), lags=(), calm=True)
        return replace(self._chosen(self._judged(new, before), inputs, 1.0), ended=True)

    def _in_order(self, inputs: Inputs) -> bool:
        """Return whether all rows since the last choice arrived in order of time."""
        mine = (inputs[n].fresh.values() for port in self.ports for n in port)
        return all(degrees.in_order for fresh in mine for degrees in fresh)

    def _cautious(self, memory: DecisionMemory, inputs: Inputs) -> DecisionMemory:
        """Return the memory; if it is not `sure`, raise its slacks to the largest late degree."""
        if memory.sure or self._in_order(inputs):
            return memory
        largest = [self._fresh(port, inputs).largest * self.granule for port in self.ports]
        return replace(memory, slacks=tuple(map(max, memory.slacks, largest)))

    def _counted(self, memory: DecisionMemory, measured: Measures) -> DecisionMemory:
        """Return the memory plus the results that the operator produced and lost in an epoch."""
        new = replace(memory, ended=False, calm=False)
        if self.measured == "late":
            return new.plus(*in_time([measured.of_operator(order) for order in self.orders]))
        if self.measured is None:
            return new
        mine = measured.of_operator(self.operator)
        items = quality_of(self.measured, mine)
        if self.by_source and self.measured == "rows":
            own = dict(memory.own)
            for source, counts in by_source(mine).items():
                own[source] = own.get(source, SourceTally()).plus(*counts)
            new = replace(new, own=own)
        return new.plus(*items)

    def _chosen(self, memory: DecisionMemory, inputs: Inputs, passed: float) -> DecisionMemory:
        """Return the memory with new slacks; `passed` is the elapsed share of the interval."""
        fresh = [self._fresh(port, inputs) for port in self.ports]
        ports = self._ports(memory, fresh, inputs)
        if self.measured is None and all(d.total for d in fresh):
            estimated = self.below.estimate(ports, [s / self.granule for s in memory.slacks])
            memory = memory.plus(estimated, 1.0 - estimated)
        news = memory.since_choice
        wanted = news.given + news.lost
        seen = RuleInput(tuple(fresh), memory.lags, news.given, wanted, passed)
        rule, slacks = self._ask(memory.rule or RuleState(), seen, ports)
        source_rules, source_slacks = self._sources(memory, seen, ports, inputs)
        known = rule.degrees
        enough = (d.total * (1.0 - self.target) >= ENOUGH for d in known if d.total)
        sure = isinstance(self.rule, PdRule) or all(enough)
        if not sure:
            slacks = [max(s, d.largest) for s, d in zip(slacks, known, strict=True)]
        now = [replace(p, degrees=d) for p, d in zip(ports, known, strict=True)]
        return replace(
            memory,
            sure=sure,
            since_choice=Tally(),
            lags=memory.lags[-1:],
            slacks=tuple(s * self.granule for s in slacks),
            source_slacks={place: s * self.granule for place, s in source_slacks.items()},
            own={source: replace(one, since_choice=Tally()) for source, one in memory.own.items()},
            rule=rule,
            source_rules=source_rules,
            estimated=round(self.below.estimate(now, slacks), 6),
        )

    def _judged(self, memory: DecisionMemory, interval: int | None) -> DecisionMemory:
        """Return the memory plus the record of `interval`, which has ended.

        An interval without closed windows or pairs has no quality; its losses count in the next
        interval.
        """
        if interval is None:
            return memory
        given, lost = memory.count.given, memory.count.lost
        quality, count, met, judged = None, memory.count, memory.met, memory.judged
        if given > 0:
            quality, count = min(given / (given + lost), 1.0), Tally()
            met, judged = met + (quality >= self.target), judged + 1
        end = (interval + 1) * self.track
        record = TrackRecord(end, quality, memory.estimated, memory.slacks)
        recent = (*memory.recent, record)[-REMEMBERED:]
        return replace(memory, count=count, recent=recent, met=met, judged=judged)

    def _ask(
        self, known: RuleState, seen: RuleInput, ports: Sequence[Port]
    ) -> tuple[RuleState, Sequence[int]]:
        """Return the new state of the rule, and the slack of each port in granules."""

        def model(degrees: Sequence[LatenessHistogram], lags: Sequence[float]) -> Any:
            moments = [with_lag(ports, degrees, lag) for lag in typical(lags)]
            parted, estimate = self.below.parted, self.below.estimate
            return lambda slack: float(np.mean([estimate(at, parted(at, slack)) for at in moments]))

        after, slack = self.rule.step(known, seen, model)
        now = with_lag(ports, after.degrees, seen.lags[-1] if seen.lags else None)
        return after, self.below.cheapest(now, int(slack))

    def _sources(
        self, memory: DecisionMemory, seen: RuleInput, ports: Sequence[Port], inputs: Inputs
    ) -> tuple[dict[tuple[int, SourceKey], RuleState], dict[tuple[int, SourceKey], int]]:
        """Return {(input, source): rule state}, and {(input, source): slack in granules}."""
        rules, slacks = dict(memory.source_rules), {}
        mine = [(at, n) for at, port in enumerate(self.ports) for n in port if n in self.by_source]
        for at, n in mine:
            fresh = inputs[n].fresh
            known = [source for number, source in rules if number == n]
            for source in dict.fromkeys([*known, *fresh]):
                own = fresh.get(source, LatenessHistogram.none(self.granule))
                degrees = tuple(own if i == at else d for i, d in enumerate(seen.degrees))
                alone = replace(seen, degrees=degrees)
                if memory.own:
                    news = memory.own.get(source, SourceTally()).since_choice
                    alone = replace(alone, given=news.given, wanted=news.given + news.lost)
                before = rules.get((n, source), RuleState())
                rules[n, source], chosen = self._ask(before, alone, ports)
                slacks[n, source] = chosen[at]
        return rules, slacks

    def _fresh(self, port: Sequence[int], inputs: Inputs) -> LatenessHistogram:
        """Return the late degrees of all inputs of a port since slacks were last chosen."""
        fresh = (degrees for n in port for degrees in inputs[n].fresh.values())
        return sum(fresh, LatenessHistogram.none(self.granule))

    def _ports(
        self, memory: DecisionMemory, fresh: Sequence[LatenessHistogram], inputs: Inputs
    ) -> list[Port]:
        """Return the `Port` records that the quality model reads."""
        epochs = [min((inputs[n].shortest_epoch for n in p), default=0) for p in self.ports]
        ports = [Port(d, epoch / self.granule) for d, epoch in zip(fresh, epochs, strict=True)]
        return with_lag(ports, fresh, memory.lags[-1] if memory.lags else None)
