"""Each aggregate against the oracle: NULL, NaN, the ends of every type, and exactness."""

from __future__ import annotations

import functools
import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.aggregates.accumulators.base import AccumulatorColumns, RawRows
from tests.reference.windows import AGGREGATES, Slack, Windows, same, simulate
from tests.run_query import aggregates, assert_finals, finals, run
from tests.strategies import cuts, examples

ONE = Windows(1000, 1000)
LEAST, GREATEST = -(2**63), 2**63 - 1


def result(kind, values, **named):
    """Return the only result over one window that holds `values`, a row per tick."""
    stream = list(enumerate(values))
    half = len(stream) // 2
    epochs = [stream[:half], stream[half:]]
    outcome = run(f"t bigint, x {kind}", epochs, ONE, lw.slack(1000), named)
    (row,) = outcome.results.to_pylist()
    return row


def column(kind):
    """Values that a column of this type can hold."""
    floats = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]) | st.floats(-1e6, 1e6)
    return {
        "bigint": st.integers(-(2**40), 2**40) | st.sampled_from([LEAST // 64, GREATEST // 64]),
        "smallint": st.integers(-(2**15), 2**15 - 1),
        "double": floats,
        "float": floats.map(lambda v: float(np.float32(v))),
        "decimal(12, 3)": st.decimals(-(10**8), 10**8, places=3),
        "decimal(38, 10)": st.decimals(-(10**27), 10**27, places=10),
        "string": st.text(max_size=4),
        "binary": st.binary(max_size=4),
        "date": st.dates(),
        "timestamp": st.datetimes().map(lambda v: v.replace(tzinfo=UTC)),
        "boolean": st.booleans(),
    }[kind]


NUMBERS = ("bigint", "smallint", "double", "float", "decimal(12, 3)", "decimal(38, 10)")
OTHERS = ("string", "binary", "date", "timestamp", "boolean")


@pytest.mark.parametrize("kind", [*NUMBERS, *OTHERS])
def test_every_aggregate_equals_the_oracle(kind):
    arithmetic = ("sum", "avg", "variance", "stddev") if kind in NUMBERS else ()
    if kind == "decimal(38, 10)":
        arithmetic = ("sum", "variance", "stddev")  # the mean of these does not fit decimal(38, 14)
    named = {f: (f, "x") for f in ("count", "min", "max", "first", "last", *arithmetic)}

    @examples(40)
    @given(
        st.data(), st.lists(st.tuples(st.integers(0, 40), st.none() | column(kind)), max_size=15)
    )
    def holds(data, stream):
        drawn = [{"t": t, "x": x} for t, x in stream]
        epochs = data.draw(cuts(drawn))
        windows = Windows(12, 5)
        outcome = run(f"t bigint, x {kind}", epochs, windows, lw.slack(50), aggregates(named))
        story = simulate(epochs, windows, Slack(50))
        if kind == "float":
            compare_floats(outcome, story, named)
        else:
            assert_finals(outcome, story, windows, (), named)

    holds()


def compare_floats(outcome, story, named):
    """Floats of 32 bits: min, max, first and last keep their type, sums are doubles."""
    expected, found = story.finals((), named), finals(outcome)
    assert found.keys() == expected.keys()
    for cell, row in found.items():
        for name, value in expected[cell].items():
            assert same(value, row[name]), (cell, name)


# -- NULL ------------------------------------------------------------------------------------------


def test_null_is_passed_over_and_a_window_of_nulls_gives_null():
    named = {f: getattr(lw, f)("x") for f in AGGREGATES}
    row = result("double", [None, None, None], n=lw.count(), **named)
    assert row["n"] == 3
    assert row["count"] == 0
    assert [row[f] for f in AGGREGATES if f != "count"] == [None] * (len(AGGREGATES) - 1)


def test_null_does_not_count():
    row = result("bigint", [None, 4, None, 6], n=lw.count(), v=lw.count("x"), mean=lw.avg("x"))
    assert (row["n"], row["v"], row["mean"]) == (4, 2, 5.0)


def test_first_and_last_pass_over_null():
    row = result("string", [None, "a", "b", None], f=lw.first("x"), z=lw.last("x"))
    assert (row["f"], row["z"]) == ("a", "b")


def test_variance_of_one_value_is_null():
    row = result("double", [5.0, None], v=lw.variance("x"), s=lw.stddev("x"))
    assert (row["v"], row["s"]) == (None, None)


# -- NaN, infinities, zeros ------------------------------------------------------------------------


def test_nan_is_the_greatest_number():
    row = result("double", [1.0, math.nan, math.inf, -math.inf], lo=lw.min("x"), hi=lw.max("x"))
    assert row["lo"] == -math.inf
    assert math.isnan(row["hi"])
    only = result("double", [math.nan, math.nan], lo=lw.min("x"), hi=lw.max("x"))
    assert math.isnan(only["lo"])
    assert math.isnan(only["hi"])


def test_nan_of_any_bit_pattern_is_nan():
    odd = np.array([0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(np.float64)
    table = pa.table({"t": [0, 1, 2], "x": [*odd, 1.0]})
    feed = lw.feed("t bigint, x double")
    windowed = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10)
    row = windowed.agg(lo=lw.min("x"), hi=lw.max("x")).run(epochs={feed: [table]}).results
    assert row["lo"].to_pylist() == [1.0]
    assert math.isnan(row["hi"][0].as_py())


def test_nan_and_infinities_in_sums_follow_ieee():
    row = result("double", [math.inf, 1.0], s=lw.sum("x"), a=lw.avg("x"), v=lw.variance("x"))
    assert (row["s"], row["a"]) == (math.inf, math.inf)
    assert math.isnan(row["v"])
    row = result("double", [math.inf, -math.inf], s=lw.sum("x"), a=lw.avg("x"))
    assert math.isnan(row["s"])
    assert math.isnan(row["a"])


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize(
    ("values", "signs"),
    [
        ([-0.0], {"lo": -1, "hi": -1, "first": -1, "last": -1}),
        ([-0.0, None, -0.0], {"lo": -1, "hi": -1, "first": -1, "last": -1}),
        ([-0.0, 0.0], {"lo": -1, "hi": 1, "first": -1, "last": 1}),
        ([0.0, -0.0], {"lo": -1, "hi": 1, "first": 1, "last": -1}),
    ],
)
def test_negative_zero_keeps_its_sign(kind, values, signs):
    # As in Spark, but for min and max of both zeros: Spark gives the one that it met first.
    named = {"lo": lw.min("x"), "hi": lw.max("x"), "first": lw.first("x"), "last": lw.last("x")}
    row = result(kind, values, **named)
    assert {name: math.copysign(1, row[name]) for name in named} == signs
    assert not any(row[name] for name in named)


def test_negative_zero_equals_zero():
    row = result("double", [-0.0, 0.0], lo=lw.min("x"), hi=lw.max("x"), f=lw.first("x"))
    assert row["lo"] == row["hi"] == row["f"] == 0.0


# -- exact integers --------------------------------------------------------------------------------


def test_extremes_of_bigint_are_values_like_others():
    row = result("bigint", [LEAST, None, GREATEST], lo=lw.min("x"), hi=lw.max("x"))
    assert (row["lo"], row["hi"]) == (LEAST, GREATEST)
    assert result("bigint", [LEAST], hi=lw.max("x"))["hi"] == LEAST
    assert result("bigint", [GREATEST], lo=lw.min("x"))["lo"] == GREATEST
    assert result("bigint", [None], lo=lw.min("x"))["lo"] is None


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int"])
def test_extremes_of_smaller_integers_are_values_like_others(kind):
    bits = {"tinyint": 7, "smallint": 15, "int": 31}[kind]
    row = result(kind, [-(2**bits), 2**bits - 1], lo=lw.min("x"), hi=lw.max("x"), s=lw.sum("x"))
    assert (row["lo"], row["hi"], row["s"]) == (-(2**bits), 2**bits - 1, -1)


def test_integers_beyond_two_to_the_53_are_summed_exactly():
    values = [2**53 + 1, 1, 2**60 + 3, -(2**53)]
    assert result("bigint", values, s=lw.sum("x"))["s"] == sum(values)


@pytest.mark.parametrize("values", [[GREATEST, 1], [LEAST, -1], [GREATEST] * 5, [LEAST] * 3])
def test_a_sum_beyond_bigint_does_not_wrap(values):
    assert result("bigint", values, s=lw.sum("x"))["s"] is None
    with pytest.raises(lw.ResultOverflowError, match=r"sum\('x'\) as 's' .* does not fit int64"):
        result("bigint", values, s=lw.sum("x", overflow="fail"))


def test_a_sum_that_leaves_bigint_on_the_way_is_fine():
    values = [GREATEST, GREATEST, LEAST, LEAST, GREATEST]
    assert result("bigint", values, s=lw.sum("x"))["s"] == sum(values)
    assert result("bigint", [GREATEST, 1, -1], s=lw.sum("x"))["s"] == GREATEST
    assert result("bigint", [LEAST, -1, 1], s=lw.sum("x"))["s"] == LEAST


def test_a_mean_beyond_the_range_of_the_sum_is_fine():
    row = result("bigint", [GREATEST] * 4, a=lw.avg("x"))
    assert row["a"] == float(GREATEST)


@given(st.lists(st.integers(LEAST, GREATEST), min_size=1, max_size=12))
def test_sums_of_any_integers_are_exact_or_null(values):
    total = sum(values)
    expected = total if LEAST <= total <= GREATEST else None
    assert result("bigint", values, s=lw.sum("x"))["s"] == expected


@given(st.lists(st.integers(LEAST, GREATEST), min_size=1, max_size=12))
def test_means_of_any_integers_are_rounded_once(values):
    assert result("bigint", values, a=lw.avg("x"))["a"] == sum(values) / len(values)


# -- exact decimals --------------------------------------------------------------------------------


def test_decimals_are_exact_to_38_digits():
    values = [Decimal("9" * 33 + ".99999"), Decimal("-0.00001"), None, Decimal("0.00001")]
    row = result("decimal(38, 5)", values, s=lw.sum("x"), hi=lw.max("x"), lo=lw.min("x"))
    assert row["s"] == row["hi"] == Decimal("9" * 33 + ".99999")
    assert row["lo"] == Decimal("-0.00001")


def test_a_decimal_mean_keeps_all_digits():
    row = result("decimal(38, 0)", [Decimal(10**29 + 1)], a=lw.avg("x"))
    assert row["a"] == Decimal(10**29 + 1)


def test_a_decimal_sum_beyond_38_digits_overflows():
    values = [Decimal("9" * 38), Decimal(1)]
    assert result("decimal(38, 0)", values, s=lw.sum("x"))["s"] is None
    with pytest.raises(lw.ResultOverflowError, match=r"sum\('x'\).*decimal"):
        result("decimal(38, 0)", values, s=lw.sum("x", overflow="fail"))


def test_a_decimal_mean_that_does_not_fit_overflows():
    values = [Decimal("9" * 33 + ".99999")]
    assert result("decimal(38, 5)", values, a=lw.avg("x"))["a"] is None
    with pytest.raises(lw.ResultOverflowError, match=r"avg\('x'\)"):
        result("decimal(38, 5)", values, a=lw.avg("x", overflow="fail"))


@pytest.mark.parametrize(
    ("kind", "total", "mean"),
    [
        ("decimal(10, 2)", (20, 2), (14, 6)),
        ("decimal(38, 5)", (38, 5), (38, 9)),
        ("decimal(36, 2)", (38, 2), (38, 6)),
        ("decimal(20, 18)", (30, 18), (24, 22)),
        ("decimal(5, 0)", (15, 0), (9, 4)),
    ],
)
def test_types_of_decimal_results_are_those_of_spark(kind, total, mean):
    feed = lw.feed(f"t bigint, x {kind}")
    query = (
        lw.stream(feed, time="t", watermark=lw.ordered())
        .window(range=10)
        .agg(total=lw.sum("x"), mean=lw.avg("x"))
    )
    assert query.schema.field("total").type == pa.decimal128(*total)
    assert query.schema.field("mean").type == pa.decimal128(*mean)


def test_a_decimal_mean_is_rounded_half_up():
    row = result("decimal(4, 0)", [Decimal(1), Decimal(0), Decimal(0)], a=lw.avg("x"))
    assert row["a"] == Decimal("0.3333")
    row = result("decimal(4, 0)", [Decimal(2), Decimal(0), Decimal(0)], a=lw.avg("x"))
    assert row["a"] == Decimal("0.6667")
    row = result("decimal(4, 0)", [Decimal(-2), Decimal(0), Decimal(0)], a=lw.avg("x"))
    assert row["a"] == Decimal("-0.6667")


@given(st.lists(st.decimals(-(10**27), 10**27, places=10), min_size=1, max_size=10))
def test_decimal_sums_equal_exact_arithmetic(values):
    expected = sum(map(_unscaled, values))
    found = result("decimal(38, 10)", values, s=lw.sum("x"))["s"]
    assert _unscaled(found) == expected


def _unscaled(value):
    sign, digits, _ = value.as_tuple()
    return (-1) ** sign * int("".join(map(str, digits)))


# -- first and last --------------------------------------------------------------------------------


def test_first_and_last_go_by_time_and_not_by_arrival():
    #  arrival  c@7  a@1 | d@9  b@4
    stream = [[(7, "c"), (1, "a")], [(9, "d"), (4, "b")]]
    named = {"f": lw.first("x"), "z": lw.last("x")}
    (row,) = run("t bigint, x string", stream, ONE, lw.slack(99), named).results.to_pylist()
    assert (row["f"], row["z"]) == ("a", "d")


def test_of_equal_times_first_is_the_first_to_arrive_and_last_the_last():
    stream = [[(5, "a"), (5, "b")], [(5, "c")], [(5, "d"), (5, None)]]
    named = {"f": lw.first("x"), "z": lw.last("x")}
    (row,) = run("t bigint, x string", stream, ONE, lw.slack(99), named).results.to_pylist()
    assert (row["f"], row["z"]) == ("a", "d")


# -- variance --------------------------------------------------------------------------------------


def test_variance_is_right_far_from_zero():
    # Naive sums of squares lose all digits at an offset of 1e9 and more.
    values = [1e9 + v for v in (4, 7, 13, 16)]
    row = result("double", values, v=lw.variance("x"), s=lw.stddev("x"))
    assert row["v"] == pytest.approx(30, rel=1e-9)
    assert row["s"] == pytest.approx(math.sqrt(30), rel=1e-9)


def test_variance_over_many_panes_is_right_far_from_zero():
    rng = random.Random(3)
    values = [1e9 + rng.random() for _ in range(500)]
    stream = list(enumerate(values))
    outcome = run(
        "t bigint, x double", [stream[:250], stream[250:]], Windows(100, 7), lw.ordered(),
        {"v": lw.variance("x"), "n": lw.count()},
    )  # fmt: skip
    for (wid,), row in finals(outcome).items():
        held = np.array(values[max(0, wid * 7) : wid * 7 + 100]) - 1e9
        if row["n"] > 1:
            assert row["v"] == pytest.approx(held.var(ddof=1), rel=1e-4)


def test_variance_of_equal_values_is_zero():
    assert result("double", [0.1] * 10, v=lw.variance("x"))["v"] == pytest.approx(0, abs=1e-30)


# -- the user's own --------------------------------------------------------------------------------


def both_ways():
    """The mean, written as the user may: with partials that are tuples, and as a fold."""
    combining = lw.aggregate(
        "x",
        lift=lambda v: (v, 1),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda p: p[0] / p[1],
        returns="double",
    )
    folding = lw.aggregate(
        "x",
        init=lambda: [0, 0],
        incr=lambda s, v: [s[0] + v, s[1] + 1],
        final=lambda s: s[0] / s[1],
        returns="double",
    )
    return combining, folding


@examples(60)
@given(
    st.data(),
    st.lists(st.tuples(st.integers(0, 60), st.none() | st.integers(-9, 9)), max_size=25),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(0, 20),
)
def test_user_defined_aggregates_equal_the_built_in_one(data, stream, size, slide, span):
    epochs = data.draw(cuts(stream))
    schema, windows = "t bigint, x bigint", Windows(size, slide)
    combining, folding = both_ways()
    known = {"mean": lw.avg("x"), "n": lw.count(), "top": lw.max("x")}
    paned = run(schema, epochs, windows, lw.slack(span), {**known, "own": combining})
    kept = run(schema, epochs, windows, lw.slack(span), {**known, "own": folding})
    for outcome in (paned, kept):
        for row in outcome.results.to_pylist():
            assert row["own"] == row["mean"] or row["own"] == pytest.approx(row["mean"])
            assert (row["own"] is None) == (row["mean"] is None)
    left, right = finals(paned), finals(kept)
    assert left == {c: {**r, "own": left[c]["own"]} for c, r in right.items()}
    assert paned.status.counts == kept.status.counts


def test_values_reach_a_user_defined_aggregate_in_arrival_order_within_a_pane():
    concat = lw.aggregate("x", lift=str, combine=lambda a, b: a + b, lower=str, returns="string")
    folded = lw.aggregate("x", init=str, incr=lambda s, v: s + v, final=str, returns="string")
    epochs = [[(5, "a"), (3, "b")], [(4, "c")], [(5, None), (1, "d")]]
    for own in (concat, folded):
        (row,) = run(
            "t bigint, x string", epochs, ONE, lw.slack(99), {"s": own}
        ).results.to_pylist()
        assert row["s"] == "abcd"


def test_panes_of_a_user_defined_aggregate_combine_in_the_order_of_time():
    concat = lw.aggregate("x", lift=str, combine=lambda a, b: a + b, lower=str, returns="string")
    stream = [(t, chr(ord("a") + t)) for t in (3, 0, 5, 1, 4, 2, 7, 6)]
    outcome = run("t bigint, x string", [stream], Windows(4, 1), lw.slack(99), {"s": concat})
    assert finals(outcome)[(2,)]["s"] == "cdef"
    assert all(list(r["s"]) == sorted(r["s"]) for r in outcome.results.to_pylist())


def test_several_columns_reach_a_user_defined_aggregate_as_tuples():
    weighted = lw.aggregate(
        ["x", "w"],
        lift=lambda p: (p[0] * p[1], p[1]),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda p: p[0] / p[1],
        returns="double",
    )
    stream = [(0, 10.0, 1), (1, 20.0, 3)]
    outcome = run("t bigint, x double, w int", [stream], ONE, lw.slack(9), {"m": weighted})
    assert outcome.results["m"].to_pylist() == [17.5]


def test_a_user_defined_aggregate_may_keep_arrays_and_stands_next_to_text_extremes():
    histogram = lw.aggregate(
        "x",
        init=lambda: np.zeros(3, int),
        incr=lambda s, v: s + np.eye(3, dtype=int)[v],
        final=lambda s: int(s.argmax()),
        returns="int",
    )
    epochs = [[(0, 1, "b")], [(1, 2, "a"), (2, 2, "c")], [(3, 2, None)]]
    named = {"mode": histogram, "lo": lw.min("s"), "hi": lw.max("s"), "f": lw.first("s")}
    outcome = run("t bigint, x int, s string", epochs, Windows(10, 5), lw.slack(9), named)
    row = finals(outcome)[(0,)]
    assert (row["mode"], row["lo"], row["hi"], row["f"]) == (2, "a", "c", "b")


def test_a_fold_that_changes_its_state_in_place_is_safe():
    def append(state, value):
        state.append(value)
        return state

    own = lw.aggregate("x", init=list, incr=append, final=sorted, returns="array<int>")
    epochs = [[(1, 1), (2, 2)], [(3, 3)], [(12, 4)]]
    outcome = run("t bigint, x int", epochs, Windows(10, 5), lw.slack(20), {"s": own})
    found = {w: r["s"] for (w,), r in finals(outcome).items()}
    assert found == {-1: [1, 2, 3], 0: [1, 2, 3], 1: [4], 2: [4]}


# -- parts: combine is associative, many equals one ------------------------------------------------

PARTS = {
    "bigint": (lw.count("x"), lw.sum("x"), lw.min("x"), lw.max("x"), lw.first("x"), lw.last("x")),
    "double": (lw.sum("x"), lw.min("x"), lw.max("x"), lw.variance("x"), lw.last("x")),
    "string": (lw.min("x"), lw.max("x"), lw.first("x"), lw.last("x")),
    "decimal(38, 10)": (lw.sum("x"), lw.min("x"), lw.last("x")),
}


def lifted(part, schema, values, cells):
    """Lift each value into a cell of its own, brought to a common coding through the store."""
    table = pa.Table.from_pylist([{"t": t, "x": x} for t, x in values], schema)
    ticks = np.array([t for t, _ in values], np.int64)
    found = part.lift(RawRows(table, ticks), np.array(cells), max(cells) + 1)
    return part.load([_one(c) for c in part.store(found)])


def _one(array):
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def stored(part, cells):
    return [c.to_pylist() for c in part.store(cells)]


@pytest.mark.parametrize("kind", PARTS)
def test_combine_is_associative_and_many_equals_one(kind):
    schema = lw.feed(f"t bigint, x {kind}").schema
    parts = list(dict.fromkeys(p for a in PARTS[kind] for p in a.parts(schema)))
    values = column(kind)
    if kind == "double":
        values = st.floats(-1e6, 1e6)

    @examples(40)
    @given(st.lists(st.tuples(st.integers(0, 9), st.none() | values), min_size=3, max_size=9))
    def holds(rows):
        for part in parts:
            each = lifted(part, schema, rows, list(range(len(rows))))
            cells = [each.take(slice(i, i + 1)) for i in range(len(rows))]
            left = functools.reduce(part.combine, cells)
            right = functools.reduce(lambda b, a: part.combine(a, b), reversed(cells))
            merged = part.merge(each, np.zeros(len(rows), np.int64), 1)
            at_once = lifted(part, schema, rows, [0] * len(rows))
            expected = stored(part, at_once)
            for found in (left, right, merged):
                near(stored(part, found), expected)

    holds()


def near(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            if isinstance(b, float):
                assert a == pytest.approx(b, rel=1e-9, abs=1e-2) or math.isnan(a) == math.isnan(b)
            else:
                assert a == b


@pytest.mark.parametrize("kind", PARTS)
def test_an_empty_cell_changes_nothing(kind):
    schema = lw.feed(f"t bigint, x {kind}").schema
    values = {"bigint": 5, "double": 1.5, "string": "a", "decimal(38, 10)": Decimal("1.5")}
    for part in dict.fromkeys(p for a in PARTS[kind] for p in a.parts(schema)):
        cell = lifted(part, schema, [(3, values[kind])], [0])
        empty = part.empty(1, cell)
        assert stored(part, part.combine(cell, empty)) == stored(part, cell)
        assert stored(part, part.combine(empty, cell)) == stored(part, cell)


@pytest.mark.parametrize("kind", PARTS)
def test_running_totals_equal_combining_step_by_step(kind):
    schema = lw.feed(f"t bigint, x {kind}").schema
    rng = random.Random(1)
    draws = {
        "bigint": lambda: rng.randrange(-(2**62), 2**62),
        "double": lambda: rng.uniform(-9, 9),
        "string": lambda: rng.choice("abc"),
        "decimal(38, 10)": lambda: Decimal(rng.randrange(10**30)).scaleb(-10),
    }
    rows = [(t, None if t % 4 == 3 else draws[kind]()) for t in range(12)]
    for part in dict.fromkeys(p for a in PARTS[kind] for p in a.parts(schema)):
        each = lifted(part, schema, rows, list(range(12)))
        grid = each.reshape(6, 2)
        down, up = part.scan(grid), part.scan_up(grid)
        for column_at in range(2):
            cells = [
                AccumulatorColumns(
                    tuple(a[r, column_at : column_at + 1] for a in grid.arrays), grid.values
                )
                for r in range(6)
            ]
            for row in range(6):
                above = functools.reduce(part.combine, cells[: row + 1])
                below = functools.reduce(part.combine, cells[row:])
                for whole, expected in ((down, above), (up, below)):
                    one = AccumulatorColumns(
                        tuple(a[row, column_at : column_at + 1] for a in whole.arrays), whole.values
                    )
                    near(stored(part, one), stored(part, expected))


@pytest.mark.parametrize("kind", PARTS)
def test_a_slice_of_a_table_is_read_from_where_it_begins(kind):
    # Arrow slices share their buffers with the table they come from.
    schema = lw.feed(f"t bigint, x {kind}").schema
    values = {"string": "abcdefgh"}.get(kind, range(1, 9))
    column_of = pa.array(list(values)).cast(schema.field("x").type)
    whole = pa.table([pa.array(range(8), pa.int64()), column_of], schema=schema)
    part_of = whole.slice(5, 3)
    copied = pa.Table.from_pylist(part_of.to_pylist(), schema)
    cells, ticks = np.array([0, 1, 0]), np.arange(5, 8)
    for part in dict.fromkeys(p for a in PARTS[kind] for p in a.parts(schema)):
        found, expected = (part.lift(RawRows(t, ticks), cells, 2) for t in (part_of, copied))
        assert stored(part, found) == stored(part, expected)


def test_dates_and_timestamps_keep_their_types():
    for kind, values in (
        ("date", [date(2024, 1, 2), date(1, 1, 1), date(9999, 12, 31)]),
        ("timestamp", [datetime(2024, 1, 2, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]),
        ("timestamp_ntz", [datetime(2024, 1, 2), datetime(1, 1, 1)]),  # noqa: DTZ001
    ):
        row = result(kind, values, lo=lw.min("x"), hi=lw.max("x"), z=lw.last("x"))
        assert (row["lo"], row["hi"], row["z"]) == (min(values), max(values), values[-1])
