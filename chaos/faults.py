"""The faults: what happens when a run reaches the point of its schedule."""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable

from chaos.schedule import Fault
from chaos.store import Killed
from chaos.world import CHECKPOINT, Outcome, World, hook
from lowwater.engine.state_store import Attempt


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
        INJECT[fault.kind](self, random.Random(fault.seed))  # noqa: S311

    # -- faults ------------------------------------------------------------------------------------

    def kill(self, _: random.Random) -> None:
        """End the process."""
        raise Killed

    def torn_write(self, _: random.Random) -> None:
        """End the process while it writes the next file."""

        def tear(operation: str, path: str) -> None:
            if operation in ("write", "create"):
                self.world.store.tear(path)
                raise Killed

        self.world.store.on_write = tear

    def failed_write(self, _: random.Random) -> None:
        """Let the next write fail, once."""

        def fail(operation: str, path: str) -> None:
            if operation in ("write", "create"):
                self.world.store.on_write = None
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

        self.world.store.on_write = fail

    def lost_reply(self, _: random.Random) -> None:
        """Write the next record, and let its writer receive an error."""

        def lose(operation: str, path: str) -> None:
            if operation == "created":
                self.world.store.on_write = None
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path)

        self.world.store.on_write = lose

    def full_disk(self, _: random.Random) -> None:
        """Let every write fail until the restart."""
        self._refuse(errno.ENOSPC, ("write", "create"))

    def read_only_disk(self, _: random.Random) -> None:
        """Let every write and every deletion fail until the restart."""
        self._refuse(errno.EROFS, ("write", "create", "delete"))

    def _refuse(self, code: int, operations: tuple[str, ...]) -> None:
        def refuse(operation: str, path: str) -> None:
            if operation in operations:
                raise OSError(code, os.strerror(code), path)

        self.world.store.on_write = refuse

    def second_run(self, chosen: random.Random) -> None:
        """Let another run take over and run some epochs; then the first run continues."""
        epochs = chosen.choice((0, 1, 2, 100))
        with hook(None):
            other = self.world.run()
            for _ in range(epochs):
                if other.epochs.newest.done or not other.epochs.take_blocks_or_due(by_clock=False):
                    break

    def late_attempt(self, chosen: random.Random) -> None:
        """Let a task of an earlier epoch write its segment again."""
        if self.world.attempts:
            state, changes, epoch, attempt = chosen.choice(self.world.attempts)
            with hook(None):
                state.write(changes, epoch, Attempt(attempt.owner, attempt.number + 1_000))

    def clock_jump(self, chosen: random.Random) -> None:
        """Let the clock jump by hours."""
        self.world.clock.offset += chosen.choice((-1, 1)) * chosen.randrange(86_400_000_000)

    def _die_with(self, damage: Callable[[], None]) -> None:
        self.damage = damage
        raise Killed

    def lost_segment(self, _: random.Random) -> None:
        """Delete the newest state segment."""
        self._die_with(lambda: self._delete(self._paths("state")[-1:]))

    def lost_state(self, _: random.Random) -> None:
        """Delete all state segments."""
        self._die_with(lambda: self._delete(self._paths("state")))

    def lost_records(self, chosen: random.Random) -> None:
        """Delete the newest records of the log."""
        number = chosen.choice((1, 2, 5))
        self._die_with(lambda: self._delete(self._paths("control")[-number:]))

    def lost_outputs(self, _: random.Random) -> None:
        """Delete the pending outputs."""
        self._die_with(lambda: self._delete(self._paths("outputs")))

    def flipped_bit(self, chosen: random.Random) -> None:
        """Flip one bit of one file of the checkpoint."""

        def flip() -> None:
            path = chosen.choice(self.world.store.under(CHECKPOINT))
            content = bytearray(self.world.store.files[path])
            if content:
                bit = chosen.randrange(8 * len(content))
                content[bit // 8] ^= 1 << bit % 8
                self.world.store.files[path] = bytes(content)

        self._die_with(flip)

    def changed_digit(self, chosen: random.Random) -> None:
        """Change one digit of the newest record."""

        def change() -> None:
            path = self._paths("control")[-1]
            content = bytearray(self.world.store.files[path])
            places = [n for n, byte in enumerate(content) if 48 <= byte <= 57]  # noqa: PLR2004
            place = chosen.choice(places)
            content[place] = 48 + (content[place] - 48 + chosen.randrange(1, 10)) % 10
            self.world.store.files[path] = bytes(content)

        self._die_with(change)

    def swapped_files(self, chosen: random.Random) -> None:
        """Let two segments, or two records, change their names."""

        def swap() -> None:
            paths = self._paths(chosen.choice(("state", "control")))
            if len(paths) > 1:
                one, other = chosen.sample(paths, 2)
                files = self.world.store.files
                files[one], files[other] = files[other], files[one]

        self._die_with(swap)

    def old_backup(self, chosen: random.Random) -> None:
        """Replace the checkpoint by an older copy; the outputs stay."""

        def restore() -> None:
            files = self.world.store.files
            old = chosen.choice(self.world.backups or [dict(files)])
            inside = f"{CHECKPOINT}/"
            self._delete([p for p in files if p.startswith(inside)])
            files.update({p: c for p, c in old.items() if p.startswith(inside)})

        self._die_with(restore)

    def new_checkpoint(self, _: random.Random) -> None:
        """Delete the whole checkpoint; the outputs stay."""
        self._die_with(lambda: self._delete(self.world.store.under(CHECKPOINT)))

    def _paths(self, part: str) -> list[str]:
        return self.world.store.under(f"{CHECKPOINT}/{part}")

    def _delete(self, paths: list[str]) -> None:
        for path in paths:
            del self.world.store.files[path]


INJECT: dict[str, Callable[[Injector, random.Random], None]] = {
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
    "new checkpoint": Injector.new_checkpoint,
}
