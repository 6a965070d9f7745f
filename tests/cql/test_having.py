"""HAVING, and expressions over the aggregates of a window."""

from __future__ import annotations

import pytest

import lowwater as lw

SCHEMA = "t bigint, k int, x double"
ROWS = [(1, 1, 10.0), (3, 2, 5.0), (2, 1, 30.0), (12, 2, 7.0), (11, 2, 9.0), (13, 1, 4.0)]


def stream():
    return lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.slack(100))


def rows(text):
    given = stream()
    query = lw.sql(text, s=given)
    found = query.run(epochs={given.node.source: [ROWS]}).results
    return [
        [row["window"]["start"], *(v for n, v in row.items() if n not in ("window", "wid", "kind"))]
        for row in sorted(found.to_pylist(), key=lambda row: (row["wid"], *list(row.values())[2:]))
    ]


def test_having_keeps_some_results():
    text = "SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k HAVING {}"
    every = [[0, 1, 2], [0, 2, 1], [10, 1, 1], [10, 2, 2]]
    assert rows(text.format("true")) == every
    assert rows(text.format("count(*) > 1")) == [[0, 1, 2], [10, 2, 2]]
    assert rows(text.format("n > 1 AND k = 2")) == [[10, 2, 2]]
    assert rows(text.format("max(x) > 9")) == [[0, 1, 2]]
    assert rows(text.format("window.end = 10")) == every[:2]


def test_aggregates_can_be_computed_with():
    text = "SELECT k, sum(x) / count(*) AS mean, count(*), max(x) - min(x) FROM s [RANGE 10] "
    assert rows(text + "GROUP BY k") == [
        [0, 1, 20.0, 2, 20.0],
        [0, 2, 5.0, 1, 0.0],
        [10, 1, 4.0, 1, 0.0],
        [10, 2, 8.0, 2, 2.0],
    ]


def test_keys_can_stand_in_expressions_over_aggregates():
    text = (
        "SELECT k * 10 AS tens, sum(x) + k * 10 AS y FROM s [RANGE 100] "
        "GROUP BY tens HAVING tens > 10"
    )
    assert rows(text) == [[0, 20, 5.0 + 7.0 + 9.0 + 20]]


def test_steps_after_the_window_are_those_of_the_builder():
    given = stream()
    query = lw.sql(
        "SELECT k, sum(x) / count(*) AS mean FROM s [RANGE 10] GROUP BY k HAVING max(x) > 1",
        s=given,
    )
    calls = {"sum(x)": lw.sum("x"), "count(*)": lw.count(), "max(x)": lw.max("x")}
    built = (
        given.window(range=10)
        .group_by("k")
        .agg(**calls)
        .where("`max(x)` > 1")
        .select("window", "wid", "k", mean="`sum(x)` / `count(*)`", kind="kind")
    )
    assert query.fingerprint(2) == built.fingerprint(2)
    assert query.schema.names == ["window", "wid", "k", "mean", "kind"]
    assert query.time == "window"


def test_an_aggregate_is_computed_once():
    text = "SELECT sum(x) AS total, sum(x) / count(x) AS mean FROM s [RANGE 10] HAVING sum(x) > 1"
    plan = lw.sql(text, s=stream()).assembly.flow.operators[0].plan
    assert plan.aggregates == {"total": lw.sum("x"), "count(x)": lw.count("x")}


