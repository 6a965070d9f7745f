"""Shedding on Spark: a stream that is too fast for an expensive expression, with and without it.

A recording is replayed: first below the capacity of the machine, then two minutes at 2 or 5 times
its capacity. Capacity varies, so it is measured before and after. Each line has the ages of
results, the share of windows that were emitted, and the share that could be: capacity over load.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lowwater as lw
from bench.data import home
from bench.session import open_session
from experiments.harness.plot import BLUE, GREY, ORANGE, canvas, label, legend
from lowwater.sources.replay import _CLOCKS

LOADS = (2, 5)
CALM_S, BUSY_S = 20, 120
CALM_LOAD = 0.4
RANGE = "200 milliseconds"
RANGE_US = 200_000
LATENCY = "8 seconds"
BOUND_S = 8.0
MAX_GAP = 10
EXPENSIVE = "length(regexp_replace(repeat(word, 200), '[aeiou]+[a-z]', '_'))"
"""The expensive expression: a regular expression over a text of a thousand letters."""
TRIED_ROWS, WARM_UP, TRIED_EPOCHS, EPOCH_S = 10_000, 8, 12, 2.0
"""Capacity is measured with `WARM_UP` epochs of `TRIED_ROWS` rows to warm the machine up, then with
`TRIED_EPOCHS` epochs of about `EPOCH_S` seconds each."""


@dataclass
class ResultTimes:
    """The window ends of results in the recording (s), and their times by the wall clock (s)."""

    ends: list[float] = field(default_factory=list)
    came: list[float] = field(default_factory=list)
    started: float = 0.0

    def take(self, _: int, table: pa.Table) -> None:
        """Note the results of an epoch."""
        now = time.time()
        ends = pc.struct_field(table.column("window"), "end").cast(pa.int64()).to_numpy() / 1e6
        self.ends += ends.tolist()
        self.came += [now] * len(ends)

    @property
    def ages(self) -> np.ndarray:
        """The ages of results."""
        return np.array(self.came) - self.started - np.array(self.ends)


def shedding(scale: float = 1.0, plot: str = "bench/results/shedding.png") -> Iterator[str]:
    """Yield a line for each load, with and without shedding; draw the ages."""
    busy = max(10, round(BUSY_S * scale))
    with tempfile.TemporaryDirectory(dir=home()) as scratch:
        open_session("hdfs", Path(scratch), {})
        warm = _capacity(Path(scratch), TRIED_ROWS, WARM_UP)
        first = capacity = _capacity(Path(scratch), round(warm * EPOCH_S), TRIED_EPOCHS)
        yield f"shedding: capacity {capacity:,.0f} rows/s of {EXPENSIVE}"
        found: dict[tuple[int, bool], ResultTimes] = {}
        for load in LOADS:
            for shed in (True, False):
                seen, status = _run(Path(scratch), first, load, busy, shed=shed)
                found[load, shed] = seen
                before = capacity
                if shed:
                    capacity = _capacity(Path(scratch), round(first * EPOCH_S), TRIED_EPOCHS)
                could = (before + capacity) / 2 / (first * load)
                yield _line(load, seen, status, busy, could=could if shed else None)
                if shed:
                    yield f"shedding: capacity after it {capacity:,.0f} rows/s"
        _draw(found, plot)
        yield f"shedding: drawn in {plot}"


def _recorded(path: Path, intervals: list[tuple[float, float]]) -> Path:
    """Write the rows of intervals, each given by its seconds and its rows per second."""
    times, start = [], 0.0
    for seconds, rate in intervals:
        times.append(start + np.arange(round(seconds * rate)) / rate)
        start += seconds
    ticks = (np.concatenate(times) * 1e6).astype(np.int64)
    words = np.array(["harbour", "lowwater", "estuary", "neap", "spring"])
    table = pa.table(
        {
            "ts": pa.array(ticks, pa.timestamp("us", "UTC")),
            "word": words[np.arange(len(ticks)) % len(words)],
        }
    )
    pq.write_table(table, path)
    return path


def _query(path: Path, **options: Any) -> lw.Query:
    recording = lw.replay(path, arrival="ts", **options)
    stream = lw.stream(recording, time="ts", watermark=lw.ordered())
    return (
        stream.with_columns(letters=EXPENSIVE)
        .window(range=RANGE)
        .agg(n=lw.count(), letters=lw.sum("letters"))
    )


def _capacity(scratch: Path, rows: int, epochs: int) -> float:
    """Return the rows per second that can be processed, in epochs of a given number of rows."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        path = _recorded(Path(folder) / "tried.parquet", [(1.0, epochs * rows)])
        run = _query(path, speed=None, max_rows_per_epoch=rows).start(
            sink=lw.to_memory(), checkpoint=str(Path(folder) / "checkpoint")
        )
        noted: list[tuple[int, float, int]] = []
        while not run.wait(0.02):
            status = run.status()
            if not noted or status.epoch > noted[-1][0]:
                noted.append((status.epoch, time.time(), status["in"]))
        run.stop()
    # The first epochs are slow and do not show the capacity.
    (_, start, before), *_, (_, end, after) = noted[2:]
    return (after - before) / (end - start)


