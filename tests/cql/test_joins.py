"""Joins, unions and nested queries as text: what they build, and how they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowwater as lw
from lowwater.cql.dialect import normal_form, parse
from lowwater.operators.join.band import Band, SameWindow

SECOND = 1_000_000
TIMED = "ts timestamp, k int, x double, name string"
NUMBERED = "t bigint, k int, v int"


def made(schema=TIMED, time="ts"):
    return lw.stream(lw.feed(schema), time=time, watermark=lw.ordered())


STREAMS = {
    "a": made(), "b": made(), "c": made(), "t": made(NUMBERED, "t"), "u": made(NUMBERED, "t"),
}  # fmt: skip
A, B, C, T, U = STREAMS.values()


FLUSH = lw.slow_flush(max_delay="1 minute")


def sql(text):
    return lw.sql(text, **STREAMS)


def joins(stream):
    """Return the plans of all joins, first those that come first."""
    return [o.plan for o in stream.assembly.flow.operators if o.plan.word == "join"]


def steps(stream):
    return [str(step) for step in stream.steps]


# -- text and builder -----------------------------------------------------------------------------

NEAR = {"band": ("-2 seconds", "3 seconds")}
BUILT = {
    "a band": (
        ("SELECT * FROM a JOIN b ON a.k = b.k AND b.ts >= a.ts - INTERVAL 2 SECONDS "
        "AND b.ts <= a.ts + INTERVAL 3 SECONDS"),
        A.join(B, on="k", **NEAR),
    ),
    "a band in a list": (
        ("SELECT * FROM a, b WHERE b.ts BETWEEN a.ts - INTERVAL '2' SECOND AND "
        "a.ts + INTERVAL '3 seconds' AND a.k = b.k"),
        A.join(B, on="k", **NEAR),
    ),
    "a band of differences": (
        ("SELECT * FROM a JOIN b ON a.ts - b.ts <= INTERVAL 2 SECONDS "
        "AND INTERVAL 3 SECONDS >= b.ts - a.ts"),
        A.join(B, **NEAR),
    ),
    "numbers, ends left out": (
        "SELECT * FROM t, u WHERE u.t > t.t - 3 AND u.t < t.t + 4 AND t.k = u.v",
        T.join(U, on={"k": "v"}, band=(-2, 3)),
    ),
    "equal times": ("SELECT * FROM a, b WHERE a.ts = b.ts", A.join(B, band=(0, 0))),
    "a time ahead": ("SELECT * FROM t, u WHERE t.t + 5 = u.t", T.join(U, band=(5, 5))),
    "rows that are kept": (
        "SELECT * FROM t [RANGE 4], u [RANGE 3 WA t] WHERE t.k = u.k",
        T.join(U, on="k", band=(-2, 3)),
    ),
    "rows that are kept by KEEP": (
        "SELECT * FROM t KEEP 4 LEFT JOIN u KEEP 3 SLIDE 1 ON t.k = u.k",
        T.join(U, on="k", band=(-2, 3), how="left"),
    ),
    "kept, and one after the other": (
        "SELECT * FROM t [RANGE 4], u [RANGE 3] WHERE t.t < u.t",
        T.join(U, band=(1, 3)),
    ),
    "a window in common": (
        "SELECT * FROM t, u WHERE t.t DIV 10 = u.t DIV 10",
        T.join(U, band=lw.same_window(10)),
    ),
    "a window as the papers cut it": (
        "SELECT * FROM t, u WHERE t.t / 10 = u.t / 10",
        T.join(U, band=lw.same_window(10)),
    ),
    "a window by floor": (
        "SELECT * FROM t, u WHERE floor(t.t / 10) = floor(u.t / 10)",
        T.join(U, band=lw.same_window(10)),
    ),
    "a window in common, of time": (
        "SELECT * FROM a JOIN b ON window(a.ts, '10 seconds') = window(b.ts, '10 seconds')",
        A.join(B, band=lw.same_window("10 seconds")),
    ),
    "a window with a start": (
        "SELECT * FROM t JOIN u ON window(t.t, 10, 10, -3) = window(u.t, 10, 10, -3)",
        T.join(U, band=lw.same_window(10, origin=-3)),
    ),
    "left": (
        "SELECT * FROM a LEFT OUTER JOIN b ON a.ts = b.ts AND a.k = b.k AND b.x > 3",
        A.join(B.where("x > 3"), on="k", band=(0, 0), how="left"),
    ),
    "right": (
        "SELECT * FROM a RIGHT JOIN b ON a.ts = b.ts AND a.x > 0 WHERE b.x > 1",
        A.where("x > 0").join(B, band=(0, 0), how="right").where("x_other > 1"),
    ),
    "full": (
        "SELECT * FROM a FULL JOIN b ON a.ts = b.ts",
        A.join(B, band=(0, 0), how="full"),
    ),
    "anti": (
        "SELECT * FROM a ANTI JOIN b ON a.ts = b.ts AND a.k = b.k WHERE a.x > 0",
        A.where("x > 0").join(B, on="k", band=(0, 0), how="anti"),
    ),
    "using": (
        "SELECT k, a.ts FROM a JOIN b USING (k) WHERE a.ts = b.ts",
        A.join(B, on="k", band=(0, 0)).select("k", "ts"),
    ),
    "sides filtered first, both after": (
        ("SELECT * FROM a, b WHERE a.x > 0 AND a.ts = b.ts AND b.name = 'n' AND a.x < b.x "
        "AND (a.k = 1 OR b.k = 2)"),
        A.where("x > 0")
        .join(B.where("name = 'n'"), band=(0, 0))
        .where("x < x_other AND (k = 1 OR k_other = 2)"),
    ),
    "chosen columns": (
        "SELECT a.x, b.x, a.ts AS at FROM a JOIN b ON a.ts = b.ts",
        A.join(B, band=(0, 0)).select("x", "x_other", at="ts"),
    ),
    "all of one": (
        "SELECT b.k, a.* FROM a JOIN b ON a.ts = b.ts",
        A.join(B, band=(0, 0)).select("k_other", "ts", "k", "x", "name"),
    ),
    "the time of other": (
        "SELECT b.ts, a.x FROM a JOIN b ON a.ts = b.ts",
        A.join(B, band=(0, 0), time="other").select("ts_other", "x"),
    ),
    "all columns, the time of other": (
        "SELECT *, b.ts FROM a JOIN b ON a.ts = b.ts",
        A.join(B, band=(0, 0), time="other"),
    ),
    "the later time": (
        "SELECT max(a.ts, b.ts) AS at, a.x - b.x AS less FROM a KEEP 3 sec, b KEEP 3 sec",
        A.join(B, band=("-2999999 us", "2999999 us"), time="max").select(
            at="time_max", less="x - x_other"
        ),
    ),
    "all columns, the earlier time": (
        "SELECT *, least(a.ts, b.ts) AS time_min FROM a JOIN b ON a.ts = b.ts",
        A.join(B, band=(0, 0), time="min"),
    ),
    "a stream with itself": (
        "SELECT * FROM a AS p JOIN a AS q ON p.ts = q.ts AND p.k = q.k",
        A.join(A, on="k", band=(0, 0)),
    ),
    "three": (
        ("SELECT * FROM a, b, c WHERE c.k = a.k AND b.k = a.k AND a.ts = b.ts AND a.ts = c.ts "
        "AND c.x > 1"),
        A.join(B, on="k", band=(0, 0)).join(C.where("x > 1"), on="k", band=(0, 0)),
    ),
    "results of queries": (
        ("SELECT * FROM (SELECT k, count(*) AS n FROM a [RANGE 1 min] GROUP BY k) AS p JOIN "
        "(SELECT k, count(*) AS n FROM b [RANGE 1 min] GROUP BY k) AS q "
        "ON p.window = q.window AND p.k = q.k WHERE p.n > q.n"),
        A.window(range="1 minute")
        .group_by("k")
        .agg(n=lw.count())
        .join(
            B.window(range="1 minute").group_by("k").agg(n=lw.count()), on="k", band=(0, 0)
        )
        .where("n > n_other"),
    ),
    "windows over a join": (
        ("SELECT q.k, count(*) AS n [RANGE 1 min WA p.ts] FROM a AS p, b AS q WHERE p.ts = q.ts "
        "GROUP BY q.k"),
        A.join(B, band=(0, 0)).window(range="1 minute").group_by("k_other").agg(n=lw.count()),
    ),
    "windows over the other time": (
        "SELECT count(*) AS n FROM (SELECT * FROM a JOIN b ON a.ts = b.ts) [RANGE 1 min WA b.ts]",
        A.join(B, band=(0, 0)).window(range="1 minute", on="ts_other").agg(n=lw.count()),
    ),
    "a union": ("SELECT * FROM a UNION b UNION ALL c", A.union(B, C)),
    "a union, filtered": (
        "SELECT u.ts, u.k FROM a UNION b AS u WHERE u.x > 0",
        A.union(B).where("x > 0").select("ts", "k"),
    ),
    "a union of queries": (
        "SELECT ts, k FROM a UNION ALL SELECT ts, k FROM b WHERE x > 0",
        A.select("ts", "k").union(B.where("x > 0").select("ts", "k")),
    ),
    "windows over a union of queries": (
        ("SELECT count(*) AS n FROM "
        "((SELECT ts FROM a) UNION ALL SELECT ts FROM b UNION ALL SELECT ts FROM c) [RANGE 1 min]"),
        A.select("ts").union(B.select("ts"), C.select("ts")).window(range="1 minute").agg(
            n=lw.count()
        ),
    ),
    "windows over windows over windows": (
        ("SELECT max(n) AS most FROM (SELECT top, count(*) AS n FROM "
        "(SELECT max(x) AS top FROM a [RANGE 1 min]) [RANGE 1 hour] GROUP BY top) [RANGE 1 day]"),
        A.window(range="1 minute")
        .agg(top=lw.max("x"))
        .window(range="1 hour")
        .group_by("top")
        .agg(n=lw.count())
        .window(range="1 day")
        .agg(most=lw.max("n")),
    ),
    "rows as they are": ("SELECT *, x + 1 AS y FROM a WHERE k = 1",
        A.where("k = 1").with_columns(y="x + 1")),
    "rows once": ("SELECT DISTINCT ts, k FROM a", A.select("ts", "k").distinct()),
}  # fmt: skip


@pytest.mark.parametrize("what", BUILT)
def test_text_and_builder_give_the_same_query(what):
    text, built = BUILT[what]
    assert sql(text).fingerprint(2) == built.fingerprint(2)
    assert sql(text).schema == built.schema
    assert sql(text).time == built.time


@pytest.mark.parametrize("what", BUILT)
def test_what_is_printed_builds_the_same_query(what):
    _, built = BUILT[what]
    text = built.sql(**STREAMS)
    assert sql(text).fingerprint(2) == built.fingerprint(2)
    assert normal_form(parse(text)) == text


def test_the_page_tells_text_and_builder_of_the_same_joins():
    page = (Path(__file__).parents[2] / "docs" / "cql.md").read_text()
    table = page.split("| times | text |")[1].split("\n\n")[0].splitlines()[2:]
    assert len(table) == 8
    for row in table:
        _, _, text, band, _ = row.split("|")
        time = "n" if "a.n" in text else "ts"
        a, b = (made("ts timestamp, n bigint", time) for _ in range(2))
        said = text.split("`")[1]
        query = lw.sql(f"SELECT * {said if 'FROM' in said else 'FROM a, b ' + said}", a=a, b=b)
        near = eval(band.strip(" `"), {"lw": lw})  # noqa: S307
        assert query.fingerprint(2) == a.join(b, band=near).fingerprint(2), text


def test_conditions_on_times_are_taken_together():
    text = (
        "SELECT * FROM t [RANGE 10], u [RANGE 10] WHERE t.t <= u.t + 3 AND t.t >= u.t - 20 "
        "AND u.t - t.t < 6"
    )
    (plan,) = joins(sql(text))
    assert plan.band == Band(-3, 5)


def test_a_band_beside_a_window_in_common_is_a_filter_after_it():
    query = sql("SELECT * FROM t, u WHERE t.t DIV 10 = u.t DIV 10 AND t.t <= u.t")
    (plan,) = joins(query)
    assert plan.band == SameWindow(10)
    assert steps(query) == ["where t <= t_other"]


def test_a_third_stream_may_follow_the_second():
    query = sql(
        "SELECT a.k, c.x, c.ts FROM a, b, c WHERE b.ts = c.ts AND a.ts = b.ts AND b.x + a.x > c.x"
    )
    first, second = joins(query)
    assert [axis.column for axis in first.axes] == ["ts", "ts"]
    assert [axis.column for axis in second.axes] == ["ts_other", "ts"]
    assert second.time == "other"
    assert sql(query.sql(**STREAMS)).fingerprint(2) == query.fingerprint(2)


def test_a_window_of_a_join_leaves_its_older_end_out():
    # a at 10 is kept for 3: rows of b join it up to 12; b is kept for 2, so from 9 on.
    feeds = [lw.feed("t bigint") for _ in range(2)]
    a, b = (lw.stream(f, time="t", watermark=lw.slack(100)) for f in feeds)
    query = lw.sql("SELECT * FROM a [RANGE 3], b [RANGE 2]", a=a, b=b)
    epochs = {feeds[0]: [[(10,)]], feeds[1]: [[(13,), (8,)], [(9,), (12,)]]}
    found = query.run(epochs=epochs).results.column("t_other").to_pylist()
    assert sorted(found) == [9, 12]


def test_a_left_join_gives_rows_without_a_partner():
    feeds = [lw.feed("t bigint, k int") for _ in range(2)]
    a, b = (lw.stream(f, time="t", watermark=lw.slack(100)) for f in feeds)
    query = lw.sql("SELECT a.t, b.k FROM a LEFT JOIN b ON a.t = b.t AND b.k > 1", a=a, b=b)
    found = query.run(epochs={feeds[0]: [[(2, 0), (1, 0)]], feeds[1]: [[(1, 1), (2, 2)]]}).results
    assert sorted(found.to_pylist(), key=str) == [{"t": 1, "k_other": None}, {"t": 2, "k_other": 2}]


# -- names of streams -----------------------------------------------------------------------------


def test_streams_are_named_in_the_order_in_which_they_come():
    query = A.join(B.union(C), band=(0, 0)).join(A, band=(0, 0))
    text = (
        "SELECT * FROM (SELECT * FROM {0} AS l JOIN {1} UNION {2} AS r ON r.ts = l.ts) AS l "
        "JOIN {0} AS r ON r.ts = l.ts"
    )
    assert query.sql() == text.format("s1", "s2", "s3")
    assert query.sql("p", "q", "o") == text.format("p", "q", "o")
    assert query.sql("q", "o", p=A) == text.format("p", "q", "o")


def test_results_of_operators_can_have_a_name():
    joined = A.join(B, band=(0, 0))
    query = joined.window(range="1 minute").agg(n=lw.count())
    text = query.sql(pairs=joined)
    assert text == "SELECT count(*) AS n FROM pairs [RANGE 1 minute SLIDE 1 minute WATTR ts]"
    assert lw.sql(text, pairs=joined).fingerprint(2) == query.fingerprint(2)


def test_a_name_is_needed_for_each_stream():
    with pytest.raises(lw.SpecError, match="there are 2"):
        A.union(B).sql("a")
    with pytest.raises(lw.SpecError, match="give a stream"):
        A.union(B).sql(a=3)


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (A.join(B, band=(0, 0), suffix="_b"), "suffix='_b' has no text"),
        (A.join(B, band=(0, 0), time="both"), "time='both' has no text"),
        (A.join(B, on="ts", band=(0, 0)), "band=\\(0, 0\\)"),
        (A.order("time"), "order of time"),
        (A.join(B, band=(0, 0), order="time"), "order of time"),
        (A.join(B, band=(0, 0), how="left", flush=FLUSH), "flush= has no text"),
        (A.window(range="1 hour", flush=FLUSH).group_by("k").agg(n=lw.count()), "flush= has no"),
        (A.distinct("k", within="1 minute"), "SELECT DISTINCT"),
    ],
)
def test_what_has_no_text_says_so(stream, told):
    with pytest.raises(lw.SpecError, match=told):
        stream.sql(**STREAMS)


# -- mistakes -------------------------------------------------------------------------------------

MISTAKES = {
    "no condition on times": (
        "SELECT a.ts FROM a, b WHERE a.k = b.k",
        21,
        "b.ts BETWEEN a.ts - INTERVAL 2 SECONDS",
    ),
    "a condition on one side": ("SELECT a.ts FROM a, b WHERE a.ts > b.ts", 21, "on one side"),
    "a stream that is kept for ever": (
        "SELECT * FROM a [RANGE UNBOUNDED], b [RANGE 1 min]",
        36,
        "on one side",
    ),
    "times that exclude each other": (
        "SELECT * FROM a, b WHERE a.ts > b.ts AND a.ts < b.ts",
        18,
        "no rows can join",
    ),
    "a number for a time": ("SELECT * FROM a, b WHERE a.ts = b.ts + 3", 26, "bare number"),
    "months": (
        "SELECT * FROM a, b WHERE a.ts = b.ts + INTERVAL 1 MONTH",
        26,
        "months and years have no fixed length",
    ),
    "times of two kinds": ("SELECT * FROM a, t WHERE a.ts = t.t", 18, "cannot be compared"),
    "keys of two kinds": (
        "SELECT * FROM a JOIN b ON a.ts = b.ts AND a.k = b.name",
        22,
        "cannot be compared",
    ),
    "rows that are kept by count": ("SELECT * FROM a [RANGE 3 rows], b [RANGE 1 min]", 15, "rows"),
    "a window that slides": (
        "SELECT * FROM a [RANGE 3 min SLIDE 1 min], b [RANGE 3 min]",
        17,
        "how long rows can be joined",
    ),
    "a window over another column": (
        "SELECT * FROM a [RANGE 3 min WA x], b [RANGE 3 min]",
        33,
        "must be its time",
    ),
    "both kinds of window": (
        "SELECT * FROM t [RANGE 3], u WHERE t.t DIV 10 = u.t DIV 10",
        28,
        "cannot have RANGE",
    ),
    "KEEP alone": ("SELECT * FROM a KEEP 3 min", 15, "a join"),
    "one name for two": ("SELECT * FROM a, a WHERE a.ts = a.ts", 18, "AS"),
    "a column of both": ("SELECT a.ts, x FROM a JOIN b ON a.ts = b.ts", 14, "write a.x or b.x"),
    "a condition on a column of both": (
        "SELECT a.ts FROM a JOIN b ON a.ts = b.ts AND x > 1",
        46,
        "write a.x or b.x",
    ),
    "an unknown stream": (
        "SELECT q.x FROM a JOIN b ON a.ts = b.ts",
        8,
        "'q' is not a stream in this FROM",
    ),
    "an unknown column": ("SELECT a.xx FROM a JOIN b ON a.ts = b.ts", 8, "did you mean 'x'?"),
    "a column without partner": ("SELECT b.x FROM a ANTI JOIN b ON a.ts = b.ts", 8, "'b' is no"),
    "an unknown condition": ("SELECT * FROM a, b WHERE a.ts = b.ts AND z > 1", 42, "not a column"),
    "no column in common": ("SELECT * FROM a JOIN t USING (x)", 31, "not a column of both"),
    "no time": ("SELECT a.x FROM a, b WHERE a.ts = b.ts", 8, "must stay"),
    "a semi join": ("SELECT * FROM a SEMI JOIN b ON a.ts = b.ts", 27, "is not supported"),
    "a natural join": ("SELECT * FROM a NATURAL JOIN b", 30, "is not supported"),
    "a filter on rows that come anyway": (
        "SELECT * FROM a LEFT JOIN b ON a.ts = b.ts AND a.x > 0",
        48,
        "conditions to WHERE",
    ),
    "a condition that is no equality": (
        "SELECT * FROM a LEFT JOIN b ON a.ts = b.ts AND a.x > b.x",
        48,
        "equal columns",
    ),
    "aggregates of a join": ("SELECT count(*) FROM a, b WHERE a.ts = b.ts", 22, "needs a window"),
    "groups of a join": (
        "SELECT a.k, count(*) FROM a [RANGE 1 min], b [RANGE 1 min] GROUP BY a.k",
        27,
        "between SELECT and FROM",
    ),
    "streams of other columns": ("SELECT * FROM a UNION t", 15, "times are 'ts' and 't'"),
    "queries without what they share": ("SELECT * FROM a UNION SELECT * FROM b", 30, "UNION ALL"),
    "a name twice": ("SELECT ts, x, k AS x FROM a", None, "two columns have the name 'x'"),
    "distinct over windows": (
        "SELECT DISTINCT count(*) FROM a [RANGE 1 min]",
        None,
        "is not supported",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_shown_where_it_is(what):
    text, column, told = MISTAKES[what]
    with pytest.raises(lw.CqlError) as raised:
        sql(text)
    assert told in str(raised.value)
    if column is not None:
        assert raised.value.column == column
