"""lw.files: which files make an epoch, in which order, and what bad values do."""

from __future__ import annotations

import gzip
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.local.host import blocks_of
from lowwater.sources.formats import row_count
from lowwater.sources.infer_schema import infer_schema
from tests.run_query import finals


def write(folder, **files):
    for name, times in files.items():
        pq.write_table(pa.table({"t": pa.array(times, pa.int64())}), folder / f"{name}.parquet")


def epochs(source):
    """Return the rows of each epoch."""
    found = blocks_of(source.bounded())
    return [[t for block, _ in blocks for t in block["t"].to_pylist()] for blocks in found]


def counted(source, size=10, watermark=None):
    return (
        lw.stream(source, time="t", watermark=watermark or lw.ordered())
        .window(range=size)
        .agg(n=lw.count(), total=lw.sum("x"))
        .run(host="local")
    )


# -- order and epochs ------------------------------------------------------------------------------


def test_files_are_read_in_the_order_of_their_names(tmp_path):
    write(tmp_path, b=[2], a=[1], c=[3])
    assert epochs(lw.files(tmp_path)) == [[1, 2, 3]]
    assert epochs(lw.files(tmp_path, files_per_epoch=1)) == [[1], [2], [3]]
    assert epochs(lw.files(tmp_path, files_per_epoch=2)) == [[1, 2], [3]]


def test_an_epoch_takes_no_more_rows_than_allowed_and_at_least_a_file(tmp_path):
    write(tmp_path, a=[1, 1], b=[2, 2], c=[3] * 9, d=[4], e=[5])
    found = epochs(lw.files(tmp_path, max_rows_per_epoch=4))
    assert found == [[1, 1, 2, 2], [3] * 9, [4, 5]]
    both = epochs(lw.files(tmp_path, max_rows_per_epoch=4, files_per_epoch=1))
    assert [len(e) for e in both] == [2, 2, 9, 1, 1]


def test_hidden_and_foreign_files_are_passed_over(tmp_path):
    write(tmp_path, a=[1], _b=[2])
    write(tmp_path, **{".c": [3]})
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "a.parquet.tmp").write_bytes(b"half")
    assert epochs(lw.files(tmp_path)) == [[1]]


def test_an_empty_folder_is_an_empty_stream(tmp_path):
    assert epochs(lw.files(tmp_path, schema="t bigint")) == []


def test_a_file_without_rows_is_an_epoch_without_rows(tmp_path):
    write(tmp_path, a=[1], b=[], c=[2])
    assert epochs(lw.files(tmp_path, files_per_epoch=1)) == [[1], [], [2]]


def test_a_bounded_stream_ends_with_the_files_there_are(tmp_path):
    write(tmp_path, a=[1])
    bounded = lw.files(tmp_path).bounded()
    write(tmp_path, b=[2])
    assert [b.to_pylist() for blocks in blocks_of(bounded) for b, _ in blocks] == [[{"t": 1}]]


def test_an_unbounded_stream_sees_files_that_appear(tmp_path):
    write(tmp_path, a=[1])
    source = lw.files(tmp_path)
    first = source.available(source.begin())
    assert source.available(first) == first
    write(tmp_path, b=[2])
    second = source.available(first)
    assert [source.read(b)["t"].to_pylist() for b in source.blocks(first, second)] == [[2]]


def test_the_same_positions_give_the_same_blocks_again(tmp_path):
    write(tmp_path, a=[1], b=[2])
    source = lw.files(tmp_path)
    end = source.available(source.begin())
    before = source.blocks(source.begin(), end)
    write(tmp_path, c=[3])
    assert source.blocks(source.begin(), end) == before


def test_a_large_file_is_cut_into_blocks_that_several_cores_may_read(tmp_path, monkeypatch):
    monkeypatch.setattr("lowwater.sources.formats.BLOCK_ROWS", 10)
    rows = pa.table({"t": list(range(33))})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=4)
    pq.write_table(rows.slice(0, 3), tmp_path / "b.parquet")
    source = lw.files(tmp_path).bounded()
    blocks = source.blocks(source.begin(), source.available(source.begin()))
    read = [source.read(b)["t"].to_pylist() for b in blocks]
    assert [len(r) for r in read] == [8, 8, 8, 9, 3]
    assert [t for block in read[:4] for t in block] == rows["t"].to_pylist()
    assert [b.last for b in blocks] == [False] * 4 + [True]


def test_columns_that_are_not_asked_for_are_not_read(tmp_path):
    pq.write_table(pa.table({"t": [1], "x": [2], "big": ["z"]}), tmp_path / "a.parquet")
    source = lw.files(tmp_path, schema="t bigint, x bigint")
    (block,) = source.blocks(source.begin(), source.available(source.begin()))
    assert source.read(block).column_names == ["t", "x"]


