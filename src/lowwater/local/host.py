"""Runs a query in this process, epoch by epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lowwater.control import Controller, MemoryLog
from lowwater.errors import HostError, LowwaterError, PlanError
from lowwater.kernels import Packet, Step, WindowPlan, ingest_blocks, step
from lowwater.kernels.packets import PASSING, measure_packet, measures_of
from lowwater.query import Clock, Outcome, Outputs, Query, Run, Status
from lowwater.sources import BlockSource

DEFAULT_SHARDS = 2

Kernel: TypeAlias = Callable[[WindowPlan, int, Mapping[str, bytes], list[Packet]], Step]
"""What runs in a shard: (plan, shard, state, packets) -> what changes and what is sent on."""


class SystemClock:
    """The wall clock."""

    def now(self, epoch: int) -> int:
        """Return the time, in ticks."""
        return time.time_ns() // 1_000


class LocalHost:
    """Hosts kernels in one process."""

    def run(
        self,
        query: Query,
        source: Any,
        outputs: Outputs,
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
    ) -> Outcome:
        """Run a bounded query to its end."""
        if checkpoint is not None:
            raise PlanError("the local host keeps no checkpoint; leave checkpoint= out")
        plan = query.plan.with_shards(shards or DEFAULT_SHARDS)
        outputs = outputs.in_memory()
        epochs = LocalEpochs(query, plan, clock or SystemClock())
        try:
            for number, (blocks, last) in enumerate(until_the_end(blocks_of(source))):
                outputs.write(number, plan, epochs.run(blocks, last=last))
        except LowwaterError:
            raise
        except Exception as failure:
            raise HostError(f"the query failed: {failure!r}") from failure
        return Outcome.of(plan, outputs, epochs.status())

    def start(
        self, query: Query, source: Any, outputs: Outputs, *, checkpoint: str, trigger: str | None
    ) -> Run:
        """Refuse: a query that runs on needs Spark."""
        raise PlanError("the local host runs bounded queries only; use query.run()")


class LocalEpochs:
    """Runs epochs one after the other and keeps the state of every shard between them."""

    def __init__(self, query: Query, plan: WindowPlan, clock: Clock, kernel: Kernel = step) -> None:
        self.plan, self.clock, self.kernel = plan, clock, kernel
        self.log = MemoryLog()
        self.controller = Controller(self.log, query.tracker, query.pace)
        self.controller.begin(clock.now(0))
        self.state: list[dict[str, bytes]] = [{} for _ in range(plan.shards)]
        self.epoch = 0

    def run(self, blocks: Sequence[pa.Table], *, last: bool) -> list[Packet]:
        """Run one epoch over blocks in arrival order; return what the operators emitted."""
        before = self.log.before(self.epoch)
        packets: list[Packet] = []
        for block in ingest_blocks(self.plan, blocks, before, self.controller):
            packets += block
        if last:
            packets.append(measure_packet(0, len(blocks), {"last": True}))
        if not before.control.quiet:
            payload = before.control.to_bytes()
            packets += [Packet(s, -1, "control", payload) for s in range(self.plan.shards)]
        emitted = [p for p in packets if p.kind in PASSING]
        for shard, state in enumerate(self.state):
            mine = [p for p in packets if p.shard == shard and p.kind not in PASSING]
            if mine:
                done = self.kernel(self.plan, shard, state, mine)
                emitted += done.emissions
                for name, kept in done.changes.items():
                    if kept is None:
                        state.pop(name, None)
                    else:
                        state[name] = kept
        measures = [measures_of(p) for p in emitted if p.kind == "measure"]
        self.controller.decide(self.epoch, measures, self.clock.now(self.epoch))
        self.epoch += 1
        return emitted

    def status(self) -> Status:
        """Return where the query stands."""
        return Status.of(self.log.before(self.epoch), self.plan.axis)


def until_the_end(
    epochs: Iterator[list[pa.Table]],
) -> Iterator[tuple[list[pa.Table], bool]]:
    """Yield (blocks, whether they are the last), and an empty epoch that hears of the end."""
    held = next(epochs, [])
    for blocks in epochs:
        yield held, False
        held = blocks
    yield held, True
    yield [], True


def blocks_of(source: Any) -> Iterator[list[pa.Table]]:
    """Yield the blocks of each epoch."""
    if isinstance(source, list):
        yield from ([table] for table in source)
        return
    if not isinstance(source, BlockSource) or source.paced:
        raise PlanError(
            f"the local host reads feeds and lw.files, not {type(source).__name__}; "
            f"use host='spark'"
        )
    at = source.begin()
    while (end := source.reach(at)) != at:
        yield [source.read(b) for b in source.blocks(at, end)]
        at = end


HOST = LocalHost()
