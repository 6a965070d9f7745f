"""Kinds of windows: windows that rows end, several windows at once, windows over rows.

Unlike the other cases these run in one process, on the local host, next to code that does the same
without Lowwater. Each runs once unmeasured and then five times, by turns; the median is printed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lowwater as lw
from bench.data import home
from bench.session import open_session

ROWS = 1_000_000
MANY_ROWS = 10_000_000
"""Enough for rows, and not what an epoch costs anyway, to decide."""
SECONDS = 100_000
EPOCHS = 10
RANGE_S = 300
NAIVE_ROWS = 50_000
_REPETITIONS = 5
_SEED = 5


def kinds(scale: float = 1.0) -> Iterator[str]:
    """Yield a line for each kind: its name, and the seconds of each side."""
    table = _stream(round(ROWS * scale))
    yield from _slide_by_tuple(table)
    yield from _shared(table)
    yield from _shared(_stream(round(MANY_ROWS * scale)))
    yield from _rows(table)


def _stream(rows: int) -> pa.Table:
    """Rows in arrival order, each up to 10 s behind the newest."""
    rng = np.random.default_rng(_SEED)
    clock = np.sort(rng.integers(0, SECONDS * 1_000_000, rows))
    ticks = np.maximum(clock - rng.integers(0, 10_000_000, rows) * (rng.random(rows) < 0.3), 0)
    return pa.table(
        {
            "ts": pa.array(ticks, pa.timestamp("us", "UTC")),
            "key": rng.integers(0, 100, rows),
            "value": rng.normal(size=rows),
        }
    )


def _local(table: pa.Table, build: Callable[[lw.Stream], lw.Query]) -> lw.Outcome:
    feed = lw.feed(table.schema)
    query = build(lw.stream(feed, time="ts", watermark=lw.slack("10 seconds")))
    size = -(-len(table) // EPOCHS)
    epochs = [table.slice(i * size, size) for i in range(EPOCHS)]
    return query.run(epochs={feed: epochs}, host="local")


def _seconds(*contenders: Callable[[], Any]) -> list[float]:
    """Return the median time of each, run by turns."""
    took: list[list[float]] = [[] for _ in contenders]
    for run in contenders:
        run()
    for _ in range(_REPETITIONS):
        for mine, run in zip(took, contenders, strict=True):
            began = time.perf_counter()
            run()
            mine.append(time.perf_counter() - began)
    return [median(mine) for mine in took]


# -- windows that rows end -------------------------------------------------------------------------


def _slide_by_tuple(table: pa.Table) -> Iterator[str]:
    def ours() -> lw.Outcome:
        return _local(
            table,
            lambda s: s.window(range=f"{RANGE_S} seconds", slide=lw.rows(1)).agg(
                n=lw.count(), total=lw.sum("value")
            ),
        )

    ticks = np.sort(table["ts"].cast(pa.int64()).to_numpy())
    order = np.argsort(table["ts"].cast(pa.int64()).to_numpy(), kind="stable")
    values = table["value"].to_numpy()[order]
    own, naive = _seconds(ours, lambda: _naive(ticks, values))
    factor = len(table) / min(NAIVE_ROWS, len(table))
    yield (
        f"slide-by-tuple\tlowwater {own:.2f} s\tper tuple {naive * factor:.2f} s "
        f"(from {NAIVE_ROWS} of {len(table)} windows)\tratio {naive * factor / own:.1f}"
    )
    spark, rows = _spark_batch(table)
    found = len(ours().results)
    if found != rows:
        msg = f"slide-by-tuple: lowwater has {found} windows, Spark {rows}"
        raise RuntimeError(msg)
    told = f"lowwater {own:.2f} s\tspark batch {spark:.2f} s\tratio {spark / own:.1f}"
    yield f"slide-by-tuple\t{told}"


def _naive(ticks: np.ndarray, values: np.ndarray) -> list[tuple[int, float]]:
    """Look at all rows of a window for each window, as an evaluation per tuple does."""
    out = []
    chosen = np.linspace(0, len(ticks) - 1, min(NAIVE_ROWS, len(ticks))).astype(int)
    for last in chosen.tolist():
        first = int(np.searchsorted(ticks, ticks[last] - RANGE_S * 1_000_000, "right"))
        out.append((last + 1 - first, float(values[first : last + 1].sum())))
    return out


def _spark_batch(table: pa.Table) -> tuple[float, int]:
    """Ask Spark for the same over all rows at once; the session is warm."""
    with tempfile.TemporaryDirectory(prefix="kinds-", dir=home()) as work:
        place = Path(work)
        pq.write_table(table, place / "rows.parquet")
        spark = open_session("hdfs", place, {})
        try:
            spark.read.parquet(str(place / "rows.parquet")).createOrReplaceTempView("rows")
            spark.sql("SELECT count(*) FROM rows").collect()
            began = time.perf_counter()
            asked = spark.sql(
                "SELECT ts, count(*) OVER w AS n, sum(value) OVER w AS total FROM rows "
                f"WINDOW w AS (ORDER BY ts RANGE BETWEEN INTERVAL '{RANGE_S}' SECOND - "
                "INTERVAL '0.000001' SECOND PRECEDING AND CURRENT ROW)"
            )
            found = asked.dropDuplicates(["ts"]).count()
            return time.perf_counter() - began, int(found)
        finally:
            spark.stop()


# -- several windows at once -----------------------------------------------------------------------

_HOURS = {"hour": "1 hour", "half_day": "12 hours", "day": "24 hours"}


def _shared(table: pa.Table) -> Iterator[str]:
    def one(size: str) -> lw.Outcome:
        return _local(table, lambda s: s.window(range=size, slide="1 minute").agg(n=lw.count()))

    def together() -> lw.Outcome:
        several = lw.windows(**{name: (size, "1 minute") for name, size in _HOURS.items()})
        return _local(table, lambda s: s.window(several).agg(n=lw.count()))

    longest, shared, apart = _seconds(
        lambda: one("24 hours"), together, lambda: [one(size) for size in _HOURS.values()]
    )
    yield (
        f"shared-3\t{len(table)} rows\ttogether {shared:.3f} s\tthe longest alone {longest:.3f} s\t"
        f"ratio {shared / longest:.2f}\tthree queries {apart:.3f} s\tratio {apart / shared:.2f}"
    )


# -- windows over rows -----------------------------------------------------------------------------


def _rows(table: pa.Table) -> Iterator[str]:
    def ours(**more: Any) -> lw.Outcome:
        size = {"range": lw.rows(1_000), "slide": lw.rows(10)}
        named = {"n": lw.count(), "total": lw.sum("value")}
        return _local(table, lambda s: s.window(**size, **more).agg(**named))

    arriving, parted, ranked = _seconds(
        ours, lambda: ours(partition_by="key"), lambda: ours(on=lw.rank("ts"))
    )
    yield (
        f"rows-1000\tas they arrive {arriving:.2f} s\tby partition {parted:.2f} s\t"
        f"by rank {ranked:.2f} s\t{len(table) / arriving:.0f} rows/s"
    )
