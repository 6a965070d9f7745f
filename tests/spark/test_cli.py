"""The command on Spark, in a process of its own: Ctrl-C, and the same command again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq

import lowwater as lw

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
QUERY = (
    "SELECT k, count(*) AS n, sum(x) AS total FROM s [RANGE 1 minute SLIDE 20 seconds] GROUP BY k"
)
ROWS = [(START + timedelta(seconds=i), i % 3, i) for i in range(600)]


def command(folder):
    options = ["--source", "s=-,schema=ts timestamp, k bigint, x bigint"]
    options += ["--watermark", "slack 5 seconds", "--sink", "parquet:out", "--checkpoint", "ck"]
    code = "from lowwater.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", QUERY, *options],
        cwd=folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def lines(rows):
    return "".join(
        json.dumps({"ts": ts.isoformat(), "k": k, "x": x}) + "\n" for ts, k, x in rows
    ).encode()


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path):
    first = command(tmp_path)
    first.stdin.write(lines(ROWS[:400]))
    first.stdin.flush()
    until = time.monotonic() + 120
    while not list(tmp_path.glob("out/*.parquet")) and time.monotonic() < until:
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    said = first.communicate()[1].decode()
    assert first.returncode == 130, said
    assert "To resume, run the same command: lowwater run" in said
    before = pq.read_table(tmp_path / "out").num_rows

    second = command(tmp_path)
    said = second.communicate(lines(ROWS[400:]))[1].decode()
    assert second.returncode == 0, said
    assert said.startswith("600 rows, ")

    feed = lw.feed("ts timestamp, k bigint, x bigint")
    stream = lw.stream(feed, time="ts", watermark=lw.slack("5 seconds"))
    whole = lw.sql(QUERY, s=stream).run(epochs={feed: [ROWS]}).results
    found = pq.read_table(tmp_path / "out")
    assert 0 < before < len(found) == len(whole)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, whole.to_pylist()))


def test_a_run_that_fails_prints_one_line(tmp_path):
    (tmp_path / "out").mkdir()
    failing = (
        "from lowwater.sinks.files import FileSink\n"
        "def write(self, epoch, rows, tag): raise OSError('the disk is full')\n"
        "FileSink.write_epoch = write\n"
        "from lowwater.cli import main; main()"
    )
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(lines(ROWS))
    options = ["--source", f"s={rows}", "--watermark", "ordered", "--sink", "parquet:out"]
    done = subprocess.run(
        [sys.executable, "-c", failing, "run", QUERY, *options],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("lowwater: epoch ")
    assert " failed in the sink of results: OSError: the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    (log,) = tmp_path.glob("lowwater-*.log")
    assert str(log) in done.stderr
    assert "OSError: the disk is full" in log.read_text()


def test_a_recording_arrives_in_the_same_epochs_as_on_the_local_host(tmp_path):
    rows = [(ts, k, x) for ts, k, x in ROWS if x % 10 or x > 550] + [ROWS[10], ROWS[400]]
    (tmp_path / "rows.jsonl").write_bytes(lines(rows))
    found = {}
    for host in ("spark", "local"):
        options = ["--source", "s=rows.jsonl,time=ts", "--epoch", "1 minute", "--host", host]
        options += ["--watermark", "ordered", "--sink", f"parquet:{host}", "--json"]
        code = "from lowwater.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, "run", QUERY, *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        files = {
            path.name.split("-")[1]: pq.read_table(path).to_pylist()
            for path in (tmp_path / host).glob("epoch-*")
        }
        found[host] = told["counts"], told["epochs"], told["played"], files
    assert found["spark"] == found["local"]
    assert found["local"][0]["late"] == 2
