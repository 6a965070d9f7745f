"""`lowwater.testing`: epochs in, outputs of each epoch back."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.testing import VirtualClock, feed, play


def counts(source, **watermark):
    return lw.stream(source, time="t", **watermark).window(range=10).agg(n=lw.count())


def test_outputs_of_all_epochs_are_those_of_a_run():
    cars = feed("t bigint")
    query = counts(cars, watermark=lw.slack(2))
    epochs = {cars: [[(1,), (13,)], [], [(5,), (26,)], [(3,), (None,)]]}
    outputs = play(query, epochs)
    out = query.run(epochs=epochs)
    assert [o.epoch for o in outputs] == [0, 1, 2, 3, 4]
    assert [r for o in outputs for r in o.results] == out.results.to_pylist()
    assert [r for o in outputs for r in o.late] == out.late.to_pylist()
    assert [r for o in outputs for r in o.malformed] == out.malformed.to_pylist()
    assert len(out.late) == 2
    assert len(out.malformed) == 1


def test_an_epoch_may_be_rows_or_a_table():
    cars = feed("t bigint")
    query = counts(cars, watermark=lw.ordered())
    rows, table = [{"t": 1}, {"t": 12}], pa.table({"t": [1, 12]})
    assert play(query, {cars: [rows]}) == play(query, {cars: [table]})


def test_early_results_follow_the_clock():
    cars = feed("t timestamp")
    query = (
        lw.stream(cars, time="t", watermark=lw.ordered()).window(range="1 minute").agg(n=lw.count())
    )
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    clock = VirtualClock("2024-05-01 12:00:00", per_epoch="20 seconds")
    epochs = {cars: [[(noon,)], [], [], [], []]}
    outputs = play(query, epochs, clock=clock, early=lw.early_every("1 minute"), estimate="raw")
    kinds = [[row["kind"] for row in output.results] for output in outputs]
    assert kinds.count(["early"]) == 1
    assert kinds[-1] == ["final"]


def test_dropped_windows_are_returned():
    cars = feed("t bigint")
    query = counts(cars, watermark=lw.ordered())
    epochs = {cars: [[(t,)] for t in range(0, 200, 5)]}
    outputs = play(query, epochs, shed=lw.shed(share=0.5, max_gap=2))
    dropped = [row["window"]["start"] for o in outputs for row in o.dropped]
    finals = [row["window"]["start"] for o in outputs for row in o.results]
    assert sorted(dropped + finals) == list(range(0, 200, 10))
    assert dropped


@pytest.mark.parametrize("given", [0, 2])
def test_every_feed_of_the_query_needs_epochs_and_no_other(given):
    cars = feed("t bigint")
    epochs = {key: [] for key in [cars, feed("t bigint")][:given]}
    with pytest.raises(lw.SpecError, match=f"rows for {given} feeds, but the query reads 1"):
        play(counts(cars, watermark=lw.ordered()), epochs)


def test_a_query_over_files_is_refused(tmp_path):
    (tmp_path / "1.csv").write_text("t\n1\n")
    files = lw.files(tmp_path, format="csv", schema="t bigint")
    with pytest.raises(lw.SpecError, match="over feeds only"):
        play(counts(files, watermark=lw.ordered()), {})