def _run(
    scratch: Path, capacity: float, load: int, busy: int, *, shed: bool
) -> tuple[ResultTimes, lw.Status]:
    name = f"{load}-{'shed' if shed else 'all'}"
    intervals = [(CALM_S, CALM_LOAD * capacity), (busy, load * capacity)]
    query = _query(_recorded(scratch / f"{name}.parquet", intervals))
    seen = ResultTimes()
    _CLOCKS.clear()  # one recording at a time
    run = query.start(
        sink=lw.to_callback(seen.take),
        checkpoint=str(scratch / name),
        shed=lw.shed(latency=LATENCY, max_gap=MAX_GAP) if shed else None,
    )
    while not _CLOCKS:
        run.wait(0.01)
    seen.started = next(iter(_CLOCKS.values())).began
    run.wait(CALM_S + busy + (2 * BOUND_S if shed else 0.0))
    status = run.status()
    run.stop()
    return seen, status


def _line(
    load: int, seen: ResultTimes, status: lw.Status, busy: int, *, could: float | None
) -> str:
    """Return the line on the ages of results and, with shedding, the share of windows emitted."""
    ends, ages = np.array(seen.ends), seen.ages
    loaded = (ends > CALM_S + 5) & (ends <= CALM_S + busy)
    delivered = len(np.unique(ends[loaded])) / ((busy - 5) * 1e6 / RANGE_US)
    way = "without" if could is None else "with shedding"
    oldest = ages[ends > CALM_S].max(initial=0.0)
    line = (
        f"shedding: {load} x capacity {way}: oldest result {oldest:.1f} s, "
        f"99 % under {np.quantile(ages[ends > CALM_S], 0.99) if (ends > CALM_S).any() else 0:.1f} s"
    )
    if could is None:
        return line
    return (
        f"{line} (bound {BOUND_S:g} s); windows delivered {delivered:.1%}, capacity/load "
        f"{could:.1%}, ratio {delivered / could:.2f}; rows shed {status['shed']:,} of "
        f"{status['in']:,}"
    )


def _draw(found: dict[tuple[int, bool], ResultTimes], plot: str) -> None:
    figure, axes = canvas("Age of results when the stream is too fast", len(LOADS))
    for each, load in zip(axes, LOADS, strict=True):
        for shed, colour, name in ((False, ORANGE, "without"), (True, BLUE, "with shedding")):
            seen = found[load, shed]
            each.plot(seen.ends, seen.ages, ".", ms=3, color=colour, label=name)
        each.axhline(BOUND_S, ls=":", color=GREY)
        each.axvline(CALM_S, ls=":", color=GREY)
        each.set_ylim(0, 60)
        label(each, f"{load} x capacity from {CALM_S} s on", "window end, s", "age of result, s")
        legend(each, loc="upper left")
    Path(plot).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(plot)