def test_the_schema_of_parquet_is_that_of_its_first_file(tmp_path):
    pq.write_table(pa.table({"t": [1], "x": [1.5]}), tmp_path / "a.parquet")
    assert lw.files(tmp_path).schema == pa.schema([("t", pa.int64()), ("x", pa.float64())])


def test_a_column_that_a_file_lacks_is_null(tmp_path):
    pq.write_table(pa.table({"t": [1], "x": [2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"t": [2]}), tmp_path / "b.parquet")
    outcome = counted(lw.files(tmp_path))
    assert finals(outcome)[(0,)]["n"] == 2
    assert finals(outcome)[(0,)]["total"] == 2


def test_files_and_feed_give_the_same(tmp_path):
    tables = [pa.table({"t": [t, t - 12], "x": [1, t]}) for t in range(0, 100, 7)]
    for n, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{n:03d}.parquet")
    feed = lw.feed("t bigint, x bigint")

    def ask(source, **more):
        return (
            lw.stream(source, time="t", watermark=lw.slack(5))
            .window(range=10, slide=5)
            .agg(n=lw.count(), total=lw.sum("x"))
            .run(host="local", **more)
        )

    left = ask(lw.files(tmp_path, files_per_epoch=1))
    right = ask(feed, epochs={feed: tables})
    assert left.results == right.results
    assert left.late == right.late
    assert left.status.counts == right.status.counts


# -- csv and json ----------------------------------------------------------------------------------


def test_csv_reads_values_by_the_schema(tmp_path):
    (tmp_path / "a.csv").write_text(
        't,name,ts,price\n1,"a, b",2024-01-01T00:00:00Z,1.50\n2,,2024-01-01 00:00:01,\n'
    )
    source = lw.files(
        tmp_path,
        format="csv",
        schema="t bigint, name string, ts timestamp, price decimal(10, 2)",
    )
    (block,) = source.blocks(source.begin(), source.available(source.begin()))
    first, second = source.read(block).to_pylist()
    assert (first["name"], str(first["price"])) == ("a, b", "1.50")
    assert str(first["ts"]) == "2024-01-01 00:00:00+00:00"
    assert str(second["ts"]) == "2024-01-01 00:00:01+00:00"
    assert second["price"] is None


def test_compressed_csv_is_read(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"t,x\n1,2\n2,3\n"))
    outcome = counted(lw.files(tmp_path, format="csv", schema="t bigint, x bigint"))
    assert finals(outcome)[(0,)]["total"] == 5


def test_compressed_json_is_read_whatever_the_case_of_its_name(tmp_path):
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"t": 1, "x": 2}\n'))
    (tmp_path / "b.JSONL").write_bytes(b'{"t": 2, "x": 3}\n')
    source = lw.files(tmp_path, format="json", schema="t bigint, x bigint")
    assert finals(counted(source))[(0,)]["total"] == 5
    assert [row_count(p, "json") for p in sorted(tmp_path.iterdir())] == [1, 1]


def test_a_value_of_csv_that_does_not_fit_makes_its_row_malformed(tmp_path):
    (tmp_path / "a.csv").write_text("t,x\n1,2\nsoon,3\n2,many\n,5\n3,7\n")
    outcome = counted(lw.files(tmp_path, format="csv", schema="t bigint, x bigint"))
    assert outcome.status["in"] == 5
    assert outcome.status["malformed"] == 3
    assert (finals(outcome)[(0,)]["n"], finals(outcome)[(0,)]["total"]) == (2, 9)
    assert outcome.malformed.to_pylist() == [
        {"t": None, "x": 3, "text": "soon,3", "reason": "column t: 'soon' does not fit bigint"},
        {"t": 2, "x": None, "text": "2,many", "reason": "column x: 'many' does not fit bigint"},
        {"t": None, "x": 5, "text": ",5", "reason": "time is NULL or unreadable"},
    ]


