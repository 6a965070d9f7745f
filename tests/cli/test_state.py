"""`lowwater state` reads a checkpoint; `lowwater profile` tells how disordered a stream is."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from examples.flights.flights import record
from lowwater.cli.app import main
from lowwater.cli.profile.disorder import format_length, profile_of, round_up
from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.entry import Opening, Positions
from lowwater.engine.retune import retuning
from lowwater.local.host import LocalEpochs
from lowwater.ticks import ticks

START = datetime(2024, 5, 1, 12, tzinfo=UTC)


def said(capfd, *arguments, code=0):
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    assert ended.value.code == code
    return capfd.readouterr()


# -- state ----------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint as Spark's host would leave it: three epochs ended, a fourth had begun."""
    feed = lw.feed("ts timestamp, segment int")
    stream = lw.stream(feed, time="ts", watermark=lw.slack("1 minute"))
    query = stream.window(range="5 minutes", slide="1 minute").group_by("segment").agg(n=lw.count())
    local = LocalEpochs(query.assembly.with_shards(2), lw.VirtualClock())
    stored = Checkpoint.at(str(tmp_path)).belongs_to(query.assembly, 2)
    log = Checkpoint.at(str(tmp_path)).log(stored.id)
    for minute in (0, 3, 7):
        rows = [(START + timedelta(minutes=minute), s) for s in range(3)]
        local.run([[feed.table(rows)]], last=[False])
        log.append(local.log.read(local.epoch - 1))
    log.open(Opening(3, Positions(batch=0)))
    return tmp_path


def test_state_tells_epoch_mark_open_windows_and_decisions(checkpoint, capfd):
    #  newest 12:07, slack 1 minute: mark 12:06; windows [12:02, 12:07) to [12:07, 12:12) are open
    found = json.loads(said(capfd, "state", checkpoint, "--json").out)
    assert (found["epoch"], found["begun"], found["ended"]) == (2, 3, False)
    assert found["watermark"] == "2024-05-01T12:06:00Z"
    assert found["inputs"][0]["rows"] == 9
    operator = found["operators"][0]
    assert operator["window"] == "range 5 minutes, slide 1 minute"
    assert operator["open"]["count"] == 6
    assert operator["open"]["windows"][0] == ["2024-05-01T12:02:00Z", "2024-05-01T12:07:00Z"]
    assert operator["open"]["windows"][-1] == ["2024-05-01T12:07:00Z", "2024-05-01T12:12:00Z"]
    assert operator["cells"] == 9  # three panes by three segments: the last mark acts next
    watermarks = [d["control"]["window"]["watermark"] for d in found["decisions"]]
    assert watermarks == [f"2024-05-01T{t}:00Z" for t in ("12:06", "12:02", "11:59")]


def test_state_reads_well(checkpoint, capfd):
    text = " ".join(said(capfd, "state", checkpoint, "--decisions", "1").out.split())
    assert "2 was the last to end; 3 had begun, and runs again when the query resumes" in text
    assert "range 5 minutes, slide 1 minute, by segment, computing n" in text
    assert "mark 2024-05-01 12:06:00" in text


def test_state_shows_what_was_retuned_while_the_query_ran(tmp_path, capfd):
    feed = lw.feed("ts timestamp")
    progress = lw.quality(0.95)
    query = (
        lw.stream(feed, time="ts", watermark=progress).window(range="5 minutes").agg(n=lw.count())
    )
    local = LocalEpochs(query.assembly.with_shards(2), lw.VirtualClock())
    stored = Checkpoint.at(str(tmp_path)).belongs_to(query.assembly, 2)
    log = Checkpoint.at(str(tmp_path)).log(stored.id)
    for epoch in range(3):
        asked = [retuning(local.controller, {"quality": 0.8})] if epoch == 1 else []
        local.run([[feed.table([(START,)])]], last=[False], asked=asked)
        log.append(local.log.read(epoch))
    found = json.loads(said(capfd, "state", tmp_path, "--json").out)
    assert found["retuned"] == {"quality": {"value": 0.8, "written": 0.95, "epoch": 1}}
    assert [d.get("retuned") for d in found["decisions"]] == [None, {"quality": 0.8}, None]
    text = " ".join(said(capfd, "state", tmp_path).out.split())
    assert "retuned quality 0.8 instead of 0.95, since epoch 1" in text
    assert "1 the query quality 0.8" in text


