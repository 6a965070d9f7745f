"""Columns of any name in PostgreSQL: reserved, long, repeated, in other scripts."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.sinks.postgres_columns import LONGEST_NAME, TableColumns, free_name

psycopg = pytest.importorskip("psycopg")

LONG = "a_name_of_seventy_characters_that_PostgreSQL_would_cut_after_63_bytes_"
NAMES = [
    "window_start", "window_end", "place", "epoch", "staged", "lowwater_staged", "select", "user",
    "a b", 'a"b', "a'b", "a%b", "%s", "{x}", "a;b--", "Ω", "日本" * 20, "A", "xmin", "ctid", "",
    " ", LONG, "n_", "EXCLUDED", "key", "a.b", "a\nb", "kind_", "null",
]  # fmt: skip


def asked(dsn, text):
    with psycopg.connect(dsn) as connection:
        return connection.execute(text).fetchall()


def at(second):
    return dt.datetime(2024, 1, 1, 0, 0, second, tzinfo=dt.UTC)


def write_twice(dsn, table, query, feed, epochs):
    """Run a query whose epochs come twice, as after a crash."""

    class Twice(lw.to_postgres(dsn, table=table).__class__):
        def write_epoch(self, epoch, rows, tag):
            super().write_epoch(epoch, rows, tag)
            super().write_epoch(epoch, rows, tag)

    query.run(epochs={feed: epochs}, sink=Twice(dsn, table), early=lw.early_every("1 second"))


def stored(dsn, table):
    quoted = table.replace('"', '""')
    with psycopg.connect(dsn) as connection:
        cursor = connection.execute(f'SELECT * FROM "{quoted}"')
        names = [c.name for c in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_group_column_may_have_any_name(dsn, name):
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), (name, pa.string())])
    feed = lw.feed(schema)
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.window(range="10 seconds").group_by(name).agg(n=lw.count())
    table = f"by {abs(hash(name))}"
    epochs = [[(at(1), "a"), (at(2), None)], [(at(3), "a"), (at(14), "b")]]
    write_twice(dsn, table, query, feed, epochs)
    rows = stored(dsn, table)
    column = free_name(name, [])
    assert column == name or name in ("xmin", "ctid", "", LONG, "日本" * 20)
    found = sorted((r["wid"] % 1000, r[column] or "", r["n"]) for r in rows)
    first = found[0][0]
    assert found == [(first, "", 1), (first, "a", 2), (first + 1, "b", 1)]
    assert {r["kind"] for r in rows} == {"final"}


@pytest.mark.parametrize("table", ["staged", "lowwater_staged", 'a"b', "a%b", "%s", "Ω", "select"])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_table_may_have_any_name(dsn, table, keyed):
    sink = lw.to_postgres(dsn, table=table if keyed else f"public.{table}2")
    rows = pa.table({"wid": [1, 2], "x": ["a", "b"]})
    sink.prepare(rows.schema, ("wid",) if keyed else ())
    for _ in range(2):
        sink.write(0, rows)
    found = stored(dsn, table if keyed else f"{table}2")
    assert sorted(r["x"] for r in found) == ["a", "b"]


def test_names_that_are_equal_after_63_bytes_stay_apart(dsn):
    names = [LONG + "1", LONG + "2", LONG[:63]]
    rows = pa.table({name: [i] for i, name in enumerate(names)})
    sink = lw.to_postgres(dsn, table="long names")
    sink.prepare(rows.schema, names)
    sink.write(0, rows)
    sink.write(1, rows)
    (found,) = stored(dsn, "long names")
    assert list(found.values()) == [0, 1, 2, 2], "the last one is the number of the write"
    assert LONG[:63] in found
    assert all(len(name.encode()) <= LONGEST_NAME for name in found)


def test_a_group_of_a_struct_is_a_key_of_its_fields(dsn):
    kind = pa.struct([("start", pa.int64()), ("end", pa.int64())])
    rows = pa.table({"wid": [1, 1], "window_2": pa.array([(1, 2), (3, 4)], kind), "n": [5, 6]})
    sink = lw.to_postgres(dsn, table="two windows")
    sink.prepare(rows.schema, ("wid", "window_2"))
    sink.write(0, rows)
    sink.write(1, rows.set_column(2, "n", pa.array([7, 8])))
    found = stored(dsn, "two windows")
    assert sorted((r["window_2_start"], r["n"]) for r in found) == [(1, 7), (3, 8)]


def test_rows_without_a_key_may_have_columns_of_the_names_of_its_key(dsn):
    rows = pa.table({"epoch": ["a", "b"], "place": [1.5, 2.5]})
    sink = lw.to_postgres(dsn, table="epochs and places")
    sink.prepare(rows.schema, ())
    for epoch in (0, 0, 1):
        sink.write(epoch, rows)
    found = stored(dsn, "epochs and places")
    assert sorted((r["epoch_2"], r["place_2"], r["epoch"]) for r in found) == [
        (0, 0, "a"), (0, 1, "b"), (1, 0, "a"), (1, 1, "b"),
    ]  # fmt: skip


def test_own_columns_keep_their_names_before_fields_of_structs():
    bounds = pa.struct([("start", pa.int64()), ("end", pa.int64())])
    schema = pa.schema([("window", bounds), ("wid", pa.int64()), ("window_start", pa.string())])
    columns = TableColumns.of(schema, ("wid", "window_start"))
    assert columns.names == ["window_start_2", "window_end", "wid", "window_start"]
    assert columns.key == ("wid", "window_start")


def test_a_line_of_a_text_cannot_end_the_copy(dsn):
    texts = ["a\n\\.\nb", "\\.", "\\N", "", '"', "a,b", "x\r\ny"]
    rows = pa.table({"t": texts})
    sink = lw.to_postgres(dsn, table="texts")
    sink.prepare(rows.schema, ())
    sink.write(0, rows)
    assert sorted(r["t"] for r in stored(dsn, "texts")) == sorted(texts)


@pytest.mark.parametrize("table", ["", "a.", ".a", "a\0b", "x" * 64, "s." + "Ω" * 40])
def test_a_table_without_a_usable_name_is_refused(table):
    with pytest.raises(lw.SpecError, match=r"to_postgres\(table=.*; write a"):
        lw.to_postgres("host=h", table=table)
