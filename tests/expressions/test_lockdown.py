"""Texts of a query run no code, read no file and load nothing, whatever they contain."""

from __future__ import annotations

import threading

import duckdb
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.expressions.evaluate import LOCKED, Expression, _database, evaluate
from lowwater.expressions.steps import Select, Where, WithColumns

SCHEMA = "t bigint, x double, name string"
EXIT = "'java.lang.System', 'exit', '7'"
JVM_CALLS = [
    f"java_method({EXIT})",
    f"reflect({EXIT})",
    f"try_reflect({EXIT})",
    f"REFLECT({EXIT})",
    f"Java_Method ({EXIT})",
    f"`reflect`({EXIT})",
    f"`REFLECT` ({EXIT})",
    f"system.builtin.reflect({EXIT})",
    f"`system`.`builtin`.`reflect`({EXIT})",
    f"reflect /* a comment */ ({EXIT})",
    f"reflect/**/({EXIT})",
    f"reflect /* /* two */ */ ({EXIT})",
    f"reflect -- a comment\n({EXIT})",
    f"reflect\n\t({EXIT})",
    f"reflect\u3000({EXIT})",
    f"x > 0 AND reflect({EXIT}) = 'a'",
    f"coalesce(name, upper(java_method({EXIT})))",
    f"CASE WHEN x > 0 THEN reflect({EXIT}) END",
    f"transform(array(1), v -> reflect({EXIT}))",
    f"named_struct('a', java_method({EXIT})).a",
    f"x COLLATE UTF8_BINARY = reflect({EXIT})",
    f"{{fn reflect({EXIT})}}",
    f"x ?:: reflect({EXIT})",
    f"IDENTIFIER('reflect')({EXIT})",
    f"identifier('ref' || 'lect')({EXIT})",
    f"identifier(concat('java', '_method'))({EXIT})",
    f"r'\\' || reflect({EXIT}) || ''",
]
FILES = [
    "(SELECT max(_c0) FROM csv.`/etc/passwd`)",
    "(TABLE csv.`/etc/passwd`)",
    "(FROM csv.`/etc/passwd`)",
    "( from csv.`/etc/passwd`)",
    "name IN (TABLE text.`/etc/passwd`)",
    "exists(SELECT * FROM text.`/etc/passwd`)",
    "x ?:: (SELECT 1)",
]
STEPS = [Where, lambda text: WithColumns((("y", text),)), lambda text: Select((("y", text),))]


@pytest.mark.parametrize("text", JVM_CALLS)
def test_a_text_cannot_call_into_the_jvm(text):
    for step in STEPS:
        with pytest.raises(lw.SpecError, match=r"calls \w+\(\), which (can run|takes)"):
            step(text)
    stream = lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.ordered())
    for made in (stream.where, lambda t: stream.with_columns(y=t), lambda t: stream.select(y=t)):
        with pytest.raises(lw.SpecError, match=r"java_method|reflect|identifier"):
            made(text)


@pytest.mark.parametrize("text", FILES)
def test_a_text_cannot_read_a_table_or_a_file(text):
    for step in STEPS:
        with pytest.raises(lw.SpecError, match=r"holds a query|reads one row"):
            step(text)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM s [RANGE 10] WHERE {} = '1'",
        "SELECT {} AS y, t FROM s",
        "SELECT count(*) AS n FROM s [RANGE 10] HAVING {} = '1'",
        "SELECT upper({}) AS y, max(x) AS m FROM s [RANGE 10]",
        "SELECT count(*) AS n FROM (SELECT t, {} AS y FROM s) [RANGE 10]",
        "SELECT name, count(*) AS n FROM s [RANGE 10] GROUP BY name, {}",
        "SELECT max({}) AS m FROM s [RANGE 10]",
        "SELECT * FROM s [RANGE 3] JOIN r [RANGE 3] ON s.name = {}",
    ],
)
@pytest.mark.parametrize("call", JVM_CALLS[:8] + JVM_CALLS[9:11] + JVM_CALLS[23:25])
def test_cql_cannot_call_into_the_jvm(query, call):
    streams = {n: lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.ordered()) for n in ("s", "r")}
    with pytest.raises(lw.SpecError):
        lw.sql(query.format(call), **streams)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("name = 'reflect'", [True, False]),
        ("`reflect` + 1", [2.0, 3.0]),
        ("reflect > 1 AND identifier = 'b'", [False, True]),
        ("concat(identifier, 'select')", ["aselect", "bselect"]),
    ],
)
def test_columns_and_strings_may_have_these_names(text, values):
    table = pa.table({"reflect": [1.0, 2.0], "identifier": ["a", "b"], "name": ["reflect", "x"]})
    (found,) = evaluate(table, [Expression.over(text, table.schema)])
    assert found.to_pylist() == values


# -- DuckDB ---------------------------------------------------------------------------------------

STATEMENTS = [
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'http://127.0.0.1:1/x.csv'",
    "SELECT * FROM read_csv('http://127.0.0.1:1/x.csv')",
    "SELECT * FROM read_csv('s3://bucket/x.csv')",
    "COPY (SELECT 1) TO '{folder}/x.csv'",
    "COPY (SELECT 1) TO '/dev/stdout'",
    "EXPORT DATABASE '{folder}/all'",
    "ATTACH '{folder}/x.db'",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{folder}/x.duckdb_extension'",
    "INSTALL h3 FROM community",
    "SELECT getenv('HOME')",
    "CREATE PERSISTENT SECRET s (TYPE http)",
    "SET enable_external_access = true",
    "SET autoload_known_extensions = true",
    "SET temp_directory = '{folder}'",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "PRAGMA enable_external_access",
    "SELECT * FROM secret_rows",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_connection_of_duckdb_is_closed_to_the_world(statement, tmp_path):
    secret_rows = pa.table({"x": [1]})  # DuckDB would find tables among Python's variables
    with pytest.raises(duckdb.Error):
        _database().execute(statement.format(folder=tmp_path)).fetchall()
    assert len(secret_rows) == 1
    assert list(tmp_path.iterdir()) == []


def test_each_thread_has_a_locked_connection():
    settings = []

    def read():
        names = ", ".join(f"current_setting('{name}')" for name in [*LOCKED, "lock_configuration"])
        settings.append(_database().execute(f"SELECT {names}").fetchone())

    for _ in range(2):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert settings == [(*LOCKED.values(), True)] * 2


@pytest.mark.parametrize(
    "text",
    [
        "read_csv_auto('/etc/passwd')",
        "`read_text`('/etc/passwd')",
        "getenv('HOME')",
        "current_setting('home_directory')",
        "x + (SELECT count(*) FROM read_csv('/etc/passwd'))",
        "x; COPY (SELECT 1) TO '/tmp/x.csv'",
        "x); ATTACH '/tmp/y.db'; SELECT (1",
        "x FROM read_csv('/etc/passwd')",
        "x AS y, read_text('/etc/passwd')",
        "`x\" FROM read_text('/etc/passwd') --`",
        "'a\\' || read_text(name) || \\''",
        "name.read_text()",
        "query('SELECT 1')",
    ],
)
def test_an_expression_for_duckdb_is_one_value_of_one_row(text):
    stream = lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.ordered())
    try:
        made = stream.with_columns(y=text)
    except lw.SpecError:
        return
    (feed,) = made.assembly.sources
    (found,) = made.run(epochs={feed: [[(1, 2.0, "/etc/passwd")]]}).results["y"].to_pylist()
    assert "root:" not in str(found)
    assert text.startswith("'")  # a string is a value
