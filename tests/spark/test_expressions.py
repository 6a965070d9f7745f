"""Expressions before the window: evaluated by Spark over a DataFrame, by DuckDB over files."""

from __future__ import annotations

import math
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
from sqlglot import exp

import lowwater as lw
from lowwater.expressions.duckdb import SAME
from tests.expressions.test_lockdown import FILES, JVM_CALLS
from tests.spark.streams import cut, disordered, ordered_rows


@pytest.fixture
def folder(tmp_path):
    target = tmp_path / "stream"
    target.mkdir()
    for i, piece in enumerate(cut(disordered(2_000, seconds=60, late_by=3), 4)):
        path = target / f"{i:04d}.parquet"
        pq.write_table(piece, path)
        os.utime(path, (i, i))  # Spark reads files in the order of their times
    return target


def query(source):
    return (
        lw.stream(source, time="ts", watermark=lw.slack("4 seconds"))
        .where("value > -1.5 AND name RLIKE 'n[1-9]'")
        .with_columns(
            third="cast(amount AS int) % 3",
            label="if(flag, upper(name), concat('k', cast(key AS string)))",
            later="ts + INTERVAL 500 MILLISECONDS",
            half="key / 2",
        )
        .select("later", "ts", "label", "half", "third", tens="floor(value * 10)")
        .window(range="10 seconds", slide="5 seconds", on="later")
        .group_by("third", "label")
        .agg(n=lw.count(), halves=lw.sum("half"), least=lw.min("tens"), last=lw.max("ts"))
    )


def streaming(spark, folder):
    schema = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2)
    return reader.parquet(str(folder))


def test_a_dataframe_and_files_give_the_same_rows(spark, folder):
    by_frame = query(streaming(spark, folder)).run()
    by_files = query(lw.files(folder, files_per_epoch=2)).run()
    local = query(lw.files(folder, files_per_epoch=2)).run(host="local")
    assert ordered_rows(by_files.results) == ordered_rows(by_frame.results)
    assert ordered_rows(local.results) == ordered_rows(by_frame.results)
    assert by_files.results.schema == by_frame.results.schema
    assert 0 < by_files.status["in"] == by_frame.status["in"] < 2_000
    assert by_files.status.balanced


def test_what_spark_does_not_know_is_refused_when_the_query_is_built(spark, folder):
    stream = lw.stream(streaming(spark, folder), time="ts", watermark=lw.ordered())
    with pytest.raises(lw.SpecError, match="frobnicate"):
        stream.where("frobnicate(value) > 0")
    with pytest.raises(lw.SpecError, match="many rows"):
        stream.with_columns(top="max(value)")


@pytest.mark.parametrize("text", JVM_CALLS)
def test_a_text_over_a_dataframe_cannot_call_into_the_jvm(spark, folder, text):
    stream = lw.stream(streaming(spark, folder), time="ts", watermark=lw.ordered())
    for made in (stream.where, lambda t: stream.with_columns(y=t), lambda t: stream.select(y=t)):
        with pytest.raises(lw.SpecError, match=r"calls \w+\(\), which"):
            made(text)
    with pytest.raises(lw.SpecError):
        lw.sql(f"SELECT count(*) AS n FROM s [RANGE 1 minute] WHERE {text} = '1'", s=stream)


@pytest.mark.parametrize("text", FILES)
def test_a_text_over_a_dataframe_cannot_read_a_file(spark, folder, text):
    stream = lw.stream(streaming(spark, folder), time="ts", watermark=lw.ordered())
    with pytest.raises(lw.SpecError, match=r"holds a query|reads one row"):
        stream.with_columns(y=text)


def test_spark_itself_would_run_these_texts(spark):
    """If it would not, the tests above would show nothing."""
    call = "'java.lang.System', 'getProperty', 'java.version'"
    texts = [
        f"reflect({call})",
        f"IDENTIFIER('ref' || 'lect')({call})",
        f"`Java_Method`/**/({call})",
    ]
    (row,) = spark.range(1).selectExpr(*texts).collect()
    assert len(set(row)) == 1
    assert row[0].startswith(("17", "21"))


