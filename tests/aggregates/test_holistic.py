"""Medians, quantiles, distinct counts and frequent values over all values of a window."""

from __future__ import annotations

import functools
import math
from collections import Counter
from datetime import UTC, date
from decimal import Decimal
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.aggregates.accumulators.base import RawRows
from lowwater.aggregates.accumulators.sort_keys import from_texts, to_texts
from lowwater.operators.window import close as closing
from tests.reference.windows import FUNCTIONS, Slack, Windows, group, same, simulate
from tests.run_query import aggregates, assert_finals, finals, run
from tests.strategies import KEYS, SCHEMA, cuts, disorder, examples, rows, sliding

NAMED = {
    "n": ("count", None),
    "mid_x": ("median", "x"),
    "mid_i": ("median", "i"),
    "q_m": ("quantile", "m", 0.25),
    "qs_x": ("quantile", "x", (0.0, 0.1, 0.95, 1.0)),
    "u_x": ("count_distinct", "x"),
    "u_s": ("count_distinct", "s"),
    "u_f": ("count_distinct", "f"),
    "top_s": ("top_k", "s", 3),
    "top_x": ("top_k", "x", 2),
    "top_m": ("top_k", "m", 1),
    "mode_d": ("mode", "d"),
    "mode_i": ("mode", "i"),
    "sum_i": ("sum", "i"),
}
ESTIMATED = {n: a for n, a in NAMED.items() if a[0] not in ("count", "sum")}
ONE = Windows(10_000, 10_000)
both_ways = pytest.mark.parametrize(
    "sketch", [False, True] if find_spec("datasketches") else [False]
)
"""Sketches of few values are exact."""
keys = st.permutations(KEYS).flatmap(lambda k: st.integers(0, 3).map(lambda n: tuple(k[:n])))


def result(kind, values, **named):
    """Return the only result over one window that holds `values`, a row per tick."""
    stream = list(enumerate(values))
    half = len(stream) // 2
    epochs = [stream[:half], stream[half:]]
    outcome = run(f"t bigint, x {kind}", epochs, ONE, lw.slack(10_000), named)
    (row,) = outcome.results.to_pylist()
    return row


def held_to(expected, found):
    """Hold results {cell: row} against the values {cell: rows in the order of time}."""
    assert found.keys() == expected.keys()
    for cell, held in expected.items():
        for name, (function, column, *more) in NAMED.items():
            values = [1 if column is None else r[column] for r in held]
            value = FUNCTIONS[function](values, *more)
            assert same(value, found[cell][name]), (cell, name, value, found[cell][name])


# -- exact -----------------------------------------------------------------------------------------


@examples(80)
@given(st.data(), sliding(), rows(), keys, st.integers(1, 3))
def test_finals_equal_the_oracle_when_slack_covers_the_disorder(data, windows, stream, by, shards):
    epochs, span = data.draw(cuts(stream)), disorder(stream)
    outcome = run(SCHEMA, epochs, windows, lw.slack(span), aggregates(NAMED), by, shards=shards)
    assert_finals(outcome, simulate(epochs, windows, Slack(span)), windows, by, NAMED)


@examples(60)
@given(st.data(), sliding(), rows(), st.integers(0, 20), keys)
def test_finals_equal_the_oracle_when_rows_are_late(data, windows, stream, span, by):
    epochs = data.draw(cuts(stream))
    outcome = run(SCHEMA, epochs, windows, lw.slack(span), aggregates(NAMED), by)
    assert_finals(outcome, simulate(epochs, windows, Slack(span)), windows, by, NAMED)


@examples(40)
@given(st.data(), sliding(gaps=False), rows(size=25), st.integers(1, 20))
def test_closing_in_portions_of_any_size_equals_the_oracle(data, windows, stream, size):
    epochs, span = data.draw(cuts(stream)), disorder(stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closing, "PORTION", size)
        outcome = run(SCHEMA, epochs, windows, lw.slack(span), aggregates(NAMED), ("a",))
    assert_finals(outcome, simulate(epochs, windows, Slack(span)), windows, ("a",), NAMED)


