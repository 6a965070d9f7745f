"""Faults inside the processes of a query on Spark: its driver and its Python workers.

The runner writes the fault of a run into a folder, as `fault.json`; driver and workers read it at
their fault points. Empty files in the folder are signals between the processes.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

import psutil

from chaos.schedule import Fault
from lowwater.engine import fault_points
from lowwater.engine.state_store import ShardState
from lowwater.storage.local_store import LocalStore

FOLDER = "LOWWATER_CHAOS"
"""The environment variable with the folder of the fault."""
_PATIENCE = 40.0
_EXECUTOR = "CoarseGrainedExecutorBackend"


class HaltError(RuntimeError):
    """The end of a run that can write no more, without the end of its process."""


class Orders:
    """The folder in which the runner and the processes of a driver exchange faults and signals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def clear(self, keep: Collection[str] = ()) -> None:
        """Delete the fault and all signals, except those to keep."""
        for path in self.folder.iterdir():
            if path.name not in keep:
                path.unlink()

    def give(self, fault: Fault, **details: Any) -> None:
        """Write the fault of the next run."""
        aside = self.folder / ".fault.json"
        aside.write_text(json.dumps({**vars(fault), **details}))
        aside.replace(self.folder / "fault.json")

    def read(self) -> dict[str, Any] | None:
        """Return the fault; None without one."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "fault.json").read_text())
        except FileNotFoundError:
            return None
        return found

    def signal(self, name: str) -> bool:
        """Give the signal `name`; return False if it was given before."""
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def given(self, name: str) -> bool:
        """Return whether the signal `name` was given."""
        return (self.folder / name).exists()

    def take(self, name: str) -> bool:
        """Take the signal `name` back; return whether this call did."""
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return False
        return True

    def wait(self, name: str, seconds: float = _PATIENCE) -> bool:
        """Wait for a signal; return whether it was given."""
        until = time.monotonic() + seconds
        while not self.given(name) and time.monotonic() < until:
            time.sleep(0.01)
        return self.given(name)


class SparkInjector:
    """The hook of a driver or a worker: it counts points, and injects the fault at its point."""

    def __init__(self, orders: Orders, *, is_worker: bool) -> None:
        self.orders, self.is_worker = orders, is_worker
        self.seen: Counter[str] = Counter()

    def reached(self, point: str) -> None:
        """Inject the fault if this is its point."""
        fault = self.orders.read()
        if fault is None or fault["point"] != point:
            return
        if fault["kind"] == "zombie attempt":
            self._wake_zombie()
        elif self._nth(point) == fault["nth"] and self.orders.signal("met"):
            self._inject(fault)

    def _nth(self, point: str) -> int:
        """Return how often this point was reached before; all workers count together."""
        if self.is_worker:
            return next(n for n in range(10_000) if self.orders.signal(f"seen-{n}"))
        self.seen[point] += 1
        return self.seen[point] - 1

    def _inject(self, fault: dict[str, Any]) -> None:
        kind = fault["kind"]
        if kind.startswith("kill"):
            strike(kind, fault["driver"], fault["seed"], me=self.is_worker)
        elif kind in ("torn write", "failed write", "full disk"):
            self.orders.signal(kind)
        elif kind == "second driver":
            self.orders.signal("paused")
            self.orders.wait("go", 3 * _PATIENCE)
        else:
            self.orders.signal("dead")
            raise HaltError(kind)

    def _wake_zombie(self) -> None:
        """Let the sleeping attempt write its segment now, as soon as there is one."""
        if self.orders.given("asleep") and self.orders.signal("go"):
            self.orders.wait("written", 3.0)

    # -- what the harness replaces -----------------------------------------------------------------

    def before_write(self, path: Path, content: bytes) -> None:
        """Let the write of a file fail if a fault says so."""
        self.before_change()
        if self.orders.given("full disk"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if self.orders.take("failed write"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        if self.orders.take("torn write"):
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_name(f".{path.name}.{os.getpid()}-1.tmp")
            aside.write_bytes(content[: len(content) // 2])
            _kill(os.getpid())

    def before_change(self) -> None:
        """Let a change of a file fail if the run is dead."""
        if self.orders.given("dead"):
            raise HaltError("this run is dead")

    def before_segment(self, epoch: int) -> bool:
        """Let one attempt of a task sleep before it writes; return whether this is the one."""
        fault = self.orders.read()
        if fault is None or epoch < fault.get("sleeps", epoch + 1):
            return False
        if not self.orders.signal("asleep"):
            return False
        self.orders.wait("go")
        return True


def install(*, is_worker: bool) -> SparkInjector | None:
    """Install the faults in this process, if it belongs to a harness; return the injector."""
    if FOLDER not in os.environ:
        return None
    injector = SparkInjector(Orders(Path(os.environ[FOLDER])), is_worker=is_worker)
    fault_points.hook = injector.reached
    aside, delete, write = LocalStore._aside, LocalStore.delete, ShardState.write  # noqa: SLF001

    def aside_or_fail(self: LocalStore, path: str, content: bytes) -> Path:
        injector.before_write(Path(path), content)
        return aside(self, path, content)

    def delete_or_fail(self: LocalStore, path: str) -> None:
        injector.before_change()
        delete(self, path)

    def write_or_sleep(self: ShardState, changes: Any, epoch: int, attempt: Any) -> Any:
        woken = injector.before_segment(epoch)
        written = write(self, changes, epoch, attempt)
        if woken:
            injector.orders.signal("written")
            injector.orders.signal("met")
        return written

    LocalStore._aside = aside_or_fail  # type: ignore[method-assign]  # noqa: SLF001
    LocalStore.delete = delete_or_fail  # type: ignore[method-assign]
    ShardState.write = write_or_sleep  # type: ignore[method-assign]
    return injector


def strike(kind: str, driver: int, seed: int = 0, *, me: bool = False) -> None:
    """Kill a process of the driver with this id; with `me`, the worker that calls this."""
    if kind == "kill driver":
        _kill(driver)
    elif kind == "kill JVM":
        _kill(*(p.pid for p in psutil.Process(driver).children() if p.name() == "java"))
    elif kind == "kill worker":
        _kill(*([os.getpid()] if me else workers_of(driver)))
    elif me:
        _kill(*(p.pid for p in psutil.Process().parents() if _is_executor(p)))
    else:
        found = sorted(executors_of(driver))
        _kill(*(found and [random.Random(seed).choice(found)]))  # noqa: S311


def workers_of(driver: int) -> list[int]:
    """Return the ids of the Python workers of a driver that runs tasks itself, without daemons."""
    machines = [p for p in psutil.Process(driver).children() if p.name() == "java"]
    daemons = [p for jvm in machines for p in jvm.children() if p.name().startswith("python")]
    return [worker.pid for daemon in daemons for worker in daemon.children()]


def executors_of(driver: int) -> list[int]:
    """Return the ids of the executors on this machine that belong to the driver's cluster."""
    servers = psutil.Process(driver).parent()
    found = [] if servers is None else servers.children(recursive=True)
    return [p.pid for p in found if _is_executor(p)]


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any(_EXECUTOR in word for word in process.cmdline())
    except psutil.Error:
        return False


def _kill(*pids: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if os.getpid() in pids:
        _never()


def _never() -> NoReturn:
    while True:
        time.sleep(1)
