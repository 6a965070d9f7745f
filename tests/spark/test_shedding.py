"""Load shedding on Spark: a start sheds nothing, an overload does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from tests.wait import wait_until

SLOW = "length(regexp_replace(repeat(word, 4000), '[aeiou]+[a-z]', '_'))"
"""An expression that takes a machine about a millisecond."""


def recorded(path, seconds, rate):
    """Write a recording of an even rate, and return its path."""
    ticks = (np.arange(seconds * rate) / rate * 1e6).astype(np.int64)
    words = np.array(["harbour", "lowwater", "estuary", "neap"])[np.arange(len(ticks)) % 4]
    columns = {"ts": pa.array(ticks, pa.timestamp("us", "UTC")), "word": words}
    pq.write_table(pa.table(columns), path)
    return path


def start(path, tmp_path, sinks, watermark=None, **options):
    replay = lw.replay(path, arrival="ts", max_rows_per_epoch=500)
    stream = lw.stream(replay, time="ts", watermark=watermark or lw.slack("4500 milliseconds"))
    query = stream.with_columns(n=SLOW).window(range="200 milliseconds").agg(n=lw.sum("n"))
    return query.start(
        sink=sinks[0], dropped=sinks[1], checkpoint=str(tmp_path / "c"), shed=lw.shed(**options)
    )


@pytest.mark.parametrize(
    "watermark",
    [lw.slack("4500 milliseconds"), lw.slack("29 seconds"), lw.adaptive(), lw.quality(0.99)],
    ids=["slack", "a slack near the bound", "adaptive", "quality"],
)
def test_a_start_and_a_slack_near_the_bound_shed_nothing(spark, tmp_path, watermark):
    path = recorded(tmp_path / "calm.parquet", 20, 50)
    sinks = lw.to_memory(), lw.to_memory()
    run = start(path, tmp_path, sinks, watermark, latency="30 seconds", max_gap=10)
    wait_until(lambda: run.status().counts.get("in") == 1_000, 120)
    run.stop()
    status = run.status()
    assert status["shed"] == 0
    assert status.dropped["windows"] == 0
    assert status.dropped["load"] < 0.8


def test_an_overload_sheds(spark, tmp_path):
    path = recorded(tmp_path / "busy.parquet", 120, 5_000)
    sinks = lw.to_memory(), lw.to_memory()
    run = start(path, tmp_path, sinks, latency="4 seconds", max_gap=10, gives="max_gap")
    wait_until(lambda: run.status().dropped.get("windows", 0) > 0, 180)
    run.stop()
    status = run.status()
    assert status["shed"] > 0
    assert status.balanced
