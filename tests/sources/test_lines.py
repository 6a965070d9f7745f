# ruff: noqa: E501
"""Every line of csv and json is a row in a count, whatever bytes it has."""

from __future__ import annotations

import gzip
import json
import math

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lowwater as lw
from lowwater.schema import schema_of
from lowwater.sources.csv_reader import read_csv
from lowwater.sources.json_reader import read_json
from lowwater.sources.lines import REASON, TEXT
from tests.reference.text_files import MALFORMED, csv_row, json_row, lines_of

SCHEMA = schema_of("a bigint, f double, s string")
KINDS = {"a": "bigint", "f": "double", "s": "string"}
EXAMPLES = 400
HEADER = b"a,f,s"

ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"])
VALUES = st.sampled_from(
    [
        b"1", b"-7", b" 1", b"+5", b"1.5", b"9223372036854775807", b"9223372036854775808", b"0x1F",
        b"1e400", b"-1e400", b"1e5", b"inf", b"-Infinity", b"nan", b"", b'""', b'"1"', b'"a, b"',
        b'"a ""b"""', b'""""', b'a"b', b'"a"b', b'"open', b'"', b'""x', b"x", b"NA", b"null",
        "é".encode(), "\u2028".encode(), "\x85".encode(), b"\x0b", b"\x0c", b"\x00", b"\xff", b"\xe2\x80",
        b"\xef\xbb\xbf", b" ", b"\t", b"+-1", b"1_0", "١".encode(), b"--1", b".", b"1.", b".5", b"+inf",
    ]
)  # fmt: skip
CSV_LINES = st.one_of(
    st.lists(VALUES, min_size=3, max_size=3).map(b",".join),
    st.lists(VALUES, max_size=5).map(b",".join),
    st.lists(st.sampled_from([b'"', b",", b"a", b"1", b" ", b"\xc3\xa9", b"\xff"]), max_size=9).map(b"".join),
    st.binary(max_size=12),
)  # fmt: skip
CLEAN_CSV = st.sampled_from([b"1,2.5,x", b'2,3,"a, b"', b"3,,"])


def rows(table):
    """Return the values of each row, or MALFORMED and the text."""
    found = []
    for row in table.to_pylist():
        if row.get(REASON) is not None:
            found.append((MALFORMED, row[TEXT]))
        else:
            found.append([same(row[name]) for name in KINDS])
    return found


def same(value):
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def expected(lines, read):
    found = []
    for line in lines:
        row = read(line)
        if row is MALFORMED:
            found.append((MALFORMED, line[:4096].decode("utf-8", "replace")))
        else:
            found.append([same(value) for value in row])
    return found


def files(lines):
    return st.lists(st.tuples(lines, ENDS), max_size=12).map(
        lambda pairs: b"".join(line + end for line, end in pairs)
    )


@given(st.one_of(files(CSV_LINES), files(st.one_of(CLEAN_CSV, CSV_LINES)), files(CLEAN_CSV)))
@settings(max_examples=EXAMPLES, deadline=None)
@example(b'1,2,"a\n1,2,b"\n')
@example(b'a"b,"c\n1,2,x\n')
@example(b'"\n')
@example(b"\xef\xbb\xbf1,2,x\n,\n")
def test_each_line_of_csv_is_read_as_if_it_stood_alone(body):
    found = rows(read_csv("file", HEADER + b"\n" + body, SCHEMA))
    assert found == expected(lines_of(body), lambda line: csv_row(line, KINDS.values()))


