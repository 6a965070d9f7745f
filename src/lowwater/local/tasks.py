"""The tasks of an epoch in this process: ingest, and the kernels of all shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lowwater.control.measures import InputMeasure, SegmentMeasure
from lowwater.dataflow.graph import Dataflow
from lowwater.dataflow.ingest import Foresee, ingest_epoch
from lowwater.dataflow.input_block import read_block
from lowwater.dataflow.run_operator import StepFunction, step, work
from lowwater.engine.entry import Entry
from lowwater.engine.epoch import Intake
from lowwater.engine.log import ControlLog
from lowwater.engine.state_store import Attempt, ShardState, StateFolder, shards_of
from lowwater.operators.packet import LEAVING, Packet, measure_packet
from lowwater.sources.source import BlockReader

Change = Mapping[str, bytes | None]
"""The buckets that an epoch changed, by name; None deletes the bucket."""


class State(Protocol):
    """A store of the state of all shards."""

    def read(self, operator: int, shard: int, before: Entry) -> Mapping[str, bytes]:
        """Return the state of a shard after the epoch of the entry `before`."""

    def write(
        self, state: Mapping[str, bytes], changes: Change, epoch: int, owner: str
    ) -> SegmentMeasure | None:
        """Write the state of a shard after an epoch; `state` is the result of `read`."""

    def recover(self, log: ControlLog) -> None:
        """Check the state after the newest entry, and delete unused files; see `Tasks.recover`."""

    def settle(self, written: Sequence[SegmentMeasure]) -> None:
        """Keep the state that the epoch has written, now that its entry is appended."""


class MemoryState:
    """A store of state in memory, lost when the process ends; `changes` are those of the epoch."""

    def __init__(self, flow: Dataflow) -> None:
        self.shards: list[list[dict[str, bytes]]] = [
            [{} for _ in range(o.plan.shards)] for o in flow.operators
        ]
        self.changes: dict[int, tuple[dict[str, bytes], Change]] = {}

    def read(self, operator: int, shard: int, before: Entry) -> Mapping[str, bytes]:  # noqa: D102
        del before
        return self.shards[operator][shard]

    def write(self, state: Mapping[str, bytes], changes: Change, epoch: int, owner: str) -> None:  # noqa: D102
        del epoch, owner
        assert isinstance(state, dict)  # noqa: S101
        self.changes[id(state)] = state, changes

    def recover(self, log: ControlLog) -> None:  # noqa: D102
        pass

    def settle(self, written: Sequence[SegmentMeasure]) -> None:  # noqa: D102
        del written
        for state, changes in self.changes.values():
            for name, content in changes.items():
                if content is None:
                    state.pop(name, None)
                else:
                    state[name] = content
        self.changes = {}


class StoredState:
    """A store of state in the segments of a checkpoint."""

    def __init__(self, flow: Dataflow, folder: StateFolder) -> None:
        self.flow, self.folder = flow, folder
        self.attempts = 0

    def read(self, operator: int, shard: int, before: Entry) -> Mapping[str, bytes]:  # noqa: D102
        named = {(s.operator, s.start): s for s in before.segments}
        return ShardState(self.folder.shard(operator, shard), named.get((operator, shard)))

    def write(  # noqa: D102
        self, state: Mapping[str, bytes], changes: Change, epoch: int, owner: str
    ) -> SegmentMeasure:
        assert isinstance(state, ShardState)  # noqa: S101
        self.attempts += 1
        return state.write(changes, epoch, Attempt(owner, self.attempts))

    def recover(self, log: ControlLog) -> None:  # noqa: D102
        self.folder.recover(shards_of(self.flow), log)

    def settle(self, written: Sequence[SegmentMeasure]) -> None:  # noqa: D102
        self.folder.delete(written)


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

    def run(self, before: Entry, intake: Intake, foresee: Foresee, owner: str) -> list[Packet]:
        """Run the epoch after `before`, write its state, and return the emitted packets."""
        packets = [*self._ingest(before, intake, foresee), *self._control(before)]
        for number, operator in enumerate(self.flow.operators):
            for shard in range(operator.plan.shards):
                packets = self._work(number, shard, before, packets, owner)
        return packets

    def recover(self, log: ControlLog) -> None:
        """Check the state after the newest entry, and delete segments that no entry needs."""
        self.state.recover(log)

    def settle(self, written: Sequence[SegmentMeasure]) -> None:
        """Keep the state that the epoch has written, now that its entry is appended."""
        self.state.settle(written)

    def _ingest(self, before: Entry, intake: Intake, foresee: Foresee) -> list[Packet]:
        aside = before.standing.set_aside
        blocks = [
            read_block(self.flow, number, seq, self.readers[number], block, aside=aside)
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
        self, operator: int, shard: int, before: Entry, packets: Sequence[Packet], owner: str
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
        state = self.state.read(operator, shard, before)
        done = work(self.flow, operator, shard, state, mine, standing=standing, kernel=self.kernel)
        segment = self.state.write(state, done.changes, epoch, owner)
        written = [] if segment is None else [measure_packet(shard, 0, segment)]
        return others + done.emissions + written
