"""Sketches: within their stated error, merged over many panes; and what is refused."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.aggregates import sketch_sizes as accuracy
from lowwater.aggregates.accumulators.base import RawRows
from tests.aggregates.test_holistic import ESTIMATED, keys, result
from tests.reference.windows import Slack, same, simulate
from tests.run_query import aggregates, assert_finals, finals, run
from tests.strategies import SCHEMA, any_windows, cuts, disorder, examples, rows

datasketches = pytest.importorskip("datasketches", exc_type=ImportError)


@examples(80)
@given(st.data(), any_windows(), rows(), keys)
def test_sketches_of_few_values_equal_the_oracle(data, windows, stream, by):
    epochs, span = data.draw(cuts(stream)), disorder(stream)
    outcome = run(SCHEMA, epochs, windows, lw.slack(span), aggregates(ESTIMATED, sketch=True), by)
    assert_finals(outcome, simulate(epochs, windows, Slack(span)), windows, by, ESTIMATED)


@examples(30)
@given(st.data(), rows(), st.integers(1, 30))
def test_sketches_in_windows_that_end_at_rows_and_in_sessions_equal_exact_ones(data, stream, size):
    epochs, feed = data.draw(cuts(stream)), lw.feed(SCHEMA)
    read = lw.stream(feed, time="t", watermark=lw.slack(disorder(stream)))
    exact, estimated = aggregates(ESTIMATED), aggregates(ESTIMATED, sketch=True)
    for windowed in (read.window(range=size, slide=lw.rows(1)), read.window(gap=size)):
        left, right = (
            finals(windowed.group_by("b").agg(**a).run(epochs={feed: epochs}), ("b",))
            for a in (exact, estimated)
        )
        assert left.keys() == right.keys()
        assert all(same(left[c], right[c]) for c in left)


def stream_of(column, epochs=20, per_tick=400):
    """Cut a column into epochs, so many values to a tick."""
    n = len(column)
    table = pa.table({"t": np.arange(n) // per_tick, "x": column})
    step = -(-n // epochs)
    return [table.slice(i, step) for i in range(0, n, step)]


WINDOWINGS = {
    "sliding": {"range": 50, "slide": 10},
    "landmark": {"range": lw.unbounded, "slide": 25},
    "at rows": {"range": 30, "slide": lw.rows(1)},
}


def windows_of(kind, windowing, column, **named):
    """Return (values of the window, result) for every window over a column."""
    feed = lw.feed(f"t bigint, x {kind}")
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(**windowing).agg(**named)
    ticks = np.arange(len(column)) // 400
    for row in query.run(epochs={feed: stream_of(column)}).results.to_pylist():
        start, end = row["window"]["start"], row["window"]["end"]
        if "slide" in windowing and windowing["slide"] == lw.rows(1):
            held = (ticks > row["wid"] - 30) & (ticks <= row["wid"])
        else:
            held = (ticks >= (-math.inf if start is None else start)) & (ticks < end)
        yield column[held], row


@pytest.mark.parametrize("windowing", WINDOWINGS.values(), ids=WINDOWINGS)
@pytest.mark.parametrize("k", [200, 50])
def test_kll_is_within_its_bound_over_many_panes(windowing, k):
    column = np.random.default_rng(3).lognormal(size=50_000)
    bound = datasketches.kll_doubles_sketch.get_normalized_rank_error(k, False)
    shares = [0.01, 0.25, 0.5, 0.75, 0.99]
    asked = lw.quantile("x", shares, sketch=lw.kll(k))
    off = [
        abs((held < value).mean() - share)
        for held, row in windows_of("double", windowing, column, q=asked)
        for value, share in zip(row["q"], shares, strict=True)
    ]
    assert len(off) > 20
    # The bound holds in 99 % of cases; the coins that are thrown cannot be seeded.
    assert np.quantile(off, 0.9) <= bound
    assert max(off) <= 3 * bound


def test_the_ends_of_a_kll_sketch_are_exact():
    column = np.random.default_rng(3).normal(size=50_000)
    asked = lw.quantile("x", [0, 1], sketch=True)
    for held, row in windows_of("double", WINDOWINGS["sliding"], column, q=asked):
        assert row["q"] == [held.min(), held.max()]


def test_kll_counts_nan_as_the_greatest_also_when_it_estimates():
    column = np.random.default_rng(3).normal(size=20_000)
    column[::4] = math.nan
    asked = lw.quantile("x", [0.375, 0.74, 0.76], sketch=True)
    rows_of = list(windows_of("double", WINDOWINGS["sliding"], column, q=asked))
    assert rows_of
    for held, row in rows_of:
        numbers = held[~np.isnan(held)]
        assert (numbers < row["q"][0]).mean() == pytest.approx(0.5, abs=0.05)
        assert row["q"][1] > np.quantile(numbers, 0.9)
        assert math.isnan(row["q"][2])


@pytest.mark.parametrize("windowing", WINDOWINGS.values(), ids=WINDOWINGS)
@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_hll_is_within_its_bound_over_many_panes(windowing, kind):
    numbers = np.random.default_rng(5).integers(0, 30_000, 50_000)
    column = numbers if kind == "bigint" else numbers.astype(str).astype(object)
    bound = abs(datasketches.hll_sketch.get_rel_err(True, True, 12, 1))
    asked = lw.count_distinct("x", sketch=True)
    off = [
        row["u"] / len(set(held.tolist())) - 1
        for held, row in windows_of(kind, windowing, column, u=asked)
    ]
    assert np.abs(off).max() <= 4 * bound
    assert np.sqrt(np.square(off).mean()) <= 2 * bound


def test_hll_does_not_depend_on_how_rows_come():
    rng = np.random.default_rng(5)
    column = rng.integers(0, 30_000, 20_000)
    found = []
    for order in (column, rng.permutation(column), np.sort(column)):
        for epochs in (1, 7):
            feed = lw.feed("t bigint, x bigint")
            windowed = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=1000)
            query = windowed.agg(u=lw.count_distinct("x", sketch=True))
            (row,) = query.run(epochs={feed: stream_of(order, epochs)}).results.to_pylist()
            found.append(row["u"])
    assert len(set(found)) == 1


@pytest.mark.parametrize("windowing", WINDOWINGS.values(), ids=WINDOWINGS)
@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_frequent_items_are_within_their_bound_over_many_panes(windowing, kind):
    numbers = np.random.default_rng(9).zipf(1.2, 50_000) % 10_000
    column = numbers if kind == "bigint" else numbers.astype(str).astype(object)
    share = datasketches.frequent_strings_sketch.get_epsilon_for_lg_size(7)
    sketch = lw.frequent_items(lg_k=7)
    asked = {"top": lw.top_k("x", 5, sketch=sketch), "best": lw.mode("x", sketch=sketch)}
    for held, row in windows_of(kind, windowing, column, **asked):
        counts, bound = Counter(held.tolist()), share * len(held)
        estimates = [r["count"] for r in row["top"]]
        assert estimates == sorted(estimates, reverse=True)
        for found in row["top"]:
            assert 0 <= found["count"] - counts[found["value"]] <= bound
        fifth = sorted(counts.values())[-5]
        assert all(counts[r["value"]] >= fifth - bound for r in row["top"])
        assert row["best"] == row["top"][0]["value"]


def test_where_no_value_is_frequent_few_or_none_are_returned():
    # Each value is there once: a sketch that is full drops them all.
    column, sketch = np.arange(20_000), lw.frequent_items(lg_k=5)
    asked = {"top": lw.top_k("x", 5, sketch=sketch), "best": lw.mode("x", sketch=sketch)}
    share = datasketches.frequent_strings_sketch.get_epsilon_for_lg_size(5)
    for held, row in windows_of("bigint", WINDOWINGS["sliding"], column, **asked):
        for found in row["top"] or []:
            assert found["value"] in held
            assert 0 <= found["count"] - 1 <= share * len(held)
        assert row["best"] == (row["top"][0]["value"] if row["top"] else None)


def test_frequent_items_and_hll_give_the_same_bytes_again():
    column = np.random.default_rng(9).integers(0, 5_000, 20_000)
    table, ticks = pa.table({"x": column}), np.zeros(len(column), np.int64)
    codes = np.arange(len(column)) % 7
    for asked in (lw.top_k("x", 3, sketch=True), lw.count_distinct("x", sketch=True)):
        (part,) = asked.parts(table.schema)
        again = []
        for _ in range(2):
            cells = part.lift(RawRows(table, ticks), codes, 7)
            loaded = part.load(part.store(cells))
            again.append(part.store(part.merge(loaded, np.arange(7) // 3, 3))[0].to_pylist())
        assert again[0] == again[1]


def test_a_sketch_in_state_is_left_alone():
    values = [float(v) for v in range(1000)]
    table = pa.table({"x": values})
    rows_of, codes = RawRows(table, np.arange(1000)), np.arange(1000) // 500
    for asked in (
        lw.median("x", sketch=True),
        lw.count_distinct("x", sketch=True),
        lw.mode("x", sketch=True),
    ):
        part = asked.parts(table.schema)[0]
        cells = part.lift(rows_of, codes, 2)
        before = part.store(cells)[0].to_pylist()
        part.combine(cells, cells.take(slice(None, None, -1)))
        part.merge(cells, np.zeros(2, np.int64), 1)
        part.scan(cells.reshape(2, 1))
        part.scan_up(cells.reshape(2, 1))
        assert part.store(cells)[0].to_pylist() == before


def test_state_stays_small_on_landmark_windows():
    rng, sizes = random.Random(4), {}
    feed = lw.feed("t bigint, x double")
    for n in (20_000, 80_000):
        stream = [(t // 100, rng.random()) for t in range(n)]
        query = (
            lw.stream(feed, time="t", watermark=lw.ordered())
            .window(range=lw.unbounded, slide=100)
            .agg(
                m=lw.median("x", sketch=True),
                u=lw.count_distinct("x", sketch=True),
                b=lw.mode("x", sketch=True),
            )
        )
        epochs = [stream[i : i + 10_000] for i in range(0, n, 10_000)]
        sizes[n] = query.run(epochs={feed: epochs}).status.state_bytes
    assert sizes[80_000] < 1.5 * sizes[20_000]


def test_without_the_library_a_sketch_is_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr(accuracy, "ds", None)
    for make in (lw.median, lw.count_distinct, lw.mode):
        with pytest.raises(lw.SpecError, match=r"needs the package datasketches.*sketch= out"):
            make("x", sketch=True)
    assert result("int", [1, 2], m=lw.median("x"))["m"] == 1.5


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: lw.quantile("x", 1.5), r"q=1\.5 must be a share from 0 to 1"),
        (lambda: lw.quantile("x", -0.1), r"q=-0\.1 must be a share"),
        (lambda: lw.quantile("x", math.nan), "q=nan must be a share"),
        (lambda: lw.quantile("x", True), "q=True must be a share"),
        (lambda: lw.quantile("x", "half"), "q='half' must be a share"),
        (lambda: lw.quantile("x", None), "q=None must be a share"),
        (lambda: lw.quantile("x", [0.5, 2]), "q=2 must be a share"),
        (lambda: lw.quantile("x", []), r"q=\[\] asks for nothing"),
        (lambda: lw.top_k("x", 0), "k=0 must be a whole number, 1 or more"),
        (lambda: lw.top_k("x", 1.5), r"k=1\.5 must be a whole number"),
        (
            lambda: lw.top_k("x", 1000, sketch=True),
            r"at most 768 values.*frequent_items\(lg_k=11\)",
        ),
        (lambda: lw.median("x", sketch=lw.hll()), r"does not go with median.*lw\.kll\(k=200\)"),
        (lambda: lw.median("x", sketch=200), "sketch=200 does not go with median"),
        (lambda: lw.count_distinct("x", sketch=lw.kll()), r"count_distinct.*lw\.hll\(lg_k=12\)"),
        (lambda: lw.mode("x", sketch=lw.kll()), r"mode.*lw\.frequent_items\(lg_k=10\)"),
        (lambda: lw.kll(k=7), "k=7 must be a whole number from 8 to 65535"),
        (lambda: lw.hll(lg_k=3), "lg_k=3 must be a whole number from 4 to 21"),
        (lambda: lw.frequent_items(lg_k=2), "lg_k=2 must be a whole number from 3 to 21"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(make, says):
    with pytest.raises(lw.SpecError, match=says):
        make()


@pytest.mark.parametrize("kind", ["date", "timestamp", "string", "boolean", "binary"])
@pytest.mark.parametrize("sketch", [False, True])
def test_quantiles_of_what_is_no_number_are_refused_with_a_way_out(kind, sketch):
    says = r"median\('x'\): the column is .*cast it to a number first, or take lw\.min"
    with pytest.raises(lw.SpecError, match=says):
        result(kind, [None], m=lw.median("x", sketch=sketch))
    with pytest.raises(lw.SpecError, match=r"quantile\('x'\)"):
        result(kind, [None], m=lw.quantile("x", 0.9, sketch=sketch))


@pytest.mark.parametrize("make", [lw.count_distinct, lw.mode, lambda c: lw.top_k(c, 2)])
def test_nested_columns_are_refused(make):
    with pytest.raises(lw.SpecError, match=r"\('x'\): list<.*has no order; take a field"):
        result("array<int>", [[1]], m=make("x"))


@pytest.mark.parametrize("make", [lw.median, lw.count_distinct, lw.mode])
def test_unknown_columns_are_refused(make):
    with pytest.raises(lw.SpecError, match="Did you mean"):
        result("int", [1], m=make("xx"))


@pytest.mark.parametrize("make", [lw.median, lw.count_distinct, lw.mode])
def test_landmark_windows_take_sketches_only(make):
    feed = lw.feed("t bigint, x double")
    read = lw.stream(feed, time="t", watermark=lw.ordered())
    windowed = read.window(range=lw.unbounded, slide=10)
    with pytest.raises(lw.SpecError, match=r"m=.* keeps all values of a window.*sketch=True"):
        windowed.agg(m=make("x"))
    windowed.agg(m=make("x", sketch=True))


# -- what is told ----------------------------------------------------------------------------------


def test_errors_are_told_by_explain_as_the_library_states_them():
    feed = lw.feed("t bigint, x double")
    windowed = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10)
    text = windowed.agg(
        p=lw.quantile("x", 0.9, sketch=True),
        u=lw.count_distinct("x", sketch=lw.hll(lg_k=14)),
        top=lw.top_k("x", 3, sketch=True),
        exact=lw.median("x"),
    ).explain()
    errors = [line for line in text.splitlines() if line.startswith("error")]
    assert len(errors) == 3
    assert "p: rank within ±1.33 % in 99 % of cases" in errors[0]
    assert "u: standard error 0.81 %" in errors[1]
    assert "top: counts at most 0.34 % of all values too high" in errors[2]
    assert "all values, since these do not shrink: Values" in text


@pytest.mark.parametrize(
    ("accuracy_of", "says"),
    [
        (lambda: [lw.kll(k) for k in (100, 200, 400, 800)], ("2.61", "1.33", "0.68", "0.35")),
        (lambda: [lw.hll(k) for k in (10, 12, 14, 16)], ("3.24", "1.62", "0.81", "0.41")),
        (
            lambda: [lw.frequent_items(k) for k in (8, 10, 12, 14)],
            ("1.37", "0.34", "0.09", "0.02"),
        ),
    ],
)
def test_the_errors_in_the_documentation_are_those_of_the_library(accuracy_of, says):
    table = (Path(__file__).parents[2] / "docs" / "aggregates.md").read_text(encoding="utf-8")
    for found, share in zip(accuracy_of(), says, strict=True):
        name, (field,) = type(found).__name__, vars(found).items()
        function = {"Kll": "kll", "Hll": "hll", "FrequentItems": "frequent_items"}[name]
        assert f" {share} %" in found.error.replace("±", " ")
        assert f"| `{function}({field[0]}={field[1]})` | {share} % |" in table


def test_sketches_over_one_column_are_shared():
    schema = lw.feed("t bigint, x double").schema
    sketches = [lw.median("x", sketch=True), lw.quantile("x", 0.9, sketch=lw.kll())]
    assert len({a.parts(schema) for a in sketches}) == 1


def test_a_fingerprint_tells_accuracies_apart():
    feed = lw.feed("t bigint, x double")
    windowed = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10)
    asked = [
        lw.median("x"),
        lw.median("x", sketch=True),
        lw.median("x", sketch=lw.kll(k=400)),
        lw.quantile("x", 0.4),
        lw.quantile("x", [0.5]),
        lw.mode("x"),
        lw.mode("x", sketch=True),
    ]
    digests = [windowed.agg(m=a).fingerprint(1)["digest"] for a in asked]
    assert all(a != b for a, b in itertools.combinations(digests, 2))