JSON_VALUES = st.sampled_from(
    [
        b"1", b"-0", b"1.5", b"1e2", b"9223372036854775808", b"-9223372036854775809", b"1e400", b"null", b"true",
        b'"x"', b'""', b'"1"', b"[1, 2]", b'{"b": 1.50}', b"NaN", b"-Infinity", b"Infinity", b'"\xff"',
        '"\u2028\x85"'.encode(), b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\t"', b'"\x00"', b"01", b"+1", b"'x'", b"",
        '"é"'.encode(), b"123456789012345678901234567890", b'{"a": 1, "a": 2}', b'"a\\u0000b"', b"1e-400", b'"}\\n{"',
    ]
)  # fmt: skip
NAMES = st.sampled_from([b'"a"', b'"f"', b'"s"', b'"z"', b'"\\u0061"', b"a"])
JSON_OBJECTS = st.lists(st.tuples(NAMES, JSON_VALUES), max_size=4).map(
    lambda pairs: b"{" + b", ".join(n + b": " + v for n, v in pairs) + b"}"
)
CLEAN_JSON = st.sampled_from(
    [b'{"a": 1, "f": 2.5, "s": "x"}', b'{"a": 2}', b"{}", b'{"s": "}{", "z": [{"a": null}]}']
)
JSON_LINES = st.one_of(
    JSON_OBJECTS,
    JSON_VALUES,
    st.tuples(JSON_OBJECTS, st.sampled_from([b"", b" ", b"null", b"{}", b" x"]), JSON_OBJECTS).map(
        b"".join
    ),
    st.lists(st.sampled_from([b"{", b"}", b'"a"', b":", b"1", b",", b" ", b"null"]), max_size=9).map(b"".join),
    st.binary(max_size=12),
)  # fmt: skip


@given(st.one_of(files(JSON_LINES), files(st.one_of(CLEAN_JSON, JSON_LINES)), files(CLEAN_JSON)))
@settings(max_examples=EXAMPLES, deadline=None)
@example(b'null\n{"a": 1}\n')
@example(b'{"a":1}{"a":2}\n{"a":\n3}\n')
@example(b'{"a":1}null{"a":2}\n')
@example(b'{"a":null,"a":null}\n')
@example(b'{"a":null,"a":1}\n')
@example(b'{"a":1,"a":null}\nx\n')
def test_each_line_of_json_is_read_as_if_it_stood_alone(data):
    lines = [line for line in lines_of(data) if line.strip(b" \t")]
    assert rows(read_json(data, SCHEMA)) == expected(lines, lambda line: json_row(line, KINDS))


def test_a_file_of_many_lines_with_a_few_bad_ones(monkeypatch):
    good = [f'{i},{i / 2},"n, {i}"'.encode() for i in range(5_000)]
    bad = {17: b"1,2", 2_500: b'1,2,"open', 2_501: b"1,2,\xff", 4_999: b"1,99x,y"}
    lines = [bad.get(i, line) for i, line in enumerate(good)]
    table = read_csv("file", b"\n".join([HEADER, *lines]), SCHEMA)
    assert [i for i, row in enumerate(table[REASON].to_pylist()) if row is not None] == [*bad]
    assert rows(table) == expected(lines, lambda line: csv_row(line, KINDS.values()))
    objects = [json.dumps({"a": i, "s": f"é{i}"}).encode() for i in range(5_000)]
    wrong = {0: b"null", 1_500: b'{"a": 1.5}', 1_501: b'{"s": 7}', 4_999: b'{"a": 1'}
    lines = [wrong.get(i, line) for i, line in enumerate(objects)]
    found = rows(read_json(b"\n".join(lines), SCHEMA))
    assert found == expected(lines, lambda line: json_row(line, KINDS))


def test_a_line_longer_than_a_block_of_arrow_is_a_row():
    long = "x" * (3 << 20)
    table = read_csv("file", f"a,f,s\n1,2,{long}\n2,3,y\n".encode(), SCHEMA)
    assert [len(s) for s in table["s"].to_pylist()] == [len(long), 1]
    table = read_json(f'{{"a":1,"s":"{long}"}}\n{{"a":2}}\n'.encode(), SCHEMA)
    assert table["a"].to_pylist() == [1, 2]
    table = read_csv("file", f"a,f,s\n1,2,{long},\n".encode(), SCHEMA)
    assert [len(text) for text in table[TEXT].to_pylist()] == [4096]


# -- multiline -------------------------------------------------------------------------------------


def texts(body):
    table = read_csv("file", b"a,s\n" + body, schema_of("a bigint, s string"), multiline=True)
    return [(r["a"], r["s"], r.get(REASON)) for r in table.to_pylist()]


def test_with_multiline_a_quoted_field_may_contain_line_ends():
    assert texts(b'1,"x\ny"\n2,"\n\n"\r\n3,z\n') == [(1, "x\ny", None), (2, "\n\n", None), (3, "z", None)]  # fmt: skip


