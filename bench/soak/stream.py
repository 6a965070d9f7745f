"""The streams of the soak: rows that are a pure function of stream and tick, and their feeder.

A tick is about half a second of arrivals, and one file of each stream. Every minute has a burst.
The keys change all the time: each second, one key leaves the set of keys and a new one enters it.
Most rows arrive in order, some come up to two seconds late, and a few up to `MAX_DELAY_S`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TICK_S = 600 / 1024
"""So the memory of `lw.files`, which spills after 1024 files, repeats itself after ten minutes."""
MAX_DELAY_S = 15.0
RATES = {"views": 400, "clicks": 100}
"""Rows per second of each stream between bursts."""
KEYS = 300
_BURST_S, _BURST_EVERY_S, _BURST_TIMES = 5, 60, 4
_SHARES = (0.8, 0.15, 0.05)
_MICROSECONDS = 1_000_000
_BEHIND = 120
"""The number of ticks that a file stays in its folder after its rows were counted."""

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("key", pa.int64()),
        ("id", pa.int64()),
        ("value", pa.int64()),
    ]
)


def rows(stream: str, tick: int, began_us: int) -> pa.Table:
    """Return the rows of a stream that arrive in `tick`, in arrival order."""
    number = list(RATES).index(stream)
    chosen = np.random.default_rng((number, tick))
    second = tick * TICK_S
    burst = _BURST_TIMES if second % _BURST_EVERY_S >= _BURST_EVERY_S - _BURST_S else 1
    count = int(RATES[stream] * TICK_S) * burst
    arrivals = second + np.sort(chosen.uniform(0, TICK_S, count))
    most = np.array([0.2, 2.0, MAX_DELAY_S])[chosen.choice(3, count, p=_SHARES)]
    times = began_us + np.rint((arrivals - chosen.uniform(0, most)) * _MICROSECONDS)
    keys = int(second) + np.minimum(chosen.geometric(4 / KEYS, count), KEYS)
    ids = (tick * 100_000 + np.arange(count)) * len(RATES) + number
    values = chosen.integers(0, 1_000, count)
    return pa.table([times.astype("datetime64[us]"), keys, ids, values], schema=SCHEMA)


def all_rows(stream: str, ticks: Iterable[int], began_us: int) -> pa.Table:
    """Return the rows of a stream in all `ticks`."""
    return pa.concat_tables(rows(stream, tick, began_us) for tick in ticks)


class Feeder(threading.Thread):
    """A thread that writes the files of each tick on time, and deletes those that were read.

    `fed` are the rows of each stream so far; `counted` is set to the rows that the query has
    counted, and `expected` turns rows fed into that count.
    """

    def __init__(self, folder: Path, began_us: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.began_us = folder, began_us
        self.ticks, self.counted = 0, 0
        self.fed = dict.fromkeys(RATES, 0)
        self._totals: list[int] = []
        self._deleted = 0
        self._over = threading.Event()
        for stream in RATES:
            (folder / stream).mkdir(parents=True)

    @property
    def expected(self) -> int:
        """The rows that the query counts once it has read all files: it reads the views twice."""
        return 2 * self.fed["views"] + self.fed["clicks"]

    def run(self) -> None:
        """Write a tick when its time is over, until `finish` is called."""
        while True:
            due = self.began_us / _MICROSECONDS + (self.ticks + 1) * TICK_S
            if self._over.wait(max(0.0, due - time.time())):
                return
            for stream in self.fed:
                self._write(stream)
            self._totals.append(self.expected)
            self.ticks += 1
            self._delete()

    def finish(self) -> None:
        """Write no more ticks."""
        self._over.set()
        self.join()

    def _write(self, stream: str) -> None:
        table = rows(stream, self.ticks, self.began_us)
        path = _path(self.folder, stream, self.ticks)
        pq.write_table(table, path.with_suffix(".partial"))
        path.with_suffix(".partial").rename(path)
        self.fed[stream] += len(table)

    def _delete(self) -> None:
        """Delete the files of ticks that the query has counted for a minute."""
        while (
            self._deleted + _BEHIND < self.ticks
            and self._totals[self._deleted + _BEHIND] <= self.counted
        ):
            for stream in self.fed:
                _path(self.folder, stream, self._deleted).unlink()
            self._deleted += 1


def _path(folder: Path, stream: str, tick: int) -> Path:
    return folder / stream / f"{tick:09d}.parquet"
