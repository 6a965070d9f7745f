"""A run that has ended leaves nothing behind in the process: no objects, no thread."""

from __future__ import annotations

import gc
import threading
import weakref

import pyarrow.parquet as pq
import pytest

import lowwater as lw
from tests.spark.streams import cut, disordered
from tests.wait import wait_until

TIMES = 4


@pytest.fixture
def counted(spark, tmp_path):
    """Return a function that builds a query over two files, which may fail."""
    for i, piece in enumerate(cut(disordered(200, seconds=20, late_by=1).select(["ts"]), 2)):
        pq.write_table(piece, tmp_path / f"{i}.parquet")

    def query(*, failing=False):
        def incr(state, _):
            return 1 // 0 if failing else state + 1

        n = lw.aggregate("ts", init=lambda: 0, incr=incr, final=lambda s: s, returns="bigint")
        stream = lw.stream(lw.files(tmp_path), time="ts", watermark=lw.slack("1 second"))
        return stream.window(range="5 seconds").agg(n=n)

    return query


def ended(query, checkpoint):
    """Run a query until it has read its rows, or has failed; return a weak reference to the run."""
    run = query.start(sink=lw.to_memory(), checkpoint=str(checkpoint))
    try:
        wait_until(lambda: run.wait(0.1) or run.status()["in"] == 200)
    except lw.HostError:
        pass
    else:
        run.stop()
    return weakref.ref(run)


@pytest.mark.parametrize("failing", [False, True])
def test_runs_that_have_ended_leave_no_objects_and_no_threads(counted, tmp_path, failing):
    ended(counted(failing=failing), tmp_path / "first")
    before = threading.active_count()
    runs = [ended(counted(failing=failing), tmp_path / f"c{n}") for n in range(TIMES)]

    def gone():
        gc.collect()
        return all(run() is None for run in runs) and threading.active_count() < before + TIMES

    wait_until(gone)
