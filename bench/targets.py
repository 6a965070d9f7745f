"""What monitor, adapter and quality tracker cost: a target against fixed slack, on ordered streams.

With every row in order both have a slack of nothing and give the same results, so that what differs
is their own work (QDJ 6.3.3). Processor time of one process, on the local host; the ways by turns,
in changing order, and the median of the ratios of neighbours.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.progress import Progress

ROWS = 2_000_000
SECONDS = 600
EPOCHS = 40
PAIRS = 11
_SEED = 7

Build = Callable[[lw.Stream, lw.Stream], lw.Stream]
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
        ways = [lambda p=p, b=build: _run(b, tables, p) for p in (lw.ordered(), lw.quality(0.95))]
        took = _by_turns(*ways)
        ratio = median(b / a for a, b in took)
        plain, aimed = (median(side) for side in zip(*took, strict=True))
        yield (
            f"target-{name}\t{len(tables[0])} rows\twithout {plain:.3f} s\twith {aimed:.3f} s\t"
            f"overhead {100 * (ratio - 1):+.2f} %"
        )


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


def _run(build: Build, tables: list[pa.Table], progress: Progress) -> float:
    """Return the processor time of a run."""
    feeds = [lw.feed(t.schema) for t in tables]
    query = build(*(lw.stream(f, time="ts", progress=progress) for f in feeds))
    size = -(-len(tables[0]) // EPOCHS)
    epochs = {
        f: [t.slice(i * size, size) for i in range(EPOCHS)]
        for f, t in zip(feeds, tables, strict=True)
        if any(f is s for s in query.assembly.sources)
    }
    gc.collect()
    began = time.process_time()
    query.run(epochs=epochs, host="local", sink=lw.callback(lambda *_: None))
    return time.process_time() - began


def _by_turns(*ways: Callable[[], float]) -> list[tuple[float, float]]:
    """Run both ways by turns, each first every other time; return their times, pair by pair."""
    for way in ways:
        way()
    plain, aimed = ways
    took = []
    for turn in range(PAIRS):
        if turn % 2:
            second, first = aimed(), plain()
        else:
            first, second = plain(), aimed()
        took.append((first, second))
    return took
