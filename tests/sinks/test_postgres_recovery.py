"""Queries into PostgreSQL: killed, frozen, rewound, restored, the same rows as without."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.engine.rewind import rewind
from lowwater.sinks.postgres import Postgres
from tests.sinks.postgres_victim import query, write_files

psycopg = pytest.importorskip("psycopg")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(dsn, tmp_path):
    """A folder with a stream, and a server without the table `results`."""
    with psycopg.connect(dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS results")
        connection.execute("DROP TABLE IF EXISTS lowwater_tables, lowwater_owners")
        connection.execute("DROP TABLE IF EXISTS lowwater_epochs, lowwater_replaced")
    write_files(tmp_path)
    return tmp_path


def table(dsn):
    """All rows, each with the number of its write."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT * FROM results ORDER BY wid, key").fetchall()
    return list(map(repr, found))


def ran(folder, dsn, checkpoint="checkpoint", sink=Postgres, **options):
    made = sink(dsn, "results", options.pop("existing", None))
    query(folder).run(host="local", sink=made, checkpoint=str(folder / checkpoint), **options)
    return made


def victim(folder, dsn, point, times, number):
    words = [str(folder), dsn, point, str(times), number.name]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sinks.postgres_victim", *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


class Snapshots(Postgres):
    """A sink that notes the table after each epoch, and after rows were removed."""

    def __init__(self, dsn, *options):
        super().__init__(dsn, *options)
        self.dsn, self.after, self.truncated = dsn, {}, None

    def write_epoch(self, epoch, rows, tag):
        super().write_epoch(epoch, rows, tag)
        self.after[epoch] = table(self.dsn)

    def truncate(self, history):
        super().truncate(history)
        self.truncated = table(self.dsn)


def test_the_stream_revises_rows_of_earlier_epochs(dsn, folder):
    after = list(ran(folder, dsn, sink=Snapshots).after.values())
    assert any(set(earlier) - set(later) for earlier, later in pairwise(after))


def test_kills_leave_no_trace(dsn, folder):
    ran(folder, dsn, "calm")
    calm = table(dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute("TRUNCATE results, lowwater_tables, lowwater_owners, lowwater_epochs")
        connection.execute("TRUNCATE lowwater_replaced")
    # After the outputs are stored, after the entry, after the table is written, after clean-up.
    for point, times in (("staged", 3), ("appended", 2), ("sink", 2), ("published", 2)):
        with victim(folder, dsn, point, times, signal.SIGKILL) as process:
            assert process.wait(60) == -signal.SIGKILL
            process.stderr.read()
    ran(folder, dsn)
    assert table(dsn) == calm


def test_a_run_that_was_frozen_finds_the_table_taken(dsn, folder):
    """The first run has its entry in the log and sleeps before it publishes."""
    with victim(folder, dsn, "appended", 4, signal.SIGSTOP) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        ran(folder, dsn)
        calm = table(dsn)
        os.kill(process.pid, signal.SIGCONT)
        said = process.stderr.read()
        assert process.wait(60) == 1
    assert "SinkError" in said
    assert f"process {os.getpid()} of" in said
    assert str(folder / "checkpoint") in said
    assert table(dsn) == calm


def test_a_rewound_query_goes_back_to_the_rows_it_had(dsn, folder):
    first = ran(folder, dsn, sink=Snapshots)
    calm = table(dsn)
    newest = max(first.after)
    for back in (newest - 5, newest - 2, 1):
        rewind(str(folder / "checkpoint"), back)
        with pytest.raises(lw.StateError, match=rf"has epoch {newest}\. .*outputs='truncate'"):
            ran(folder, dsn)
        assert table(dsn) == calm
        again = ran(folder, dsn, sink=Snapshots, outputs="truncate")
        assert again.truncated == first.after[max(e for e in first.after if e <= back)]
        assert table(dsn) == calm


def test_kept_outputs_are_upserted(dsn, folder):
    newest = max(ran(folder, dsn, sink=Snapshots).after)
    calm = [row.rpartition(",")[0] for row in table(dsn)]
    rewind(str(folder / "checkpoint"), newest - 5)
    ran(folder, dsn, outputs="keep")
    assert [row.rpartition(",")[0] for row in table(dsn)] == calm
    ran(folder, dsn)  # the kept epochs are not ahead any more


def test_a_restored_backup_does_not_meet_newer_rows_unseen(dsn, folder):
    backup = folder / "backup"
    with victim(folder, dsn, "cleaned", 6, signal.SIGKILL) as process:
        process.wait(60)
        process.stderr.read()
    shutil.copytree(folder / "checkpoint", backup)
    ran(folder, dsn)
    calm = table(dsn)
    shutil.rmtree(folder / "checkpoint")
    shutil.copytree(backup, folder / "checkpoint")
    with pytest.raises(lw.StateError, match="outputs are ahead of the checkpoint"):
        ran(folder, dsn)
    assert table(dsn) == calm
    ran(folder, dsn, outputs="truncate")
    assert table(dsn) == calm


def test_rows_of_another_checkpoint_need_a_word(dsn, folder):
    ran(folder, dsn)
    calm = table(dsn)
    with pytest.raises(lw.SinkError, match=r"another writer: .*checkpoint\b.*existing='append'"):
        ran(folder, dsn, "other")
    assert table(dsn) == calm
    ran(folder, dsn, "overwriting", existing="overwrite")
    assert table(dsn) == calm
    ran(folder, dsn, "appending", existing="append")
    assert len(table(dsn)) == len(calm)


def test_a_query_stopped_by_a_nul_character_goes_on_with_a_word_for_it(dsn, tmp_path):
    (tmp_path / "stream").mkdir()
    times = pa.array([1_000_000, 2_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times, "key": ["a\0", "b"]}), tmp_path / "stream" / "1.parquet")
    stream = lw.stream(lw.files(tmp_path / "stream"), time="ts", watermark=lw.ordered())
    made = stream.window(range="1 minute").group_by("key").agg(n=lw.count())

    def run(**options):
        sink = lw.to_postgres(dsn, table="with_nul", **options)
        made.run(host="local", sink=sink, checkpoint=str(tmp_path / "c"))

    for _ in range(2):
        with pytest.raises(lw.SinkError, match=r"column 'key' contains .*NUL.*the same checkpoint"):
            run()
    run(nul="?")
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT key, n FROM with_nul ORDER BY key").fetchall()
    assert found == [("a?", 1), ("b", 1)]
