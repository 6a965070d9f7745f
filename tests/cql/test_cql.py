"""Queries as text: what they mean, how they are printed, and what is said when they are wrong."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.cql.dialect import normal_form, parse
from tests.cql.papers import FIXTURES
from tests.strategies import examples

SCHEMA = "ts timestamp, t bigint, `seg-id` int, x double, name string, n int, pair struct<a: int>"
RUN = [name for name, fixture in FIXTURES.items() if "results" in fixture.parts]


def stream(schema=SCHEMA, time="ts"):
    return lw.stream(lw.feed(schema), time=time, watermark=lw.ordered())


# -- the queries of the papers -------------------------------------------------------------------


@pytest.mark.parametrize("name", FIXTURES)
def test_a_query_of_a_paper_has_its_normal_form(name):
    fixture = FIXTURES[name]
    assert normal_form(parse(fixture.query)) == fixture.normal


@pytest.mark.parametrize("name", FIXTURES)
def test_what_is_printed_is_read_as_the_same_tree(name):
    tree = parse(FIXTURES[name].query)
    assert parse(normal_form(tree)) == tree


@pytest.mark.parametrize("name", RUN)
def test_a_query_of_a_paper_gives_its_rows(name):
    assert FIXTURES[name].run() == FIXTURES[name].results


@pytest.mark.parametrize("name", RUN)
def test_a_query_of_a_paper_gives_its_rows_one_by_one(name):
    assert FIXTURES[name].run(row_by_row=True) == FIXTURES[name].results


@pytest.mark.parametrize("name", RUN)
def test_a_query_of_a_paper_is_printed_so_that_it_builds_the_same_query(name):
    streams, _ = FIXTURES[name].streams()
    query = lw.sql(FIXTURES[name].query, **streams)
    for text in (query.sql(**streams), query.sql(*streams)):
        assert lw.sql(text, **streams).fingerprint(2) == query.fingerprint(2)
        assert normal_form(parse(text)) == text


def test_every_query_of_a_paper_runs():
    assert sorted(FIXTURES) == RUN


def test_windows_then_groups_differ_from_partitions_then_windows():
    # segments by row number     0  1  2  3  4  5          Q2: windows of all rows, then groups
    #                            1  2  1  1  2  1          Q4: windows of each segment's own rows
    grouped, parted = FIXTURES["wid_q2"], FIXTURES["wid_q4"]
    assert grouped.parts["rows"] == parted.parts["rows"]
    q2, q4 = grouped.run(), parted.run()
    first_four_of_all = [row for row in q2 if row[:2] == [0, 4]]
    first_four_of_each = [row for row in q4 if row[:2] == [0, 4]]
    assert first_four_of_all == [[0, 4, 1, 3], [0, 4, 2, 1]]
    assert first_four_of_each == [[0, 4, 1, 4], [0, 4, 2, 2]]


# -- text and builder ----------------------------------------------------------------------------

BOTH = {
    "tumbling": ("[RANGE 1 minute]", {"range": "1 minute"}),
    "sliding": ("[RANGE 5 minutes SLIDE 60 seconds]", {"range": "5 minutes", "slide": "1 minute"}),
    "long durations": ("[RANGE 1 hour 30 minutes]", {"range": "90 minutes"}),
    "numbers": ("[RANGE 10 SLIDE 5 WATTR t]", {"range": 10, "slide": 5, "on": "t"}),
    "decimals": ("[RANGE 0.5 WATTR x]", {"range": 0.5, "on": "x"}),
    "with an origin": (
        "[RANGE 1 day ORIGIN '2024-01-01 06:00:00']",
        {"range": "1 day", "origin": "2024-01-01 06:00:00"},
    ),
    "with a negative origin": (
        "[RANGE 10 WATTR t ORIGIN -3]",
        {"range": 10, "on": "t", "origin": -3},
    ),
    "landmark": (
        "[RANGE UNBOUNDED SLIDE 1 hour]",
        {"range": lw.unbounded, "slide": "1 hour"},
    ),
    "landmark with an origin": (
        "[RANGE UNBOUNDED SLIDE 10 WATTR t ORIGIN 5]",
        {"range": lw.unbounded, "slide": 10, "on": "t", "origin": 5},
    ),
    "rows": (
        "[RANGE 1000 rows SLIDE 10 rows WATTR row-num]",
        {"range": lw.rows(1000), "slide": lw.rows(10), "on": lw.arrival},
    ),
    "rows by rank": ("[RANGE 4 rows WATTR rank(ts)]", {"range": lw.rows(4), "on": lw.rank("ts")}),
    "rows by number": (
        "[RANGE 4 rows SLIDE 2 rows WATTR t]",
        {"range": lw.rows(4), "slide": lw.rows(2), "on": "t"},
    ),
    "rows of a partition": (
        "[RANGE 4 rows SLIDE 2 rows WATTR row-num PATTR `seg-id`, name]",
        {
            "range": lw.rows(4),
            "slide": lw.rows(2),
            "on": lw.arrival,
            "partition_by": ["seg-id", "name"],
        },
    ),
    "at each row": (
        "[RANGE 300 seconds RATTR ts SLIDE 1 row SATTR row-num]",
        {"range": "300 seconds", "slide": lw.rows(1), "slide_on": lw.arrival},
    ),
    "at some rows": (
        "[RANGE 300 seconds RATTR ts SLIDE 5 rows SATTR row-num]",
        {"range": "300 seconds", "slide": lw.rows(5), "slide_on": lw.arrival},
    ),
    "at some ranks": (
        "[RANGE 300 seconds RATTR ts SLIDE 5 rows SATTR rank(ts)]",
        {"range": "300 seconds", "slide": lw.rows(5), "slide_on": lw.rank("ts")},
    ),
    "where a number is a multiple": (
        "[RANGE 300 seconds RATTR ts SLIDE 5 SATTR t]",
        {"range": "300 seconds", "slide": 5, "slide_on": "t"},
    ),
    "sessions": ("[GAP 5 minutes]", {"gap": "5 minutes"}),
    "corrected by late rows": (
        "[RANGE 5 minutes SLIDE 1 minute ALLOWED LATENESS 1 hour]",
        {"range": "5 minutes", "slide": "1 minute", "allowed_lateness": "1 hour"},
    ),
    "corrected by late rows, over a number": (
        "[RANGE 5 WATTR t ALLOWED LATENESS 2]",
        {"range": 5, "on": "t", "allowed_lateness": 2},
    ),
    "sessions of a partition": (
        "[GAP 5 minutes WATTR ts PATTR name]",
        {"gap": "5 minutes", "on": "ts", "partition_by": "name"},
    ),
}


@pytest.mark.parametrize("kind", BOTH)
def test_every_window_is_to_be_had_as_text_and_by_the_builder(kind):
    text, words = BOTH[kind]
    by_text = lw.sql(f"SELECT count(*) AS n, max(x) AS top FROM s {text}", s=stream())
    built = stream().window(**words).agg(n=lw.count(), top=lw.max("x"))
    assert by_text.plan == built.plan
    assert lw.sql(built.sql(), s=stream()).plan == built.plan


def test_the_page_tells_text_and_builder_of_the_same_windows():
    page = Path(__file__).parents[2] / "docs" / "cql.md"
    rows = [line.split(" | ") for line in page.read_text().splitlines() if " | `window(" in line]
    assert len(rows) == 16
    for _, text, call in rows:
        source = stream("ts timestamp, position bigint, segment int")
        by_text = lw.sql(f"SELECT count(*) AS n FROM s {text.strip('`')}", s=source)
        words = eval(call.strip("`| ").replace("window(", "dict("), {"lw": lw})  # noqa: S307
        assert by_text.plan == source.window(**words).agg(n=lw.count()).plan, text


def test_row_num_is_a_column_if_the_stream_has_one():
    has_one = stream("ts timestamp, `row-num` bigint")
    query = lw.sql("SELECT count(*) AS n FROM s [RANGE 4 rows WATTR row-num]", s=has_one)
    assert query.plan.axis.column == "row-num"
    assert query.plan.numbering is None
    by_arrival = has_one.window(range=lw.rows(4), slide=lw.rows(2)).agg(n=lw.count())
    assert lw.sql(by_arrival.sql(), s=has_one).plan == by_arrival.plan


AGGREGATES = {
    "count(*)": lw.count(), "count(x)": lw.count("x"), "sum(n)": lw.sum("n"), "avg(x)": lw.avg("x"),
    "min(name)": lw.min("name"), "max(x)": lw.max("x"), "variance(x)": lw.variance("x"),
    "stddev(x)": lw.stddev("x"), "first(x)": lw.first("x"), "last(`seg-id`)": lw.last("seg-id"),
    "median(x)": lw.median("x"),
    "quantile(x, 0.9)": lw.quantile("x", 0.9),
    "count_distinct(x)": lw.count_distinct("x"),
    "top_k(x, 3)": lw.top_k("x", 3),
    "mode(x)": lw.mode("x"),
}  # fmt: skip


@pytest.mark.parametrize("call", AGGREGATES)
def test_every_aggregate_can_be_called_and_is_named_by_its_text(call):
    query = lw.sql(
        f"select {call.upper() if '`' not in call else call} from s [range 1 min]", s=stream()
    )
    assert list(query.plan.aggregates.values()) == [AGGREGATES[call]]
    assert query.sql() == f"SELECT {call} FROM s [RANGE 1 minute SLIDE 1 minute WATTR ts]"


def test_distinct_counts_are_written_as_in_sql():
    query = lw.sql("SELECT count(DISTINCT x) AS n FROM s [RANGE 1 min]", s=stream())
    assert query.plan.aggregates == {"n": lw.count_distinct("x")}


def test_a_sketch_is_called_by_the_name_that_spark_gives_it():
    pytest.importorskip("datasketches")
    query = lw.sql("SELECT approx_count_distinct(x) AS n FROM s [RANGE 1 min]", s=stream())
    assert query.plan.aggregates == {"n": lw.count_distinct("x", sketch=True)}
    assert lw.sql(query.sql(), s=stream()).plan.aggregates == query.plan.aggregates


def test_where_and_expressions_are_steps_before_the_window():
    text = (
        "SELECT floor(x / 10) AS tens, upper(name), max(x * 1.6) AS top, sum(n) "
        "FROM s AS r [RANGE 1 minute] WHERE r.x > 0 AND `seg-id` <> 3 GROUP BY tens, upper(r.name)"
    )
    query = lw.sql(text, s=stream())
    assert query.plan.keys == ("tens", "upper(name)")
    assert list(query.plan.aggregates) == ["top", "sum(n)"]
    assert [str(step) for step in query.stream.steps] == [
        "where x > 0 AND `seg-id` <> 3",
        "with tens = FLOOR(x / 10), upper(name) = UPPER(name), x * 1.6 = x * 1.6",
    ]
    assert lw.sql(query.sql(), s=stream()).fingerprint(2) == query.fingerprint(2)
    assert query.sql() == (
        "SELECT floor(x / 10) AS tens, upper(name), max(x * 1.6) AS top, sum(n) "
        "FROM s [RANGE 1 minute SLIDE 1 minute WATTR ts] "
        "WHERE x > 0 AND `seg-id` <> 3 GROUP BY floor(x / 10), upper(name)"
    )


def test_a_query_without_a_window_is_a_stream():
    text = (
        "SELECT count(*) AS n, max(twice) AS top FROM "
        "(SELECT ts, n * 2 AS twice FROM (SELECT *, n + 1 AS more FROM s WHERE n > 0) AS q "
        "WHERE more < 9) AS r [RANGE 1 minute]"
    )
    query = lw.sql(text, s=stream())
    assert [str(step) for step in query.stream.steps] == [
        "where n > 0",
        "with more = n + 1",
        "where more < 9",
        "select ts, twice = n * 2",
    ]
    assert lw.sql(query.sql(), s=stream()).fingerprint(2) == query.fingerprint(2)


def test_steps_of_the_builder_are_printed_too():
    made = stream().where("x > 0").where("n > 1").with_columns(n="n + 1").where("n < 7")
    query = made.window(range="1 minute").group_by("n").agg(k=lw.count())
    assert lw.sql(query.sql("s"), s=stream()).fingerprint(2) == query.fingerprint(2)


def test_a_key_can_be_renamed_and_a_field_can_be_grouped_by():
    text = (
        "SELECT `seg-id` AS seg, s.pair.a AS a, count(*) AS n FROM s [RANGE 1 min] GROUP BY seg, a"
    )
    query = lw.sql(text, s=stream())
    assert query.schema.names == ["window", "wid", "seg", "a", "n", "kind"]


def test_a_query_in_from_needs_no_name():
    text = "SELECT count(*) AS n FROM (SELECT * FROM s WHERE n > 0) [RANGE 1 min]"
    assert [str(step) for step in lw.sql(text, s=stream()).stream.steps] == ["where n > 0"]


def test_names_of_streams_and_columns_are_found_whatever_their_case():
    query = lw.sql("SELECT Max(X) AS top FROM Traffic [Range 1 Minute Wattr TS]", traffic=stream())
    assert query.plan.aggregates == {"top": lw.max("x")}


def test_an_aggregate_without_a_name_in_text_cannot_be_printed():
    own = lw.aggregate("x", lift=float, combine=max, lower=float, returns="double")
    query = stream().window(range="1 minute").agg(own=own)
    with pytest.raises(lw.SpecError, match=r"own=.* has no name"):
        query.sql()


# -- mistakes ------------------------------------------------------------------------------------

MISTAKES = {
    "no query": ("DROP TABLE s", 1, 1, "one query"),
    "no grammar": ("SELECT count(*) FROM s [RANGE 1 minute] GROUP name", 1, None, ""),
    "an open bracket": ("SELECT count(*) FROM s [RANGE 1 minute", 1, 39, "expected a clause"),
    "an unknown clause": (
        "SELECT count(*)\nFROM s [RANGE 1 minute SLID 1 minute]",
        2,
        24,
        "did you mean 'slide'?",
    ),
    "an unknown unit": ("SELECT count(*)\nFROM s [RANGE 5 minuts]", 2, 17, "'minutes'"),
    "a clause of earlier versions": (
        "SELECT count(*) FROM s [RANGE 1 min REVISE 1 h]",
        1,
        37,
        "REVISE is now ALLOWED LATENESS",
    ),
    "half a clause": (
        "SELECT count(*) FROM s [RANGE 1 min ALLOWED 1 h]",
        1,
        45,
        "expected ALLOWED LATENESS",
    ),
    "a clause twice": ("SELECT count(*) FROM s [RANGE 1 min RANGE 2 min]", 1, 37, "twice"),
    "do not make one length": (
        "SELECT count(*) FROM s [RANGE WATTR ts]",
        1,
        31,
        "expected a length",
    ),
    "mixed lengths": (
        "SELECT count(*) FROM s [RANGE 1 row 2 min]",
        1,
        31,
        "do not make one length",
    ),
    "no attribute": ("SELECT count(*) FROM s [RANGE 1 min WATTR]", 1, 42, "expected a column"),
    "an unknown stream": ("SELECT count(*) FROM ss [RANGE 1 min]", 1, 22, "did you mean 's'?"),
    "an unknown column": ("SELECT sum(nn) FROM s [RANGE 1 min]", 1, 12, "did you mean 'n'?"),
    "an unknown attribute": (
        "SELECT count(*) FROM s [RANGE 1 min WATTR tss]",
        1,
        43,
        "did you mean 'ts'?",
    ),
    "an unknown qualifier": ("SELECT sum(q.n) FROM s [RANGE 1 min]", 1, 12, "'q' is not a stream"),
    "an unknown function": ("SELECT summ(n) FROM s [RANGE 1 min]", 1, 8, "did you mean 'sum'?"),
    "a function of one row": ("SELECT upper(name) FROM s [RANGE 1 min]", 1, 8, "GROUP BY"),
    "a column not grouped by": (
        "SELECT name, count(*) FROM s [RANGE 1 min]",
        1,
        8,
        "add GROUP BY name",
    ),
    "no aggregate": ("SELECT name FROM s [RANGE 1 min] GROUP BY name", 1, None, "an aggregate"),
    "all columns": ("SELECT * FROM s [RANGE 1 min]", 1, None, "cannot stand over windows"),
    "a window where no stream is": (
        "SELECT n [RANGE 1 min], count(*) FROM s [RANGE 1 min]",
        1,
        10,
        "after a stream in FROM",
    ),
    "two windows": ("SELECT count(*) [RANGE 1 min] FROM s [RANGE 2 min]", 1, 17, "has two windows"),
    "a function for a stream": (
        "SELECT count(*) FROM s(SELECT 1 FROM s [RANGE 1 min]) [RANGE 1 min]",
        1,
        None,
        "is not a stream",
    ),
    "a sample of a stream": (
        "SELECT count(*) FROM s TABLESAMPLE (10 PERCENT) [RANGE 1 min]",
        1,
        22,
        "is not supported",
    ),
    "names for columns": (
        "SELECT count(*) FROM s AS r(a, b) [RANGE 1 min]",
        1,
        22,
        "is not supported",
    ),
    "no window": ("SELECT count(*) FROM s", 1, 22, "needs a window"),
    "a wrong length": ("SELECT count(*) FROM s [RANGE 5]", 1, 24, "bare number"),
    "both attributes": (
        "SELECT count(*) FROM s [RANGE 1 min WATTR ts SLIDE 1 row SATTR row-num]",
        1,
        43,
        "the attributes of one",
    ),
    "too many arguments": ("SELECT max(n, x) FROM s [RANGE 1 min]", 1, 8, "1 argument"),
    "a star for a column": ("SELECT max(*) FROM s [RANGE 1 min]", 1, 8, "1 argument"),
    "a name twice": (
        "SELECT sum(n), sum(n) FROM s [RANGE 1 min]",
        1,
        16,
        "two columns have the name",
    ),
    "distinct values": ("SELECT max(DISTINCT n) FROM s [RANGE 1 min]", 1, 8, "DISTINCT"),
    "an aggregate of one": (
        "SELECT max(sum(n)) FROM s [RANGE 1 min]",
        1,
        12,
        "inside an aggregate",
    ),
    "an order": (
        "SELECT max(n) FROM s [RANGE 1 min] ORDER BY 1",
        1,
        None,
        "ORDER BY is not supported",
    ),
    "a filter on what is not there": (
        "SELECT count(*) FROM s [RANGE 1 min]\nWHERE nn > 1",
        2,
        7,
        "did you mean 'n'?",
    ),
    "a filter over many rows": (
        "SELECT count(*) FROM s [RANGE 1 min] WHERE max(n) > 1",
        1,
        44,
        "many rows",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_shown_where_it_is(what):
    text, line, column, told = MISTAKES[what]
    with pytest.raises(lw.CqlError) as raised:
        lw.sql(text, s=stream())
    error = raised.value
    assert told in str(error)
    assert error.line == line
    if column is not None:
        assert error.column == column


def test_a_mistake_points_at_its_line():
    with pytest.raises(lw.CqlError) as raised:
        lw.sql("SELECT count(*)\nFROM s [RANGE 5 minuts]", s=stream())
    assert str(raised.value) == (
        "line 2, column 17: 'minuts' is not a unit\n"
        "  FROM s [RANGE 5 minuts]\n"
        "                  ^\n"
        "Hint: did you mean 'minutes'?"
    )
    assert isinstance(raised.value, lw.SpecError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize("name", FIXTURES)
def test_a_text_with_a_word_missing_is_read_or_refused(name):
    streams, _ = FIXTURES[name].streams()
    words = FIXTURES[name].query.split(" ")
    for i in range(len(words)):
        with suppress(lw.CqlError):
            lw.sql(" ".join([*words[:i], *words[i + 1 :]]), **streams)


def test_what_is_no_stream_is_refused():
    with pytest.raises(lw.SpecError, match="the text of a query"):
        lw.sql(3)
    with pytest.raises(lw.SpecError, match=r"s=3.*give a stream"):
        lw.sql("SELECT count(*) FROM s [RANGE 1 min]", s=3)


# -- any query -----------------------------------------------------------------------------------

NUMBERS = st.integers(1, 2_000).map(str) | st.sampled_from(["0.5", "2.25"])
UNITS = st.sampled_from(["seconds", "SECOND", "min", "minutes", "h", "day", "ms", "week"])
ROWS = st.integers(1, 500).map(lambda n: f"{n} rows")
TIMES = st.lists(st.tuples(NUMBERS, UNITS).map(" ".join), min_size=1, max_size=2).map(" ".join)
LENGTHS = NUMBERS | TIMES | ROWS | st.just("unbounded")
NAMES = st.sampled_from(["ts", "`seg-id`", "x", "r.name", "`order`", "Value"])
ATTRIBUTES = NAMES | st.just("row-num") | NAMES.map("rank({})".format)
PAIRS = st.tuples(NAMES, NAMES).map(" , ".join)
CLAUSES = {
    "RANGE": LENGTHS, "slide": LENGTHS, "GAP": TIMES, "Wattr": ATTRIBUTES | PAIRS,
    "RATTR": ATTRIBUTES, "sattr": ATTRIBUTES,
    "PATTR": st.lists(NAMES, min_size=1, max_size=3).map(" , ".join),
    "origin": st.sampled_from(["'2024-01-01'", "-3", "7"]), "allowed lateness": TIMES,
}  # fmt: skip
SIMPLE = NAMES | NUMBERS | st.sampled_from(["'a b'", "NULL", "true"])
EXPRESSIONS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%", "||"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        inner.map("upper({})".format),
        st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"CASE WHEN {t[0]} > 1 THEN {t[1]} ELSE 0 END"),
    ),
    max_leaves=5,
)
CALLS = st.tuples(
    st.sampled_from(["sum", "MAX", "Avg", "first", "variance", "median", "top_k"]), EXPRESSIONS
).map(lambda t: f"{t[0]}({t[1]})") | st.just("count ( * )")


@st.composite
def windows(draw):
    names = draw(st.lists(st.sampled_from(sorted(CLAUSES)), min_size=1, unique=True))
    glue = draw(st.sampled_from([" ", "\n  ", ", "]))
    return f"[{glue.join(f'{name} {draw(CLAUSES[name])}' for name in names)}]"


@st.composite
def sources(draw, depth=1):
    kinds = ["named", "aliased", "union", "keep"] + ["nested"] * (depth > 0)
    kind = draw(st.sampled_from(kinds))
    name = draw(st.sampled_from(["s", "Traffic", "`my stream`"]))
    if kind == "union":
        return f"{name} UNION b union c{draw(st.sampled_from(['', ' AS u']))} {draw(windows())}"
    if kind == "keep":
        return f"{name} AS k KEEP {draw(TIMES)}{draw(st.sampled_from(['', ' SLIDE 1 sec']))}"
    if kind == "nested":
        return f"({draw(queries(depth - 1))}) AS inner_rows {draw(windows())}"
    return f"{name}{' AS r' if kind == 'aliased' else ''} {draw(windows())}"


@st.composite
def queries(draw, depth=1):
    items = draw(st.lists(EXPRESSIONS | CALLS, min_size=1, max_size=3))
    named = [f"{item} AS a{i}" if draw(st.booleans()) else item for i, item in enumerate(items)]
    froms = draw(sources(depth))
    for joined in draw(st.lists(sources(depth), max_size=2)):
        word = draw(st.sampled_from([",", "join", "LEFT JOIN", "full outer join", "anti JOIN"]))
        on = draw(st.sampled_from([" ON r.x = k.x AND r.ts - k.ts < INTERVAL 3 min", " using (x)"]))
        froms += f"{word if word == ',' else ' ' + word} {joined}{on if word != ',' else ''}"
    where = f" where {draw(EXPRESSIONS)} > 0" if draw(st.booleans()) else ""
    group = f"\nGROUP BY {draw(NAMES)}, {draw(EXPRESSIONS)}" if draw(st.booleans()) else ""
    having = f" having {draw(CALLS)} > 0" if draw(st.booleans()) else ""
    return f"select {', '.join(named)} FROM {froms}{where}{group}{having}"


@given(queries())
@examples(150)
def test_reading_what_was_printed_gives_the_same_tree(text):
    tree = parse(text)
    printed = normal_form(tree)
    assert parse(printed) == tree
    assert normal_form(parse(printed)) == printed
