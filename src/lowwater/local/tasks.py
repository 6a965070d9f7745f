"""The tasks of an epoch in this process: ingest, and the kernels of all shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lowwater.control.measures import InputMeasure
from lowwater.dataflow.graph import Dataflow
from lowwater.dataflow.ingest import Foresee, ingest_epoch
from lowwater.dataflow.input_block import read_block
from lowwater.dataflow.run_operator import StepFunction, step, work
from lowwater.engine.entry import Entry
from lowwater.engine.epoch import Intake
from lowwater.engine.state_store import ShardState, discard_segments
from lowwater.operators.packet import LEAVING, Packet, measure_packet
from lowwater.sources.source import BlockReader

Change = Mapping[str, bytes | None]
"""The buckets that an epoch changed, by name; None deletes the bucket."""


class State(Protocol):
    """A store of the state of all shards."""

    def read(self, operator: int, shard: int, epoch: int) -> Mapping[str, bytes]:
        """Return the state of a shard before an epoch."""

    def write(self, before: Mapping[str, bytes], changes: Change) -> None:
        """Write the state of a shard after an epoch; `before` is the result of `read`."""

    def discard(self, after: int) -> None:
        """Delete the state written by epochs later than `after`, which have no entry."""


class MemoryState:
    """A store of state in memory, lost when the process ends."""

    def __init__(self, flow: Dataflow) -> None:
        self.shards: list[list[dict[str, bytes]]] = [
            [{} for _ in range(o.plan.shards)] for o in flow.operators
        ]

    def read(self, operator: int, shard: int, epoch: int) -> Mapping[str, bytes]:  # noqa: D102
        return self.shards[operator][shard]

    def write(self, before: Mapping[str, bytes], changes: Change) -> None:  # noqa: D102
        assert isinstance(before, dict)  # noqa: S101
        for name, content in changes.items():
            if content is None:
                before.pop(name, None)
            else:
                before[name] = content

    def discard(self, after: int) -> None:  # noqa: D102
        del after


class StoredState:
    """A store of state in the segments of a checkpoint."""

    def __init__(self, flow: Dataflow, folder: str) -> None:
        self.flow, self.folder = flow, folder

    def read(self, operator: int, shard: int, epoch: int) -> Mapping[str, bytes]:  # noqa: D102
        return ShardState(f"{self.folder}/{operator}", shard, epoch)

    def write(self, before: Mapping[str, bytes], changes: Change) -> None:  # noqa: D102
        assert isinstance(before, ShardState)  # noqa: S101
        before.write(changes)

    def discard(self, after: int) -> None:  # noqa: D102
        discard_segments(self.folder, self.flow, after)


class LocalTasks:
    """The component that runs the tasks of an epoch, one after the other."""

    def __init__(
        self,
        flow: Dataflow,
        readers: Mapping[int, BlockReader],
        state: State,
        kernel: StepFunction = step,
    ) -> None:
        self.flow, self.readers, self.state, self.kernel = flow, readers, state, kernel

    def run(self, before: Entry, intake: Intake, foresee: Foresee) -> list[Packet]:
        """Run the epoch after `before`, write its state, and return the emitted packets."""
        packets = [*self._ingest(before, intake, foresee), *self._control(before)]
        for number, operator in enumerate(self.flow.operators):
            for shard in range(operator.plan.shards):
                packets = self._work(number, shard, before, packets)
        return packets

    def discard(self, after: int) -> None:
        """Delete the state written by epochs later than `after`, which have no entry."""
        self.state.discard(after)

    def _ingest(self, before: Entry, intake: Intake, foresee: Foresee) -> list[Packet]:
        blocks = [
            read_block(self.flow, number, seq, self.readers[number], block)
            for number, mine in intake.blocks.items()
            for seq, block in enumerate(mine)
        ]
        packets = list(ingest_epoch(self.flow, blocks, before.standing, foresee))
        for number, mine in intake.blocks.items():
            if any(block.last for block in mine):
                packets.append(measure_packet(0, len(mine), InputMeasure(number, last=True)))
        return packets

    def _control(self, before: Entry) -> list[Packet]:
        """Return the control in `before` as packets, one for each shard of a receiving operator."""
        return [
            Packet(shard, -1, "control", message.to_bytes(), *self.flow.ports[number])
            for number, message in before.control.items()
            for shard in range(self.flow.operators[self.flow.ports[number][0]].plan.shards)
        ]

    def _work(
        self, operator: int, shard: int, before: Entry, packets: Sequence[Packet]
    ) -> list[Packet]:
        """Run one shard of an operator; return packets for other shards, and emitted packets."""
        mine: list[Packet] = []
        others: list[Packet] = []
        for p in packets:
            here = p.kind not in LEAVING and (p.operator, p.shard) == (operator, shard)
            (mine if here else others).append(p)
        if not mine:
            return others
        epoch, standing = before.epoch + 1, before.standing
        state = self.state.read(operator, shard, epoch)
        done = work(self.flow, operator, shard, state, mine, standing=standing, kernel=self.kernel)
        self.state.write(state, done.changes)
        return others + done.emissions