@pytest.mark.parametrize("text", ["", "\n", "t,x\n"])
def test_csv_without_rows_is_an_epoch_without_rows(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text("t,x\n1,2\n")
    outcome = counted(lw.files(tmp_path, format="csv", schema="t bigint, x bigint"))
    assert outcome.status["in"] == 1


@pytest.mark.parametrize("line", ["7", "7,8,9", '7,"8', "\x00\x01", "7,8\x00"])
def test_a_broken_csv_line_does_not_stop_the_stream(tmp_path, line):
    (tmp_path / "a.csv").write_text(f"t,x\n1,2\n{line}\n")
    (tmp_path / "b.csv").write_text("t,x\n2,3\n")
    outcome = counted(lw.files(tmp_path, format="csv", schema="t bigint, x bigint"))
    assert outcome.status.balanced
    assert finals(outcome)[(0,)]["total"] >= 5


def test_csv_that_is_not_utf8_does_not_stop_the_stream(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"t,x\n1,2\n2,\xff\xfe\n3,4\n")
    outcome = counted(lw.files(tmp_path, format="csv", schema="t bigint, x bigint"))
    assert (finals(outcome)[(0,)]["n"], finals(outcome)[(0,)]["total"]) == (2, 6)
    assert outcome.malformed["text"].to_pylist() == ["2,\ufffd\ufffd"]


def test_columns_of_csv_go_by_their_names(tmp_path):
    (tmp_path / "a.csv").write_text("more,x,t\nz,2,1\n")
    outcome = counted(lw.files(tmp_path, format="csv", schema="t bigint, x bigint"))
    assert finals(outcome)[(0,)]["total"] == 2


def json_lines(path, *rows):
    path.write_text("".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in rows))


def test_json_reads_values_by_the_schema(tmp_path):
    json_lines(
        tmp_path / "a.json",
        {"t": 1, "ts": "2024-01-01T00:00:00Z", "tags": ["a"], "p": {"q": 1}, "more": 5},
        {"t": 2, "ts": "2024-01-01T02:00:00+02:00"},
    )
    schema = "t bigint, ts timestamp, tags array<string>, p struct<q: int>"
    source = lw.files(tmp_path, format="json", schema=schema)
    (block,) = source.blocks(source.begin(), source.available(source.begin()))
    first, second = source.read(block).to_pylist()
    assert (first["tags"], first["p"]) == (["a"], {"q": 1})
    assert first["ts"] == second["ts"]
    assert second["tags"] is None


def test_a_value_of_json_that_does_not_fit_makes_its_row_malformed(tmp_path):
    json_lines(
        tmp_path / "a.json",
        {"t": 1, "x": 2}, {"t": "soon", "x": 3}, {"t": 2, "x": "many"}, {"x": 5}, "{broken",
        "[1]", '"text"', {"t": 3, "x": 7}, {"t": 4, "x": [1]}, {"t": {"a": 1}, "x": 1},
    )  # fmt: skip
    outcome = counted(lw.files(tmp_path, format="json", schema="t bigint, x bigint"))
    assert outcome.status.balanced
    assert outcome.status["in"] == 10
    assert outcome.status["malformed"] == 8
    assert (finals(outcome)[(0,)]["n"], finals(outcome)[(0,)]["total"]) == (2, 9)
    assert outcome.malformed["reason"].to_pylist() == [
        "column t: 'soon' does not fit bigint", "column x: 'many' does not fit bigint",
        "time is NULL or unreadable",
        "the line is not JSON: expecting property name enclosed in double quotes at character 2",
        "the line is not a JSON object, but an array", "the line is not a JSON object, but text",
        "column x: '[1]' does not fit bigint", "column t: '{\"a\":1}' does not fit bigint",
    ]  # fmt: skip
    assert outcome.malformed["text"].to_pylist()[2:4] == ['{"x": 5}', "{broken"]


def test_json_without_rows_is_an_epoch_without_rows(tmp_path):
    (tmp_path / "a.json").write_text("")
    (tmp_path / "b.json").write_text("\n\n")
    json_lines(tmp_path / "c.json", {"t": 1, "x": 2})
    outcome = counted(lw.files(tmp_path, format="json", schema="t bigint, x bigint"))
    assert finals(outcome)[(0,)]["n"] == 1
    assert outcome.status["admitted"] == 1


def test_rows_of_json_and_csv_bound_an_epoch_too(tmp_path):
    for n in range(4):
        json_lines(tmp_path / f"{n}.json", *[{"t": n, "x": 1}] * 3)
    source = lw.files(tmp_path, format="json", schema="t bigint, x bigint", max_rows_per_epoch=6)
    assert [len(e) for e in epochs(source)] == [6, 6]
    for n in range(4):
        (tmp_path / f"{n}.csv").write_text("t,x\n" + "1,1\n" * 3)
    source = lw.files(tmp_path, format="csv", schema="t bigint, x bigint", max_rows_per_epoch=8)
    assert [len(e) for e in epochs(source)] == [6, 6]


def test_a_replay_by_the_clock_runs_on_the_local_host(tmp_path):
    pq.write_table(pa.table({"t": [1], "arrived": [1]}), tmp_path / "r.parquet")
    source = lw.replay(tmp_path / "r.parquet", arrival="arrived")
    query = lw.stream(source, time="t", watermark=lw.ordered()).window(range=10).agg(n=lw.count())
    assert query.run(host="local").results.column("n").to_pylist() == [1]


