"""One schedule on the local host, with a file store in memory and a clock of the harness."""

from __future__ import annotations

import errno
import io
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow.parquet as pq

import lowwater as lw
from chaos.queries import ChaosQuery
from chaos.schedule import Fault, Schedule
from chaos.store import Killed, MemoryStore, mount
from lowwater.engine import fault_points, state_store
from lowwater.engine.state_store import Attempt, ShardState
from lowwater.errors import LowwaterError
from lowwater.local.run import LocalRun
from lowwater.sinks.files import OWNER
from lowwater.sinks.sink import Outputs

CHECKPOINT, RESULTS, LATE = "/checkpoint", "/results", "/late"
_MOST_RUNS = 12

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


class Injector:
    """The hook of one run: it counts the points, and injects the fault when its point comes."""

    def __init__(self, world: World, fault: Fault | None, outcome: Outcome) -> None:
        self.world, self.fault, self.outcome = world, fault, outcome
        self.seen: Counter[str] = Counter()
        self.damage: Callable[[], None] | None = None

    def reached(self, point: str) -> None:
        """Inject the fault if this is its point."""
        if point == "opened":
            self.world.backups.append(dict(self.world.store.files))
        nth, fault = self.seen[point], self.fault
        self.seen[point] += 1
        if fault is None or point != fault.point or nth != fault.nth:
            return
        self.outcome.met.append((point, fault.kind))
        self.fault = None
        _INJECT[fault.kind](self, random.Random(fault.seed))  # noqa: S311

    # -- faults ------------------------------------------------------------------------------------

    def kill(self, _: random.Random) -> None:
        raise Killed

    def torn_write(self, _: random.Random) -> None:
        def tear(operation: str, path: str) -> None:
            if operation in ("write", "create"):
                self.world.store.tear(path)
                raise Killed

        self.world.store.on_write = tear

    def failed_write(self, _: random.Random) -> None:
        def fail(operation: str, path: str) -> None:
            if operation in ("write", "create"):
                self.world.store.on_write = None
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

        self.world.store.on_write = fail

    def lost_reply(self, _: random.Random) -> None:
        def lose(operation: str, path: str) -> None:
            if operation == "created":
                self.world.store.on_write = None
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path)

        self.world.store.on_write = lose

    def full_disk(self, _: random.Random) -> None:
        self._refuse(errno.ENOSPC, ("write", "create"))

    def read_only_disk(self, _: random.Random) -> None:
        self._refuse(errno.EROFS, ("write", "create", "delete"))

    def _refuse(self, code: int, operations: tuple[str, ...]) -> None:
        def refuse(operation: str, path: str) -> None:
            if operation in operations:
                raise OSError(code, os.strerror(code), path)

        self.world.store.on_write = refuse

    def second_run(self, chosen: random.Random) -> None:
        epochs = chosen.choice((0, 1, 2, 100))
        with _hook(None):
            other = self.world.run()
            for _ in range(epochs):
                if other.epochs.newest.done or not other.epochs.take_blocks_or_due(by_clock=False):
                    break

    def late_attempt(self, chosen: random.Random) -> None:
        if self.world.attempts:
            state, changes, epoch, attempt = chosen.choice(self.world.attempts)
            with _hook(None):
                state.write(changes, epoch, Attempt(attempt.owner, attempt.number + 1_000))

    def clock_jump(self, chosen: random.Random) -> None:
        self.world.clock.offset += chosen.choice((-1, 1)) * chosen.randrange(86_400_000_000)

    def _die_with(self, damage: Callable[[], None]) -> None:
        self.damage = damage
        raise Killed

    def lost_segment(self, _: random.Random) -> None:
        self._die_with(lambda: self._delete(self._paths("state")[-1:]))

    def lost_state(self, _: random.Random) -> None:
        self._die_with(lambda: self._delete(self._paths("state")))

    def lost_records(self, chosen: random.Random) -> None:
        number = chosen.choice((1, 2, 5))
        self._die_with(lambda: self._delete(self._paths("control")[-number:]))

    def lost_outputs(self, _: random.Random) -> None:
        self._die_with(lambda: self._delete(self._paths("outputs")))

    def flipped_bit(self, chosen: random.Random) -> None:
        def flip() -> None:
            path = chosen.choice(self.world.store.under(CHECKPOINT))
            content = bytearray(self.world.store.files[path])
            if content:
                bit = chosen.randrange(8 * len(content))
                content[bit // 8] ^= 1 << bit % 8
                self.world.store.files[path] = bytes(content)

        self._die_with(flip)

    def changed_digit(self, chosen: random.Random) -> None:
        def change() -> None:
            path = self._paths("control")[-1]
            content = bytearray(self.world.store.files[path])
            places = [n for n, byte in enumerate(content) if 48 <= byte <= 57]  # noqa: PLR2004
            place = chosen.choice(places)
            content[place] = 48 + (content[place] - 48 + chosen.randrange(1, 10)) % 10
            self.world.store.files[path] = bytes(content)

        self._die_with(change)

    def swapped_files(self, chosen: random.Random) -> None:
        def swap() -> None:
            paths = self._paths(chosen.choice(("state", "control")))
            if len(paths) > 1:
                one, other = chosen.sample(paths, 2)
                files = self.world.store.files
                files[one], files[other] = files[other], files[one]

        self._die_with(swap)

    def old_backup(self, chosen: random.Random) -> None:
        def restore() -> None:
            files = self.world.store.files
            old = chosen.choice(self.world.backups or [dict(files)])
            inside = f"{CHECKPOINT}/"
            self._delete([p for p in files if p.startswith(inside)])
            files.update({p: c for p, c in old.items() if p.startswith(inside)})

        self._die_with(restore)

    def _paths(self, part: str) -> list[str]:
        return self.world.store.under(f"{CHECKPOINT}/{part}")

    def _delete(self, paths: list[str]) -> None:
        for path in paths:
            del self.world.store.files[path]


_INJECT: dict[str, Callable[[Injector, random.Random], None]] = {
    "kill": Injector.kill,
    "torn write": Injector.torn_write,
    "failed write": Injector.failed_write,
    "lost reply": Injector.lost_reply,
    "full disk": Injector.full_disk,
    "read-only disk": Injector.read_only_disk,
    "second run": Injector.second_run,
    "late attempt": Injector.late_attempt,
    "clock jump": Injector.clock_jump,
    "lost segment": Injector.lost_segment,
    "lost state": Injector.lost_state,
    "lost records": Injector.lost_records,
    "lost outputs": Injector.lost_outputs,
    "flipped bit": Injector.flipped_bit,
    "changed digit": Injector.changed_digit,
    "swapped files": Injector.swapped_files,
    "old backup": Injector.old_backup,
}


def simulate(schedule: Schedule) -> Outcome:
    """Run a schedule to its end, and compare its outputs with those of an undisturbed run."""
    outcome, world = Outcome(schedule), World(schedule.query)
    mount(world.store)
    state_store.KEPT_EPOCHS = schedule.kept_epochs
    faults = list(schedule.faults)
    for _ in range(_MOST_RUNS):
        injector = Injector(world, faults.pop(0) if faults else None, outcome)
        undamaged = dict(world.store.files)
        with _hook(injector.reached), _recorded(world):
            ended = _live(world, outcome)
        world.store.on_write = None
        if injector.damage is not None:
            undamaged = dict(world.store.files)
            injector.damage()
            if not _refused(world, outcome):
                continue
            world.store.files = undamaged  # a backup of the moment before the damage
        elif ended and not faults:
            break
    expected = calm(schedule.query)
    found = world.outputs()
    if found != expected:
        outcome.wrong = _difference(found, expected)
    return outcome


def _live(world: World, outcome: Outcome) -> bool:
    """Run the query until it ends, fails or is killed; return whether it has ended."""
    try:
        world.run().finish()
    except Killed:
        return False
    except LowwaterError as error:
        outcome.errors.append(str(error))
        return False
    return True


def _refused(world: World, outcome: Outcome) -> bool:
    """Start the query after damage; return whether it was refused before or during its run."""
    try:
        with _hook(None):
            world.run().finish()
    except LowwaterError as error:
        outcome.errors.append(str(error))
        return True
    return False


@cache
def calm(query: ChaosQuery) -> Tables:
    """Return the outputs of a run without faults."""
    world = World(query)
    mount(world.store)
    with _hook(None):
        world.run().finish()
    return world.outputs()


def _difference(found: Tables, expected: Tables) -> str:
    for path in sorted({*found, *expected}):
        if found.get(path) != expected.get(path):
            return f"{path} is {found.get(path)}, not {expected.get(path)}"[:2_000]
    return ""


@contextmanager
def _hook(function: Callable[[str], None] | None) -> Iterator[None]:
    before, fault_points.hook = fault_points.hook, function
    try:
        yield
    finally:
        fault_points.hook = before


@contextmanager
def _recorded(world: World) -> Iterator[None]:
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
