"""Runs a query in this process, epoch by epoch."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa

from lowwater.control import MemoryLog, Prod, Retuning
from lowwater.errors import HostError, LowwaterError, PlanError
from lowwater.kernels import Came, Kernel, Packet, ingest_epoch, step, work
from lowwater.kernels.packets import LEAVING, measure_packet, measures_of
from lowwater.query import Assembly, Clock, Outcome, Outputs, Run, Status, leaving
from lowwater.query.answering import judged
from lowwater.query.filling import filled
from lowwater.query.left_out import told
from lowwater.sources import BlockSource

DEFAULT_SHARDS = 2

Sized: TypeAlias = tuple[pa.Table, int | None]
"""A block, and how many rows its source knew it to have before it was read."""
Blocks = Sequence[pa.Table | Sized]
"""The blocks of one input in an epoch."""


class SystemClock:
    """The wall clock."""

    def now(self, epoch: int) -> int:
        """Return the time, in ticks."""
        return time.time_ns() // 1_000

    def took(self, epoch: int, began: float) -> int:
        """Return how long an epoch took that began then, by the counter of the machine."""
        return round((time.perf_counter() - began) * 1e6)


class LocalHost:
    """Hosts kernels in one process."""

    def run(
        self,
        assembly: Assembly,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
    ) -> dict[str, Outcome]:
        """Run bounded streams to their end."""
        if checkpoint is not None:
            raise PlanError("the local host keeps no checkpoint; leave checkpoint= out")
        cut = assembly.with_shards(shards or DEFAULT_SHARDS)
        sinks = {name: sink.in_memory() for name, sink in outputs.items()}
        ways = leaving(cut.flow, prodded=cut.prodder is not None, filled=cut.filled)
        epochs = LocalEpochs(cut, clock or SystemClock())
        try:
            with TemporaryDirectory(prefix="lowwater-") as folder:
                ready = [_laid_out(s, f"{folder}/{n}") for n, s in enumerate(sources)]
                inputs = [blocks_of(source) for source in ready]
                for number, (blocks, last) in enumerate(until_the_end(inputs)):
                    packets = epochs.run(blocks, last=last)
                    for name, way in ways.items():
                        way.write(number, packets, sinks[name])
        except LowwaterError:
            raise
        except Exception as failure:
            raise HostError(f"the query failed: {failure!r}") from failure
        return {
            name: Outcome.of(way, sinks[name], epochs.status(way.operators))
            for name, way in ways.items()
        }

    def start(
        self,
        assembly: Assembly,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str,
        trigger: str | None,
    ) -> Run:
        """Refuse: a query that runs on needs Spark."""
        raise PlanError("the local host runs bounded queries only; use query.run()")


class LocalEpochs:
    """Runs epochs one after the other and keeps the state of every shard between them."""

    def __init__(self, assembly: Assembly, clock: Clock, kernel: Kernel = step) -> None:
        self.flow, self.clock, self.kernel = assembly.flow, clock, kernel
        self.log, self.prodder = MemoryLog(), assembly.prodder
        self.adapter, self.shedder = assembly.adapter, assembly.shedder
        self.controller = assembly.controller(self.log)
        self.controller.begin(clock.now(0))
        self.state: list[list[dict[str, bytes]]] = [
            [{} for _ in range(o.plan.shards)] for o in self.flow.operators
        ]
        self.epoch = 0

    def run(
        self,
        blocks: Sequence[Blocks],
        *,
        last: Sequence[bool],
        asked: Sequence[Prod | Retuning] = (),
    ) -> list[Packet]:
        """Run one epoch over the blocks of each input, in arrival order; return what came out."""
        before, began = self.log.before(self.epoch), time.perf_counter()
        came = [
            Came(number, seq, *(block if isinstance(block, tuple) else (block,)))
            for number, mine in enumerate(blocks)
            for seq, block in enumerate(mine)
        ]
        packets = list(ingest_epoch(self.flow, came, before, self.controller))
        packets += [
            measure_packet(0, 0, {"input": number, "last": True})
            for number, is_last in enumerate(last)
            if is_last
        ]
        for number, control in before.control.items():
            operator, port = self.flow.ports[number]
            packets += [
                Packet(s, -1, "control", control.to_bytes(), operator, port)
                for s in range(self.flow.operators[operator].plan.shards)
            ]
        for operator, shards in enumerate(self.state):
            for shard, state in enumerate(shards):
                packets = self._work(operator, shard, state, packets)
        now = self.clock.now(self.epoch)
        packets = [*judged(self.prodder, before, self.flow, packets, now), *told(before)]
        packets += filled(self.shedder, before, self.flow, packets)
        measures = [measures_of(p) for p in packets if p.kind == "measure"]
        measures += self._timed(began)
        self.controller.decide(self.epoch, measures, now, asked=asked)
        self.epoch += 1
        return packets

    def _timed(self, began: float) -> list[dict[str, Any]]:
        """Return how long the epoch took, for who decides by that; not every clock can tell."""
        shedder, took = self.shedder, getattr(self.clock, "took", None)
        if shedder is None or not shedder.measures or took is None:
            return []
        return [{"took": took(self.epoch, began)}]

    def _work(
        self, operator: int, shard: int, state: dict[str, bytes], packets: list[Packet]
    ) -> list[Packet]:
        """Run a shard of an operator; return what is left, and what it sent."""
        mine: list[Packet] = []
        others: list[Packet] = []
        for p in packets:
            here = p.kind not in LEAVING and (p.operator, p.shard) == (operator, shard)
            (mine if here else others).append(p)
        if not mine:
            return packets
        standing = self.log.before(self.epoch).standing
        done = work(self.flow, operator, shard, state, mine, standing=standing, kernel=self.kernel)
        for name, kept in done.changes.items():
            if kept is None:
                state.pop(name, None)
            else:
                state[name] = kept
        return others + done.emissions

    def status(self, behind: Collection[int] | None = None) -> Status:
        """Return where the query stands, or the part of it behind an output."""
        return Status.of(
            self.log.before(self.epoch), self.flow, behind=behind, adapter=self.adapter
        )


def until_the_end(
    inputs: Sequence[Iterator[Sequence[Sized]]],
) -> Iterator[tuple[list[Sequence[Sized]], list[bool]]]:
    """Yield for each epoch the blocks of every input, and which inputs end with it.

    An empty epoch follows, which hears of the end.
    """
    ahead: list[Sequence[Sized] | None] = [next(one, []) for one in inputs]
    while any(blocks is not None for blocks in ahead):
        now = [blocks or [] for blocks in ahead]
        ahead = [
            None if b is None else next(one, None) for b, one in zip(ahead, inputs, strict=True)
        ]
        yield now, [blocks is None for blocks in ahead]
    yield [[] for _ in inputs], [True for _ in inputs]


def _laid_out(source: Any, folder: str) -> Any:
    """Return a source as it is read; one that waits for the clock is refused later."""
    known = isinstance(source, BlockSource) and not source.paced
    return source.in_order_of(folder) if known else source


def blocks_of(source: Any) -> Iterator[Sequence[Sized]]:
    """Yield the blocks of each epoch."""
    if isinstance(source, list):
        yield from ([(table, None)] for table in source)
        return
    if not isinstance(source, BlockSource) or source.paced:
        raise PlanError(
            f"the local host reads feeds, lw.files and what does not wait for the clock, not "
            f"{type(source).__name__}; use host='spark'"
        )
    at = source.begin()
    while (end := source.reach(at)) != at:
        yield [(source.read(b), b.rows) for b in source.blocks(at, end)]
        at = end


HOST = LocalHost()