@examples(30)
@given(st.data(), sliding(), rows(size=25), st.integers(0, 20))
def test_next_to_an_aggregate_that_is_kept_per_window(data, windows, stream, span):
    epochs = data.draw(cuts(stream))
    joined = lw.aggregate("i", init=int, incr=lambda s, v: s + v, final=int, returns="bigint")
    named = {**aggregates(NAMED), "own": joined}
    outcome = run(SCHEMA, epochs, windows, lw.slack(span), named, ("b",))
    assert_finals(outcome, simulate(epochs, windows, Slack(span)), windows, ("b",), NAMED)
    assert all(r["own"] == r["sum_i"] for r in outcome.results.to_pylist())


@examples(60)
@given(st.data(), rows(), st.integers(1, 30), st.sampled_from([(), ("a",), ("b", "c")]))
def test_windows_that_end_at_every_row_equal_brute_force(data, stream, size, by):
    #  rows      . .   .  .       window at t: the rows in (t - range, t]; all groups that have
    #  windows  (--]              one there give a result
    #             (---]
    epochs, feed = data.draw(cuts(stream)), lw.feed(SCHEMA)
    windowed = lw.stream(feed, time="t", watermark=lw.slack(disorder(stream))).window(
        range=size, slide=lw.rows(1)
    )
    query = windowed.group_by(*by).agg(**aggregates(NAMED))
    found = finals(query.run(epochs={feed: epochs}, host="local"), by)
    expected = {}
    for end in {r["t"] for r in stream}:
        for row in stream:
            if end - size < row["t"] <= end:
                expected.setdefault((end, *group(row, by)), []).append(row)
    held_to(expected, found)


@examples(60)
@given(st.data(), rows(), st.integers(1, 20), st.sampled_from([(), ("a",), ("b", "c")]))
def test_sessions_equal_brute_force(data, stream, gap, by):
    epochs, feed = data.draw(cuts(stream)), lw.feed(SCHEMA)
    progress = lw.slack(disorder(stream))
    windowed = lw.stream(feed, time="t", watermark=progress).window(gap=gap)
    query = windowed.group_by(*by).agg(**aggregates(NAMED))
    found = finals(query.run(epochs={feed: epochs}, host="local"), by)
    expected, last = {}, {}
    for row in sorted(stream, key=lambda r: r["t"]):
        whose = group(row, by)
        start, end = last.get(whose, (None, -math.inf))
        if row["t"] - end >= gap:
            start = row["t"]
        last[whose] = (start, row["t"])
        expected.setdefault((start, *whose), []).append(row)
    held_to(expected, found)


@examples(30)
@given(st.data(), rows(size=25), st.integers(1, 9), st.integers(1, 9))
def test_windows_over_row_numbers_equal_brute_force(data, stream, size, slide):
    epochs, feed = data.draw(cuts(stream)), lw.feed(SCHEMA)
    windowed = lw.stream(feed, time="t", watermark=lw.ordered()).window(
        range=lw.rows(size), slide=lw.rows(slide)
    )
    query = windowed.agg(**aggregates(NAMED))
    found = finals(query.run(epochs={feed: epochs}, host="local"))
    expected = {}
    for w in range(-size, len(stream)):
        held = stream[max(0, w * slide) : max(0, w * slide + size)]
        if held:
            expected[(w,)] = held
    held_to(expected, found)


KINDS = {
    "bigint": st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1, 0, 5]),
    "tinyint": st.integers(-128, 127),
    "float": st.sampled_from([0.5, -0.0, 0.0, math.nan, math.inf, 0.1]).map(
        lambda v: float(np.float32(v))
    ),
    "double": st.sampled_from([0.5, -0.0, 0.0, math.nan, math.inf, -math.inf, 0.1]),
    "decimal(38, 10)": st.decimals(-(10**27), 10**27, places=10) | st.just(Decimal("1E-10")),
    "string": st.text(max_size=2),
    "binary": st.binary(max_size=2),
    "date": st.dates(),
    "timestamp": st.datetimes().map(lambda v: v.replace(tzinfo=UTC)),
    "timestamp_ntz": st.datetimes(),
    "boolean": st.booleans(),
}
NUMBERS = ("bigint", "tinyint", "float", "double", "decimal(38, 10)")


