"""lw.files takes each file once: older names, changed files, restarts, bad files, memory."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.engine.checkpoint import Checkpoint
from lowwater.sources import files as files_module
from lowwater.sources import taken_files
from tests.wait import wait_until

DAY = 86_400


@pytest.fixture(autouse=True)
def _check_always(monkeypatch):
    monkeypatch.setattr(files_module, "CHECK_SECONDS", 0.0)


def write(folder, name, *times, age=0):
    path = folder / f"{name}.csv"
    path.write_text("t\n" + "".join(f"{t}\n" for t in times))
    at = time.time() - age
    os.utime(path, (at, at))
    return path


def csv_files(folder, **more):
    return lw.files(folder, format="csv", schema="t bigint", **more)


class Reader:
    """A source that is read epoch by epoch, with positions that have been through JSON."""

    def __init__(self, source, folder):
        self.source = source.prepare(str(folder))
        self.at = self.source.begin()

    def take(self):
        """Return (times, reported names) of the next epoch; None if there is none."""
        end = json.loads(json.dumps(self.source.available(self.at)))
        if end == self.at:
            return None
        times, reported = [], []
        for block in self.source.blocks(self.at, end):
            try:
                times += self.source.read(block)["t"].to_pylist()
            except lw.sources.bad_file.BadFileError as problem:
                reported.append(Path(problem.path).name)
        self.at = end
        return times, reported

    def restarted(self, source, folder):
        other = Reader(source, folder)
        other.at = json.loads(json.dumps(self.at))
        return other


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def test_a_file_with_an_older_name_is_read_when_it_appears(folder, store):
    write(folder, "m", 1)
    reader = Reader(csv_files(folder), store)
    assert reader.take() == ([1], [])
    write(folder, "a", 2)
    assert reader.take() == ([2], [])
    assert reader.take() is None
    assert reader.restarted(csv_files(folder), store).take() is None


def test_files_of_one_listing_come_before_those_of_the_next(folder, store):
    write(folder, "b", 1)
    write(folder, "c", 2)
    reader = Reader(csv_files(folder, files_per_epoch=1), store)
    assert reader.take() == ([1], [])
    write(folder, "a", 3)
    assert [reader.take(), reader.take(), reader.take()] == [([2], []), ([3], []), None]


def test_by_name_an_older_name_is_reported_once_and_not_read(folder, store):
    write(folder, "m", 1)
    source = csv_files(folder, order="name")
    reader = Reader(source, store)
    assert reader.take() == ([1], [])
    write(folder, "a", 2)
    write(folder, "z", 3)
    assert reader.take() == ([3], ["a.csv"])
    assert reader.take() is None
    assert reader.restarted(source, store).take() is None


def test_a_file_that_has_changed_is_reported_once_for_each_change(folder, store):
    path = write(folder, "a", 1)
    reader = Reader(csv_files(folder), store)
    assert reader.take() == ([1], [])
    with path.open("a") as file:
        file.write("2\n")
    assert reader.take() == ([], ["a.csv"])
    assert reader.take() is None
    again = reader.restarted(csv_files(folder), store)
    assert again.take() is None
    path.write_text("t\n7\n")
    assert again.take() == ([], ["a.csv"])


def test_a_file_older_than_the_memory_is_reported_but_not_in_the_first_listing(folder, store):
    write(folder, "a", 1, age=100 * DAY)
    write(folder, "b", 2)
    write(folder, "c", 3, age=90 * DAY)
    reader = Reader(csv_files(folder, files_per_epoch=1), store)
    assert reader.take() == ([1], [])
    assert reader.take() == ([2], [])
    reader = reader.restarted(csv_files(folder, files_per_epoch=1), store)
    assert reader.take() == ([3], [])  # the rest of the first listing, after a restart
    write(folder, "d", 4, age=8 * DAY)
    write(folder, "e", 5, age=6 * DAY)
    assert reader.take() == ([5], ["d.csv"])
    assert reader.take() is None
    write(folder, "f", 6, age=300 * DAY)
    unlimited = reader.restarted(csv_files(folder, max_file_age=None), store)
    assert unlimited.take() == ([6], [])


def test_a_file_from_the_future_does_not_make_others_too_old(folder, store):
    write(folder, "a", 1, age=-1000 * DAY)
    reader = Reader(csv_files(folder), store)
    assert reader.take() == ([1], [])
    write(folder, "b", 2, age=DAY)
    assert reader.take() == ([2], [])


def test_a_file_that_is_gone_before_it_is_taken_is_passed_over(folder, store):
    write(folder, "a", 1)
    gone = write(folder, "b", 2)
    write(folder, "c", 3)
    reader = Reader(csv_files(folder, files_per_epoch=1), store)
    assert reader.take() == ([1], [])
    gone.unlink()
    assert reader.take() == ([3], [])


def test_each_file_is_read_once_whatever_comes_and_goes(folder, store, monkeypatch):
    # Names come in any order, files are deleted, and the run restarts between epochs.
    monkeypatch.setattr(taken_files, "SEGMENT_STAMPS", 8)
    dice = random.Random(3)
    source = csv_files(folder, files_per_epoch=3)
    reader, read, expected = Reader(source, store), [], []
    names = [f"{n:04d}" for n in range(300)]
    dice.shuffle(names)
    while names or read != expected:
        for name in [names.pop() for _ in range(min(len(names), dice.randrange(8)))]:
            write(folder, name, int(name))
            expected.append(int(name))
        if (epoch := reader.take()) is not None:
            assert epoch[1] == []
            read += epoch[0]
        if dice.random() < 0.3:
            reader = reader.restarted(source, store)
        for path in folder.iterdir():
            if int(path.stem) in read and dice.random() < 0.1:
                path.unlink()
        expected.sort()
        read.sort()
    assert read == list(range(300))
    assert len(json.dumps(reader.at)) < 4_000
    assert list(store.glob("taken-*"))


def test_stamps_of_old_files_that_are_gone_are_forgotten_and_others_kept(
    folder, store, monkeypatch
):
    monkeypatch.setattr(taken_files, "SEGMENT_STAMPS", 4)
    for n in range(8):
        write(folder, f"a{n}", n, age=40 * DAY)
    kept = write(folder, "b", 8, age=40 * DAY)
    reader = Reader(csv_files(folder, files_per_epoch=2), store)
    while reader.take():
        pass
    for n in range(8):
        (folder / f"a{n}.csv").unlink()
    for n in range(40):  # the newest file makes the others older than the memory
        write(folder, f"c{n:02d}", n, age=(39 - n) * DAY)
        assert reader.take() == ([n], [])
    write(folder, "a0", 0, age=40 * DAY)
    reader = reader.restarted(csv_files(folder), store)
    assert reader.take() == ([], ["a0.csv"])  # forgotten: it may have been read before
    assert kept.exists()
    assert reader.take() is None  # b is still in the folder, so it is remembered


def test_a_run_forgets_files_in_memory_as_well(folder, store, monkeypatch):
    monkeypatch.setattr(taken_files, "SEGMENT_STAMPS", 4)
    write(folder, "c", -1, age=200 * DAY)
    reader = Reader(csv_files(folder), store)
    reader.take()
    sizes = []
    for n in range(200):  # a file a day; the one before it is deleted, the memory is a week
        path = write(folder, f"{n:03d}", n, age=(199 - n) * DAY)
        assert reader.take() == ([n], [])
        assert reader.take() is None
        path.unlink()
        taken = reader.source.taken
        sizes.append((len(taken.signs), len(taken.names)))
    assert max(sizes[100:]) == max(sizes[20:100])
    assert max(sizes)[0] <= 7 + 4 * 4
    assert reader.restarted(csv_files(folder), store).take() is None


def test_a_segment_that_is_missing_or_altered_is_refused(folder, store, monkeypatch):
    monkeypatch.setattr(taken_files, "SEGMENT_STAMPS", 2)
    for n in range(6):
        write(folder, f"{n}", n)
    reader = Reader(csv_files(folder, files_per_epoch=1), store)
    while reader.take():
        pass
    segment = next(store.glob("taken-*"))
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(lw.StateError, match=f"{segment.name}.*was altered"):
        reader.restarted(csv_files(folder), store).take()
    segment.unlink()
    with pytest.raises(lw.StateError, match="is missing"):
        reader.restarted(csv_files(folder), store).take()


def test_executors_receive_neither_the_memory_nor_the_listing(folder, store):
    for n in range(100):
        write(folder, f"some-long-name-{n}", n)
    source = csv_files(folder).bounded().prepare(str(store))
    source.available(source.begin())
    assert len(pickle.dumps(source)) < 2_000


# -- queries with a checkpoint ---------------------------------------------------------------------


def query(folder, **more):
    stream = lw.stream(csv_files(folder, **more), time="t", watermark=lw.slack(5))
    return stream.window(range=10).agg(n=lw.count())


def start(folder, checkpoint, **more):
    names = ("late", "malformed", "bad_files")
    sinks = {name: more.pop(name) for name in names if name in more}
    made = query(folder, **more)
    return made.start(host="local", sink=lw.to_memory(), checkpoint=str(checkpoint), **sinks)


def test_a_restarted_query_reads_no_file_twice_and_reports_in_bad_files(folder, tmp_path):
    write(folder, "m", 1, 2)
    bad = lw.to_memory()
    run = start(folder, tmp_path / "c", bad_files=bad)
    wait_until(lambda: run.status()["in"] == 2)
    path = write(folder, "a", 3)
    wait_until(lambda: run.status()["in"] == 3)
    run.stop()
    path.write_text("t\n3\n4\n")
    write(folder, "b", 5)
    run = start(folder, tmp_path / "c", bad_files=bad)
    wait_until(lambda: run.status()["in"] == 4 and run.status().bad_files == 1)
    run.stop()
    (row,) = bad.table(pa.schema([("path", pa.string()), ("reason", pa.string())])).to_pylist()
    assert row == {"path": str(path), "reason": files_module.CHANGED}
    run = start(folder, tmp_path / "c", bad_files=bad)
    time.sleep(0.2)
    run.stop()
    assert (run.status()["in"], run.status().bad_files) == (4, 1)


def crash(folder, checkpoint):
    """Run a query until it fails in its first epoch, after the epoch was opened."""

    class Broken(lw.sinks.sink.Sink):
        def write(self, epoch, rows):
            raise AssertionError

    def fail(*_):
        raise OSError(5, "input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lowwater.sources.file_reader.read_rows", fail)
        run = start(folder, checkpoint)
        with pytest.raises(lw.HostError):
            run.wait(10)
    assert log_of(checkpoint).opened() is not None


def log_of(checkpoint):
    folder = Checkpoint.at(str(checkpoint))
    return folder.log(folder.stored().id)


def test_a_repeated_epoch_reads_its_files_and_no_others(folder, tmp_path):
    write(folder, "a", 1)
    write(folder, "c", 2)
    crash(folder, tmp_path / "c")
    write(folder, "b", 100)
    run = start(folder, tmp_path / "c")
    wait_until(lambda: run.status()["in"] == 3)
    run.stop()
    log = log_of(tmp_path / "c")
    first = [f[0] for f in log.read(0).positions.inputs[0]["files"]]
    assert first == ["a.csv", "c.csv"]


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_a_repeated_epoch_refuses_a_file_that_is_gone_or_changed(folder, tmp_path, name):
    for one in "abc":
        write(folder, one, 1)
    crash(folder, tmp_path / "c")
    path = folder / f"{name}.csv"
    content = path.read_text()
    path.unlink()
    run = start(folder, tmp_path / "c")
    with pytest.raises(lw.HostError, match=rf"^{path}: .*is gone"):
        run.wait(10)
    path.write_text(content + "2\n")
    run = start(folder, tmp_path / "c")
    with pytest.raises(lw.HostError, match=rf"^{path}: .*it has 6 bytes now and had 4"):
        run.wait(10)
    path.write_text(content)  # restored, with another time of modification
    run = start(folder, tmp_path / "c")
    wait_until(lambda: run.status()["in"] == 3)
    run.stop()


# -- files that cannot be read ---------------------------------------------------------------------


def damaged(folder):
    """Write two files that can be read and four that cannot, of three formats."""
    for form in ("parquet", "csv", "json"):
        (folder / form).mkdir()
    rows = pa.table({"t": list(range(1000))})
    pq.write_table(rows, folder / "parquet" / "a.parquet")
    whole = (folder / "parquet" / "a.parquet").read_bytes()
    (folder / "parquet" / "b.parquet").write_bytes(whole[:-9])
    (folder / "parquet" / "c.parquet").write_bytes(b"PAR1" + b"\xff" * 900 + whole[904:])
    (folder / "parquet" / "d.parquet").write_bytes(b"")
    pq.write_table(rows, folder / "parquet" / "e.parquet")
    text = gzip.compress(b"t\n" + b"1\n" * 1000)
    (folder / "csv" / "a.csv.gz").write_bytes(text)
    (folder / "csv" / "b.csv.gz").write_bytes(text[:-9])
    (folder / "csv" / "c.csv.gz").write_bytes(b"not gzip")
    (folder / "csv" / "d.csv").write_bytes(b't,"x\n1,2\n')
    (folder / "csv" / "e.csv").write_bytes(b"t,t\n1,2\n")
    (folder / "csv" / "f.csv.gz").write_bytes(b"")


@pytest.mark.parametrize(
    ("form", "names", "rows"), [("parquet", "bcd", 2000), ("csv", "bcdef", 1000)]
)
def test_a_file_that_cannot_be_read_is_counted_and_named(tmp_path, form, names, rows):
    damaged(tmp_path)
    for more in ({}, {"max_rows_per_epoch": 1000}, {"files_per_epoch": 1}):
        source = lw.files(tmp_path / form, format=form, schema="t bigint", **more)
        made = lw.stream(source, time="t", watermark=lw.slack(5)).window(range=10)
        outcome = made.agg(n=lw.count()).run(host="local")
        assert outcome.status["in"] == rows
        assert outcome.status.balanced
        assert outcome.status.bad_files == len(names)
        found = outcome.bad_files.to_pylist()
        assert [Path(r["path"]).name[0] for r in found] == list(names)
        assert all(r["reason"] for r in found)


def test_a_bad_file_stops_a_query_that_asks_for_it_and_its_name_comes_first(tmp_path):
    damaged(tmp_path)
    source = lw.files(tmp_path / "parquet", schema="t bigint", on_bad_file="fail")
    made = lw.stream(source, time="t", watermark=lw.slack(5)).window(range=10).agg(n=lw.count())
    with pytest.raises(lw.HostError, match=rf"^{tmp_path}/parquet/b\.parquet: .*on_bad_file"):
        made.run(host="local")


def test_bad_files_of_another_query_do_not_appear_in_its_output(tmp_path):
    damaged(tmp_path)

    def counted(form):
        source = lw.files(tmp_path / form, format=form, schema="t bigint")
        return lw.stream(source, time="t", watermark=lw.slack(5)).window(range=10).agg(n=lw.count())

    outcomes = lw.together(p=counted("parquet"), c=counted("csv")).run(host="local")
    assert [len(outcomes[name].bad_files) for name in "pc"] == [3, 5]
    assert [outcomes[name].status.bad_files for name in "pc"] == [3, 5]


def test_the_schema_of_parquet_comes_from_the_first_file_that_can_be_read(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no")
    with pytest.raises(lw.SpecError, match="no readable Parquet file"):
        lw.files(tmp_path)
    pq.write_table(pa.table({"t": [1]}), tmp_path / "b.parquet")
    assert lw.files(tmp_path).schema.names == ["t"]


def test_arguments_that_cannot_work_are_refused(folder):
    with pytest.raises(lw.SpecError, match="order='mtime' is unknown"):
        csv_files(folder, order="mtime")
    with pytest.raises(lw.SpecError, match="on_bad_file='skip' is unknown"):
        csv_files(folder, on_bad_file="skip")
    with pytest.raises(lw.SpecError, match="max_file_age='soon'"):
        csv_files(folder, max_file_age="soon")


def test_explain_names_the_order_the_memory_and_the_bad_files(folder):
    text = query(folder).explain()
    assert "each once, by listing, then by name; names remembered for 7 days" in text
    text = query(folder, order="name", max_file_age=None, on_bad_file="fail").explain()
    assert "by name; names remembered always; bad files stop the query" in text
