"""`lowwater try`: settings side by side over one recording, each as the library would run it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.cli.app import main
from lowwater.engine.clock import RecordedClock

START = 1_714_564_800_000_000
"""The first of May 2024, noon, in microseconds."""
QUERY = "SELECT k, count(*) AS n FROM s [RANGE 10 seconds] GROUP BY k"
COUNT = 150


def table(seed=5):
    """A row a second of two groups; one in ten is exponentially late."""
    rng = np.random.default_rng(seed)
    sent = np.arange(COUNT)
    came = sent + np.where(rng.random(COUNT) < 0.1, rng.exponential(20, COUNT), 0.2)
    order = np.argsort(came, kind="stable")
    at = {"ts": START + sent * 1_000_000, "came": START + np.rint(came * 1e6).astype(np.int64)}
    columns = {n: pa.array(v[order], pa.timestamp("us", "UTC")) for n, v in at.items()}
    return pa.table({**columns, "k": (sent % 2)[order]})


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(), "r.parquet")
    return tmp_path


def exit_code(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["try", *arguments])
    return ended.value.code


TIMED = ["r.parquet", "--time", "ts", "--arrival", "came", "--epoch", "1 second"]


def tried(capfd, *arguments, timed=TIMED):
    assert exit_code(*timed, *arguments, "--json") == 0
    found = json.loads(capfd.readouterr().out)
    return {one["setting"]: one for one in found["settings"]}


class Played:
    """The query run by the library on a feed, with the figures counted row by row."""

    def __init__(self, watermark, early=None, query=QUERY):
        rows, feed = table(), lw.feed(table().schema)
        came = rows["came"].cast(pa.int64()).to_numpy()
        self.came, self.ts = came, rows["ts"].cast(pa.int64()).to_numpy()
        span = came // 1_000_000
        spans = sorted({*span, *(span + 1)})
        self.cuts = np.array([(s + 1) * 1_000_000 for s in spans])
        epochs = [rows.filter(pa.array(span == s)) for s in spans]
        sink = lw.to_memory()
        stream = lw.stream(feed, time="ts", watermark=watermark)
        done = lw.sql(query, s=stream).run(
            epochs={feed: epochs}, clock=RecordedClock(self.cuts), sink=sink, early=early, shards=1
        )
        self.status = done.status
        self.rows = [
            {**row, "epoch": epoch} for epoch, t in sink.epochs.items() for row in t.to_pylist()
        ]

    def since_end(self, row):
        """The time from the row that reached a window's end to a result, in seconds."""
        end = int(row["window"]["end"].timestamp() * 1e6)
        reached = self.came[self.ts >= end]
        if not len(reached):
            return None
        return (self.cuts[min(row["epoch"], len(self.cuts) - 1)] - reached.min()) / 1e6

    def waits(self, rows, choose):
        by_window = {}
        for row in rows:
            if (wait := self.since_end(row)) is not None:
                by_window.setdefault(row["wid"], []).append(wait)
        return [choose(waits) for waits in by_window.values()]


@pytest.mark.parametrize("text", ["ordered", "slack 7 seconds", "slack 2 minutes"])
def test_figures_of_a_fixed_slack_are_those_of_the_library(here, capfd, text):
    found = tried(capfd, "--query", QUERY, "--watermark", text)[text]
    policy = lw.ordered() if text == "ordered" else lw.slack(text.removeprefix("slack "))
    played = Played(policy)
    finals = sum(row["n"] for row in played.rows)
    assert found["late"] == played.status["late"]
    assert found["completeness"] == pytest.approx(finals / COUNT)
    waits = played.waits(played.rows, max)
    assert found["mean_wait"] == pytest.approx(np.mean(waits))
    assert found["wait_95"] == pytest.approx(np.quantile(waits, 0.95))
    assert found["first"] <= found["mean_wait"]
    assert found["early_error"] is None


def test_early_answers_come_first_and_have_an_error(here, capfd):
    settings = ["--watermark", "slack 20 seconds", "--early", "before 0.3"]
    found = tried(capfd, "--query", QUERY, *settings)
    alone, early = found["slack 20 seconds"], found["slack 20 seconds + early before 0.3"]
    played = Played(lw.slack("20 seconds"), lw.early_before(0.3))
    assert early["mean_wait"] == alone["mean_wait"]
    assert early["first"] == pytest.approx(np.mean(played.waits(played.rows, min)))
    assert early["first"] < alone["first"]
    first, finals = {}, {}
    for row in played.rows:
        (finals if row["kind"] == "final" else first).setdefault((row["wid"], row["k"]), row["n"])
    errors = [min(abs(first[key] - n) / n, 1) for key, n in finals.items() if key in first]
    assert early["early_error"] == pytest.approx(np.mean(errors))


