"""Schemas as Spark writes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.schema import parse_schema, parse_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("boolean", pa.bool_()),
        ("tinyint", pa.int8()),
        ("smallint", pa.int16()),
        ("int", pa.int32()),
        ("INTEGER", pa.int32()),
        ("bigint", pa.int64()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal", pa.decimal128(10, 0)),
        ("decimal(12)", pa.decimal128(12, 0)),
        ("decimal(38, 10)", pa.decimal128(38, 10)),
        ("numeric(5,2)", pa.decimal128(5, 2)),
        ("array<int>", pa.list_(pa.int32())),
        ("array<array<string>>", pa.list_(pa.list_(pa.string()))),
        ("map<string, decimal(5, 2)>", pa.map_(pa.string(), pa.decimal128(5, 2))),
        ("struct<a: int, b: string>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        (
            "struct<a: array<struct<b: int, c: map<int, int>>>>",
            pa.struct(
                [
                    (
                        "a",
                        pa.list_(
                            pa.struct([("b", pa.int32()), ("c", pa.map_(pa.int32(), pa.int32()))])
                        ),
                    )
                ]
            ),
        ),
    ],
)
def test_a_type_is_read(text, expected):
    assert parse_type(text) == expected


def test_a_schema_is_read():
    found = parse_schema("ts timestamp, `odd name` int, price decimal(10, 2) NOT NULL, s: string")
    assert found.names == ["ts", "odd name", "price", "s"]
    assert found.field("price").type == pa.decimal128(10, 2)
    assert [f.nullable for f in found] == [True, True, False, True]


def test_names_keep_their_case():
    assert parse_schema("Ts TIMESTAMP, sEgment INT").names == ["Ts", "sEgment"]
    assert parse_type("struct<aB: int>").field(0).name == "aB"


@pytest.mark.parametrize("text", ["", "ts", "ts timestamp,", ", x int", "ts timestamp x int y"])
def test_a_schema_that_is_none_is_refused(text):
    with pytest.raises(lw.SpecError):
        lw.feed(text)


@pytest.mark.parametrize(
    "text", ["uint", "datetime", "array<>", "map<int>", "array<int", "decimal(a)", "struct<a>"]
)
def test_an_unknown_type_is_refused_with_those_that_are_known(text):
    with pytest.raises(lw.SpecError):
        parse_type(text)
    with pytest.raises(lw.SpecError, match=r"type 'datetime' is unknown.*timestamp"):
        parse_type("datetime")


def test_a_column_that_is_named_twice_is_refused():
    with pytest.raises(lw.SpecError, match="'x'"):
        lw.feed("t bigint, x int, x string")


@pytest.mark.parametrize("text", ["decimal(39, 2)", "decimal(0, 0)", "decimal(5, 9)"])
def test_a_decimal_that_cannot_be_is_refused(text):
    with pytest.raises(lw.SpecError):
        parse_type(text)


def test_a_feed_takes_tables_frames_batches_dicts_and_tuples():
    import pandas as pd

    feed = lw.feed("t bigint, s string")
    rows = [{"t": 1, "s": "a"}, {"t": 2, "s": None}]
    table = pa.Table.from_pylist(rows, feed.schema)
    forms = [
        table,
        table.to_batches()[0],
        pd.DataFrame({"s": ["a", None], "t": [1, 2], "more": [0, 0]}),
        rows,
        [(1, "a"), (2, None)],
        pa.table({"s": ["a", None], "t": pa.array([1, 2], pa.int32())}),
    ]
    for form in forms:
        assert feed.table(form).to_pylist() == rows


def test_a_feed_refuses_a_table_without_a_column_of_its_schema():
    feed = lw.feed("t bigint, s string")
    with pytest.raises(lw.SpecError, match="lacks columns of its schema: s"):
        feed.table(pa.table({"t": [1]}))
    with pytest.raises(lw.SpecError, match="table, a DataFrame or a list"):
        feed.table("rows")


@pytest.mark.parametrize("given", [[(1,)], [(1, "a", "b")], [{"t": 1, "typo": "a"}], [5]])
def test_a_feed_refuses_rows_that_do_not_fit(given):
    with pytest.raises(lw.SpecError):
        lw.feed("t bigint, s string").table(given)


def test_a_feed_refuses_values_that_do_not_fit():
    feed = lw.feed("t bigint, s string")
    with pytest.raises(lw.SpecError, match="t"):
        feed.table([("soon", "a")])
    with pytest.raises(lw.SpecError):
        feed.table(pa.table({"t": ["soon"], "s": ["a"]}))