@pytest.mark.parametrize("kind", KINDS)
@both_ways
def test_every_type_equals_the_oracle(kind, sketch):
    named = {"u": ("count_distinct", "x"), "top": ("top_k", "x", 3), "best": ("mode", "x")}
    if kind in NUMBERS:
        named |= {"mid": ("median", "x"), "qs": ("quantile", "x", (0.0, 0.3, 1.0))}

    @examples(30)
    @given(st.data(), st.lists(st.tuples(st.integers(0, 40), st.none() | KINDS[kind]), max_size=15))
    def holds(data, stream):
        epochs = data.draw(cuts([{"t": t, "x": x} for t, x in stream]))
        windows, asked = Windows(12, 5), aggregates(named, sketch=sketch)
        outcome = run(f"t bigint, x {kind}", epochs, windows, lw.slack(50), asked)
        assert_finals(outcome, simulate(epochs, windows, Slack(50)), windows, (), named)

    holds()


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_every_type_survive_as_text(kind):
    t = lw.feed(f"x {kind}").schema.field("x").type

    @examples(20)
    @given(st.lists(KINDS[kind]))
    def holds(values):
        column = pa.array(values, t)
        again = from_texts(to_texts(column), t)
        assert again.type == t
        assert all(map(same, column.to_pylist(), again.to_pylist()))

    holds()


@pytest.mark.parametrize("kind", KINDS)
def test_combining_bags_equals_putting_all_into_one(kind):
    schema = lw.feed(f"x {kind}").schema
    (part,) = lw.count_distinct("x").parts(schema)

    @examples(25)
    @given(st.lists(st.none() | KINDS[kind], min_size=2, max_size=9))
    def holds(values):
        n = len(values)
        table = pa.table({"x": pa.array(values, schema.field("x").type)})
        rows_of = RawRows(table, np.arange(n))
        each = part.load(part.store(part.lift(rows_of, np.arange(n), n)))
        cells = [each.take(slice(i, i + 1)) for i in range(n)]
        left = functools.reduce(part.combine, cells, part.empty(1, each))
        right = functools.reduce(lambda b, a: part.combine(a, b), reversed(cells))
        zeros = np.zeros(n, np.int64)
        at_once = stored(part, part.lift(rows_of, zeros, 1))
        assert same(at_once, stored(part, left))
        assert same(at_once, stored(part, right))
        assert same(at_once, stored(part, part.merge(each, zeros, 1)))
        assert same(at_once, stored(part, part.absorb(part.empty(1), rows_of, zeros)))
        assert same(stored(part, each.take(slice(1, 2))), stored(part, cells[1]))

    holds()


def stored(part, cells):
    return [c.to_pylist() for c in part.store(cells)]


def test_bags_of_two_pools_are_not_mixed_up():
    (part,) = lw.mode("x").parts(pa.schema([("x", pa.int64())]))
    cells = part.lift(RawRows(pa.table({"x": [1, 2]}), np.arange(2)), np.arange(2), 2)
    other = part.empty(2, cells)
    other.put(np.array([1]), cells.take([0]))
    assert stored(part, other) == [[[], [1]], [[], [1]]]
    with pytest.raises(AssertionError, match="two pools"):
        part.empty(2).put(np.array([1]), cells.take([0]))


# -- what a result is ------------------------------------------------------------------------------


def test_quantiles_are_interpolated_as_by_sparks_percentile():
    row = result("int", [0, 10], q=lw.quantile("x", 0.3), m=lw.median("x"))
    assert (row["q"], row["m"]) == (3.0, 5.0)
    values = [6, 7, 9, 10]
    assert result("int", values, q=lw.quantile("x", [0.5, 0.25]))["q"] == [8.0, 6.75]
    assert isinstance(result("int", [1], m=lw.median("x"))["m"], float)


@both_ways
def test_nan_is_the_greatest_number(sketch):
    values = [1.0, math.nan, math.inf, -math.inf, math.nan]
    qs = lw.quantile("x", [0, 0.25, 0.5, 0.75, 1], sketch=sketch)
    found = result("double", values, qs=qs)["qs"]
    assert found[:3] == [-math.inf, 1.0, math.inf]
    assert all(map(math.isnan, found[3:]))
    top = result("double", values, top=lw.top_k("x", 2, sketch=sketch))["top"]
    assert [r["count"] for r in top] == [2, 1]
    assert math.isnan(top[0]["value"])
    assert top[1]["value"] == -math.inf


