"""The generated streams: deterministic, disordered within a bound, cached as Parquet.

Rows are written in arrival order. The clock of arrivals advances evenly over the
event time; 70 % of the rows carry the clock itself, the others lag behind it,
mostly by less than 2 s and never by more than 10 s. The running maximum of time
never exceeds the clock, so a slack of 10 s admits every row on either side and
the results of both can be compared row by row.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

MAX_LATENESS_US = 10_000_000
"""No row lags further behind the newest one than this: the slack of every case."""

_VERSION = 1  # part of the cache key: raise it when the generator changes
_SEED = 20_240_101
_START_US = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z, on a boundary of every window
_DELAYED = 0.3
_MOSTLY_US = 2_000_000
_STRAGGLERS = 0.05
_ROW_GROUPS = 8  # several per file, or Spark could not split one between its cores

_SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("key", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)

Ticks = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DataSet:
    """Streams of `rows` rows each over `seconds` of event time, cut into `files` epochs.

    There is one, in a folder of files, or several, each in a folder of its own. `keys` are drawn
    with the weight of their number to the power of `-skew`.
    """

    name: str
    rows: int
    files: int
    seconds: int = 1_000
    streams: int = 1
    keys: int = 1_000
    skew: float = 0.5
    together: bool = False
    """Whether what would be several streams comes as one, the rows of an epoch in one file."""

    def scaled(self, factor: float) -> DataSet:
        """Return the same stream with fewer or more rows over the same time and files."""
        return replace(self, rows=max(self.files, round(self.rows * factor)))


FULL = DataSet("full", rows=10_000_000, files=20)
SMALL = DataSet("small", rows=500_000, files=10)
TINY = DataSet("tiny", rows=3_000, files=30, seconds=30)
LONG = DataSet("long", rows=1_000_000, files=100)
PAIR = DataSet("pair", rows=1_000_000, files=20, streams=2, keys=10_000, skew=0.0)
EIGHT = DataSet("eight", rows=500_000, files=20, streams=8)
ONE_OF_EIGHT = replace(EIGHT, name="one-of-eight", together=True)


def home() -> Path:
    """Return the folder for cached data and temporary output, outside the repository."""
    chosen = os.environ.get("LOWWATER_BENCH_DIR")
    folder = Path(chosen) if chosen else Path(tempfile.gettempdir()) / "lowwater-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def prepare(data: DataSet) -> Path:
    """Return the folder that holds `data`, generating it when it is not there yet.

    The folder appears under its name only when it is complete, so a generator that
    was interrupted leaves nothing that a later run would take for the whole stream.
    """
    cached = home() / f"{data.name}-{data.rows}x{data.files}-{data.seconds}s-v{_VERSION}"
    if cached.is_dir():
        return cached
    unfinished = Path(tempfile.mkdtemp(prefix="generating-", dir=home()))
    try:
        _write_all(data, unfinished)
        if not cached.is_dir():  # another process may have been faster
            unfinished.rename(cached)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return cached


def _write_all(data: DataSet, folder: Path) -> None:
    """Write the files of all streams."""
    streams = [_epochs(data, stream) for stream in range(data.streams)]
    oldest = int(time.time()) - data.files
    for number, tables in enumerate(zip(*streams, strict=True)):
        if data.together or data.streams == 1:
            _write(pa.concat_tables(tables), folder, number, oldest)
            continue
        for stream, table in enumerate(tables):
            _write(table, folder / str(stream), number, oldest)


def _write(table: pa.Table, folder: Path, number: int, oldest: int) -> None:
    """Write the file of an epoch, with ascending names and times of modification.

    Spark's file source takes the oldest file first and breaks ties by path; both
    orders are the order of arrival here.
    """
    folder.mkdir(exist_ok=True)
    path = folder / f"part-{number:05d}.parquet"
    pq.write_table(table, path, row_group_size=max(1, -(-len(table) // _ROW_GROUPS)))
    os.utime(path, (oldest + number, oldest + number))


def _epochs(data: DataSet, stream: int) -> Iterator[pa.Table]:
    """Yield the rows of a stream, epoch by epoch."""
    weights = np.arange(1, data.keys + 1, dtype=np.float64) ** -data.skew
    shares = np.cumsum(weights / weights.sum())
    bounds = np.linspace(0, data.rows, data.files + 1).astype(np.int64)
    newest = _START_US
    for number, (low, high) in enumerate(pairwise(bounds)):
        seed = [_SEED, data.rows, number] + ([stream] if stream else [])
        rng = np.random.default_rng(seed)
        times, newest = _times(data, np.arange(low, high, dtype=np.int64), newest, rng)
        keys = np.searchsorted(shares, rng.random(times.size), side="right")
        yield pa.table(
            [
                pa.array(times, pa.timestamp("us", tz="UTC")),
                pa.array(np.minimum(keys, data.keys - 1).astype(np.int64)),
                # Positive, so that sums do not cancel and 1e-9 relative is a fair demand.
                pa.array(rng.gamma(2.0, 10.0, times.size)),
            ],
            schema=_SCHEMA,
        )


def _times(
    data: DataSet, arrivals: Ticks, newest: int, rng: np.random.Generator
) -> tuple[Ticks, int]:
    """Return the times of the rows that arrive in these places, and the newest time so far."""
    clock = _START_US + arrivals * (data.seconds * 1_000_000) // data.rows
    delays = rng.exponential(_MOSTLY_US / 3, arrivals.size)
    stragglers = rng.random(arrivals.size) < _STRAGGLERS
    delays[stragglers] = rng.uniform(_MOSTLY_US, MAX_LATENESS_US, int(stragglers.sum()))
    delays[rng.random(arrivals.size) >= _DELAYED] = 0
    lag = np.clip(delays, 0, MAX_LATENESS_US).astype(np.int64)
    times = np.maximum(clock - lag, _START_US)
    running = np.maximum.accumulate(np.maximum(times, newest))
    lateness = int((running - times).max(initial=0))
    if lateness > MAX_LATENESS_US:
        msg = f"a row is {lateness} µs late, more than the slack of {MAX_LATENESS_US} µs"
        raise AssertionError(msg)
    return times, int(running[-1]) if running.size else newest
