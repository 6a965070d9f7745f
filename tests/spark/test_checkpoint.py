"""A checkpoint goes with one query; another is refused, with the way out."""

from __future__ import annotations

import json

import pytest

import lowwater as lw
from tests.spark.streams import SCHEMA, cut, disordered


@pytest.fixture
def feed():
    return lw.feed(SCHEMA)


def counting(feed, **window):
    window = window or {"range": "5 seconds"}
    return lw.stream(feed, time="ts", watermark=lw.slack("4 seconds")).window(**window)


def run(query, feed, checkpoint, pieces=2):
    epochs = {feed: cut(disordered(200, seconds=20, late_by=3), pieces)}
    return query.run(epochs=epochs, host="spark", checkpoint=str(checkpoint))


def test_another_window_or_query_is_refused(spark, feed, tmp_path):
    run(counting(feed).agg(n=lw.count()), feed, tmp_path / "c")
    with pytest.raises(lw.StateError, match=r"its window window is .* new checkpoint"):
        run(counting(feed, range="6 seconds").agg(n=lw.count()), feed, tmp_path / "c")
    with pytest.raises(lw.StateError, match="its window aggregates n is"):
        run(counting(feed).agg(n=lw.sum("value")), feed, tmp_path / "c")
    with pytest.raises(lw.StateError, match="group by"):
        run(counting(feed).group_by("key").agg(n=lw.count()), feed, tmp_path / "c")


def test_another_version_is_refused(spark, feed, tmp_path):
    query = counting(feed).agg(n=lw.count())
    run(query, feed, tmp_path / "c")
    mark = tmp_path / "c" / "lowwater.json"
    kept = json.loads(mark.read_text())
    mark.write_text(json.dumps({**kept, "version": kept["version"] + 1}))
    with pytest.raises(lw.StateError, match="version"):
        run(query, feed, tmp_path / "c")


def test_a_folder_of_something_else_is_refused(spark, feed, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(lw.StateError, match="not of a checkpoint"):
        run(counting(feed).agg(n=lw.count()), feed, tmp_path)


def test_a_finished_run_started_again_gives_the_same_counts(spark, feed, tmp_path):
    query = counting(feed).agg(n=lw.count())
    first = run(query, feed, tmp_path / "c")
    again = run(query, feed, tmp_path / "c")
    assert again.status.counts == first.status.counts
    assert len(again.results) == 0
