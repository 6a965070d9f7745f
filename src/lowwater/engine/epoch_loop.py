"""The epoch loop of both hosts.

Every epoch takes these steps, in this order:

1. Open: the control log records the positions up to which the epoch reads, and the clock.
2. Tasks: the host ingests the rows and runs all operators. Each shard writes one segment of state.
3. Pending outputs: the tables for the sinks are stored in the checkpoint.
4. Entry: the controller decides, and the control log appends the epoch's entry. After a restart,
   an epoch without an entry runs again, from the same positions and the same state.
5. Publish: the tables are written to the sinks. A restart publishes the tables of the newest entry
   again.
6. Clean: state and stored tables that no kept entry names are deleted.
7. Status: the entry becomes `newest`, from which the status is computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from lowwater.control.measures import InputMeasure, Measure
from lowwater.engine.entry import Entry, Opening, Positions
from lowwater.engine.epoch import Epoch, Intake, Request
from lowwater.engine.failure import raised
from lowwater.engine.fault_points import reached
from lowwater.engine.inputs import BlockInputs
from lowwater.engine.log import ControlLog
from lowwater.errors import HostError, LowwaterError, located, places


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
        except LowwaterError:
            raise
        except Exception as problem:
            if places(problem) or not isinstance(problem, OSError):  # a sink
                raise raised(problem) from problem
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
        self.epoch.tasks.recover(log)
        outputs.take_over(log)
        if not log.released:
            outputs.publish_again(self.newest)
        outputs.discard(log)
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
        opening = self.log.open(Opening(number, positions, time.time_ns() // 1_000))
        if opening.positions != positions:
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
                    opened=opening.clock,
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