@both_ways
def test_there_is_one_zero_and_one_nan(sketch):
    odd = np.array([0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(np.float64)
    table = pa.table({"t": range(5), "x": [*odd, math.nan, 0.0, -0.0]})
    feed = lw.feed("t bigint, x double")
    windowed = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10)
    query = windowed.agg(u=lw.count_distinct("x", sketch=sketch), m=lw.mode("x", sketch=sketch))
    row = query.run(epochs={feed: [table]}).results
    assert row["u"].to_pylist() == [2]
    assert math.isnan(row["m"][0].as_py())


@both_ways
def test_a_window_of_nulls_gives_null_and_no_distinct_value(sketch):
    named = {n: a for n, a in ESTIMATED.items() if a[1] == "x"}
    row = result("double", [None, None], n=lw.count(), **aggregates(named, sketch=sketch))
    assert row["n"] == 2
    assert row["u_x"] == 0
    assert [row[n] for n in named if n != "u_x"] == [None] * 3


@both_ways
def test_empty_text_is_a_value(sketch):
    named = {"u": lw.count_distinct("x", sketch=sketch), "m": lw.mode("x", sketch=sketch)}
    row = result("string", ["", "", "a", None], **named)
    assert (row["u"], row["m"]) == (2, "")


def test_of_equally_frequent_values_the_least_comes_first():
    values = [date(2024, 1, 2), date(1999, 1, 1), date(2024, 1, 2), date(1999, 1, 1)]
    row = result("date", values, top=lw.top_k("x", 5), best=lw.mode("x"))
    assert row["best"] == date(1999, 1, 1)
    assert [r["value"] for r in row["top"]] == [date(1999, 1, 1), date(2024, 1, 2)]


def test_aggregates_over_one_column_share_what_they_keep():
    schema = lw.feed("t bigint, x double").schema
    exact = [lw.median("x"), lw.quantile("x", 0.9), lw.count_distinct("x"), lw.mode("x")]
    assert len({a.parts(schema) for a in exact}) == 1


@both_ways
def test_result_types(sketch):
    feed = lw.feed("t bigint, x smallint, d date")
    windowed = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10)
    query = windowed.agg(
        m=lw.median("x", sketch=sketch),
        qs=lw.quantile("x", [0.5], sketch=sketch),
        u=lw.count_distinct("d", sketch=sketch),
        top=lw.top_k("d", 2, sketch=sketch),
        best=lw.mode("d", sketch=sketch),
    )
    pair = pa.struct([("value", pa.date32()), ("count", pa.int64())])
    wanted = [pa.float64(), pa.list_(pa.float64()), pa.int64(), pa.list_(pair), pa.date32()]
    assert query.schema.types[2:-1] == wanted
    assert query.run(epochs={feed: []}).results.schema == query.schema


def test_a_large_stream_equals_numpy():
    # 60,000 rows, 20 groups, sliding 60 by 7: bags of thousands of values.
    rng = np.random.default_rng(7)
    n = 60_000
    t, g, x = np.sort(rng.integers(0, 400, n)), rng.integers(0, 20, n), rng.normal(size=n)
    word = rng.zipf(1.5, n) % 1000
    table = pa.table({"t": t, "g": g, "x": x, "w": word})
    feed = lw.feed("t bigint, g bigint, x double, w bigint")
    query = (
        lw.stream(feed, time="t", watermark=lw.slack(5))
        .window(range=60, slide=7)
        .group_by("g")
        .agg(q=lw.quantile("x", [0.5, 0.95]), u=lw.count_distinct("w"), top=lw.top_k("w", 3))
    )
    epochs = [table.slice(i, 10_000) for i in range(0, n, 10_000)]
    found = query.run(epochs={feed: epochs}, host="local").results.to_pylist()
    for row in rng.choice(found, 60, replace=False):
        held = (g == row["g"]) & (t >= row["wid"] * 7) & (t < row["wid"] * 7 + 60)
        assert row["q"] == pytest.approx(np.quantile(x[held], [0.5, 0.95]), rel=1e-12)
        counts = Counter(word[held].tolist())
        assert row["u"] == len(counts)
        best = sorted(counts, key=lambda v: (-counts[v], v))[:3]
        assert [(r["value"], r["count"]) for r in row["top"]] == [(v, counts[v]) for v in best]
