"""`kill -9` at random points, restart from the checkpoint: nothing is lost, doubled or changed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.streams import cut, disordered, ordered_rows

ROOT = Path(__file__).parents[2]


@contextmanager
def victim(mode, folder):
    """A process that runs the query, its session up; killed with all its children in the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark.victim", mode, str(folder), str(folder / "checkpoint")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as process:
        assert process.stdout.readline().strip() == "ready"
        yield process
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def live(mode, folder):
    """Let the query run to its end."""
    with victim(mode, folder) as process:
        assert process.wait(300) == 0


def die(mode, folder, epochs, seconds):
    """Kill the query some time after some more epochs have ended; say whether it still ran."""
    control = folder / "checkpoint" / "control"

    def ended():
        return len(list(control.glob("*.record")))

    wanted = ended() + 2 * epochs
    with victim(mode, folder) as process:
        deadline = time.monotonic() + 60
        while ended() < wanted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(seconds)
        return process.poll() is None


def run_with_kills(mode, folder, kills):
    """Kill a query in its cold start, or a moment after the first, second or third epoch."""
    moments = random.Random(11)
    for _ in range(kills):
        epochs = moments.randrange(4)
        assert die(mode, folder, epochs, moments.uniform(0.0, 0.25 if epochs else 4.0))
    live(mode, folder)


def outcome_of(folder):
    tables = {}
    for output in ("results", "late", "malformed", "shed"):
        files = sorted((folder / output).glob("*.parquet"))
        tables[output] = [row for f in files for row in ordered_rows(pq.read_table(f))]
    counts = json.loads((folder / "counts.json").read_text())
    return {name: sorted(rows) for name, rows in tables.items()}, counts


def write_files(folder):
    """Write the folders that the mode "joined" reads, of different length."""
    for name, seed, pieces in (("left", 3, 26), ("right", 4, 20)):
        (folder / name).mkdir()
        rows = disordered(900, seconds=80, late_by=12, seed=seed).select(
            ["ts", "key", "name", "value"]
        )
        for i, piece in enumerate(cut(rows, pieces)):
            pq.write_table(piece, folder / name / f"{i:04d}.parquet")


@pytest.mark.parametrize(
    ("mode", "kills"), [("pinned", 20), ("driven", 3), ("joined", 4), ("sidelined", 2)]
)
def test_kills_leave_no_trace_when_epochs_are_pinned(tmp_path, mode, kills):
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    for folder in (calm, stormy):
        folder.mkdir()
        if mode == "joined":
            write_files(folder)
    live(mode, calm)
    run_with_kills(mode, stormy, kills)
    expected, counts = outcome_of(calm)
    assert expected["late"]
    assert counts["prods"].get("early", 1) > 0
    assert bool(expected["shed"]) == (mode == "pinned")
    found, counts_after = outcome_of(stormy)
    assert found == expected
    assert counts_after == counts


def test_kills_do_not_change_finals_when_slack_covers_the_disorder(tmp_path):
    rows = disordered(20_000, seconds=200, late_by=4).select(["ts", "key", "value"])
    folder = tmp_path
    (folder / "stream").mkdir()
    for i, piece in enumerate(cut(rows, 60)):
        path = folder / "stream" / f"{i:04d}.parquet"
        pq.write_table(piece, path)
        os.utime(path, (i, i))  # Spark reads files in the order of their times
    run_with_kills("unpinned", folder, kills=3)
    found, counts = outcome_of(folder)
    assert counts["in"] == counts["admitted"] == 20_000
    frame = rows.to_pandas()
    second = frame["ts"].astype("int64") // 1_000_000
    results = pq.read_table(folder / "results").to_pylist()
    assert len(results) == len(found["results"])
    assert len({(r["wid"], r["key"]) for r in results}) == len(results)
    for row in results[::37]:
        start = row["wid"] * 2
        key = frame["key"].isna() if row["key"] is None else frame["key"] == row["key"]
        inside = frame[(second >= start) & (second < start + 9) & key]
        assert row["n"] == len(inside)
        assert row["total"] == pytest.approx(inside["value"].sum(), rel=1e-9, abs=1e-12)
    expected = {
        (w, None if k != k else k)  # noqa: PLR0124
        for k, s in zip(frame["key"], second, strict=True)
        for w in range((s - 9) // 2 + 1, s // 2 + 1)
    }
    assert {(r["wid"], r["key"]) for r in results} == expected
