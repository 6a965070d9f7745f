"""The PostgreSQL sink, against a real server that the tests start."""

from __future__ import annotations

import datetime as dt
import json
import sys

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.cli.app import main
from lowwater.errors import SinkError, SpecError
from lowwater.sinks.postgres import Postgres

psycopg = pytest.importorskip("psycopg")
ROWS = "ts timestamp, key string, value double"


def asked(dsn, text):
    with psycopg.connect(dsn) as connection:
        return connection.execute(text).fetchall()


def at(second):
    return dt.datetime(2024, 1, 1, 0, 0, second, tzinfo=dt.UTC)


def windows(feed):
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    return stream.window(range="10 seconds").group_by("key")


def test_an_early_row_becomes_the_final_one_and_writing_again_changes_nothing(dsn):
    feed = lw.feed(ROWS)
    query = windows(feed).agg(n=lw.count(), top=lw.max("value"), most=lw.top_k("value", 2))
    noted = []

    class Twice(Postgres):
        """Every epoch comes twice, as after a crash; what is there is noted each time."""

        def write_epoch(self, epoch, rows, tag):
            for _ in range(2):
                super().write_epoch(epoch, rows, tag)
                noted.append(
                    asked(dsn, "SELECT key, n, kind FROM speeds ORDER BY window_start, key")
                )

    sink = Twice(dsn, "speeds")
    epochs = [
        [(at(1), "a", 1.5), (at(2), None, 2.5), (at(3), 'b"\n', 0.5)],
        [(at(4), "a", 3.5)],
        [(at(15), "a", float("nan"))],
    ]
    clock = lw.VirtualClock(per_epoch="2 seconds")
    out = query.run(
        epochs={feed: epochs}, sink=sink, early=lw.early_every("2 seconds"), clock=clock
    )
    assert out.results is None
    assert any(kind == "early" for rows in noted for *_, kind in rows)
    assert noted[0::2] == noted[1::2]
    found = asked(dsn, "SELECT key, n, top, most, kind FROM speeds ORDER BY window_start, key")
    assert [row[:2] for row in found] == [("a", 2), ('b"\n', 1), (None, 1), ("a", 1)]
    assert {row[-1] for row in found} == {"final"}
    assert [row[2] for row in found[:3]] == [3.5, 0.5, 2.5]
    assert asked(dsn, "SELECT min(window_start), max(window_end) FROM speeds") == [(at(0), at(20))]


def test_rows_without_a_key_are_kept_by_epoch(dsn):
    feed = lw.feed(ROWS)
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    epochs = {feed: [[(at(1), "a", 1.0), (at(1), "a", 1.0)], [(at(2), "b", 2.0)]]}
    for existing in (None, "overwrite"):
        sink = lw.to_postgres(dsn, table="plain rows", existing=existing)
        stream.where("value > 0").run(epochs=epochs, sink=sink)
    found = asked(dsn, 'SELECT key, value FROM "plain rows" ORDER BY epoch, place')
    assert found == [("a", 1.0), ("a", 1.0), ("b", 2.0)]


def test_a_result_without_its_group_is_kept_by_epoch(dsn):
    feed = lw.feed(ROWS)
    query = windows(feed).agg(n=lw.count()).select("window", "n")
    rows = [(at(1), "a", 1.0), (at(2), "b", 1.0)]
    query.run(epochs={feed: [rows]}, sink=lw.to_postgres(dsn, table="bare"))
    assert asked(dsn, "SELECT n FROM bare ORDER BY n") == [(1,), (1,)]


def test_what_does_not_fit_is_said_before_anything_runs(dsn, monkeypatch):
    feed = lw.feed(ROWS)
    query = windows(feed).agg(n=lw.count())
    with pytest.raises(SinkError, match=r"server on socket .*nowhere"):
        query.run(epochs={feed: [[]]}, sink=lw.to_postgres("host=/nowhere", table="t"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE lacking (wid bigint)")
    with pytest.raises(SpecError, match="no column 'window_start'"):
        query.run(epochs={feed: [[]]}, sink=lw.to_postgres(dsn, table="lacking"))
    with pytest.raises(SinkError, match='schema "nosuch" does not exist'):
        query.run(epochs={feed: [[]]}, sink=lw.to_postgres(dsn, table="nosuch.t"))
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SpecError, match=r"pip install 'lowwater\[postgres\]'"):
        lw.to_postgres(dsn, table="t")


def test_all_types_of_results_arrive(dsn):
    kinds = {
        "yes": pa.array([True, None]),
        "day": pa.array([dt.date(2024, 1, 1), None]),
        "exact": pa.array([1, None], pa.decimal128(20, 3)),
        "text": pa.array(["", None]),
        "when": pa.array([at(1), None], pa.timestamp("us", tz="UTC")),
        "each": pa.array([{"x": 1.5}, None]),
        "list": pa.array([["a"], None]),
        "far": pa.array([float("-inf"), None]),
    }
    sink = lw.to_postgres(dsn, table="kinds")
    rows = pa.table(kinds)
    sink.prepare(rows.schema, ())
    sink.write(0, rows)
    found = asked(
        dsn, 'SELECT yes, day, exact, text, "when", each_x, list, far FROM kinds ORDER BY place'
    )
    first = (True, dt.date(2024, 1, 1), 1, "", at(1), 1.5, ["a"], float("-inf"))
    assert found == [first, (None,) * 8]


def test_the_command_writes_into_a_table(dsn, tmp_path, capfd):
    (tmp_path / "s.csv").write_text("ts,k\n2024-01-01 00:00:01,a\n2024-01-01 00:00:02,b\n")
    query = "SELECT k, count(*) AS n FROM s [RANGE 1 minute] GROUP BY k"
    source = f"s={tmp_path}/s.csv"
    options = ["--source", source, "--watermark", "ordered", "--host", "local", "--json"]
    for more in ([], ["--existing", "append"], ["--existing", "overwrite"]):
        # Rows of a window and group are there once, however often they come.
        with pytest.raises(SystemExit) as ended:
            main(["run", query, *options, *more, "--sink", f"postgres:{dsn},table=by_command"])
        assert ended.value.code == 0
        found = json.loads(capfd.readouterr().out)
        assert found["written"] == {"sink": 2}
        assert found["sinks"] == {"sink": "postgres:by_command"}
        assert asked(dsn, "SELECT k, n FROM by_command ORDER BY k") == [("a", 1), ("b", 1)]
    # A table that does not fit is a mistake: nothing is run.
    other = "SELECT k, max(ts) AS last FROM s [RANGE 1 minute] GROUP BY k"
    with pytest.raises(SystemExit) as ended:
        main(["run", other, *options, "--sink", f"postgres:{dsn},table=by_command"])
    assert ended.value.code == 2
    assert "has no column 'last'" in capfd.readouterr().err
