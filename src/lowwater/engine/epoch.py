"""The steps of an epoch after its opening: tasks, pending outputs, entry, publication."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lowwater.control.measures import EpochMeasure, InputMeasure, Measure, Measures, SegmentMeasure
from lowwater.control.prod import Prod
from lowwater.control.retune import RetuneRequest
from lowwater.dataflow.ingest import Foresee
from lowwater.dataflow.input_block import file_names
from lowwater.engine.clock import Clock
from lowwater.engine.controller import Controller
from lowwater.engine.drop_output import dropped_packets
from lowwater.engine.early_output import with_estimates
from lowwater.engine.entry import Entry, Positions
from lowwater.engine.fault_points import reached
from lowwater.engine.forecast import Forecast
from lowwater.engine.future_guard import jumps, new_limits
from lowwater.engine.gap_fill import filled
from lowwater.engine.log import ControlLog
from lowwater.engine.need_news import answered
from lowwater.engine.pending_outputs import PendingOutputs
from lowwater.errors import ROWS_ASIDE, ROWS_OPEN, add_place, places
from lowwater.operators.packet import Packet, measure_of
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sources.source import SourceBlock

Request = Prod | RetuneRequest
"""A request that the user made with `run.prod()` or `run.retune()`."""


@dataclass(frozen=True)
class Intake:
    """The blocks that an epoch reads, by input number."""

    blocks: Mapping[int, Sequence[SourceBlock]] = field(default_factory=dict)


class Tasks(Protocol):
    """The component of a host that runs the tasks of an epoch."""

    def run(self, before: Entry, intake: Intake, foresee: Foresee, owner: str) -> list[Packet]:
        """Run the epoch after `before`, write its state segments, and return the emitted packets.

        For an input with consistent slack, `foresee` returns the context of its next block. `owner`
        is the token of the run, which the names of the segments contain.
        """

    def recover(self, log: ControlLog) -> None:
        """Check the state after the newest entry of `log`, and delete segments that no entry needs.

        Raise StateError if a segment is missing or damaged, or belongs to a later epoch, unless
        that epoch is the next one and was opened.
        """

    def settle(self, written: Sequence[SegmentMeasure]) -> None:
        """Keep the state that the epoch has written, and delete the segments named as unused.

        Called after the epoch's entry is appended. Until then, the tasks may run again.
        """


class Epoch:
    """The steps of an epoch after its opening: tasks, pending outputs, entry, publication."""

    def __init__(
        self,
        plan: PhysicalPlan,
        log: ControlLog,
        tasks: Tasks,
        outputs: PendingOutputs,
        clock: Clock,
    ) -> None:
        self.plan, self.tasks, self.outputs, self.clock = plan, tasks, outputs, clock
        self.completed = 0
        self.controller = Controller.of(plan, log)

    def run(
        self,
        before: Entry,
        intake: Intake,
        measures: Callable[[], Sequence[Measure]] = tuple,
        *,
        asked: Callable[[], Sequence[Request]] = tuple,
        ending: bool = False,
        positions: Positions | None = None,
        opened: int | None = None,
    ) -> tuple[Entry, list[Packet]]:
        """Run the epoch after `before`; return the epoch's entry and all packets that it emitted.

        After the tasks, `measures()` returns the host's measurements, and `asked()` returns the
        user's requests that the controller decides on. `opened` is the machine's clock when the
        epoch was opened.
        """
        epoch, began = before.epoch + 1, time.perf_counter()
        log = self.controller.log
        emitted, jumped = self._run_tasks(before, intake, opened)
        reached("tasks")
        now = self.clock.now(epoch)
        packets = self._complete(before, emitted, now)
        staged = self.outputs.stage(epoch, packets, log.owner)
        reached("staged")
        in_order = _measures(packets)
        measured = Measures.of(
            [
                *map(measure_of, in_order),
                *jumped,
                *measures(),
                *self._took(epoch, began),
                *answered(self.plan.needs, packets),
            ]
        )
        entry = self.controller.decide(
            epoch,
            measured,
            now,
            ending=ending,
            positions=positions,
            outputs=staged.manifest,
            pending=staged.file,
            asked=asked(),
        )
        reached("appended")
        self.outputs.publish(entry, staged.tables)
        reached("published")
        self.outputs.forget(before)
        self.tasks.settle(measured.segments)
        reached("cleaned")
        self.completed += 1
        return entry, packets

    def _run_tasks(
        self, before: Entry, intake: Intake, opened: int | None
    ) -> tuple[list[Packet], list[InputMeasure]]:
        """Run the tasks; return the packets, and measurements of inputs that have jumped.

        If the epoch's rows change the limit of times in the future, the tasks run again.
        """
        log, flow = self.controller.log, self.plan.flow

        def run(limits: Mapping[int, int]) -> list[Packet]:
            context = replace(before.standing, opened=opened, limits=limits)
            now = replace(before, standing=replace(context, set_aside=log.set_aside))
            try:
                return self.tasks.run(now, intake, Forecast(self.controller, now), log.owner)
            except Exception as failure:
                _add_rows(failure, intake, log)
                raise

        emitted = run({})
        if all(start.max_ahead is None for start in flow.inputs):
            return emitted, []
        limits = new_limits(flow, Measures.of(map(measure_of, _measures(emitted))))
        if not limits:
            return emitted, []
        return run(limits), jumps(limits, before.epoch + 1)

    def _complete(self, before: Entry, emitted: Sequence[Packet], now: int) -> list[Packet]:
        """Return `emitted` with estimates in place of answers, plus dropped and filled windows."""
        flow = self.plan.flow
        estimated = with_estimates(self.plan.prodder, before, flow, emitted, now)
        packets = [*estimated, *dropped_packets(before)]
        return [*packets, *filled(self.plan.shedder, before, flow, packets)]

    def _took(self, epoch: int, began: float) -> list[Measure]:
        """Return a measurement of the epoch's duration; empty unless durations are measured."""
        if not self.timed:
            return []
        took = self.clock.took(epoch, began)  # type: ignore[attr-defined]
        return [EpochMeasure(took=took, run=self.completed)]

    @property
    def timed(self) -> bool:
        """Whether the duration of epochs is measured."""
        shedder = self.plan.shedder
        wanted = self.plan.needs is not None or (shedder is not None and shedder.measures)
        return wanted and hasattr(self.clock, "took")


def _add_rows(failure: Exception, intake: Intake, log: ControlLog) -> None:
    """Add to `failure` the files of the epoch, unless it names one, and what became of the rows."""
    if log.set_aside:
        add_place(failure, ROWS_ASIDE)
        return
    if not any("file" in place for place in places(failure)):
        add_place(failure, file_names(b.path for blocks in intake.blocks.values() for b in blocks))
    if log.opened() is not None:
        add_place(failure, ROWS_OPEN)


def _measures(packets: Sequence[Packet]) -> list[Packet]:
    """Return the packets with measurements, in arrival order."""
    return sorted((p for p in packets if p.kind == "measure"), key=lambda p: p.seq)