def test_a_replay_refuses_a_column_it_has_not_and_a_speed_of_nothing(tmp_path):
    pq.write_table(pa.table({"t": [1], "arrived": [1]}), tmp_path / "r.parquet")
    with pytest.raises(lw.SpecError, match=r"'arived'.*Did you mean 'arrived'"):
        lw.replay(tmp_path / "r.parquet", arrival="arived")
    with pytest.raises(lw.SpecError, match="speed=0"):
        lw.replay(tmp_path / "r.parquet", arrival="arrived", speed=0)
    with pytest.raises(lw.SpecError, match="max_rows_per_epoch=0"):
        lw.replay(tmp_path / "r.parquet", arrival="arrived", max_rows_per_epoch=0)


def test_parquet_with_categories_is_read_as_text(tmp_path):
    # pandas writes categories, and Arrow reads them back as such; Spark reads text.
    import pandas as pd

    frame = pd.DataFrame({"t": [1, 2, 3], "g": pd.Categorical(["a", "b", "a"])})
    frame.to_parquet(tmp_path / "a.parquet")
    query = (
        lw.stream(lw.files(tmp_path), time="t", watermark=lw.ordered())
        .window(range=10)
        .group_by("g")
        .agg(n=lw.count(), top=lw.max("g"))
    )
    assert query.schema.field("g").type == pa.string()
    found = finals(query.run(host="local"), ("g",))
    assert {c: (r["n"], r["top"]) for c, r in found.items()} == {
        (0, "a"): (2, "a"),
        (0, "b"): (1, "b"),
    }


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.string()])
def test_text_of_every_layout_is_text(tmp_path, kind):
    # Polars and others write large strings and views.
    table = pa.table({"t": [1, 2], "g": pa.array(["a", None], kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    query = lw.stream(lw.files(tmp_path), time="t", watermark=lw.ordered()).window(range=10)
    outcome = (
        query.group_by("g").agg(n=lw.count(), top=lw.max("g"), f=lw.first("g")).run(host="local")
    )
    assert {c: r["top"] for c, r in finals(outcome, ("g",)).items()} == {
        (0, "a"): "a",
        (0, None): None,
    }


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint32(), pa.uint64()])
def test_unsigned_numbers_are_numbers(tmp_path, kind):
    most = 2**kind.bit_width - 1
    pq.write_table(pa.table({"t": [1, 2], "x": pa.array([most, 1], kind)}), tmp_path / "a.parquet")
    query = lw.stream(lw.files(tmp_path), time="t", watermark=lw.ordered()).window(range=10)
    outcome = query.agg(hi=lw.max("x"), lo=lw.min("x"), z=lw.first("x")).run(host="local")
    (row,) = outcome.results.to_pylist()
    assert (row["hi"], row["lo"], row["z"]) == (most, 1, most)


def test_a_backlog_is_cut_into_epochs_of_bounded_size(tmp_path, monkeypatch):
    write(tmp_path, a=[1] * 50, b=[2] * 50, c=[3] * 50)
    size = (tmp_path / "a.parquet").stat().st_size
    monkeypatch.setattr(
        sys.modules["lowwater.sources.file_reader"], "EPOCH_BYTES", 2 * size + size // 2
    )
    assert [len(rows) for rows in epochs(lw.files(tmp_path))] == [100, 50]
    monkeypatch.setattr(sys.modules["lowwater.sources.file_reader"], "EPOCH_BYTES", 1)
    assert [len(rows) for rows in epochs(lw.files(tmp_path))] == [50, 50, 50]


def test_a_flipped_bit_in_a_parquet_page_with_a_checksum_is_found(tmp_path):
    rows = pa.table({"t": list(range(1000)), "x": [1] * 1000})
    plain = {"compression": "none", "use_dictionary": False}
    pq.write_table(rows, tmp_path / "a.parquet", write_page_checksum=True, **plain)
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[3000] ^= 0x40
    (tmp_path / "a.parquet").write_bytes(content)
    outcome = counted(lw.files(tmp_path, schema="t bigint, x bigint"))
    assert outcome.status.bad_files == 1
    assert len(outcome.results) == 0


def test_a_name_with_a_star_is_one_file(tmp_path):
    (tmp_path / "a*.csv").write_text("t,x\n1,2\n")
    (tmp_path / "ab.csv").write_text("t,x\n1,many\n")
    schema = infer_schema([tmp_path / "a*.csv"], "csv")
    assert schema.field("x").type == pa.int64()
