"""The controller: it decides after every epoch and appends the epoch's entry to the control log.

Decisions follow from the previous entry, the epoch's measurements and requests, and the clock. A
logged entry is final: the controller never decides again on an epoch that has an entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowwater.control.context import EpochContext, InputProgress, SlackReference
from lowwater.control.hold import HeldInterval, HoldDecision
from lowwater.control.measures import InputMeasure, Measures
from lowwater.control.message import ControlMessage
from lowwater.control.prod import Prod
from lowwater.control.report import EpochReport, InputReport, input_report
from lowwater.control.retune import Override, RetuneRequest, in_force, settled
from lowwater.control.watermark import Watermarks, latest
from lowwater.dataflow.graph import Dataflow
from lowwater.early.prodder import EarlyMemory, Prodder
from lowwater.engine.accounts import accounts_after
from lowwater.engine.entry import Accounts, Entry, OutputTable, PendingFile, Positions
from lowwater.engine.log import ControlLog
from lowwater.engine.need_news import limited, loads, need_after, requests
from lowwater.engine.slack_references import memories, newest_at_ports, slack_references
from lowwater.engine.state_store import segments_after
from lowwater.errors import StateError
from lowwater.needs.policy import NeedPolicy
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.shedding.shed_memory import ShedMemory
from lowwater.shedding.shedder import LoadShedder
from lowwater.sidelining.sideliner import SidelineMemory, Sideliner
from lowwater.watermarks.adaptive.adapter import AdapterMemory, SlackAdapter
from lowwater.watermarks.tracker import Gauge

Control = dict[int, ControlMessage]
"""The control message to each port, by port number."""


@dataclass(eq=False)
class Controller:
    """The component that turns the measurements of epochs into entries of the control log."""

    log: ControlLog
    gauges: Sequence[Gauge]
    flow: Dataflow
    prodder: Prodder | None = None
    sideliner: Sideliner | None = None
    adapter: SlackAdapter | None = None
    shedder: LoadShedder | None = None
    needs: NeedPolicy | None = None

    @classmethod
    def of(cls, plan: PhysicalPlan, log: ControlLog) -> Controller:
        """Return a controller with the policies of `plan` that appends entries to `log`."""
        policies = plan.prodder, plan.sideliner, plan.adapter, plan.shedder, plan.needs
        return cls(log, plan.gauges, plan.flow, *policies)

    def begin(self, now: int) -> None:
        """Append the entry before the first epoch, unless the log has entries already."""
        references = dict.fromkeys(self._measured, SlackReference())
        self.log.begin(EpochContext(wall=self._wall(now), references=references))

    @property
    def _measured(self) -> tuple[int, ...]:
        """The ports at which needed slacks are measured."""
        return () if self.adapter is None else self.adapter.ports

    @property
    def settings(self) -> dict[str, Any]:
        """The values of the parameters that `run.retune()` can change, by name."""
        policies = (self.prodder, self.adapter, self.shedder, self.needs)
        return {n: v for one in policies if one is not None for n, v in one.settings.items()}

    def tuned(self, overrides: Mapping[str, Override]) -> Controller:
        """Return the controller with the retuned parameter values in `overrides`."""
        return self.having(in_force(overrides, self.settings))

    def having(self, values: Mapping[str, Any]) -> Controller:
        """Return the controller with the parameter values in `values`, by name."""
        if not values:
            return self
        return replace(
            self,
            prodder=self.prodder and self.prodder.tuned(values),
            adapter=self.adapter and self.adapter.tuned(values),
            shedder=self.shedder and self.shedder.tuned(values),
            needs=self.needs and self.needs.tuned(values),
        )

    def decide(
        self,
        epoch: int,
        measures: Measures,
        now: int,
        *,
        ending: bool = False,
        positions: Positions | None = None,
        outputs: tuple[OutputTable, ...] = (),
        pending: PendingFile | None = None,
        asked: Sequence[Prod | RetuneRequest] = (),
    ) -> Entry:
        """Append and return the entry of an epoch, or return the entry that the log already has.

        `asked` are the prods and new parameter values that the user requested during the epoch.
        `ending` ends all inputs.
        """
        existing = self.log.read(epoch)
        if existing is not None:
            return existing
        before = self.log.before(epoch)
        if before.epoch != epoch - 1:
            raise StateError(
                f"the control log has no entry of epoch {epoch - 1}, so epoch {epoch} cannot be "
                f"decided; restore the checkpoint from a backup, or start with a new one"
            )
        overrides = settled(before.overrides, asked, self.settings, epoch)
        prods = [one for one in asked if isinstance(one, Prod)]
        entry = self.tuned(overrides)._decide(  # noqa: SLF001
            before, measures, now, ending=ending, asked=prods
        )
        return self.log.append(
            replace(
                entry,
                positions=positions,
                outputs=outputs,
                pending=pending,
                tag=self.log.tag,
                segments=segments_after(before.segments, measures.segments),
                overrides=overrides,
            )
        )

    def _decide(
        self, before: Entry, measured: Measures, now: int, *, ending: bool, asked: Sequence[Prod]
    ) -> Entry:
        """Return the entry of the epoch that follows `before`."""
        memory, inputs, adapting = self._advance(before, measured, now, ending=ending)
        accounts = accounts_after(before, measured, len(self.gauges), self.flow.contradictable)
        standing = before.standing
        report = EpochReport(
            inputs,
            measured,
            now,
            asked,
            answered=next((c.prods for c in before.control.values() if c.prods), ()),
            ports=standing.ports,
            unheld=() if self.sideliner is None else self.flow.reach(inputs),
            held=standing.held,
            dropped=standing.dropped,
            clock=_early(before).clock,
            open=_something_open(accounts),
            state_bytes=sum(shard.bytes for shard in accounts.shards.values()),
            ended=all(i.ended for i in inputs),
        )
        need = need_after(
            self.needs,
            before,
            report,
            self.flow,
            slacks=(self.adapter, adapting),
            early=self.prodder,
        )
        sideline: SidelineMemory | None = None
        hold = HoldDecision()
        if self.sideliner is not None:
            sideline, hold = self.sideliner.advance(
                before.sideline or self.sideliner.begin(), report
            )
        # Windows stay dropped even if the query restarts without a shedder: their rows are gone.
        shed: ShedMemory | None = None
        dropped = standing.dropped
        if self.shedder is not None:
            shedder = self.shedder.tuned(loads(self.needs, before))
            shed, dropped = shedder.advance(before.shed or shedder.begin(), report)
        ports, risen = self._ports(before, inputs, hold.held)
        report = replace(report, closing=ports)
        asking = self.having(requests(self.needs, need))
        early, control = asking._with_prods(  # noqa: SLF001
            _with_releases(hold, risen), before, report
        )
        in_force = tuple(p.only_above() for p in ports)
        return Entry(
            before.epoch + 1,
            control,
            EpochContext(
                tuple(inputs),
                in_force,
                self._wall(now),
                hold.held,
                dropped,
                references=slack_references(self.flow, self.gauges, before, self._measured),
            ),
            tuple(memory),
            accounts,
            ended=report.ended,
            early=early,
            adapting=adapting,
            sideline=sideline,
            shed=shed,
            need=need,
            clock=now,
        )

    def _with_prods(
        self, control: Control, before: Entry, report: EpochReport
    ) -> tuple[EarlyMemory | None, Control]:
        """Return (new memory of early results, `control` with the prods that are due)."""
        if self.prodder is None:
            return None, control
        memory, prods = self.prodder.advance(_early(before), report)
        if not prods:
            return memory, control
        as_if = self.flow.as_if_ended(report.inputs, prods)
        arrived = self.flow.foreseen(self.prodder.foreseen(memory, report.now))
        return memory, {
            port: replace(
                control.get(port, ControlMessage()),
                prods=prods,
                as_if=as_if[port],
                arrived=arrived[port],
            )
            for port in range(len(as_if))
        }

    def foresee(self, entry: Entry, measured: InputMeasure) -> Entry:
        """Return `entry` advanced by one block of an input, as if the block were a separate epoch.

        `measured` are the block's measurements. The result does not depend on how blocks are
        divided into epochs.
        """
        tuned = self.tuned(entry.overrides)
        memory, inputs, adapting = tuned._advance(entry, Measures((measured,)), now=0)  # noqa: SLF001
        standing = replace(entry.standing, inputs=tuple(inputs))
        return replace(entry, memory=tuple(memory), standing=standing, adapting=adapting)

    def due(self, entry: Entry, now: int) -> bool:
        """Return whether the clock alone would raise a watermark, cause a prod or release rows."""
        if entry.ended or not _something_open(entry.accounts):
            return False
        return self.tuned(entry.overrides)._due(entry, now)  # noqa: SLF001

    def _due(self, entry: Entry, now: int) -> bool:
        standing = entry.standing
        report = EpochReport(standing.inputs, Measures(), now, closing=standing.ports)
        if self.prodder is not None and self.prodder.due(_early(entry), report):
            return True
        if self.needs is not None and self.needs.due(entry.need or self.needs.begin(), now):
            return True
        sideline = entry.sideline
        if self.sideliner and sideline and self.sideliner.due(sideline):
            return True
        _, inputs, _ = self._advance(entry, Measures(), now)
        return bool(self._ports(entry, inputs, entry.standing.held)[1])

    def _wall(self, now: int) -> int | None:
        return now if any(g.wall for g in self.gauges) else None

    def _ports(
        self, before: Entry, inputs: Sequence[InputProgress], held: Sequence[HeldInterval]
    ) -> tuple[list[Watermarks], Control]:
        """Return (watermarks of each port, a message to each port whose watermarks rose)."""
        reached = self.flow.reach(inputs, held)
        known = before.standing.ports or [Watermarks()] * len(reached)
        ports = [old.raised(new) for old, new in zip(known, reached, strict=True)]
        news = [new.news(old) for old, new in zip(known, ports, strict=True)]
        risen = {port: marks for port, marks in enumerate(news) if marks != Watermarks()}
        return ports, {port: ControlMessage(marks) for port, marks in risen.items()}

    def _inputs(self, before: Entry) -> Sequence[InputProgress]:
        return before.standing.inputs or [InputProgress() for _ in self.gauges]

    def _advance(
        self, before: Entry, measured: Measures, now: int, *, ending: bool = False
    ) -> tuple[list[Any], list[InputProgress], AdapterMemory | None]:
        """Return (policy memory by input, progress by input, memory of adaptive slack)."""
        memory, progress = [], []
        remembered = memories(self.gauges, before)
        reports, adapting = self._reports(before, measured, remembered)
        for number, (gauge, known, report) in enumerate(
            zip(self.gauges, self._inputs(before), reports, strict=True)
        ):
            kept, raw = gauge.tracker.advance(remembered[number], report, now)
            marks = known.marks.raised(raw).only_above()
            by_clock = not report.rows and report.marks == Watermarks()
            if by_clock and not _worth_it(gauge.grain, before, known.marks, marks):
                marks = known.marks
            last = any(m.last for m in measured.of_input(number))
            memory.append(kept)
            newest, ended = latest(known.newest, report.newest), ending or known.ended or last
            jumps = known.jumps + any(m.jumped for m in measured.of_input(number))
            progress.append(InputProgress(marks, newest, ended, jumps))
        return memory, progress, adapting

    def _reports(
        self, before: Entry, measured: Measures, trackers: Sequence[Any]
    ) -> tuple[Sequence[InputReport], AdapterMemory | None]:
        """Return (a report with the slack for each input, the memory of adaptive slack)."""
        known = self._inputs(before)
        mine = (measured.of_input(n) for n in range(len(known)))
        each = [replace(input_report(m), out=k.marks.low) for m, k in zip(mine, known, strict=True)]
        if self.adapter is None:
            return each, None
        newest = newest_at_ports(self.flow, self.gauges, known, trackers, each)
        memory, with_slack = limited(self.adapter, self.needs, before).advance(
            before.adapting or self.adapter.begin(),
            each,
            measured,
            newest=newest,
            references=before.standing.references,
        )
        return with_slack, memory


def _worth_it(grain: int, before: Entry, known: Watermarks, moved: Watermarks) -> bool:
    """Return whether to send watermarks that only the clock has raised, from `known` to `moved`."""
    if not grain:
        return True
    far = moved.low is not None and (known.low is None or moved.low - known.low >= grain)
    finer = moved.sources != known.sources or moved.ranges != known.ranges
    return _something_open(before.accounts) and (far or finer)


def _something_open(accounts: Accounts) -> bool:
    return any(shard.cells for shard in accounts.shards.values())


def _early(entry: Entry) -> EarlyMemory:
    return entry.early or EarlyMemory()


def _with_releases(hold: HoldDecision, control: Control) -> Control:
    """Return `control` with the number of held rows that each port must release."""
    released = {
        port: ControlMessage(control.get(port, ControlMessage()).marks, release=release)
        for port, release in hold.release.items()
    }
    return control | released
