"""The epoch loop of both hosts.

Every epoch takes these steps, in this order:

1. Open: the control log records the positions up to which the epoch reads.
2. Tasks: the host ingests the rows and runs all operators. Each shard writes one segment of state.
3. Pending outputs: the tables for the sinks are stored in the checkpoint.
4. Entry: the controller decides, and the control log appends the epoch's entry. After a restart,
   an epoch without an entry runs again, from the same positions and the same state.
5. Publish: the tables are written to the sinks, and their stored copies are deleted. A restart
   publishes stored tables whose epoch has an entry.
6. Status: the entry becomes `newest`, from which the status is computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lowwater.control.measures import EpochMeasure, InputMeasure, Measure, Measures, SegmentMeasure
from lowwater.control.prod import Prod
from lowwater.control.retune import RetuneRequest
from lowwater.dataflow.ingest import Foresee
from lowwater.engine.clock import Clock
from lowwater.engine.controller import Controller, Forecast
from lowwater.engine.drop_output import dropped_packets
from lowwater.engine.early_output import with_estimates
from lowwater.engine.entry import Entry, Opening, Positions
from lowwater.engine.fault_points import reached
from lowwater.engine.gap_fill import filled
from lowwater.engine.inputs import BlockInputs
from lowwater.engine.log import ControlLog
from lowwater.engine.pending_outputs import PendingOutputs
from lowwater.errors import HostError, located
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

    def recover(self, newest: Entry, *, opened: bool) -> None:
        """Check the state after `newest`, and delete segments that no entry needs.

        Raise StateError if a segment is missing or damaged, or belongs to an epoch after `newest`,
        unless that epoch is the next one and was `opened`.
        """

    def delete(self, unused: Sequence[SegmentMeasure]) -> None:
        """Delete the segments that are named as unused."""


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
    ) -> tuple[Entry, list[Packet]]:
        """Run the epoch after `before`; return the epoch's entry and all packets that it emitted.

        After the tasks, `measures()` returns the host's measurements, and `asked()` returns the
        user's requests that the controller decides on.
        """
        epoch, began = before.epoch + 1, time.perf_counter()
        log = self.controller.log
        forecast = Forecast(self.controller, before)
        emitted = self.tasks.run(before, intake, forecast, log.owner)
        reached("tasks")
        now = self.clock.now(epoch)
        packets = self._complete(before, emitted, now)
        staged = self.outputs.stage(epoch, packets, log.owner)
        reached("staged")
        in_order = sorted((p for p in packets if p.kind == "measure"), key=lambda p: p.seq)
        measured = Measures.of([*map(measure_of, in_order), *measures(), *self._took(epoch, began)])
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
        self.tasks.delete(measured.segments)
        reached("cleaned")
        return entry, packets

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
        return [EpochMeasure(took=self.clock.took(epoch, began))]  # type: ignore[attr-defined]

    @property
    def timed(self) -> bool:
        """Whether the duration of epochs is measured."""
        shedder = self.plan.shedder
        return shedder is not None and shedder.measures and hasattr(self.clock, "took")


class EpochLoop:
    """The loop that runs the epochs of a query, one at a time.

    `lock` is held while an epoch runs. `newest` is the entry of the last epoch whose outputs are
    published, and `rate` the rows per second of that epoch. `asked` are the requests that wait for
    a decision. `on_epoch` is called after each epoch, with its duration in seconds. Once `closed`
    is True, no epoch without rows begins. `worker` is the id of the thread that runs an epoch.
    """

    def __init__(self, epoch: Epoch, inputs: BlockInputs) -> None:
        self.epoch, self.inputs = epoch, inputs
        self.newest = self.log.newest() or Entry(-1)
        self.lock = threading.Lock()
        self.rate: float | None = None
        self.closed = False
        self.asked: list[Request] = []
        self.on_epoch: Callable[[float], None] | None = None
        self.worker: int | None = None

    @property
    def log(self) -> ControlLog:
        """The control log of the query."""
        return self.epoch.controller.log

    @property
    def positions(self) -> Positions:
        """The positions up to which the query has read."""
        return self.newest.positions or Positions(self.inputs.begin())

    def recover(self) -> None:
        """Take over the checkpoint: check its state, publish pending outputs, discard the rest."""
        try:
            self._recover()
        except OSError as problem:
            raise HostError(
                f"the query cannot start: {problem}. Once this file can be read and written, start "
                f"the query again: it continues where it was"
            ) from problem

    def _recover(self) -> None:
        log, outputs, now = self.log, self.epoch.outputs, self.epoch.clock.now(0)
        log.claim(now)
        reached("claimed")
        self.epoch.controller.begin(now)
        self.newest = log.newest() or self.newest
        self.epoch.tasks.recover(self.newest, opened=log.opened() is not None)
        outputs.take_over(log)
        if not log.released:
            outputs.publish_again(self.newest)
        outputs.discard(self.newest)
        reached("recovered")

    def release(self) -> None:
        """Record that this run has published all outputs, unless its last epoch failed."""
        with self.lock:
            newest = self.log.newest()
            if self.log.owner and newest is not None and newest.epoch == self.newest.epoch:
                self.log.release()
                reached("released")
                if self.log.released:
                    self.epoch.outputs.forget(newest)

    # -- what an epoch reads ----------------------------------------------------------------------

    def take_blocks(self) -> bool:
        """Repeat the unfinished epoch or run an epoch over new blocks; return whether one ran."""
        with self.lock:
            if self._repeat():
                return True
            positions = self._reach(self.positions)
            if positions == self.positions or self._opened is not None:
                return False
            self._run(positions, self._between(positions))
            return True

    def take_blocks_or_due(self, *, by_clock: bool) -> bool:
        """Run an epoch over new blocks, or a due epoch without rows; return whether an epoch ran.

        An epoch without rows is also due at the end of all inputs.
        """
        if self.take_blocks():
            return True
        return (self.over or self.due(by_clock=by_clock)) and self.take_nothing()

    def take_nothing(self, *, ending: bool = False) -> bool:
        """Run an epoch without rows; return whether an epoch ran.

        No epoch runs while an unfinished epoch waits for Spark to repeat its micro-batch.
        """
        with self.lock:
            return self._take_nothing(ending=ending)

    def take_nothing_if_due(self, *, by_clock: bool) -> None:
        """Run an epoch without rows if control, a request or the clock requires one."""
        with self.lock:
            if not self.closed and self.due(by_clock=by_clock):
                self._take_nothing()

    def due(self, *, by_clock: bool) -> bool:
        """Return whether control, a request or the clock requires an epoch even without rows."""
        if not self.newest.quiet or self.asked:
            return True
        now = self.epoch.clock.now(self.newest.epoch + 1)
        return by_clock and self.epoch.controller.due(self.newest, now)

    @property
    def over(self) -> bool:
        """Whether all inputs are exhausted: no input will have another block."""
        exhausted = self.inputs.exhausted(self.positions.inputs)
        return len(exhausted) == len(self.epoch.plan.flow.inputs)

    def _take_nothing(self, *, ending: bool = False) -> bool:
        if self._repeat():
            return True
        if self._opened is not None:
            return False
        self._run(self.positions, Intake(), ending=ending)
        return True

    @property
    def _opened(self) -> Positions | None:
        """The positions of the unfinished epoch; None if each opened epoch has an entry."""
        opening = self.log.opened()
        return None if opening is None else opening.positions

    def _repeat(self) -> bool:
        """Repeat the unfinished epoch if it has no micro-batch; return whether an epoch ran."""
        opened = self._opened
        if opened is None or opened.batch != self.positions.batch:
            return False
        self._run(opened, self._between(opened))
        return True

    def _reach(self, at: Positions) -> Positions:
        """Return the positions with all available blocks, and the micro-batch of `at`."""
        return replace(at, inputs=self.inputs.available(self.positions.inputs))

    def _between(self, end: Positions) -> Intake:
        return Intake(self.inputs.between(self.positions.inputs, end.inputs))

    # -- how it runs ------------------------------------------------------------------------------

    def _run(self, positions: Positions, intake: Intake, *, ending: bool = False) -> None:
        number, began = self.newest.epoch + 1, time.perf_counter()
        opening = Opening(number, positions, self.epoch.clock.now(number))
        if self.log.open(opening).positions != positions:
            raise HostError(
                f"epoch {number} was opened for other rows than the sources now offer; start the "
                f"query again with the sources that it had"
            )
        reached("opened")
        rows = self.newest.accounts.rows
        asked: list[Request] = []

        def take_requests() -> list[Request]:
            asked.extend(self.asked)
            return asked

        self.worker = threading.get_ident()
        try:
            with located(f"epoch {number}"):
                self.newest, _ = self.epoch.run(
                    self.newest,
                    intake,
                    lambda: self._measures(positions),
                    asked=take_requests,
                    ending=ending,
                    positions=positions,
                )
        finally:
            self.worker = None
        del self.asked[: len(asked)]
        took = time.perf_counter() - began
        self.rate = (self.newest.accounts.rows - rows) / took
        if self.on_epoch is not None:
            self.on_epoch(took)

    def _measures(self, positions: Positions) -> list[Measure]:
        """Return measurements of ended inputs, and of waiting rows if durations are measured."""
        at = positions.inputs
        ended = [InputMeasure(n, last=True) for n in self.inputs.exhausted(at)]
        return [*ended, *(self.inputs.waiting(at) if self.epoch.timed else ())]