def test_with_multiline_a_quote_that_stays_open_spoils_only_its_own_line():
    opened = "a quote is not closed"
    assert texts(b'1,"x\n2,y\n3,z\n') == [(None, None, opened), (2, "y", None), (3, "z", None)]
    mixed = texts(b'1,"x\r\ny"\n2,"open\n3,a"b\n4,z\n')
    assert [row[:2] for row in mixed] == [(1, "x\ny"), (None, None), (3, 'a"b'), (4, "z")]


@given(files(CSV_LINES))
@settings(max_examples=300, deadline=None)
def test_with_multiline_no_line_is_in_two_rows_or_in_none(body):
    schema = schema_of("a string, f string, s string")
    table = read_csv("file", HEADER + b"\n" + body, schema, multiline=True)
    read = sum(1 for row in table.to_pylist() if row.get(REASON) is None)
    lines = lines_of(body)
    assert len(table) <= len(lines)
    if b'"' not in body:
        assert len(table) == len(lines)
    assert read <= len(table)


def test_multiline_is_for_csv_only(tmp_path):
    with pytest.raises(lw.SpecError, match="multiline=True is for quoted line ends in csv"):
        lw.files(tmp_path, format="json", schema="t bigint", multiline=True)


# -- types -----------------------------------------------------------------------------------------

TIMES = [
    "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01 00:00", "2024-01-01T00", "2024-01-01T01:02:03.5",
    "2024-01-01T01:02:03.1234567Z", "2024-01-01T00:00:00+0200", "2024-01-01T00:00:00+02", "20240101",
    "2024-13-01", "2024-01-01T25:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "today", "",
    "2024-02-30", "2024-01-01T00:00:60", "2024-01-01T00:00:00-00:30", " 2024-01-01T00:00:00Z", "2024-1-1",
]  # fmt: skip


@pytest.mark.parametrize("text", TIMES)
def test_times_are_the_same_in_csv_and_in_json_alone_and_beside_a_bad_line(text):
    schema = schema_of("ts timestamp, s string")
    alone = read_json(json.dumps({"ts": text, "s": ""}).encode(), schema)
    beside = read_json(json.dumps({"ts": text, "s": 5}).encode() + b"\nx\n", schema)
    from_csv = read_csv("file", f'ts,s\n"{text}",x\n'.encode(), schema)
    assert alone["ts"][0] == beside["ts"][0] == from_csv["ts"][0]
    faulty = [REASON in t.column_names and t[REASON][0].is_valid for t in (alone, from_csv)]
    assert faulty[0] == (REASON in beside.column_names and beside[REASON][0].is_valid)
    assert faulty[0] == faulty[1] or text == ""  # an empty field of csv is NULL


@pytest.mark.parametrize("before", ["2024-01-01T00:00:00+0200", "2024-01-01 00:00", "today"])
def test_a_time_takes_no_zone_from_the_time_before_it(before):
    schema = schema_of("ts timestamp")
    for text in TIMES:
        alone = read_csv("file", f'ts\n"{text}"\n'.encode(), schema)["ts"][0]
        pair = f'ts\n"{before}"\n"{text}"\n"{before}"\n'.encode()
        assert read_csv("file", pair, schema)["ts"][1] == alone, text


def test_half_of_a_surrogate_pair_makes_a_row_of_json_malformed():
    schema = schema_of("ts timestamp, n bigint, s string")
    for name in schema.names:
        table = read_json(f'{{"{name}": "\\ud800"}}\n{{"n": 1}}\n'.encode(), schema)
        assert table[REASON].is_valid().to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("kind", "fits", "fails"),
    [
        ("tinyint", ["127", "-128"], ["128", "1.0", "x"]),
        ("int", ["2147483647"], ["2147483648"]),
        ("float", ["1.5", "3.4e38"], ["1e39", "-1e39"]),
        ("decimal(5, 2)", ["123.45", "1"], ["1234.5", "1.234", "9" * 60]),
        ("date", ['"2024-02-29"'], ['"2023-02-29"', '"x"']),
        ("boolean", ["true"], ["2", '"maybe"']),
    ],
)
def test_a_value_fits_its_column_or_makes_the_row_malformed(kind, fits, fails):
    schema = schema_of(f"v {kind}")
    for text in (*fits, *fails):
        as_json = read_json(f'{{"v": {text}}}'.encode(), schema)
        as_csv = read_csv("file", f"v\n{text}\n".encode(), schema)
        for table in (as_json, as_csv):
            assert (REASON in table.column_names) == (text in fails), text
            assert table["v"][0].is_valid == (text in fits)


