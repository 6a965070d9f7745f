"""A worker process with all its descendants: run to the end, watched, never left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = Path(__file__).resolve().parent.parent
_SAMPLE_S = 0.2
_TAIL_LINES = 40


class WorkerError(RuntimeError):
    """A worker failed or took too long; the text ends with what it last said."""


@dataclass(frozen=True)
class Watched:
    """What the parent saw of a worker that ended well."""

    peak_bytes: int


def run_module(module: str, arguments: Sequence[str], log: Path, timeout: float) -> Watched:
    """Run `python -m module`, sampling the memory of its process tree until it ends."""
    with log.open("wb") as sink:
        worker = subprocess.Popen(  # noqa: S603 (this interpreter, our own module)
            [sys.executable, "-m", module, *arguments],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    try:
        peak = _watch(worker, timeout)
    finally:
        _end(worker)
    if worker.returncode:
        msg = f"worker ended with {worker.returncode}; it said last:\n{_tail(log)}"
        raise WorkerError(msg)
    return Watched(peak)


def _watch(worker: subprocess.Popen[bytes], timeout: float) -> int:
    """Return the largest sum of memory seen over the tree, in bytes."""
    tree = psutil.Process(worker.pid)
    give_up = time.monotonic() + timeout
    peak = 0
    while True:
        try:
            worker.wait(_SAMPLE_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() > give_up:
                msg = f"worker was ended after {timeout:.0f} s without a result"
                raise WorkerError(msg) from None
            with suppress(psutil.NoSuchProcess):
                members = [tree, *tree.children(recursive=True)]
                peak = max(peak, sum(map(_resident, members)))
        else:
            return peak


def _resident(process: psutil.Process) -> int:
    """Return the memory of one process, shared pages divided among those that share them.

    Python workers are forks of one daemon and share most of their pages, so their
    plain RSS would count these many times. A JVM shares next to nothing, and
    adding up the shares of its gigabytes takes long enough to disturb the run.
    """
    with suppress(psutil.Error, OSError):
        if process.name() != "java":
            for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
        return int(process.memory_info().rss)
    return 0


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the tree: nothing after a good run, all of it otherwise."""
    if worker.poll() is not None:
        return
    with suppress(psutil.NoSuchProcess):
        for member in psutil.Process(worker.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                member.kill()
    worker.kill()
    worker.wait()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
