"""What survives a process: the files of the checkpoint and of the outputs, and the clock."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

import lowwater as lw
from chaos.queries import ChaosQuery
from chaos.schedule import Schedule
from chaos.store import MemoryStore
from lowwater.engine import fault_points
from lowwater.engine.state_store import Attempt, ShardState
from lowwater.local.run import LocalRun
from lowwater.sinks.files import OWNER
from lowwater.sinks.sink import Outputs

CHECKPOINT, RESULTS, LATE = "/checkpoint", "/results", "/late"

Tables = Mapping[str, str]
"""The rows of each file of the outputs, as text."""


@dataclass
class Outcome:
    """The end of a schedule: the errors that were raised, the faults that happened, the verdict.

    `wrong` is None if the outputs equal those of the undisturbed run, else what differs.
    """

    schedule: Schedule
    errors: list[str] = field(default_factory=list)
    met: list[tuple[str, str]] = field(default_factory=list)
    wrong: str | None = None


class JumpingClock:
    """A virtual clock that faults can move."""

    def __init__(self) -> None:
        self.offset = 0

    def now(self, epoch: int) -> int:
        """Return the time of epoch number `epoch`, in ticks."""
        return 1_714_564_800_000_000 + epoch * 1_000_000 + self.offset


@dataclass
class World:
    """What survives a process: the files and the clock; and a copy of the files at each epoch."""

    query: ChaosQuery
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: JumpingClock = field(default_factory=JumpingClock)
    backups: list[dict[str, bytes]] = field(default_factory=list)
    attempts: list[tuple[ShardState, dict[str, bytes | None], int, Attempt]] = field(
        default_factory=list
    )

    def run(self) -> LocalRun:
        """Return a new run of the query on the checkpoint."""
        plan = self.query.build()
        outputs = Outputs(
            lw.to_parquet(f"chaos://{RESULTS}"), late=lw.to_parquet(f"chaos://{LATE}")
        )
        return LocalRun(
            plan.assembly,
            [source.bounded() for source in plan.assembly.sources],
            dict.fromkeys(("results",), outputs),
            f"chaos://{CHECKPOINT}",
            clock=self.clock,
            shards=2,
            bounded=True,
        )

    def outputs(self) -> Tables:
        """Return the rows of each epoch; an epoch with two tags has its rows twice."""
        tables: dict[str, str] = {}
        for path in [p for at in (RESULTS, LATE) for p in self.store.under(at)]:
            if not path.endswith(OWNER):
                epoch = path.rpartition("-")[0]
                tables[epoch] = tables.get(epoch, "") + _rows(self.store.files[path])
        return tables


def _rows(content: bytes) -> str:
    rows = pq.read_table(io.BytesIO(content)).to_pylist()
    return repr(sorted(map(repr, rows)))


@contextmanager
def hook(function: Callable[[str], None] | None) -> Iterator[None]:
    """Call `function` at each fault point, for as long as the context is open."""
    before, fault_points.hook = fault_points.hook, function
    try:
        yield
    finally:
        fault_points.hook = before


@contextmanager
def recorded(world: World) -> Iterator[None]:
    """Remember the segments that tasks write, so that a late attempt can write one again."""
    original: Any = ShardState.write

    def write(self: ShardState, changes: Any, epoch: int, attempt: Attempt) -> Any:
        world.attempts.append((self, dict(changes), epoch, attempt))
        return original(self, changes, epoch, attempt)

    ShardState.write = write  # type: ignore[method-assign]
    try:
        yield
    finally:
        ShardState.write = original  # type: ignore[method-assign]
