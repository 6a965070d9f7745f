"""A worker that dies costs a repetition, not the query; an error names its cause in one line."""

from __future__ import annotations

import os
import re
import signal

import pyarrow.parquet as pq
import pytest

import lowwater as lw
from tests.spark.streams import cut, disordered, ordered_rows

pytestmark = pytest.mark.spark


def deadly(folder, times):
    """Return a query whose aggregate kills the worker `times` times."""
    stream = folder / "stream"
    if not stream.exists():
        stream.mkdir()
        rows = disordered(300, seconds=30, late_by=3).select(["ts", "key", "value"])
        for i, piece in enumerate(cut(rows, 3)):
            pq.write_table(piece, stream / f"{i}.parquet")
    marks = [folder / f"died-{n}" for n in range(times)]

    def incr(state, value):
        for mark in marks:
            if not mark.exists():
                mark.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
        return state + value

    total = lw.aggregate("value", init=lambda: 0, incr=incr, final=lambda s: s, returns="bigint")
    source = lw.stream(
        lw.files(stream, files_per_epoch=1), time="ts", watermark=lw.slack("2 seconds")
    )
    return source.window(range="5 seconds").group_by("key").agg(total=total)


@pytest.mark.parametrize("times", [1, 3])
def test_workers_die_and_the_query_lives(spark, tmp_path, times):
    calm = deadly(tmp_path, 0).run(host="local").results
    found = deadly(tmp_path, times).run(host="spark").results
    assert len(list(tmp_path.glob("died-*"))) == times
    assert ordered_rows(found) == ordered_rows(calm)


def test_a_worker_that_always_dies_is_named_in_one_line(spark, tmp_path):
    with pytest.raises(lw.HostError) as failed:
        deadly(tmp_path, 1_000).run(host="spark")
    text = str(failed.value)
    assert "epoch" in text
    assert "a Python worker of Spark ended unexpectedly" in text
    assert "\n" not in text
    assert "Py4J" not in text
    assert "calling" not in text


def test_an_error_in_user_code_is_named_in_one_line(spark, tmp_path):
    def incr(state, value):
        raise ZeroDivisionError("of the user")

    deadly(tmp_path, 0)
    total = lw.aggregate("value", init=lambda: 0, incr=incr, final=lambda s: s, returns="bigint")
    source = lw.stream(lw.files(tmp_path / "stream"), time="ts", watermark=lw.slack("2 seconds"))
    query = source.window(range="5 seconds").agg(total=total)
    for host in ("spark", "local"):
        with pytest.raises(lw.HostError) as failed:
            query.run(host=host)
        text = str(failed.value)
        assert re.match(r"epoch 0 failed in a row with value = \S+, operator 'window'", text), text
        assert "one of the files" in text
        assert "ZeroDivisionError: of the user" in text
        assert "A restart reads the same rows and fails again" in text
        assert "\n" not in text
