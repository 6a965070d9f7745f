"""Joins in any order and in order of time: how complete, how late, under slacks and targets.

Two streams of which a third of the rows is late by up to a second, the second stream 0.3 s behind
the first; 20 epochs in a second of event time, on the local host. Latency is as in QDJ (5.13): the
newest time of both streams when a pair is emitted, minus the pair's time, the later one of its
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lowwater as lw
from lowwater.watermarks.policy import WatermarkPolicy

ROWS = 40_000
SECONDS = 60
BEHIND_S = 0.3
REACH_MS = 200
EPOCHS_PER_SECOND = 20
KEYS = 20
_SEED = 3
_SECOND = 1_000_000
WAYS: dict[str, WatermarkPolicy] = {
    "slack 0": lw.slack("0 seconds"),
    "slack 0.2 s": lw.slack("200 milliseconds"),
    "slack 1 s": lw.slack("1 second"),
    "quality 0.90": lw.quality(0.90),
    "quality 0.95": lw.quality(0.95),
    "quality 0.99": lw.quality(0.99),
}


def orders(scale: float = 1.0) -> Iterator[str]:
    """Yield a line for each way and order: the share of pairs emitted, and their latency."""
    rows = round(ROWS * scale)
    streams = [_stream(rows, _SEED + i, BEHIND_S * i) for i in range(2)]
    wanted = _pairs(streams)
    for name, progress in WAYS.items():
        for order in ("free", "time"):
            late, in_order = _run(streams, progress, order)
            yield (
                f"{name}\torder={order}\tpairs {100 * len(late) / wanted:.2f} %\t"
                f"latency mean {late.mean():.3f} s\t95 % within {np.quantile(late, 0.95):.3f} s\t"
                f"{'in order' if in_order else 'not in order'}"
            )


def _stream(rows: int, seed: int, behind: float) -> tuple[np.ndarray, pa.Table]:
    """Return when rows come, in ticks, and the rows in that order."""
    rng = np.random.default_rng(seed)
    ticks = rng.integers(0, SECONDS * _SECOND, rows)
    delay = rng.integers(0, _SECOND, rows) * (rng.random(rows) < 1 / 3)
    order = np.argsort(ticks + delay, kind="stable")
    stamps = pa.array(ticks[order], pa.timestamp("us", "UTC"))
    table = pa.table({"ts": stamps, "key": rng.integers(0, KEYS, rows)})
    return (ticks + delay)[order] + round(behind * _SECOND), table


def _pairs(streams: list[tuple[np.ndarray, pa.Table]]) -> int:
    """Return the number of pairs of the exact answer."""
    total, reach = 0, REACH_MS * 1_000
    for key in range(KEYS):
        mine, other = (np.sort(_ticks(t.filter(pc.field("key") == key)["ts"])) for _, t in streams)
        since, upto = (
            np.searchsorted(other, mine - reach),
            np.searchsorted(other, mine + reach, "right"),
        )
        total += int((upto - since).sum())
    return total


def _ticks(column: Any) -> np.ndarray:
    return np.asarray(column.cast(pa.int64()))


def _run(
    streams: list[tuple[np.ndarray, pa.Table]], progress: WatermarkPolicy, order: Any
) -> tuple[np.ndarray, bool]:
    """Return the latency of each pair, in seconds, and whether pairs were in order of time."""
    step = _SECOND // EPOCHS_PER_SECOND
    last = int(max(came[-1] for came, _ in streams)) // step + 1
    feeds, epochs, newest = [], {}, np.zeros(last, np.int64)
    for came, table in streams:
        ends = np.searchsorted(came, np.arange(last + 1) * step)
        feeds.append(lw.feed(table.schema))
        epochs[feeds[-1]] = [table.slice(a, b - a) for a, b in pairwise(ends.tolist())]
        seen = np.concatenate(([0], np.maximum.accumulate(_ticks(table["ts"]))))
        newest = np.maximum(newest, seen[ends[1:]])
    found: list[tuple[int, np.ndarray]] = []

    def take(epoch: int, rows: pa.Table) -> None:
        found.append((epoch, _ticks(rows["time_max"])))

    a, b = (lw.stream(f, time="ts", watermark=progress) for f in feeds)
    band = (f"-{REACH_MS} milliseconds", f"{REACH_MS} milliseconds")
    query = a.join(b, on="key", band=band, order=order, time="max")
    query.run(epochs=epochs, host="local", sink=lw.to_callback(take))
    at = np.concatenate([times for _, times in found])
    then = np.concatenate([np.full(len(t), newest[min(e, last - 1)]) for e, t in found])
    return (then - at) / _SECOND, bool((np.diff(at) >= 0).all())
