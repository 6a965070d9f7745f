"""Samples of the running query: memory of its processes, files and bytes on disk, its status."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from bench.processes import is_java, resident

PARTS = {
    "state": "state",
    "control": "log",
    "outputs": "pending",
    "source": "spool",
    "spark": "Spark",
}
"""The folders of a checkpoint, and the name of each part."""
_FULL_GC = re.compile(r"Pause Full.*->(\d+)([KMG])\(")
_SCALE = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_TAIL_BYTES = 65_536


def sample(process: psutil.Process, folder: Path, began: float) -> dict[str, Any]:
    """Return one sample of the query whose files are in `folder`."""
    taken = {"hours": (time.time() - began) / 3_600, **memory(process), **_heap(folder / "gc.log")}
    for part, name in PARTS.items():
        taken[f"{name} files"], taken[f"{name} bytes"] = usage(folder / "checkpoint" / part)
    taken["checkpoint files"], taken["checkpoint bytes"] = usage(folder / "checkpoint")
    taken["input files"], taken["input bytes"] = usage(folder / "in")
    taken["output files"], taken["output bytes"] = usage(folder / "out")
    taken["local files"], taken["local bytes"] = usage(folder / "local")
    return taken | status(folder)


def status(folder: Path) -> dict[str, Any]:
    """Return the status that the query has written last; empty before the first one."""
    with suppress(FileNotFoundError):
        return dict(json.loads((folder / "status.json").read_text()))
    return {}


def memory(process: psutil.Process) -> dict[str, int]:
    """Return the memory of the driver, of the JVM, and of Spark's Python processes together."""
    found = {"driver bytes": process.memory_info().rss, "JVM bytes": 0, "worker bytes": 0}
    cpu = sum(process.cpu_times()[:2])
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            found["JVM bytes" if is_java(child) else "worker bytes"] += resident(child)
            cpu += sum(child.cpu_times()[:2])
    return {**found, "cpu seconds": cpu}


def workers(process: psutil.Process) -> list[psutil.Process]:
    """Return Spark's Python workers: the children of its daemon."""
    found = []
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            parent = child.parent()
            if not is_java(child) and parent is not None and not is_java(parent):
                found.append(child)
    return found


def usage(folder: Path) -> tuple[int, int]:
    """Return the number of files under `folder`, and their bytes."""
    files = size = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(at, name)).st_size  # noqa: PTH116, PTH118
                files += 1
    return files, size


def _heap(log: Path) -> dict[str, int]:
    """Return the heap that was in use after the last full collection."""
    with suppress(FileNotFoundError), log.open("rb") as lines:
        lines.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        found = _FULL_GC.findall(lines.read().decode(errors="replace"))
        if found:
            return {"heap bytes": int(found[-1][0]) * _SCALE[found[-1][1]]}
    return {}
