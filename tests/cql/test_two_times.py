"""Windows on both times of a join as text, and groups by the times themselves (OOP Q3)."""

from __future__ import annotations

import pytest

import lowwater as lw
from lowwater.cql.dialect import normal_form, parse

NUMBERED, TIMED = "t bigint, k int, x double", "ts timestamp, k int, x double"


def made(schema, time):
    return lw.stream(lw.feed(schema), time=time, watermark=lw.ordered())


A, B, C = (made(NUMBERED, "t") for _ in range(3))
P, Q = (made(TIMED, "ts") for _ in range(2))
STREAMS = {"a": A, "b": B, "c": C, "p": P, "q": Q}
NEAR = A.join(B, on="k", band=(-5, 5))
FROM = "FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 5 AND a.t + 5"
ALWAYS = {"window": "window", "wid": "wid", "window_2": "window_2"}


def sql(text):
    return lw.sql(text, **STREAMS)


def named(query, first="t", second="t_other", **columns):
    """Return pairs of windows of one tick with their times by name, and other columns."""
    times = {first: "window.start", second: "window_2.start"}
    return query.select(**ALWAYS, **times, **columns, kind="kind")


def ticks(stream=NEAR, on=("t", "t_other"), size=1):
    return stream.window(range=size, on=on)


N = {"n": lw.count()}
BUILT = {
    "groups by both times": (
        f"SELECT a.t, b.t, count(*) AS n {FROM} GROUP BY a.t, b.t",
        named(ticks().agg(**N), n="n"),
    ),
    "times that are not named": (
        f"SELECT count(*) AS n {FROM} GROUP BY a.t, b.t",
        named(ticks().agg(**N), n="n"),
    ),
    "the other time first": (
        f"SELECT b.t, count(*) AS n {FROM} GROUP BY b.t, a.t",
        named(ticks(on=("t_other", "t")).agg(**N), "t_other", "t", n="n"),
    ),
    "times by other names": (
        f"SELECT a.t AS began, b.t AS ended, count(*) AS n {FROM} GROUP BY began, b.t",
        named(ticks().agg(**N), "began", "ended", n="n"),
    ),
    "names that are crossed": (
        f"SELECT a.t AS t_other, b.t AS t, count(*) AS n {FROM} GROUP BY a.t, b.t",
        named(ticks().agg(**N), "t_other", "t", n="n"),
    ),
    "keys, and columns that are computed": (
        f"SELECT a.t, k, b.x * 2 AS y, sum(a.x + 1) AS s {FROM} GROUP BY a.t, k, b.t, b.x * 2",
        named(
            ticks(NEAR.with_columns(**{"y": "x_other * 2", "x + 1": "x + 1"}))
            .group_by("k", "y")
            .agg(s=lw.sum("x + 1")),
            k="k", y="y", s="s",
        ),
    ),
    "having": (
        (f"SELECT a.t AS began, b.t, count(*) AS n {FROM} GROUP BY a.t, b.t "
        "HAVING n > 1 AND began < 9 AND b.t > 2 AND window_2.end < 9"),
        named(
            ticks().agg(**N).where(
                "n > 1 AND window.start < 9 AND window_2.start > 2 AND window_2.end < 9"
            ),
            "began", n="n",
        ),
    ),
    "expressions over aggregates": (
        f"SELECT sum(a.x) / count(*) AS mean, max(b.x) - b.t AS y {FROM} GROUP BY a.t, b.t",
        named(
            ticks().agg(
                **{"sum(x)": lw.sum("x"), "count(*)": lw.count(), "max(x_other)": lw.max("x_other")}
            ),
            mean="`sum(x)` / `count(*)`", y="`max(x_other)` - window_2.start",
        ),
    ),
    "a filter on both sides": (
        f"SELECT count(*) AS n {FROM} WHERE a.x < b.x GROUP BY a.t, b.t",
        named(ticks(NEAR.where("x < x_other")).agg(**N), n="n"),
    ),
    "a join as a query in FROM": (
        f"SELECT count(*) AS n FROM (SELECT a.t AS began, b.t {FROM}) GROUP BY began, t_other",
        named(
            ticks(NEAR.select(began="t", t_other="t_other"), ("began", "t_other")).agg(**N),
            "began", n="n",
        ),
    ),
    "the third of three streams": (
        "SELECT count(*) AS n FROM a, b, c WHERE a.t = b.t AND c.t = a.t + 1 GROUP BY a.t, c.t",
        named(
            ticks(A.join(B, band=(0, 0)).join(C, band=(1, 1)), ("t", "t_other_other")).agg(**N),
            "t", "t_other_other", n="n",
        ),
    ),
    "times, not numbers": (
        ("SELECT count(*) AS n FROM p [RANGE 2 min], q [RANGE 2 min] WHERE p.ts < q.ts "
        "GROUP BY p.ts, q.ts"),
        named(
            ticks(P.join(Q, band=("1 us", "119999999 us")), ("ts", "ts_other"), "1 microsecond")
            .agg(**N),
            "ts", "ts_other", n="n",
        ),
    ),
    "longer windows": (
        f"SELECT k, count(*) AS n [RANGE 10 WATTR a.t, b.t] {FROM} GROUP BY k",
        ticks(size=10).group_by("k").agg(**N),
    ),
    "longer windows over the other time": (
        (f"SELECT count(*) AS n FROM (SELECT * {FROM}) [RANGE 10, WA b.t, a.t, ORIGIN 3] "
        "HAVING window_2.start > 7"),
        NEAR.window(range=10, on=("t_other", "t"), origin=3).agg(**N).where("window_2.start > 7"),
    ),
    "longer windows of times": (
        "SELECT count(*) AS n [WA p.ts, q.ts, RANGE 1 min] FROM p, q WHERE p.ts = q.ts",
        P.join(Q, band=(0, 0)).window(range="1 minute", on=("ts", "ts_other")).agg(**N),
    ),
    "parted windows": (
        f"SELECT k, count(*) AS n [RANGE 10 WATTR a.t, b.t PATTR k] {FROM}",
        NEAR.window(range=10, on=("t", "t_other"), partition_by="k").agg(**N),
    ),
    "windows of one tick": (
        f"SELECT count(*) AS n [RANGE 1 WATTR a.t, b.t] {FROM}",
        ticks().agg(**N),
    ),
    "results of longer windows": (
        f"SELECT sum(a.x) / count(*) AS mean [RANGE 10 WATTR a.t, b.t] {FROM}",
        ticks(size=10)
        .agg(**{"sum(x)": lw.sum("x"), "count(*)": lw.count()})
        .select(**ALWAYS, mean="`sum(x)` / `count(*)`", kind="kind"),
    ),
    "windows over groups": (
        (f"SELECT max(n) AS most FROM (SELECT count(*) AS n {FROM} GROUP BY a.t, b.t) "
        "[RANGE 10]"),
        named(ticks().agg(**N), n="n").window(range=10).agg(most=lw.max("n")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BUILT)
def test_text_and_builder_give_the_same_query(what):
    text, built = BUILT[what]
    assert sql(text).fingerprint(2) == built.fingerprint(2)
    assert sql(text).schema == built.schema


@pytest.mark.parametrize("what", BUILT)
def test_what_is_printed_builds_the_same_query(what):
    for query in (BUILT[what][1], sql(BUILT[what][0])):
        text = query.sql(**STREAMS)
        assert sql(text).fingerprint(2) == query.fingerprint(2)
        assert normal_form(parse(text)) == text


NEAR_TEXT = "(SELECT * FROM a JOIN b ON b.t BETWEEN a.t - 5 AND a.t + 5 AND a.k = b.k)"


def test_groups_are_printed_as_groups_and_windows_as_windows():
    groups = named(
        ticks().group_by("k").agg(**N).where("window_2.start > 7"), "began", k="k", n="n"
    )
    assert groups.sql(**STREAMS) == (
        f"SELECT t AS began, t_other, k, count(*) AS n FROM {NEAR_TEXT} GROUP BY t, t_other, k "
        "HAVING t_other > 7"
    )
    assert ticks(size=10).agg(**N).sql(**STREAMS) == (
        f"SELECT count(*) AS n FROM {NEAR_TEXT} [RANGE 10 SLIDE 10 WATTR t, t_other]"
    )


LIKE_GROUPS = {
    "longer windows": named(ticks(size=10).agg(**N), n="n"),
    "windows that begin elsewhere": named(
        NEAR.window(range=1, on=("t", "t_other"), origin=1).agg(**N), n="n"
    ),
    "parted": named(
        NEAR.window(range=1, on=("t", "t_other"), partition_by="k").agg(**N), k="k", n="n"
    ),
    "times exchanged": ticks()
    .agg(**N)
    .select(**ALWAYS, t="window_2.start", u="window.start", n="n", kind="kind"),
    "one time": ticks().agg(**N).select(**ALWAYS, t="window.start", n="n", kind="kind"),
    "without kind": ticks().agg(**N).select(**ALWAYS, t="window.start", u="window_2.start", n="n"),
    "a filter by a window of results": named(ticks().agg(**N), n="n").where("t > 3"),
    "the same twice": named(ticks().agg(n=lw.count(), m=lw.count()), n="n", m="m"),
    "no aggregate": named(ticks().agg(**N), twice="window.start * 2"),
    "windows of windows": named(
        A.window(range=10)
        .agg(**N)
        .join(B.window(range=10).agg(**N), band=(0, 0))
        .window(range=1, on=("window", "window_other"))
        .agg(**N),
        n="n",
    ),
}


@pytest.mark.parametrize("what", LIKE_GROUPS)
def test_what_only_looks_like_groups_is_printed_as_it_is(what):
    query = LIKE_GROUPS[what]
    assert sql(query.sql(**STREAMS)).fingerprint(2) == query.fingerprint(2)


def test_groups_by_both_times_count_pairs():
    #  t of a   3  1  1     (k = 1)      pairs: u - t from -5 to 5
    #  t of b   2  7  2  1
    feeds = [lw.feed(NUMBERED) for _ in range(2)]
    a, b = (lw.stream(f, time="t", watermark=lw.slack(100)) for f in feeds)
    text = f"SELECT a.t, b.t AS u, count(*) AS n, max(b.x) AS top {FROM} GROUP BY a.t, b.t"
    epochs = {
        feeds[0]: [[(3, 1, 0.0), (1, 1, 0.0), (1, 1, 0.0)]],
        feeds[1]: [[(2, 1, 1.0)], [(7, 1, 2.0), (2, 1, 3.0), (1, 1, 4.0)]],
    }
    found = lw.sql(text, a=a, b=b).run(epochs=epochs).results
    assert found.column_names == ["window", "wid", "window_2", "t", "u", "n", "top", "kind"]
    rows = [[r["t"], r["u"], r["n"], r["top"]] for r in found.to_pylist()]
    assert sorted(rows) == [
        [1, 1, 2, 4.0],
        [1, 2, 4, 3.0],
        [3, 1, 1, 4.0],
        [3, 2, 2, 3.0],
        [3, 7, 1, 2.0],
    ]


BOTH = "GROUP BY a.t, b.t"
MISTAKES = {
    "one time": (f"SELECT a.t, count(*) {FROM} GROUP BY a.t", 27, "times of both streams"),
    "an outer join": (
        f"SELECT count(*) {FROM.replace('JOIN', 'LEFT JOIN')} {BOTH}", 22, "an inner join"
    ),
    "times of windows": (
        ("SELECT count(*) FROM (SELECT count(*) AS n FROM a [RANGE 3]) AS p JOIN "
        "(SELECT count(*) AS n FROM b [RANGE 3]) AS q ON p.window = q.window "
        "GROUP BY p.window, q.window"),
        None,
        "the join needs a window",
    ),
    "rows once": (f"SELECT DISTINCT count(*) {FROM} {BOTH}", None, "SELECT DISTINCT over windows"),
    "a time called window": (
        f"SELECT a.t AS window, count(*) {FROM} {BOTH}", None, "a column 'window' already"
    ),
    "a name twice": (
        f"SELECT a.t AS k, count(*) {FROM} {BOTH}, a.k", 109, "two columns have the name 'k'"
    ),
    "a time called as an aggregate": (
        f"SELECT a.t AS n, count(*) AS n {FROM} {BOTH}", None, "two columns have the name 'n'"
    ),
    "no aggregate": (f"SELECT a.t, b.t {FROM} {BOTH}", None, "SELECT needs an aggregate"),
    "a column that is no key": (f"SELECT a.x, count(*) {FROM} {BOTH}", 8, "neither grouped by"),
    "a second window where there is one": (
        "SELECT window_2, count(*) FROM a [RANGE 3]", 8, "'window_2' is not a column"
    ),
    "windows that overlap": (
        f"SELECT count(*) [RANGE 10 SLIDE 5 WATTR a.t, b.t] {FROM}", 17, "tumbling"
    ),
    "sessions": (f"SELECT count(*) [GAP 10 WATTR a.t, b.t] {FROM}", 17, "on one time"),
    "three times": (
        f"SELECT count(*) [RANGE 10 WATTR a.t, b.t, a.t] {FROM}", 17, "two times of a join"
    ),
    "row numbers": (
        f"SELECT count(*) [RANGE 10 WATTR row-num, b.t] {FROM}", 33, "a plain column"
    ),
    "times of one stream": ("SELECT count(*) FROM a [RANGE 3 WATTR t, k]", 24, "inner join"),
    "times of a stream in a join": (
        "SELECT * FROM a [RANGE 3 WA t, t], b [RANGE 3]", 29, "must be its time"
    ),
    "a misspelt clause": (
        "SELECT count(*) FROM a [WATTR t, RNGE 3]", 34, "did you mean 'range'?"
    ),
    "both kinds of attributes": (
        "SELECT count(*) FROM a [RANGE 3 RATTR t WATTR t, k]", 47, "the attributes of one"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_shown_where_it_is(what):
    text, at, told = MISTAKES[what]
    with pytest.raises(lw.CqlError) as raised:
        sql(text)
    assert told in str(raised.value)
    if at is not None:
        assert raised.value.column == at
