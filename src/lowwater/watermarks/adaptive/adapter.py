"""The adapter: the component that chooses the slacks of all inputs together (QDJ 6.1.1).

After each epoch the adapter collects late degrees and counts produced and lost results. After each
interval of the quality target it asks rules for new slacks. The control log holds the adapter's
memory. The trackers receive the chosen slacks in their input reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from lowwater.control.context import SlackReference
from lowwater.control.measures import Measures
from lowwater.control.report import InputReport
from lowwater.control.watermark import SourceKey, Watermarks
from lowwater.learners.slack_frontier import SlackFrontier
from lowwater.ticks import BEGIN, END
from lowwater.watermarks.adaptive.decision import SlackDecision
from lowwater.watermarks.adaptive.decision_memory import DecisionMemory, LatenessMemory
from lowwater.watermarks.adaptive.monitor import source_lateness
from lowwater.watermarks.adaptive.pair_slack import PairSlack, PairSlackMemory
from lowwater.watermarks.adaptive.policies import number
from lowwater.watermarks.adaptive.window_slack import WindowSlack, WindowSlackMemory

LONGEST = END - BEGIN
"""A slack that is longer than any."""
NO_FRONTIER = SlackFrontier()
"""The frontier before the first rows."""
EPOCHS = 4
"""The number of last epochs from which the shortest epoch is computed."""


@dataclass(frozen=True)
class MonitoredInput:
    """An input whose late degrees are counted in granules of `granule` ticks.

    With `by_source`, every source of the input has its own slack. With `largest`, the slack is the
    largest late degree so far.
    """

    number: int
    granule: int
    decay: float = 1.0
    by_source: bool = False
    largest: bool = False


@dataclass(frozen=True)
class AdapterMemory:
    """The memory of the adapter.

    - `inputs`: The lateness of each monitored input.
    - `decisions`, `windows`, `pairs`: The memory of each decision, and of each choice for windows
      and for joins.
    """

    VERSION: ClassVar[int] = 3

    inputs: dict[int, LatenessMemory] = field(default_factory=dict)
    decisions: tuple[DecisionMemory, ...] = ()
    windows: tuple[WindowSlackMemory, ...] = ()
    pairs: tuple[PairSlackMemory, ...] = ()


class SlackAdapter:
    """The component that chooses the slacks of all inputs after each epoch."""

    memory_type = AdapterMemory

    def __init__(
        self,
        inputs: Sequence[MonitoredInput],
        decisions: Sequence[SlackDecision],
        windows: Sequence[WindowSlack] = (),
        most: Mapping[int, int] | None = None,
        pairs: Sequence[PairSlack] = (),
    ) -> None:
        self.inputs = {one.number: one for one in inputs}
        self.most = most or {}
        self.decisions, self.windows = tuple(decisions), tuple(windows)
        self.pairs = tuple(pairs)

    @property
    def ports(self) -> tuple[int, ...]:
        """The numbers of the ports at which needed slacks are measured."""
        joins = (number for one in self.pairs for number in one.numbers)
        return (*(one.port for one in self.windows), *joins)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that can change at run time: {"quality": target, or {operator: target}}."""
        targets = {one.name: one.target for one in self.decisions}
        targets |= {one.name: one.target for one in self.windows}
        targets |= {one.name: one.target for one in self.pairs}
        if not targets:
            return {}
        different = set(targets.values())
        return {"quality": targets if len(different) > 1 else different.pop()}

    def tuned(self, values: Mapping[str, Any]) -> SlackAdapter:
        """Return an adapter with the quality target in `values`; an existing memory stays valid."""
        if "quality" not in values:
            return self
        target = values["quality"]
        number("quality", target, above=0.0, upto=1.0)
        decisions = [
            replace(one, target=float(target), rule=one.rule.aiming_at(float(target)))
            for one in self.decisions
        ]
        windows = [one.aiming_at(float(target)) for one in self.windows]
        pairs = [one.aiming_at(float(target)) for one in self.pairs]
        return SlackAdapter(list(self.inputs.values()), decisions, windows, pairs=pairs)

    def limited(self, most: Mapping[int, int]) -> SlackAdapter:
        """Return an adapter whose slacks for the windows of {operator: slack} are at most these."""
        inputs = list(self.inputs.values())
        return SlackAdapter(inputs, self.decisions, self.windows, most, self.pairs)

    def frontier(self, memory: AdapterMemory, operator: int) -> SlackFrontier:
        """Return the completeness of an operator's windows by slack; empty if it is unknown."""
        pairs = zip(self.windows, memory.windows, strict=True)
        return next((w.frontier(kept) for w, kept in pairs if w.operator == operator), NO_FRONTIER)

    def begin(self) -> AdapterMemory:
        """Return the memory before the first epoch."""
        inputs = {n: LatenessMemory() for n in self.inputs}
        begun = tuple(d.begin() for d in self.decisions)
        windows = tuple(one.begin() for one in self.windows)
        return AdapterMemory(inputs, begun, windows, tuple(one.begin() for one in self.pairs))

    def advance(
        self,
        memory: AdapterMemory,
        reports: Sequence[InputReport],
        measured: Measures,
        *,
        newest: Sequence[Watermarks] = (),
        references: Mapping[int, SlackReference] | None = None,
    ) -> tuple[AdapterMemory, Sequence[InputReport]]:
        """Return the memory after an epoch, and `reports` with the chosen slacks filled in.

        By number of the port, `newest` are the watermarks after the epoch if all slacks were 0, and
        `references` are what the needed slacks of the epoch count from.
        """
        if measured:
            inputs = {n: self._gathered(n, one, measured) for n, one in memory.inputs.items()}
            decisions = tuple(
                one.advance(before, inputs, measured)
                for one, before in zip(self.decisions, memory.decisions, strict=True)
            )
            known = references or {}
            windows = tuple(
                one.advance(
                    before, measured, newest[one.port], known.get(one.port, SlackReference())
                )
                for one, before in zip(self.windows, memory.windows, strict=True)
            )
            joins = list(zip(self.pairs, memory.pairs, strict=True))
            kept = {one.operator: one.kept(before) for one, before in joins}
            pairs = tuple(o.advance(before, measured, newest, known, kept) for o, before in joins)
            memory = AdapterMemory(self._renewed(inputs, decisions), decisions, windows, pairs)
        return memory, [self._with_slack(n, one, memory) for n, one in enumerate(reports)]

    def _gathered(self, number: int, memory: LatenessMemory, measured: Measures) -> LatenessMemory:
        """Return `memory`, the lateness of input `number`, plus the late degrees of an epoch."""
        blocks = [m.late for m in measured.of_input(number) if m.late]
        if not blocks:
            return memory
        epoch = source_lateness(blocks, memory.newest, self.inputs[number].granule)
        fresh = dict(memory.fresh)
        for source, more in epoch.degrees.items():
            fresh[source] = (fresh[source] + more if source in fresh else more).trimmed()
        largest = dict(memory.largest)
        for source, degree in epoch.largest.items():
            largest[source] = max(degree, largest.get(source, 0))
        oldest = [t for t in (memory.oldest, *(b[0].first for b in blocks)) if t is not None]
        ends = (*memory.ends, max(epoch.newest.values()))[-EPOCHS - 1 :]
        return LatenessMemory(dict(epoch.newest), min(oldest), largest, fresh, ends)

    def _renewed(
        self, inputs: Mapping[int, LatenessMemory], decisions: Sequence[DecisionMemory]
    ) -> dict[int, LatenessMemory]:
        """Return the lateness of all inputs without the late degrees that rules have used."""
        pairs = list(zip(self.decisions, decisions, strict=True))
        over = {n for one, after in pairs if after.ended for port in one.ports for n in port}
        over |= {n for n, one in self.inputs.items() if one.largest}
        calm = {n for one, after in pairs if after.calm for port in one.ports for n in port}
        renewed = dict(inputs)
        for n, memory in inputs.items():
            if n in over:
                renewed[n] = replace(memory, fresh={})
            elif n in calm:  # no rule ran: fade the late degrees as a rule does
                decay = self.inputs[n].decay
                faded = {s: degrees.scaled(decay) for s, degrees in memory.fresh.items()}
                renewed[n] = replace(memory, fresh=faded)
        return renewed

    def _with_slack(self, number: int, report: InputReport, memory: AdapterMemory) -> InputReport:
        """Return `report` with the chosen slacks of input `number`; the largest choice wins."""
        one = self.inputs.get(number)
        slack, slacks = 0, dict[SourceKey, int]()
        if one is not None and one.largest:
            largest = memory.inputs[number].largest
            slack = max(largest.values(), default=0)
            slacks = dict(largest) if one.by_source else {}
        for decision, after in zip(self.decisions, memory.decisions, strict=True):
            for port, wait in zip(decision.ports, after.slacks, strict=True):
                slack = max(slack, wait) if number in port else slack
            for (n, source), wait in after.source_slacks.items():
                if n == number:
                    slacks[source] = max(wait, slacks.get(source, 0))
        for window, chosen in zip(self.windows, memory.windows, strict=True):
            if number in window.inputs:
                most = self.most.get(window.operator, LONGEST)
                slack = max(slack, min(chosen.one.slack, most))
                for source, own in chosen.sources.items():
                    slacks[source] = max(min(own.slack, most), slacks.get(source, 0))
        return replace(report, slack=max(slack, self._of_joins(number, memory)), slacks=slacks)

    def _of_joins(self, number: int, memory: AdapterMemory) -> int:
        """Return the slack that joins need of input `number`; 0 if it leads to none."""
        return max(
            (
                min(wait, self.most.get(pair.operator, LONGEST))
                for pair, kept in zip(self.pairs, memory.pairs, strict=True)
                for port, wait in zip(pair.ports, kept.slacks, strict=True)
                if number in port
            ),
            default=0,
        )