TEXTS = [
    "key + 1", "key - value", "key * 2", "key / 3", "key div 2", "key % 3", "-key", "key * 1.5",
    "amount + 1", "amount * 2", "amount > 0.5", "cast(value AS int)", "cast(amount AS double) / 7",
    "cast(key AS string)", "cast('7' AS bigint) + key", "abs(amount)",
    "floor(value)", "ceil(value * 3)", "round(value, 2)", "sqrt(abs(value))", "ln(abs(value) + 1)",
    "log10(abs(value) + 1)", "exp(value)", "power(value, 2)", "greatest(key, 3)",
    "least(value, 0)", "sign(value)", "value > 0", "key <=> 3", "key = 3 OR value > 1 AND flag",
    "key BETWEEN 2 AND 4", "key IN (1, 2, NULL)", "NOT flag", "key IS NULL",
    "coalesce(value, key, 0)", "nvl(key, -1)", "nullif(key, 3)", "if(flag, 1, 2)",
    "CASE key WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE name END",
    "upper(name)", "lower(name)", "length(name)", "concat(name, '-', cast(key AS string))",
    "concat_ws('-', name, 'x')", "name || name", "substring(name, 2, 1)", "substr(name, 2)",
    "left(name, 1)", "right(name, 1)", "trim('  a ')", "lpad(name, 5, '0')",
    "replace(name, 'n', 'm')",
    "name LIKE 'n1%'", "name RLIKE '^n[0-4]$'", "instr(name, '1')", "reverse(name)",
    "startswith(name, 'n2')", "contains(name, '3')", "regexp_replace(name, '[0-9]', 'd')",
    "regexp_extract(name, '([0-9]+)', 1)", "repeat(name, 2)", "initcap(name)",
    "hour(ts)", "minute(ts)", "second(ts)", "year(ts)", "month(ts)", "dayofmonth(ts)", "day(ts)",
    "dayofweek(ts)", "dayofyear(ts)", "weekofyear(ts)", "quarter(ts)",
    "date_trunc('MINUTE', ts)", "date_trunc('week', ts)", "to_date(ts)", "cast(ts AS date)",
    "ts + INTERVAL 90 SECONDS", "ts - INTERVAL 1 DAY", "unix_micros(ts)",
    "date_format(ts, 'yyyy-MM-dd HH:mm')", "datediff(ts, DATE '1969-12-25')", "date_add(ts, 3)",
    "ts > TIMESTAMP '1970-01-01 00:00:30'", "extract(MINUTE FROM ts)",
]  # fmt: skip


def same(ours, theirs):
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=1e-12)
    return ours == theirs


def test_what_carries_over_means_the_same_in_duckdb_as_in_spark(spark, tmp_path):
    table = disordered(200, seconds=60, late_by=3)
    pq.write_table(table, tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path)).coalesce(1)
    theirs = frame.selectExpr(*(f"{text} AS `{i}`" for i, text in enumerate(TEXTS))).toArrow()
    feed = lw.feed(table.schema)
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    computed = stream.with_columns(**{f"c{i}": text for i, text in enumerate(TEXTS)})
    given = computed.run(epochs={feed: [table]}, host="local").results
    ours = given.select([f"c{i}" for i in range(len(TEXTS))])
    for text, mine, other in zip(TEXTS, ours.columns, theirs.columns, strict=True):
        pairs = zip(mine.to_pylist(), other.to_pylist(), strict=True)
        wrong = [(a, b) for a, b in pairs if not same(a, b)]
        assert not wrong, (text, wrong[:3])
        assert mine.type == other.type or pa.types.is_decimal(mine.type), text


def test_every_function_that_carries_over_is_held_against_spark():
    trees = [sqlglot.parse_one(text, read="spark") for text in TEXTS]
    assert {type(f).__name__ for tree in trees for f in tree.find_all(exp.Func)} == SAME
