"""The cost of monitor, adapter and quality tracker: a target against fixed slack, rows in order.

With every row in order both have a slack of 0 and the same results, so that only their own work
differs (QDJ 6.3.3). Processor time of one process, on the local host; the ways side by
side, epoch by epoch, and of each epoch its least time in all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

import lowwater as lw
from experiments.harness.side_by_side import excess, in_step, least
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.watermarks.policy import WatermarkPolicy

ROWS = 2_000_000
SECONDS = 600
EPOCHS = 40
RUNS = 11
_SEED = 7

Build = Callable[[lw.Stream, lw.Stream], lw.Query | lw.Stream]
_BUILDS: dict[str, Build] = {
    "windows": lambda a, _: (
        a.window(range="60 seconds", slide="1 second")
        .group_by("key")
        .agg(n=lw.count(), total=lw.sum("value"))
    ),
    "join": lambda a, b: a.join(b, on="key", band=("-50 milliseconds", "50 milliseconds")),
}


def targets(scale: float = 1.0) -> Iterator[str]:
    """Yield a line for each query: processor time with and without a target, and what it adds."""
    tables = [_ordered(round(ROWS * scale), _SEED + i) for i in range(2)]
    for name, build in _BUILDS.items():
        ways = [_built(build, tables, p) for p in (lw.quality(0.95), lw.ordered())]
        blocks = [_cut(t) for t in tables[: len(ways[0].sources)]]
        _, took = in_step(ways, blocks, RUNS)
        aimed, plain = least(took)
        yield (
            f"target-{name}\t{len(tables[0])} rows\twithout {plain:.3f} s\twith {aimed:.3f} s\t"
            f"overhead {excess(took):+.2f} %"
        )


def _built(build: Build, tables: list[pa.Table], progress: WatermarkPolicy) -> PhysicalPlan:
    made = build(*(lw.stream(lw.feed(t.schema), time="ts", watermark=progress) for t in tables))
    return made.assembly


def _ordered(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ticks = np.sort(rng.integers(0, SECONDS * 1_000_000, rows))
    return pa.table(
        {
            "ts": pa.array(ticks, pa.timestamp("us", "UTC")),
            "key": rng.integers(0, 1_000, rows),
            "value": rng.normal(size=rows),
        }
    )


def _cut(table: pa.Table) -> list[pa.Table]:
    size = -(-len(table) // EPOCHS)
    return [table.slice(i * size, size) for i in range(EPOCHS)]
