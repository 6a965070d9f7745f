"""A worker process with all its descendants: run to the end, watched, never left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = Path(__file__).resolve().parent.parent
_SAMPLE_S = 0.2
_GRACE_S = 20.0
_TAIL_LINES = 40


class WorkerError(RuntimeError):
    """A worker failed or took too long; the text ends with its last output."""


@dataclass(frozen=True)
class WorkerUsage:
    """The measurements of a worker's process tree, if the worker ended without an error."""

    peak_bytes: int
    cpu_seconds: float


def run_module(
    module: str, arguments: Sequence[str], log: Path, timeout: float, root: Path = _ROOT
) -> WorkerUsage:
    """Run `python -m module` of the checkout `root`, sampling its process tree until it ends."""
    paths = os.pathsep.join([str(root / "src"), str(root)])
    with log.open("wb") as sink:
        worker = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=root,
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    members: set[psutil.Process] = set()
    try:
        usage = _watch(worker, members, timeout)
    finally:
        end_tree(worker, members)
    if worker.returncode:
        msg = f"worker ended with {worker.returncode}; it said last:\n{_tail(log)}"
        raise WorkerError(msg)
    return usage


def _watch(
    worker: subprocess.Popen[bytes], members: set[psutil.Process], timeout: float
) -> WorkerUsage:
    """Return the usage of the tree, and add its processes to `members`.

    A process counts with the last sample of its processor time, at most 0.2 s before its end.
    """
    root = psutil.Process(worker.pid)
    give_up = time.monotonic() + timeout
    peak = 0
    seconds: dict[psutil.Process, float] = {}
    while True:
        try:
            worker.wait(_SAMPLE_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() > give_up:
                msg = f"worker was ended after {timeout:.0f} s without a result"
                raise WorkerError(msg) from None
            with suppress(psutil.NoSuchProcess):
                tree = [root, *root.children(recursive=True)]
                members.update(tree[1:])
                peak = max(peak, sum(map(resident, tree)))
                for member in tree:
                    with suppress(psutil.Error):
                        times = member.cpu_times()
                        seconds[member] = times.user + times.system
        else:
            return WorkerUsage(peak, sum(seconds.values()))


def resident(process: psutil.Process) -> int:
    """Return the memory of one process, shared pages divided among those that share them.

    Python workers are forks of one daemon and share most of their pages, so their
    plain RSS would count these many times. A JVM shares next to nothing, and
    adding up the shares of its gigabytes takes long enough to disturb the run. Only
    in the moment in which it spawns a process does it appear twice, with all its pages.
    """
    with suppress(psutil.Error, OSError):
        if is_java(process):
            parent = process.parent()
            forked = parent is not None and is_java(parent)
            return 0 if forked else int(process.memory_info().rss)
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def is_java(process: psutil.Process) -> bool:
    """Go by the program: a name may be that of the thread that spawned the process."""
    return Path(process.exe()).name == "java"


def end_tree(worker: subprocess.Popen[bytes], members: set[psutil.Process]) -> None:
    """Wait for the whole tree to be gone, and kill what does not go by itself.

    The JVM outlives its Python parent by a moment; the next run must not share
    the machine with it, nor its files be removed under it.
    """
    finished = worker.poll() is not None
    if not finished:
        worker.kill()
        worker.wait()
    left = _left(members, _GRACE_S if finished else 0)
    for member in left:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    _left(left, _GRACE_S)


def _left(members: Collection[psutil.Process], timeout: float) -> Collection[psutil.Process]:
    """Wait for processes to end, and return those that are left after `timeout` seconds."""
    for _ in range(len(members)):
        try:
            return list(psutil.wait_procs(members, timeout)[1])
        except FileNotFoundError:  # one of them ended while psutil opened it
            members = [m for m in members if m.is_running()]
    return members


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