@pytest.mark.parametrize(
    ("form", "kind"), [("csv", "array<int>"), ("json", "map<string, int>"), ("json", "array<date>")]
)
def test_a_type_that_a_text_format_cannot_hold_is_refused_at_once(tmp_path, form, kind):
    with pytest.raises(lw.SpecError, match="read it as string"):
        lw.files(tmp_path, format=form, schema=f"t bigint, v {kind}")


# -- through a query -------------------------------------------------------------------------------


def run(source, **more):
    stream = lw.stream(source, time="t", watermark=lw.ordered())
    for step in more.pop("steps", ()):
        stream = step(stream)
    return stream.window(range=10).agg(n=lw.count()).run(host="local", **more)


def test_a_filter_does_not_hide_a_line_that_cannot_be_read(tmp_path):
    (tmp_path / "a.csv").write_text("t,x\n1,5\n2,-5\n3\n4,many\n,7\n,-7\n")
    source = lw.files(tmp_path, format="csv", schema="t bigint, x bigint")
    outcome = run(source, steps=[lambda s: s.where("x > 0").with_columns(y="x + 1")])
    # -5 does not belong to the query, nor does -7; the lines that cannot be read do.
    assert (outcome.status["in"], outcome.status["malformed"]) == (4, 3)
    assert outcome.malformed["text"].to_pylist() == ["3", "4,many", ",7"]
    assert outcome.malformed["y"].to_pylist() == [None, None, 8]


def test_a_row_with_a_wrong_value_does_not_move_the_watermark(tmp_path):
    (tmp_path / "a.csv").write_text("t,x\n1,5\n1000000,many\n2,5\n")
    outcome = run(lw.files(tmp_path, format="csv", schema="t bigint, x bigint"))
    assert (outcome.status["admitted"], outcome.status["late"]) == (2, 0)
    assert outcome.status.newest == 2


def test_columns_named_text_and_reason_stay_the_users(tmp_path):
    (tmp_path / "a.csv").write_text("t,text,reason\n1,a,b\nx,c,d\n")
    outcome = run(lw.files(tmp_path, format="csv", schema="t bigint, text string, reason string"))
    (row,) = outcome.malformed.to_pylist()
    assert row == {
        "t": None,
        "text": "c",
        "reason": "d",
        "reason_": "column t: 'x' does not fit bigint",
        "text_": "x,c,d",
    }


def test_a_replay_keeps_texts_and_reasons_in_arrival_order(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,arrived\n3,3\n1,1\nx,2\n,1\n2,2\n")
    source = lw.replay(
        path, arrival="arrived", speed=None, format="csv", schema="t bigint, arrived bigint"
    )
    outcome = run(source)
    assert (outcome.status["in"], outcome.status["admitted"]) == (5, 3)
    assert outcome.malformed["text"].to_pylist() == [",1", "x,2"]
    limited = lw.replay(
        path, speed=None, max_rows_per_epoch=2, format="csv", schema="t bigint, arrived bigint"
    )
    assert sorted(run(limited).malformed["text"].to_pylist()) == [",1", "x,2"]


def test_a_parquet_value_that_does_not_fit_makes_its_row_malformed(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"t": [1, 2**40, 3]}), tmp_path / "a.parquet")
    outcome = run(lw.files(tmp_path, schema="t int"))
    assert (outcome.status["admitted"], outcome.status["malformed"]) == (2, 1)
    assert outcome.malformed["reason"].to_pylist() == ["column t: '1099511627776' does not fit int"]


def test_rows_of_compressed_csv_bound_an_epoch(tmp_path):
    for n in range(4):
        text = "t,x\n" + "".join(f"{n},{i * 7919 % 1000}\n" for i in range(300))
        (tmp_path / f"{n}.csv.gz").write_bytes(gzip.compress(text.encode()))
    source = lw.files(
        tmp_path, format="csv", schema="t bigint, x bigint", max_rows_per_epoch=600
    ).bounded()
    at, sizes = source.begin(), []
    while (end := source.available(at)) != at:
        sizes.append(sum(len(source.read(b)) for b in source.blocks(at, end)))
        at = end
    assert sizes == [600, 600]