def test_state_of_what_is_no_checkpoint_is_a_mistake(checkpoint, capfd):
    assert "no folder" in said(capfd, "state", checkpoint / "nope", code=2).err
    assert "is not a checkpoint" in said(capfd, "state", checkpoint / "control", code=2).err
    (checkpoint / "lowwater.json").write_text("{")
    assert "lowwater.json is damaged" in said(capfd, "state", checkpoint, code=2).err


# -- profile --------------------------------------------------------------------------------------


def test_flights_are_in_order_by_two_fifths(tmp_path, capfd):
    path = record(date(2013, 1, 1), 365).save(tmp_path)
    options = ("--time", "scheduled", "--arrival", "took_off")
    found = json.loads(said(capfd, "profile", path, *options, "--json").out)
    assert f"{found['in_order']:.1%}" == "40.9%"
    late = found["late_degree"]
    assert [late[q] / 60 for q in ("0.5", "0.9", "0.99", "max")] == [3, 50, 180, 1300]


DRAWN = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=6)


@given(rows=DRAWN)
def test_share_in_order_is_the_mean_over_all_orders_of_rows_that_arrived_at_once(rows):
    from itertools import permutations

    shares = []
    for order in permutations(rows):
        if [a for a, _ in order] == sorted(a for a, _ in order):
            times = np.array([t for _, t in order])
            shares.append(np.mean(np.maximum.accumulate(times) == times))
    arrivals, times = (np.array(column) for column in zip(*rows, strict=True))
    known = np.ones(len(rows), bool)
    found = profile_of((times, known), (arrivals, known), timed=False)
    assert found.in_order == pytest.approx(np.mean(shares))


@given(st.integers(1, 400 * 86_400_000_000))
def test_a_suggested_length_is_one_that_is_read_back_and_not_shorter(length):
    assert ticks(format_length(round_up(length))) == round_up(length) >= length
    assert round_up(length) <= max(2 * length, 1_000)


def test_suggested_slack_covers_what_it_says(tmp_path, capfd):
    #  a row a second, every hundredth 5 s behind the row before it and one 3 min
    late = [181 if i == 500 else 6 if i % 100 == 99 else 0 for i in range(1000)]
    times = [START + timedelta(seconds=i - late[i]) for i in range(1000)]
    pq.write_table(pa.table({"at": times}), tmp_path / "s.parquet")
    shown = said(capfd, "profile", tmp_path / "s.parquet", "--plot", tmp_path / "p.png").out
    assert "98.9%" in shown
    assert "--watermark 'ordered'" in shown
    assert "--watermark 'slack 5 seconds'" in shown
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"


def test_profile_of_numbers_counts_in_their_units(tmp_path, capfd):
    (tmp_path / "s.csv").write_text("n,x\n1,a\n3,b\n2,c\n")
    found = json.loads(said(capfd, "profile", tmp_path / "s.csv", "--time", "n", "--json").out)
    assert found["late_degree"]["max"] == 1
    assert found["in_order"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nope.csv"], "no file or folder 'nope.csv' exists"),
        (["s.csv", "--time", "tz"], "column 'tz' is not in the stream; it has: ts, x"),
        (["s.csv", "--arrival", "came"], "column 'came'"),
        (["s.csv", "--plot", "nope/p.png"], "cannot be written"),
        (["x.csv"], "which column is its time?"),
        (["."], "does not show its format"),
    ],
)
def test_profile_says_what_is_wrong(tmp_path, monkeypatch, capfd, arguments, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("ts,x\n2024-01-01,1\n")
    (tmp_path / "x.csv").write_text("a,b\n1,1\n")
    if arguments == ["."]:
        (tmp_path / "s.csv").unlink()
        (tmp_path / "x.csv").unlink()
    assert told in said(capfd, "profile", *arguments, code=2).err
