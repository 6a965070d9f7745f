"""The Lowwater sides: the same windows on the same stream."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

import lowwater as lw
from bench.epochs import Epoch
from bench.native import arrivals

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bench.cases import Case

_POLL_S = 0.05


def run(
    spark: SparkSession, case: Case, folder: Path, out: Path, checkpoint: Path
) -> dict[int, int] | None:
    """Run the query of `case` over all files in `folder`."""
    query = _query(spark, case, folder)
    prods = lw.early_every("1 millisecond") if case.prods else None
    query.run(sink=lw.to_parquet(str(out)), checkpoint=str(checkpoint), early=prods)
    return None


@contextmanager
def epochs_noted() -> Iterator[list[Epoch]]:
    """Note the epochs that run where Lowwater reads the source: Spark does not see each of them.

    The time of an epoch is from the end of the one before it to its own.
    """
    from lowwater.spark.epochs import SparkEpochs as Epochs

    noted: list[Epoch] = []
    original, ended = Epochs._run, [time.perf_counter()]  # noqa: SLF001

    def run_and_note(self: Epochs, *given: Any, **more: Any) -> None:
        original(self, *given, **more)
        now = time.perf_counter()
        noted.append(Epoch(len(noted), round((now - ended[-1]) * 1e3), 0, 0))
        ended.append(now)

    Epochs._run = run_and_note  # type: ignore[method-assign]  # noqa: SLF001
    try:
        yield noted
    finally:
        Epochs._run = original  # type: ignore[method-assign]  # noqa: SLF001


def watch(
    spark: SparkSession, case: Case, folder: Path, out: Path, checkpoint: Path
) -> dict[int, int]:
    """Let the query of `case` run on over all files; return the bytes of state by epoch.

    A bounded run would close every window in the end and leave no state to see.
    """
    rows = ds.dataset(folder, format="parquet").count_rows()
    query = _query(spark, case, folder)
    running = query.start(sink=lw.to_parquet(str(out)), checkpoint=str(checkpoint))
    sizes: dict[int, int] = {}
    try:
        while not running.wait(_POLL_S):
            status = running.status()
            sizes[status.epoch] = status.state_bytes
            if status["in"] >= rows:
                break
    finally:
        running.stop()
    return sizes


def _query(spark: SparkSession, case: Case, folder: Path) -> lw.Stream:
    if case.asks == "join":
        mine, other = (_stream(spark, case, folder / name) for name in ("0", "1"))
        return mine.join(other, on="key", band=("-2 seconds", "2 seconds"))
    if case.asks == "union":
        first, *others = (_stream(spark, case, at) for at in sorted(folder.iterdir()))
        stream = first.union(*others)
    else:
        stream = _stream(spark, case, folder)
    windows = stream.window(range=case.range, slide=case.slide)
    if not case.keyed:
        return windows.agg(n=lw.count(), total=lw.sum("value"))
    return windows.group_by("key").agg(n=lw.count(), total=lw.sum("value"), top=lw.max("value"))


def _stream(spark: SparkSession, case: Case, folder: Path) -> lw.Stream:
    source = (
        lw.files(str(folder), format="parquet", files_per_epoch=1)
        if case.fused
        else arrivals(spark, folder)
    )
    return lw.stream(source, time="ts", watermark=lw.slack("10 seconds"))
