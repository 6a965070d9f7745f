"""The local host, which runs queries in this process, and a runner of single epochs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lowwater.control.measures import InputMeasure
from lowwater.dataflow.run_operator import StepFunction, step
from lowwater.engine.clock import Clock
from lowwater.engine.epoch import Epoch, Intake, Request
from lowwater.engine.failure import starting
from lowwater.engine.host import Outcome, outcomes
from lowwater.engine.log import ControlLog, MemoryLog
from lowwater.engine.pending_outputs import Ahead, PendingOutputs
from lowwater.engine.run import Run
from lowwater.engine.status import Status
from lowwater.errors import PlanError
from lowwater.local.run import LocalRun
from lowwater.local.tasks import LocalTasks, MemoryState
from lowwater.operators.packet import Packet
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sinks.sink import Outputs
from lowwater.sources.source import BlockSource, SourceBlock

Sized: TypeAlias = tuple[pa.Table, int | None]
"""A block, and its number of rows if the source knows it before reading."""
Blocks = Sequence[pa.Table | Sized]
"""The blocks of one input in one epoch."""


class LocalHost:
    """The host that runs queries in this process."""

    def run(
        self,
        assembly: PhysicalPlan,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
        ahead: Ahead | None = None,
    ) -> dict[str, Outcome]:
        """Run a query to the end of its bounded streams; return the outcome of each output."""
        sinks = {name: sink.in_memory() for name, sink in outputs.items()}
        with starting():
            running = LocalRun(
                assembly,
                sources,
                sinks,
                checkpoint,
                clock=clock,
                shards=shards,
                bounded=True,
                ahead=ahead,
            )
        running.finish()
        return outcomes(running, sinks)

    def start(
        self,
        assembly: PhysicalPlan,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        trigger: str | None,
        clock: Clock | None = None,
        ahead: Ahead | None = None,
    ) -> Run:
        """Start a continuous run; without a checkpoint, state and control log are in memory."""
        with starting():
            running = LocalRun(
                assembly, sources, outputs, checkpoint, clock=clock, trigger=trigger, ahead=ahead
            )
        running.begin()
        return running


class LocalEpochs:
    """A runner of single epochs over tables in memory, for tests and experiments.

    `epoch` is the number of the next epoch, `log` the control log, `state` the buckets of every
    shard of every operator.
    """

    def __init__(self, assembly: PhysicalPlan, clock: Clock, kernel: StepFunction = step) -> None:
        self.flow, self.adapter, self.clock = assembly.flow, assembly.adapter, clock
        self.needs = assembly.needs
        self.memory = MemoryState(self.flow)
        readers = dict.fromkeys(range(len(self.flow.inputs)), _TableReader())
        tasks = LocalTasks(self.flow, readers, self.memory, kernel)
        self.log: ControlLog = MemoryLog()
        self.steps = Epoch(assembly, self.log, tasks, PendingOutputs({}, {}), clock)
        self.controller = self.steps.controller
        self.controller.begin(clock.now(0))
        self.epoch = 0

    @property
    def state(self) -> list[list[dict[str, bytes]]]:
        """The buckets of every shard: `state[operator][shard]`."""
        return self.memory.shards

    @state.setter
    def state(self, shards: list[list[dict[str, bytes]]]) -> None:
        self.memory.shards = shards

    def run(
        self,
        blocks: Sequence[Blocks],
        *,
        last: Sequence[bool],
        asked: Sequence[Request] = (),
        waiting: int | None = None,
    ) -> list[Packet]:
        """Run one epoch over the blocks of each input; return the packets that the epoch emits.

        `waiting` is the number of rows that the first input has not delivered yet, if known.
        """
        sized = [[b if isinstance(b, tuple) else (b, None) for b in mine] for mine in blocks]
        given = {n: [SourceBlock(t, rows=rows) for t, rows in mine] for n, mine in enumerate(sized)}
        ended = [InputMeasure(n, last=True) for n, is_last in enumerate(last) if is_last]
        ended += [] if waiting is None else [InputMeasure(0, waiting=waiting)]
        before = self.log.before(self.epoch)
        _, packets = self.steps.run(before, Intake(given), lambda: ended, asked=lambda: asked)
        self.epoch += 1
        return packets

    def status(self, behind: Collection[int] | None = None) -> Status:
        """Return the status of the query, or only of the operators with numbers in `behind`."""
        newest = self.log.before(self.epoch)
        return Status.of(newest, self.flow, behind=behind, adapter=self.adapter, needs=self.needs)


class _TableReader:
    """A reader of blocks that are already tables."""

    def read(self, block: SourceBlock) -> pa.Table:
        return block.what


def until_the_end(
    inputs: Sequence[Iterator[Sequence[Sized]]],
) -> Iterator[tuple[list[Sequence[Sized]], list[bool]]]:
    """Yield, for each epoch, two lists: the blocks of each input, and whether each input ends.

    The last epoch has no blocks: it passes the end of the streams to the operators.
    """
    ahead: list[Sequence[Sized] | None] = [next(one, []) for one in inputs]
    while any(blocks is not None for blocks in ahead):
        now = [blocks or [] for blocks in ahead]
        ahead = [
            None if b is None else next(one, None) for b, one in zip(ahead, inputs, strict=True)
        ]
        yield now, [blocks is None for blocks in ahead]
    yield [[] for _ in inputs], [True for _ in inputs]


def blocks_of(source: list[pa.Table] | BlockSource) -> Iterator[Sequence[Sized]]:
    """Yield the blocks of a bounded source, one sequence of blocks per epoch."""
    if isinstance(source, list):
        yield from ([(table, None)] for table in source)
        return
    if source.paced:
        raise PlanError(
            f"a {type(source).__name__} delivers rows as time passes, so its epochs cannot be "
            f"listed; run the query with query.run() or query.start()"
        )
    at = source.begin()
    while (end := source.available(at)) != at:
        yield [(source.read(b), b.rows) for b in source.blocks(at, end)]
        at = end


HOST = LocalHost()
