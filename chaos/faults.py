"""The faults: what happens when a run reaches the point of its schedule."""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable

from chaos.damage import DAMAGE
from chaos.inputs import (
    FILES,
    InputFile,
    Inputs,
    corrupt_file,
    future_file,
    good_file,
    mixed_file,
)
from chaos.queries import FileQuery
from chaos.schedule import Fault
from chaos.store import Killed
from chaos.world import Outcome, World, hook
from lowwater.engine.state_store import Attempt

_CHANGES = ("write", "create", "delete")
_DAY = 86_400_000_000
_EVEN = 0.5

Arrival = tuple[str | None, InputFile]
"""The ending of the name of a new file, None for the usual one, and its content."""


class Injector:
    """The hook of one run: it counts the points, and injects the fault when its point comes.

    `damage` is the function that damages files after the run.
    """

    def __init__(self, world: World, fault: Fault | None, outcome: Outcome) -> None:
        self.world, self.fault, self.outcome = world, fault, outcome
        self.chosen = random.Random(0 if fault is None else fault.seed)  # noqa: S311
        self.seen: Counter[str] = Counter()
        self.damage: Callable[[], None] | None = None
        self.done = False

    def reached(self, point: str) -> None:
        """Inject the fault if this is its point."""
        if point == "opened":
            self.world.backups.append(dict(self.world.store.files))
        nth, fault = self.seen[point], self.fault
        self.seen[point] += 1
        if fault is None or self.done or point != fault.point or nth != fault.nth:
            return
        self.done = True
        if fault.kind in DAMAGE:
            self.damage = lambda: DAMAGE[fault.kind](self.world, self.chosen)
            raise Killed
        INJECT[fault.kind](self)

    def met(self) -> None:
        """Record that the fault has happened."""
        if self.fault is not None:
            self.outcome.met.append((self.fault.point, self.fault.kind))

    # -- the process ends --------------------------------------------------------------------------

    def kill(self) -> None:
        """End the process."""
        self.met()
        raise Killed

    def kill_later(self) -> None:
        """End the process at a random operation of the disk."""
        most = 1 if self.fault is not None and self.fault.point == "released" else 30
        self._after(self.chosen.randrange(most), None, self._die)

    def torn_write(self) -> None:
        """End the process while it writes a file."""

        def tear(path: str) -> None:
            self.world.store.tear(path)
            raise Killed

        self._after(self.chosen.randrange(3), ("write", "create"), tear)

    def _die(self, _: str) -> None:
        raise Killed

    # -- the disk ----------------------------------------------------------------------------------

    def _after(
        self, passed: int, operations: tuple[str, ...] | None, happen: Callable[[str], None]
    ) -> None:
        """Let some operations pass; at the next one, call `happen` with its path, once."""
        left = passed

        def count(operation: str, path: str) -> None:
            nonlocal left
            if operations is None or operation in operations:
                left -= 1
                if left < 0:
                    self.world.store.on_operation = None
                    self.met()
                    happen(path)

        self.world.store.on_operation = count

    def _fail(self, code: int) -> Callable[[str], None]:
        def fail(path: str) -> None:
            raise OSError(code, os.strerror(code), path)

        return fail

    def failed_write(self) -> None:
        """Let a write fail, once."""
        self._after(self.chosen.randrange(3), ("write", "create"), self._fail(errno.EIO))

    def lost_reply(self) -> None:
        """Write the next record, and let its writer receive an error."""
        self._after(0, ("created",), self._fail(errno.ETIMEDOUT))

    def full_disk(self) -> None:
        """Let every write fail until the restart."""
        self._refuse(errno.ENOSPC, _CHANGES[:2])

    def read_only_disk(self) -> None:
        """Let every write and every deletion fail until the restart."""
        self._refuse(errno.EROFS, _CHANGES)

    def _refuse(self, code: int, operations: tuple[str, ...]) -> None:
        def refuse(operation: str, path: str) -> None:
            if operation in operations:
                self._met_once()
                self._fail(code)(path)

        self.world.store.on_operation = refuse

    def slow_disk(self) -> None:
        """Let every operation of the disk take up to ten minutes."""

        def wait(_: str, __: str) -> None:
            self._met_once()
            self.world.clock.offset += self.chosen.randrange(600_000_000)

        self.world.store.on_operation = wait

    def _met_once(self) -> None:
        if self.fault is not None and (self.fault.point, self.fault.kind) not in self.outcome.met:
            self.met()

    def clock_jump(self) -> None:
        """Let the clock jump by hours."""
        self.met()
        self.world.clock.offset = self.chosen.randrange(-_DAY, _DAY)

    # -- other processes ---------------------------------------------------------------------------

    def second_run(self) -> None:
        """Let another run take over and run some epochs; then the first run continues."""
        self.met()
        epochs = self.chosen.choice((0, 1, 2, 100))
        with hook(None):
            other = self.world.run()
            for _ in range(epochs):
                if other.epochs.newest.done or not other.epochs.take_blocks_or_due(by_clock=False):
                    break

    def late_attempt(self) -> None:
        """Let a task of an earlier epoch write its segment again."""
        if self.world.attempts:
            self.met()
            state, changes, epoch, attempt = self.chosen.choice(self.world.attempts)
            with hook(None):
                state.write(changes, epoch, Attempt(attempt.owner, attempt.number + 1_000))

    # -- input files -------------------------------------------------------------------------------

    def bad_lines(self) -> None:
        """Let a file arrive with lines that cannot be read, or look odd."""
        self._arrive(lambda inputs: (None, mixed_file(inputs.form, self.chosen, self._number)))

    def corrupt_file(self) -> None:
        """Let a file arrive that cannot be read."""
        self._arrive(lambda inputs: corrupt_file(inputs.form, self.chosen, self._number))

    def older_name(self) -> None:
        """Let a file arrive whose name sorts before those that were read."""
        self._arrive(
            lambda inputs: (None, good_file(inputs.form, self.chosen, self._number)), older=True
        )

    def future_row(self) -> None:
        """Let a file arrive whose first row is too far in the future."""
        query = self.world.query
        assert isinstance(query, FileQuery)  # noqa: S101
        self._arrive(
            lambda inputs: (None, future_file(inputs.form, self.chosen, self._number, query.far))
        )

    @property
    def _number(self) -> int:
        return self.chosen.randrange(FILES)

    def _arrive(self, make: Callable[[Inputs], Arrival], *, older: bool = False) -> None:
        """Let a file arrive, unless the query reads no more files; some runs are then killed."""
        inputs = self.world.inputs
        if inputs is None or self.world.ending:
            return
        self.met()
        ending, file = make(inputs)
        older = older or self.chosen.random() < _EVEN
        inputs.put(inputs.new_name(ending, older=older), file)
        if self.chosen.random() < _EVEN:
            raise Killed


INJECT: dict[str, Callable[[Injector], None]] = {
    "kill": Injector.kill,
    "kill later": Injector.kill_later,
    "torn write": Injector.torn_write,
    "failed write": Injector.failed_write,
    "lost reply": Injector.lost_reply,
    "full disk": Injector.full_disk,
    "read-only disk": Injector.read_only_disk,
    "slow disk": Injector.slow_disk,
    "clock jump": Injector.clock_jump,
    "second run": Injector.second_run,
    "late attempt": Injector.late_attempt,
    "bad lines": Injector.bad_lines,
    "corrupt file": Injector.corrupt_file,
    "older name": Injector.older_name,
    "future row": Injector.future_row,
}
