"""`start(host="local")` and checkpoints: stop, kill -9, restart, the same rows as without."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.engine.checkpoint import Checkpoint
from lowwater.sinks.sink import Sink
from tests.local.victim import main, query, write_files
from tests.spark.streams import SCHEMA, cut, disordered, ordered_rows
from tests.wait import wait_until

ROOT = Path(__file__).parents[2]


def victim(folder):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.local.victim", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def die(folder, epochs, seconds):
    """Kill the query some time after it has run some more epochs."""
    control = folder / "checkpoint" / "control"
    before = len(list(control.glob("*.record")))
    with victim(folder) as process:
        assert process.stdout.readline().strip() == "ready"
        wait_until(lambda: len(list(control.glob("*.record"))) >= before + 2 * epochs)
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)


def written(folder):
    """The rows of every file: which epoch they left in matters, too."""
    return {
        (output, path.name.rpartition("-")[0]): ordered_rows(pq.read_table(path))
        for output in ("results", "late")
        for path in sorted((folder / output).glob("*.parquet"))
    }


def test_kills_leave_no_trace(tmp_path):
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    epochs = 60  # enough for the query to be at work at each kill
    for folder in (calm, stormy):
        write_files(folder, epochs)
    main(calm)
    moments = random.Random(5)
    for _ in range(5):
        die(stormy, moments.randrange(1, 5), moments.uniform(0.0, 0.06))
    assert len(list((stormy / "checkpoint" / "control").glob("*.record"))) < 2 * epochs
    main(stormy)
    assert written(calm)
    assert written(stormy) == written(calm)
    assert not list((stormy / "checkpoint" / "outputs").glob("*"))


def test_a_stopped_query_goes_on_where_it_was(tmp_path):
    write_files(tmp_path)
    results = lw.to_memory()
    made = query(tmp_path)

    def start():
        return made.start(host="local", sink=results, checkpoint=str(tmp_path / "c"))

    run = start()
    wait_until(lambda: run.status().epoch >= 10)
    run.stop()
    stopped = run.status()
    assert run.wait(1)
    run = start()
    assert run.status().counts == stopped.counts
    wait_until(lambda: run.status()["in"] == 3_000 and run.newest.quiet)
    run.stop()
    expected = made.run(host="local").results
    found = results.table(made.schema)
    windows = set(found.column("wid").to_pylist())
    finals = [r for r in expected.to_pylist() if r["wid"] in windows]
    assert ordered_rows(found) == sorted(map(repr, finals))


class Broken(Sink):
    """A sink whose disk is full once."""

    def __init__(self, at):
        self.at, self.epochs = at, {}

    def write(self, epoch, rows):
        if epoch == self.at:
            self.at = None
            raise OSError("disk full")
        self.epochs[epoch] = rows


def test_outputs_of_an_epoch_with_an_entry_are_published_at_the_next_start(tmp_path):
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack("2 seconds"))
    made = stream.window(range="5 seconds").group_by("key").agg(n=lw.count())
    epochs = {feed: cut(disordered(600, seconds=60, late_by=1), 6)}
    calm, broken = lw.to_memory(), Broken(at=3)
    options = {"epochs": epochs, "host": "local"}
    made.run(**options, sink=calm, checkpoint=str(tmp_path / "calm"))
    with pytest.raises(lw.HostError, match="disk full"):
        made.run(**options, sink=broken, checkpoint=str(tmp_path / "c"))
    folder = Checkpoint.at(str(tmp_path / "c"))
    log = folder.log(folder.stored().id)
    (output,) = log.newest().outputs
    assert (log.newest().epoch, output.kind, output.rows) == (3, "results", len(calm.epochs[3]))
    assert log.newest().pending.name in [p.name for p in (tmp_path / "c" / "outputs").iterdir()]
    # An epoch that left outputs but no entry is run again: they are not published.
    (tmp_path / "c" / "outputs" / "000000000004-x.outputs").write_bytes(b"torn")
    made.run(**options, sink=broken, checkpoint=str(tmp_path / "c"))
    assert broken.epochs == calm.epochs
    assert not list((tmp_path / "c" / "outputs").iterdir())


def test_a_checkpoint_changes_no_result(tmp_path):
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.quality(0.95))
    made = stream.window(range="9 seconds", slide="2 seconds").group_by("key").agg(n=lw.count())
    options = {
        "epochs": {feed: cut(disordered(2_000, seconds=60, late_by=8), 12)},
        "host": "local",
        "clock": lw.VirtualClock(),
        "early": lw.early_every("2 seconds"),
        "shed": lw.shed(share=0.3, max_gap=4),
    }
    without = made.run(**options)
    stored = made.run(**options, checkpoint=str(tmp_path / "c"))
    for output in ("results", "late", "malformed", "dropped"):
        assert getattr(stored, output).equals(getattr(without, output))
    assert stored.status.counts == without.status.counts
    again = made.run(**options, checkpoint=str(tmp_path / "c"))
    assert len(again.results) == 0
    assert again.status.counts == without.status.counts
