"""Sinks take every epoch once; an epoch that comes again must not matter."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.sinks.sink import History
from tests.reference.windows import Windows
from tests.run_query import run

COUNT = {"n": lw.count()}
EPOCHS = [[(3,)], [(15,)], [(4,), (None,)], [(26,)], [(5,)]]


def outcome(**sinks):
    return run("t bigint", EPOCHS, Windows(10, 10), lw.ordered(), COUNT, **sinks)


def test_parquet_has_a_file_per_epoch_that_has_rows(tmp_path):
    outcome(sink=lw.to_parquet(tmp_path))
    expected = outcome().results
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) >= 2
    found = pa.concat_tables([pq.read_table(f) for f in files])
    assert found == expected.cast(found.schema)
    assert pq.read_table(tmp_path).num_rows == len(expected)


def test_an_epoch_written_again_replaces_itself(tmp_path):
    sink = lw.to_parquet(tmp_path)
    table = pa.table({"n": [1, 2]})
    sink.write(7, table)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    sink.write(7, table)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    sink.write(8, table)
    assert pq.read_table(tmp_path).num_rows == 4


def test_a_whole_run_is_not_mixed_with_another_one(tmp_path):
    def rows():
        paths = sorted(tmp_path.rglob("*.parquet"), key=lambda p: (p.parent.name, p.name[:16]))
        return [pq.read_table(p).to_pylist() for p in paths]

    def sinks(existing=None):
        kinds = ("sink", "late", "malformed")
        return {n: lw.to_parquet(tmp_path / n, existing=existing) for n in kinds}

    outcome(**sinks())
    before = rows()
    with pytest.raises(lw.SinkError, match=r"files of another query \(a run without a checkpoint"):
        outcome(**sinks())
    assert rows() == before
    outcome(**sinks("overwrite"))
    assert rows() == before
    outcome(**sinks("append"))
    assert len(rows()) == 2 * len(before)


def test_a_sink_of_its_own_takes_the_rows_of_each_output(tmp_path):
    late, malformed = lw.to_memory(), lw.to_memory()
    found = outcome(late=late, malformed=malformed, sink=lw.to_parquet(tmp_path))
    assert found.results is None
    assert found.late["t"].to_pylist() == [4, 5] or found.late["t"].to_pylist() == [5]
    assert sum(len(t) for t in late.epochs.values()) == len(found.late)
    assert found.malformed["t"].to_pylist() == [None]
    assert list(malformed.epochs) == [2]


def test_two_outputs_do_not_overwrite_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    feed = lw.feed("t bigint")
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(n=lw.count())
    memory = lw.to_memory()
    for first, second in (
        (lw.to_json("out"), lw.to_json(tmp_path / "out")),
        (lw.to_parquet("out"), lw.to_csv("x/../out")),
        (memory, memory),
    ):
        with pytest.raises(lw.SpecError, match=r"results of .* and late of .* overwrite"):
            query.run(epochs={feed: [[(1,)]]}, sink=first, late=second)
    assert not list(tmp_path.iterdir())
    query.run(epochs={feed: [[(1,)]]}, sink=lw.to_memory(), late=lw.to_memory())


def test_a_callback_gets_the_epoch_and_its_rows():
    calls = []
    outcome(sink=lw.to_callback(lambda epoch, rows: calls.append((epoch, rows["wid"].to_pylist()))))
    assert [e for e, _ in calls] == sorted(e for e, _ in calls)
    assert sorted(w for _, wids in calls for w in wids) == [0, 1, 2]
    assert all(wids for _, wids in calls)


def test_memory_keeps_epochs_apart():
    sink = lw.to_memory()
    found = outcome(sink=sink)
    assert pa.concat_tables(sink.epochs[e] for e in sorted(sink.epochs)) == found.results


def test_the_console_shows_rows_as_a_person_reads_them(capsys):
    feed = lw.feed("ts timestamp, g string, x double")
    (
        lw.stream(feed, time="ts", watermark=lw.ordered())
        .window(range="1 minute")
        .group_by("g")
        .agg(top=lw.max("x"))
        .run(
            epochs={feed: [[{"ts": 0, "g": None, "x": 1.5}, {"ts": 1, "g": "b", "x": None}]]},
            sink=lw.to_console(),
        )
    )
    shown = capsys.readouterr().out
    assert "epoch 1: 2 rows" in shown
    assert "NULL" in shown
    assert "1.5" in shown
    assert "1970-01-01" in shown


def test_the_console_fails_when_nobody_reads_any_more(tmp_path, monkeypatch):
    with (tmp_path / "closed").open("w") as closed:

        class Closed(io.StringIO):
            """A pipe whose reader has gone."""

            def write(self, _):
                raise BrokenPipeError

            def fileno(self):
                return closed.fileno()

        monkeypatch.setattr("sys.stdout", Closed())
        with pytest.raises(lw.SinkError, match="standard output is closed"):
            outcome(sink=lw.to_console())


def test_the_console_shows_the_first_rows_only(capsys):
    stream = [(t,) for t in range(0, 1000, 10)]
    run("t bigint", [stream], Windows(10, 10), lw.ordered(), COUNT, sink=lw.to_console(rows=3))
    shown = capsys.readouterr().out
    assert "100 rows" in shown
    assert shown.count("final") == 3


def test_an_error_in_a_callback_is_not_swallowed():
    def broken(epoch, rows):
        raise RuntimeError("disk full")

    with pytest.raises((RuntimeError, lw.HostError), match="disk full"):
        outcome(sink=lw.to_callback(broken))


@pytest.mark.parametrize(("existing", "query"), [(None, "mine"), ("overwrite", "another")])
def test_a_run_that_lost_its_checkpoint_deletes_no_output(tmp_path, existing, query):
    sink = lw.to_parquet(tmp_path, existing=existing)
    sink.write_epoch(3, pa.table({"n": [1]}), "later")
    (tmp_path / ".lowwater").write_text(json.dumps({"query": query}))
    lost = History("mine", "checkpoint", "token", 1, {1: "tag"}, lambda: False)
    delete = sink.truncate if existing is None else sink.take_over
    with pytest.raises(lw.SinkError, match="newer run"):
        delete(lost)
    assert len(list(tmp_path.glob("*.parquet"))) == 1


def test_a_word_on_outputs_needs_a_checkpoint():
    feed = lw.feed("t bigint")
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(n=lw.count())
    with pytest.raises(lw.SpecError, match="outputs='keep' is for a checkpoint"):
        query.run(epochs={feed: [[(1,)]]}, outputs="keep")
