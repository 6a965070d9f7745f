"""A recording comes back in the order of arrival, as fast as asked; the clock here is a fake."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw


class Clock:
    """A wall clock that stands until it is told to go on."""

    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(time, "time", fake)
    return fake


def recorded(tmp_path, arrivals, kind=None, **options):
    """Record rows numbered by their place in the file; return the replay, ready to be read."""
    table = pa.table({"n": range(len(arrivals)), "arrived": pa.array(arrivals, kind or pa.int64())})
    pq.write_table(table, tmp_path / "recording.parquet")
    source = lw.replay(tmp_path / "recording.parquet", arrival="arrived", **options)
    return source.prepare(str(tmp_path / "ready"))


def available(source, row):
    """The row up to which an epoch may read that begins at `row`."""
    end, content = source.available([row, source.content])
    assert content == source.content
    return end


def blocks(source, start, end):
    return source.blocks([start, source.content], [end, source.content])


def delivered(source, start, end):
    return [n for b in blocks(source, start, end) for n in source.read(b)["n"].to_pylist()]


def test_rows_come_in_the_order_of_arrival_and_equal_ones_as_recorded(tmp_path, clock):
    source = recorded(tmp_path, [30, 10, 20, 10])
    available(source, 0)
    clock.now += 100
    assert delivered(source, 0, available(source, 0)) == [1, 3, 2, 0]


def test_rows_come_when_they_arrived(tmp_path, clock):
    #  arrivals  10  12  15  20     the replay begins with the first
    #  wall      +0  +2  +5  +10
    source = recorded(tmp_path, [10, 12, 15, 20])
    reached = []
    for step in (0, 1, 1, 3, 4, 1):
        clock.now += step
        reached.append(source.available(source.begin())[0])
    assert reached == [1, 1, 2, 3, 3, 4]


def test_speed_makes_time_go_faster(tmp_path, clock):
    source = recorded(tmp_path, [0, 20, 40, 60], speed=20)
    reached = []
    for step in (0, 1, 1, 1):
        clock.now += step
        reached.append(source.available(source.begin())[0])
    assert reached == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        (pa.timestamp("us", "UTC"), 1_000_000),
        (pa.timestamp("ms"), 1_000),
        (pa.timestamp("s"), 1),
        (pa.int32(), 1),
        (pa.float64(), 1),
    ],
)
def test_arrival_may_be_a_timestamp_or_seconds(tmp_path, clock, kind, unit):
    source = recorded(tmp_path, [0 * unit, 5 * unit, 9 * unit], kind)
    assert available(source, 0) == 1
    clock.now += 5
    assert available(source, 0) == 2


def test_an_epoch_takes_no_more_rows_than_allowed(tmp_path, clock):
    source = recorded(tmp_path, [1, 1, 1, 1, 1], max_rows_per_epoch=2)
    assert [available(source, 0), available(source, 2), available(source, 4)] == [2, 4, 5]


def test_the_last_block_ends_the_stream(tmp_path, clock):
    source = recorded(tmp_path, [1, 2])
    assert not blocks(source, 0, 1)[0].last
    assert blocks(source, 1, 2)[0].last
    assert blocks(source, 2, 2) == []


@pytest.mark.parametrize("sign", [1, -1])
def test_rows_without_an_arrival_come_with_the_last(tmp_path, clock, sign):
    #  also before 1970, where times are negative
    source = recorded(tmp_path, [None, sign * 1000, sign * 1000 + 5, None])
    assert available(source, 0) == 1
    clock.now += 5
    assert delivered(source, 0, available(source, 0)) == [1, 2, 0, 3]


def test_a_replay_goes_on_where_the_checkpoint_is(tmp_path, clock):
    # A new process asks from row 2 on: the clock begins there, not at the first row.
    source = recorded(tmp_path, [0, 10, 20, 30])
    assert available(source, 2) == 3
    clock.now += 10
    assert available(source, 3) == 4


def test_an_empty_recording_is_an_empty_stream(tmp_path, clock):
    source = recorded(tmp_path, [])
    assert source.available(source.begin()) == source.begin()
    assert blocks(source, 0, 0) == []


def test_without_a_clock_rows_come_at_once_cut_as_asked(tmp_path):
    (tmp_path / "s.csv").write_text("n,arrived\n0,30\n1,10\n2,20\n")
    options = {"format": "csv", "schema": "n int, arrived bigint", "speed": None}
    for arrival, order in ((None, [0, 1, 2]), ("arrived", [1, 2, 0])):
        source = lw.replay(tmp_path / "s.csv", arrival=arrival, max_rows_per_epoch=2, **options)
        ready = source.prepare(str(tmp_path / f"by {arrival}"))
        assert (ready.rows(), ready.paced) == (3, False)
        assert available(ready, 0) == 2
        assert delivered(ready, 0, available(ready, 2)) == order


def test_a_recording_without_a_clock_runs_on_the_local_host(tmp_path):
    (tmp_path / "s.jsonl").write_text('{"t": 1}\n{"t": 12}\n{"t": 2}\n')
    options = {"format": "json", "schema": "t bigint", "speed": None, "max_rows_per_epoch": 1}
    stream = lw.stream(lw.replay(tmp_path / "s.jsonl", **options), time="t", watermark=lw.slack(20))
    done = stream.window(range=10).agg(n=lw.count()).run(host="local")
    assert done.results["n"].to_pylist() == [2, 1]


def test_speed_needs_the_time_of_arrival(tmp_path):
    (tmp_path / "s.csv").write_text("n\n0\n")
    with pytest.raises(lw.SpecError, match="name their column with arrival="):
        lw.replay(tmp_path / "s.csv", format="csv", schema="n int")
    with pytest.raises(lw.SpecError, match="needs schema="):
        lw.replay(tmp_path / "s.csv", format="csv", speed=None)
    with pytest.raises(lw.SpecError, match="'xml' is unknown"):
        lw.replay(tmp_path / "s.csv", format="xml")


def test_a_recording_that_has_changed_is_refused(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("n\n0\n1\n2\n")
    options = {"format": "csv", "schema": "n int", "speed": None, "max_rows_per_epoch": 1}
    before = lw.replay(path, **options).prepare(str(tmp_path / "ready"))
    at = before.available(before.begin())
    again = lw.replay(path, **options).prepare(str(tmp_path / "ready"))
    assert again.available(at)[0] == 2
    path.write_text("n\n0\n1\n3\n")
    after = lw.replay(path, **options).prepare(str(tmp_path / "ready"))
    with pytest.raises(lw.StateError, match="the recording has changed since 1 of its rows"):
        after.available(at)
    assert delivered(before, 1, 3) == [1, 2], "a run that reads the old rows goes on"


def test_a_second_start_leaves_the_rows_of_a_run_alone(tmp_path, clock):
    first = recorded(tmp_path, [1, 2, 3])
    recorded(tmp_path, [4, 5, 6, 7])
    clock.now += 10
    assert delivered(first, 0, 3) == [0, 1, 2]