def test_dropped_windows_count_as_incomplete(here, capfd):
    settings = ["--watermark", "slack 2 minutes", "--shed", "share 0.4, max gap 3"]
    found = tried(capfd, "--query", QUERY, *settings)
    shed = found["slack 2 minutes + shed share 0.4, max gap 3"]
    assert found["slack 2 minutes"]["completeness"] == 1.0
    assert shed["dropped"] > 0
    assert shed["completeness"] == pytest.approx(1 - shed["dropped"] / 15, abs=0.08)


def test_without_settings_those_that_suit_the_recording_are_tried(here, capfd):
    found = tried(capfd, "--range", "10 seconds", "--by", "k")
    assert {"ordered", "quality 0.95", "quality 0.99"} < set(found)
    assert any("early" in text for text in found)
    assert any("shed" in text for text in found)
    assert any(text.startswith("need fresh") for text in found)
    slacks = [one for text, one in found.items() if text.startswith("slack") and "+" not in text]
    assert max(one["completeness"] for one in slacks) >= 0.999


def test_a_query_without_a_value_to_judge_is_tried_without_a_need(here, capfd):
    query = "SELECT k, max(name) AS n FROM s [RANGE 10 seconds] GROUP BY k"
    named = pq.read_table("r.parquet")
    names = pa.array([f"n{i % 7}" for i in range(len(named))])
    pq.write_table(named.append_column("name", names), "named.parquet")
    found = tried(
        capfd, "--query", query, timed=["named.parquet", "--time", "ts", "--arrival", "came"]
    )
    assert "quality 0.95" in found
    assert not any(text.startswith("need") for text in found)


def test_two_trials_are_equal(here, capfd):
    arguments = ["--range", "10 seconds", "--watermark", "quality 0.95", "--early", "before 0.5"]
    assert tried(capfd, *arguments) == tried(capfd, *arguments)


def test_a_join_counts_the_pairs_that_were_lost(here, capfd):
    query = "SELECT a.ts FROM a [RANGE 4 seconds], b [RANGE 4 seconds] WHERE a.k = b.k"
    sources = [f"--source={name}=r.parquet,time=ts,arrival=came" for name in "ab"]
    settings = ["--watermark", "ordered", "--watermark", "slack 3 minutes"]
    found = tried(capfd, "--query", query, *settings, "--epoch", "1 second", timed=sources)
    assert found["slack 3 minutes"]["completeness"] == 1.0
    assert found["slack 3 minutes"]["late"] == 0
    assert 0.5 < found["ordered"]["completeness"] < 1.0


@pytest.mark.parametrize("window", ["[GAP 3 seconds]", "[RANGE 10 ROWS]"])
def test_other_windows_count_the_rows_in_time(here, capfd, window):
    query = f"SELECT count(*) AS n FROM s {window}"
    found = tried(capfd, "--query", query, "--watermark", "ordered")["ordered"]
    assert found["completeness"] == pytest.approx(1 - found["late"] / COUNT)


def test_the_table_fits_eighty_columns(here, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    settings = ["--watermark", "slack 20 seconds", "--early", "before 0.3"]
    assert exit_code(*TIMED, "--query", QUERY, *settings) == 0
    shown = capfd.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert f"{COUNT} rows in 1" in shown
    assert "…" not in shown


MISTAKES = [
    (TIMED[:5], "a trial needs a query; give one with --query"),
    (["--range", "1 minute"], "the recording is missing; name a file"),
    ([*TIMED, "--range", "1 minute", "--source", "s=r.parquet"], "FILE and --source both name"),
    ([*TIMED, "--range", "1 minute", "--watermark", "slck 3"], "Did you mean 'slack'?"),
    ([*TIMED, "--range", "1 minute", "--shed", "latency 5 seconds"], "try a share, as in --shed"),
    (["nope.csv", "--range", "1 minute"], "no file or folder 'nope.csv' exists"),
    (["--source", "s=r.parquet", "--time", "ts", "--range", "1 minute"], "--time is for FILE"),
    (["--source", "s=r.parquet,speed=2", "--range", "1 minute"], "speed= is for lowwater run"),
    (
        [*TIMED, "--query", "SELECT a.k FROM a [RANGE 1 second], b [RANGE 1 second]"],
        "name a file for each, as in --source a=r.parquet",
    ),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_a_mistake_is_one_paragraph(here, capfd, arguments, said):
    assert exit_code(*arguments) == 2
    shown = " ".join(capfd.readouterr().err.split())
    assert shown.startswith("lowwater: ")
    assert said in shown


def test_a_need_is_tried_beside_the_settings(here, capfd):
    found = tried(
        capfd, "--range", "10 seconds", "--need", "fresh 8 seconds, right 0.8",
        "--watermark", "slack 60 seconds",
    )  # fmt: skip
    need, patient = found["need fresh 8 seconds, right 0.8"], found["slack 60 seconds"]
    assert need["first"] < 8 < patient["first"]


def test_a_need_without_fresh_is_refused(here, capfd):
    assert exit_code(*TIMED, "--range", "10 seconds", "--need", "right 0.8") == 2
    assert "has no fresh; write --need" in capfd.readouterr().err