TEXTS = [
    "SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k HAVING n > 1",
    "SELECT count(*) AS n FROM s [RANGE 10] HAVING max(x) > 1 AND window.end > 3",
    "SELECT sum(x) / count(*) AS mean FROM s [RANGE 10]",
    "SELECT k + 1 AS next, sum(x) * (k + 1) AS y, count(*) FROM s [RANGE 10] GROUP BY k + 1",
    "SELECT k, max(x) - min(x) FROM s [RANGE 10 PATTR k]",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_printed_builds_the_same_query(text):
    given = stream()
    query = lw.sql(text, s=given)
    assert lw.sql(query.sql("s"), s=given).fingerprint(2) == query.fingerprint(2)


N = {"n": lw.count(), "top": lw.max("x")}
ALL = {"window": "window", "wid": "wid", "k": "k"}
AFTER = {
    "a filter": lambda s: s.agg(**N).where("n > 1"),
    "a filter in quotes": lambda s: s.agg(**N).where("`n` > 1"),
    "a filter by window": lambda s: s.agg(**N).where("window.start >= 0 AND k = 1"),
    "filters and columns": lambda s: (
        s.agg(**N).where("n > 1").with_columns(half="top / 2").where("window.start >= 0")
    ),
    "an expression": lambda s: s.agg(**N).select(**ALL, y="top / n", kind="kind"),
    "an expression of one": lambda s: s.agg(**N).select(**ALL, y="top + 1", kind="kind"),
    "another order": lambda s: s.agg(**N).select(**ALL, top="top", n="n", kind="kind"),
    "the same": lambda s: s.agg(**N).select(**ALL, n="n", top="top", kind="kind"),
    "another name": lambda s: s.agg(**N).select(**ALL, m="n", top="top", kind="kind"),
    "one of two": lambda s: s.agg(**N).where("top > 1").select(**ALL, n="n", kind="kind"),
    "one of two, named by its text": lambda s: (
        s.agg(n=lw.count(), **{"max(x)": lw.max("x")})
        .where("`max(x)` > 1")
        .select(**ALL, n="n", kind="kind")
    ),
    "no aggregate": lambda s: s.agg(**N).select(**ALL, twice="k * 2", kind="kind"),
    "without kind": lambda s: s.agg(**N).select("window", "k", "n"),
    "the same twice": lambda s: s.agg(n=lw.count(), m=lw.count()).where("m > 1"),
}


@pytest.mark.parametrize("what", AFTER)
@pytest.mark.parametrize("windows", ["grouped", "parted", "computed"])
def test_steps_after_a_window_are_printed(what, windows):
    given = stream()
    computed = given.select("t", "x", k0="k").with_columns(k="k0 * 2")
    windowed = {
        "grouped": given.window(range=10).group_by("k"),
        "parted": given.window(range=10, partition_by="k"),
        "computed": computed.window(range=10).group_by("k"),
    }[windows]
    made = AFTER[what](windowed)
    assert lw.sql(made.sql("s"), s=given).fingerprint(2) == made.fingerprint(2)


MISTAKES = {
    "a column that is no key": ("SELECT sum(x) + x AS y FROM s [RANGE 10]", 17, "GROUP BY x"),
    "a column in HAVING": ("SELECT sum(x) AS y FROM s [RANGE 10] HAVING x > 3", 45, "neither"),
    "an unknown name": ("SELECT sum(x) AS y FROM s [RANGE 10] HAVING z > 3", 45, "neither"),
    "no condition": ("SELECT sum(x) AS y FROM s [RANGE 10] HAVING y + 1", 45, "not a condition"),
    "HAVING without windows": ("SELECT t, x FROM s HAVING x > 1", 18, "needs a window"),
    "a name twice": (
        "SELECT sum(x) AS y, sum(x) + 1 AS y FROM s [RANGE 10]", None, "two columns have the name"
    ),
    "a name of a key": (
        "SELECT k, sum(x) + 1 AS k FROM s [RANGE 10] GROUP BY k", None, "two columns have the name"
    ),
    "an order": ("SELECT sum(x) AS y FROM s [RANGE 10] ORDER BY y", None, "no end"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_shown_where_it_is(what):
    text, column, told = MISTAKES[what]
    with pytest.raises(lw.CqlError) as raised:
        lw.sql(text, s=stream())
    assert told in str(raised.value)
    if column is not None:
        assert raised.value.column == column
