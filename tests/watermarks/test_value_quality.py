"""Bounds on the error of results: what is told is true, by brute force over values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.local.host import LocalEpochs
from lowwater.watermarks.adaptive.quality_book import total

SECOND = 1_000_000
SCHEMA = "ts timestamp, key bigint, value double"
AGGREGATES = {
    "sum": (lambda: lw.sum("value"), np.sum),
    "avg": (lambda: lw.avg("value"), np.mean),
    "count": (lw.count, len),
    "max": (lambda: lw.max("value"), np.max),
    "min": (lambda: lw.min("value"), np.min),
    "median": (lambda: lw.median("value"), np.median),
}


def rows(seed, n=600, seconds=60, by=6.0):
    """Rows in order of arrival; large values are late."""
    random = np.random.default_rng(seed)
    ts = np.sort(random.uniform(0, seconds, n))
    value = random.lognormal(0, 1, n) - 0.2
    late = random.exponential(by, n) * (value > 1.5)
    order = np.argsort(ts + late, kind="stable")
    ticks = (ts[order] * SECOND).astype(np.int64)
    columns = pa.array(ticks, pa.timestamp("us", "UTC")), random.integers(0, 3, n), value[order]
    return pa.table(dict(zip(("ts", "key", "value"), columns, strict=True)))


def cut(table, pieces):
    ends = [i * len(table) // pieces for i in range(pieces + 1)]
    return [table.slice(a, b - a) for a, b in pairwise(ends)]


def ran(query, tables, shards=2):
    local = LocalEpochs(query.assembly.with_shards(shards), lw.VirtualClock())
    for table in tables:
        local.run([[table]], last=[False])
    for _ in range(2):
        local.run([[]], last=[True])
    return local


def results(table, how, *, size, slide, keyed):
    """The true value of each window and group."""
    ts, value = np.asarray(table["ts"].cast(pa.int64())), np.asarray(table["value"])
    key = np.asarray(table["key"]) if keyed else np.zeros(len(ts), np.int64)
    found = {}
    for start in range(-size, int(ts.max()) + 1, slide):
        inside = (ts >= start) & (ts < start + size)
        for k in np.unique(key[inside]).tolist():
            found[start, k] = how(value[inside & (key == k)])
    return found


def emitted(out, name):
    """The delivered value of each window and group."""
    found = {}
    for row in out.results.to_pylist():
        start = round(row["window"]["start"].timestamp() * SECOND)
        found[start, row.get("key", 0)] = row[name]
    return found


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("slides", [1, 2])
def test_the_share_of_results_within_the_error_is_as_told(name, keyed, slides):
    make, how = AGGREGATES[name]
    counted = len if name == "median" else how
    table = rows(7)
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.quality(error=0.1, share=0.6))
    windows = stream.window(range=f"{2 * slides} seconds", slide="2 seconds")
    grouped = windows.group_by("key") if keyed else windows
    query = grouped.agg(v=make(), n=lw.count())
    pieces = cut(table, 60)
    out = query.run(epochs={feed: pieces}, host="local")
    given = emitted(out, "n" if name == "median" else "v")
    rowed = emitted(out, "n")
    size = {"size": 2 * slides * SECOND, "slide": 2 * SECOND, "keyed": keyed}
    true, count = results(table, counted, **size), results(table, len, **size)

    def within(place):
        if place not in given:
            return False
        errors = [abs(given[place] - true[place]) / abs(true[place])]
        errors.append(abs(rowed[place] - count[place]) / count[place])
        return max(errors) <= 0.1 + 1e-9

    (one,) = ran(query, pieces).log.newest().adapting.windows
    every = total(one.book.spans)
    good = sum(map(within, true))
    assert (every.given, every.given + every.lost) == (good, len(true))
    assert 0 < good < len(true)
