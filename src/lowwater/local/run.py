"""The run of a query in this process, one epoch after the other.

Epochs work as on the Spark host: sources are read as they grow, prods are answered, and control or
the clock may require an epoch without rows. With a checkpoint, a restart continues where the run
stopped or was killed; without a checkpoint, state and control log are in memory.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from lowwater.dataflow.graph import Dataflow
from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.clock import Clock, SystemClock
from lowwater.engine.epoch import Epoch
from lowwater.engine.epoch_loop import EpochLoop
from lowwater.engine.failure import raised
from lowwater.engine.inputs import BlockInputs, TableSource, in_checkpoint
from lowwater.engine.log import ControlLog, MemoryLog
from lowwater.engine.outputs import plan_writers
from lowwater.engine.pending_outputs import Ahead, PendingOutputs
from lowwater.engine.run import Run
from lowwater.engine.state_store import StateFolder
from lowwater.errors import HostError
from lowwater.local.tasks import LocalTasks, MemoryState, State, StoredState
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sinks.sink import Outputs
from lowwater.ticks import TICKS_PER_SECOND, ticks

DEFAULT_SHARDS = 2
POLL_SECONDS = 0.02
"""The pause before sources without new rows are read again."""


class LocalRun(Run):
    """A run in this process: `begin` runs the epochs in a new thread, `finish` in the caller's."""

    def __init__(
        self,
        assembly: PhysicalPlan,
        sources: Sequence[object],
        outputs: Mapping[str, Outputs],
        checkpoint: str | None = None,
        *,
        clock: Clock | None = None,
        shards: int | None = None,
        trigger: str | None = None,
        bounded: bool = False,
        ahead: Ahead | None = None,
    ) -> None:
        self.by_clock = clock is None
        self.pause = 0.0 if trigger is None else ticks(trigger, name="trigger") / TICKS_PER_SECOND
        self.stopping = threading.Event()
        self.thread: threading.Thread | None = None
        self.files = ExitStack()
        folder = None if checkpoint is None else Checkpoint.at(checkpoint)
        wanted = shards or DEFAULT_SHARDS
        known = None if folder is None else folder.belongs_to(assembly, wanted)
        plan = assembly.with_shards(wanted if known is None else known.shards)
        flow = plan.flow
        inputs = self._inputs(sources, flow, folder, bounded=bounded)
        log: ControlLog = MemoryLog(secrets.token_hex(4))
        state: State = MemoryState(flow)
        pending = PendingOutputs(plan_writers(plan), outputs, query=secrets.token_hex(8))
        if folder is not None and known is not None:
            log = folder.log(known.id)
            state = StoredState(flow, StateFolder(folder.state, known.id))
            stored, root = folder.outputs, folder.root
            pending = PendingOutputs(
                plan_writers(plan), outputs, stored, known.id, checkpoint=root, ahead=ahead
            )
        tasks = LocalTasks(flow, inputs.readers, state)
        super().__init__(
            EpochLoop(Epoch(plan, log, tasks, pending, clock or SystemClock()), inputs)
        )
        try:
            self.epochs.recover()
        except BaseException:
            self.files.close()
            raise

    def _inputs(
        self, sources: Sequence[object], flow: Dataflow, folder: Checkpoint | None, *, bounded: bool
    ) -> BlockInputs:
        """Return the inputs of `sources`, prepared for reading."""
        if folder is None:
            ready = [TableSource(s) if isinstance(s, list) else s for s in sources]
            if all(isinstance(s, TableSource) for s in ready):
                return BlockInputs.of(ready, "", bounded=bounded)  # tables need no folder
            parent = self.files.enter_context(
                TemporaryDirectory(prefix="lowwater-", ignore_cleanup_errors=True)
            )
            return BlockInputs.of(ready, parent, bounded=bounded)
        stored = [
            in_checkpoint(source, flow.inputs[number].schema, folder, number)
            for number, source in enumerate(sources)
        ]
        return BlockInputs.of(stored, folder.source, bounded=bounded)

    # -- epochs -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a thread that runs the epochs."""
        # Not a daemon: DuckDB closes its connections as the thread ends, which must not happen
        # after the interpreter has shut down.
        self.thread = threading.Thread(target=self._follow)
        self.thread.start()

    def finish(self) -> None:
        """Run to the end of bounded streams, including the epoch that closes the last windows."""
        self._follow()
        self._raise_failure()
        if not self.epochs.newest.done:
            raise HostError("the query was stopped before its end; run it again to continue")

    def _follow(self) -> None:
        try:
            with self.files:
                while not self.stopping.is_set() and not self.epochs.newest.done:
                    began = time.monotonic()
                    ran = self.epochs.take_blocks_or_due(by_clock=self.by_clock)
                    pause = self.pause if ran else POLL_SECONDS
                    self.stopping.wait(max(0.0, pause - (time.monotonic() - began)))
                self.epochs.release()
        except Exception as failure:  # noqa: BLE001  # `wait` and `finish` raise it
            self.failure = failure

    # -- the handle -------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop after the running epoch."""
        self.stopping.set()
        # A sink that stops its own query runs in the thread, which cannot wait for itself.
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the query ends, at most `seconds`; return whether the query has ended."""
        if self.thread is None:
            return True
        self.thread.join(seconds)
        self._raise_failure()
        return not self.thread.is_alive()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise raised(self.failure) from self.failure
