"""The share of an epoch that is spent on checksums, on the local host with a checkpoint.

Timers stand around the calls that sum a piece or compare its sum. A local run pays for nothing else
than reading, kernels and the checkpoint, so the share is larger than on Spark.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import lowwater as lw
from bench.data import FULL, PAIR, DataSet, prepare
from lowwater.engine import pending_outputs, record, state_store
from lowwater.engine.checksum import checksum

_BAND = ("1000 seconds", "1001 seconds")
"""A band that keeps all rows of one side, a million, and gives few pairs."""


def checksums(scale: float = 1.0) -> Iterator[str]:
    """Yield a line for each query: epochs, seconds, and the part of them spent on checksums."""
    full, pair = FULL.scaled(scale), PAIR.scaled(scale)
    windows = _stream(full, "").window(range="60 seconds", slide="1 second").group_by("key")
    aggregates = {"n": lw.count(), "total": lw.sum("value"), "top": lw.max("value")}
    yield _line("files-60", windows.agg(**aggregates), full.rows)
    mine, other = (_stream(pair, name) for name in ("0", "1"))
    yield _line("join", mine.join(other, on="key", band=_BAND), 2 * pair.rows)


def _stream(data: DataSet, name: str) -> lw.Stream:
    source = lw.files(str(prepare(data) / name), format="parquet", files_per_epoch=1)
    return lw.stream(source, time="ts", watermark=lw.slack("10 seconds"))


def _line(name: str, query: lw.Query | lw.Stream, rows: int) -> str:
    with tempfile.TemporaryDirectory() as folder, _timed() as inside:
        out, checkpoint = lw.to_parquet(f"{folder}/out"), f"{folder}/checkpoint"
        began = time.perf_counter()
        running = query.start(host="local", sink=out, checkpoint=checkpoint)
        while running.status()["in"] < rows and not running.wait(0.05):
            pass
        running.stop()
        seconds, status = time.perf_counter() - began, running.status()
    share = sum(inside) / seconds
    return (
        f"{name}\t{status.epoch + 1} epochs in {seconds:.2f} s\t{status.cells} cells and rows in "
        f"state\t{len(inside)} checksums in {sum(inside):.3f} s\t{share:.2%}"
    )


@contextmanager
def _timed() -> Iterator[list[float]]:
    """Collect the seconds of each call that sums a piece, wherever the checkpoint calls it."""
    seconds: list[float] = []

    def timed(content: bytes, *identity: object) -> str:
        began = time.perf_counter()
        try:
            return checksum(content, *identity)
        finally:
            seconds.append(time.perf_counter() - began)

    with ExitStack() as patched:
        for module in (pending_outputs, record, state_store):
            patched.enter_context(patch.object(module, "checksum", timed))
        yield seconds
