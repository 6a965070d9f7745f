"""What survives a process: the files of checkpoint, outputs and inputs, and the clock."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq

import lowwater as lw
from chaos.inputs import Inputs
from chaos.queries import AnyQuery, ChaosQuery
from chaos.schedule import Schedule
from chaos.store import MemoryStore
from lowwater.engine import epoch_loop, fault_points, state_store
from lowwater.engine.failure import raised
from lowwater.engine.state_store import Attempt, ShardState
from lowwater.local.run import LocalRun
from lowwater.sinks.files import OWNER
from lowwater.sinks.sink import Outputs
from lowwater.sources import taken_files

CHECKPOINT = "/checkpoint"

Tables = Mapping[str, str]
"""The rows of each file of the outputs, as text."""


@dataclass
class Outcome:
    """The end of a schedule: the errors that were raised, the faults that happened, the verdict.

    `named` are the kinds of faults after which a run ended with an error. `wrong` is None if the
    outputs equal those of the undisturbed run, else what differs.
    """

    schedule: Schedule
    errors: list[str] = field(default_factory=list)
    met: list[tuple[str, str]] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    wrong: str | None = None


class JumpingClock:
    """A virtual clock that faults can move; it starts two days after the first row."""

    def __init__(self) -> None:
        self.offset = 0

    def now(self, epoch: int) -> int:
        """Return the time of epoch number `epoch`, in ticks."""
        return 1_714_737_600_000_000 + epoch * 1_000_000 + self.offset


@dataclass
class World:
    """What survives a process: the files and the clock; and a copy of the files at each epoch.

    `kept_epochs` is the number of epochs whose state is kept. `ending` is True once a query over
    arriving files has read all of them.
    """

    query: AnyQuery
    inputs: Inputs | None = None
    kept_epochs: int = 20
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: JumpingClock = field(default_factory=JumpingClock)
    backups: list[dict[str, bytes]] = field(default_factory=list)
    attempts: list[tuple[ShardState, dict[str, bytes | None], int, Attempt]] = field(
        default_factory=list
    )
    ending: bool = False

    @classmethod
    def of(cls, query: AnyQuery, seed: int = 0, *, kept_epochs: int = 20) -> World:
        """Return a new world; the input files of a query over arriving files depend on `seed`."""
        if isinstance(query, ChaosQuery):
            return cls(query, kept_epochs=kept_epochs)
        inputs = Inputs(query.form, random.Random(seed))  # noqa: S311
        inputs.fill(query.far)
        return cls(query, inputs, kept_epochs)

    def run(self) -> LocalRun:
        """Return a new run of the query on the checkpoint."""
        bounded = isinstance(self.query, ChaosQuery)
        plan = self._build()
        kinds = _KINDS[:2] if bounded else _KINDS
        sinks = {kind: lw.to_parquet(f"chaos:///{kind}") for kind in kinds}
        sources = plan.assembly.sources
        return LocalRun(
            plan.assembly,
            [source.bounded() for source in sources] if bounded else sources,
            {"results": Outputs(**sinks)},
            f"chaos://{CHECKPOINT}",
            clock=self.clock,
            shards=2,
            bounded=bounded,
        )

    def _build(self) -> lw.Stream:
        if isinstance(self.query, ChaosQuery):
            return self.query.build()
        assert self.inputs is not None  # noqa: S101
        return self.query.build(self.inputs.folder)

    def live(self) -> None:
        """Run the query until all of its rows are read and all windows are closed."""
        run = self.run()
        if self.inputs is None:
            run.finish()
            return
        # A stream that has ended stays so: rows that arrive after it are late.
        self.ending = any(known.ended for known in run.epochs.newest.standing.inputs)
        try:
            while run.epochs.take_blocks_or_due(by_clock=False):
                pass
            self.ending = True
            while not run.epochs.newest.done:
                run.epochs.take_nothing(ending=True)
            run.epochs.release()
        except Exception as failure:
            raise raised(failure) from failure

    def save(self) -> dict[str, bytes]:
        """Return a copy of the files in memory; changes of input files can be undone from now."""
        if self.inputs is not None:
            self.inputs.undo.clear()
        return dict(self.store.files)

    def changed(self, saved: Mapping[str, bytes]) -> bool:
        """Return whether files have changed since `save`."""
        return saved != self.store.files or bool(self.inputs is not None and self.inputs.undo)

    def restore(self, saved: dict[str, bytes]) -> None:
        """Restore the files that `save` has copied."""
        self.store.files = saved
        while self.inputs is not None and self.inputs.undo:
            self.inputs.undo.pop()()

    def outputs(self) -> Tables:
        """Return the rows of each epoch; an epoch with two tags has its rows twice."""
        tables: dict[str, str] = {}
        for path in self._output_paths():
            epoch = path.rpartition("-")[0]
            tables[epoch] = tables.get(epoch, "") + _text(self.store.files[path])
        return tables

    def rows(self) -> dict[str, list[list[dict[str, Any]]]]:
        """Return the rows of each file of the outputs, by kind of output."""
        found: dict[str, list[list[dict[str, Any]]]] = {}
        for path in self._output_paths():
            kind = path.split("/")[1]
            found.setdefault(kind, []).append(_table(self.store.files[path]).to_pylist())
        return found

    def _output_paths(self) -> list[str]:
        paths = [p for kind in _KINDS for p in self.store.under(f"/{kind}")]
        return [path for path in paths if not path.endswith(OWNER)]

    def close(self) -> None:
        """Delete the input files."""
        if self.inputs is not None:
            self.inputs.close()


_KINDS = ("results", "late", "malformed", "bad_files")


def _table(content: bytes) -> Any:
    return pq.ParquetFile(io.BytesIO(content)).read(use_threads=False)


@lru_cache(10_000)
def _text(content: bytes) -> str:
    return repr(sorted(map(repr, _table(content).to_pylist())))


@contextmanager
def hook(function: Callable[[str], None] | None) -> Iterator[None]:
    """Call `function` at each fault point, for as long as the context is open."""
    before, fault_points.hook = fault_points.hook, function
    try:
        yield
    finally:
        fault_points.hook = before


@contextmanager
def instrumented(world: World) -> Iterator[None]:
    """Let the library run with the clock and the limits of the world, and remember its segments.

    A late attempt can write such a segment again.
    """
    write = ShardState.write

    def remember(self: ShardState, changes: Any, epoch: int, attempt: Attempt) -> Any:
        world.attempts.append((self, dict(changes), epoch, attempt))
        return write(self, changes, epoch, attempt)

    clock = SimpleNamespace(
        time_ns=lambda: world.clock.now(0) * 1_000, perf_counter=time.perf_counter
    )
    with (
        patch.object(ShardState, "write", remember),
        patch.object(epoch_loop, "time", clock),
        patch.object(state_store, "KEPT_EPOCHS", world.kept_epochs),
        patch.object(taken_files, "SEGMENT_STAMPS", 2),  # few names fill a segment
    ):
        yield
