"""Finals equal the oracle, whatever the windows, groups, disorder and cut into epochs."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.reference.windows import Near, Slack, Windows, same, simulate
from tests.run_query import aggregates, assert_finals, finals, run
from tests.strategies import (
    KEYS,
    NAMED,
    SCHEMA,
    any_windows,
    cuts,
    disorder,
    examples,
    rows,
    sliding,
)

keys = st.permutations(KEYS).flatmap(lambda k: st.integers(0, 3).map(lambda n: tuple(k[:n])))


@examples(250)
@given(st.data(), any_windows(), rows(), keys, st.integers(1, 3))
def test_finals_equal_the_oracle_when_slack_covers_the_disorder(data, windows, stream, by, shards):
    epochs = data.draw(cuts(stream))
    span = disorder(stream)
    outcome = run(SCHEMA, epochs, windows, lw.slack(span), aggregates(NAMED), by, shards=shards)
    story = simulate(epochs, windows, Slack(span))
    assert story.counts["late"] == story.counts["partly_late"] == 0
    assert_finals(outcome, story, windows, by, NAMED)


@examples(150)
@given(st.data(), any_windows(), rows(), st.integers(0, 20), keys)
def test_finals_equal_the_oracle_when_rows_are_late(data, windows, stream, span, by):
    epochs = data.draw(cuts(stream))
    outcome = run(SCHEMA, epochs, windows, lw.slack(span), aggregates(NAMED), by)
    story = simulate(epochs, windows, Slack(span))
    assert_finals(outcome, story, windows, by, NAMED)


@examples(60)
@given(st.data(), any_windows(), rows())
def test_any_cut_into_epochs_gives_the_same_finals_when_no_row_is_late(data, windows, stream):
    progress, by = lw.slack(disorder(stream)), ("b",)
    whole = finals(run(SCHEMA, [stream], windows, progress, aggregates(NAMED), by), by)
    cut = data.draw(cuts(stream))
    parts = finals(run(SCHEMA, cut, windows, progress, aggregates(NAMED), by), by)
    assert whole.keys() == parts.keys()
    for cell, row in whole.items():
        for name, value in row.items():
            near = Near(value, 1e7) if isinstance(value, float) else value
            assert same(near, parts[cell][name]), (cell, name)


@examples(40)
@given(rows(size=25), sliding(), st.integers(2, 7))
def test_results_do_not_depend_on_the_number_of_shards(stream, windows, shards):
    progress = lw.slack(disorder(stream))
    one = run(SCHEMA, [stream, []], windows, progress, aggregates(NAMED), KEYS, shards=1)
    many = run(SCHEMA, [stream, []], windows, progress, aggregates(NAMED), KEYS, shards=shards)
    left, right = finals(one, KEYS), finals(many, KEYS)
    assert left.keys() == right.keys()
    assert all(repr(left[c]) == repr(right[c]) for c in left)


@examples(50)
@given(st.data(), sliding(gaps=False), rows(size=25))
def test_closing_many_windows_at_once_equals_closing_one_by_one(data, windows, stream):
    # All rows come in epoch 0. Either the end of the stream closes all windows together, or a
    # punctuation per tick closes them one after the other.
    marked = "t bigint, i bigint, x double, s string, last boolean"
    pick = ("i", "x", "s")
    given_rows = [(r["t"], *(r[c] for c in pick), False) for r in stream]
    named = aggregates({n: a for n, a in NAMED.items() if a[1] in (None, *pick)})
    newest = max((r["t"] for r in stream), default=0)
    oldest = min((r["t"] for r in stream), default=0)
    ticks = range(oldest, newest + windows.range + 1)
    punctuations = [[(t, None, None, None, True)] for t in ticks]
    progress = lw.punctuated("last")
    at_once = run(marked, [given_rows], windows, progress, named)
    one_by_one = run(marked, [given_rows, *punctuations], windows, progress, named)
    left, right = finals(at_once), finals(one_by_one)
    assert left.keys() == right.keys()
    for cell, row in left.items():
        for name, value in row.items():
            near = Near(value, 1e7) if isinstance(value, float) else value
            assert same(near, right[cell][name]), (cell, name)


@examples(80)
@given(st.data(), any_windows(), rows(size=25), st.integers(1, 30))
def test_closing_in_slices_of_any_size_equals_the_oracle(data, windows, stream, cells):
    # Windows are closed in slices to bound memory; where a slice ends must not show.
    epochs, span = data.draw(cuts(stream)), disorder(stream)
    named = {n: NAMED[n] for n in ("n", "sum_x", "min_s", "last_d")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lowwater.operators.window.close.GRID_CELLS", cells)
        outcome = run(SCHEMA, epochs, windows, lw.slack(span), aggregates(named), ("a",))
    story = simulate(epochs, windows, Slack(span))
    assert_finals(outcome, story, windows, ("a",), named)


@pytest.mark.parametrize("poison", [1e300, -1e300, math.nan, math.inf, 1.7976931348623157e308])
@pytest.mark.parametrize(("size", "slide"), [(10, 10), (12, 3), (10, 4)])
def test_a_poisonous_value_does_not_outlive_its_windows(poison, size, slide):
    #  x   .1  .1  .1 POISON .1  .1  .1  .1 …     one row per tick; windows that do not
    #  t    0   1   2  …  40  41  42  …           hold t = 40 must not know of it
    stream = [(t, poison if t == 40 else 0.1) for t in range(120)]
    epochs = [stream[:35], stream[35:50], stream[50:]]
    named = {"total": lw.sum("x"), "mean": lw.avg("x"), "spread": lw.variance("x")}
    windows = Windows(size, slide)
    outcome = run("t bigint, x double", epochs, windows, lw.ordered(), named)
    clean = {w: r for (w,), r in finals(outcome).items() if not 40 - size < w * slide <= 40}
    assert len(clean) > 120 // slide - size
    for wid, row in clean.items():
        held = [x for t, x in stream if windows.start(wid) <= t < windows.end(wid)]
        assert row["total"] == pytest.approx(math.fsum(held), rel=1e-12)
        assert row["mean"] == pytest.approx(0.1, rel=1e-12)
        assert row["spread"] is None or row["spread"] == pytest.approx(0, abs=1e-25)


def test_two_overflows_in_one_window_are_an_infinity_and_not_an_error():
    stream = [(1, 1.7e308), (2, 1.7e308), (12, 1.0)]
    outcome = run("t bigint, x double", [stream], Windows(10, 10), lw.ordered(), {"s": lw.sum("x")})
    assert [r["s"] for r in outcome.results.to_pylist()] == [math.inf, 1.0]


def test_windows_at_the_start_are_there_although_they_begin_before_the_first_row():
    #  rows              7
    #  windows  [-2, 8) [0, 10) [2, 12) [4, 14) [6, 16)     range 10, slide 2
    outcome = run("t bigint", [[(7,)]], Windows(10, 2), lw.ordered(), {"n": lw.count()})
    starts = [r["window"]["start"] for r in outcome.results.to_pylist()]
    assert sorted(starts) == [-2, 0, 2, 4, 6]


def test_a_window_without_a_row_has_no_result():
    outcome = run("t bigint", [[(1,), (55,)]], Windows(10, 10), lw.ordered(), {"n": lw.count()})
    assert sorted(r["wid"] for r in outcome.results.to_pylist()) == [0, 5]


def test_the_result_schema_is_the_one_the_query_names():
    feed = lw.feed("ts timestamp, g string, x double")
    query = (
        lw.stream(feed, time="ts", watermark=lw.ordered())
        .window(range="1 minute")
        .group_by("g")
        .agg(n=lw.count(), top=lw.max("x"))
    )
    found = query.run(epochs={feed: []}).results
    assert found.schema == query.schema
    bounds = pa.timestamp("us", "UTC")
    assert query.schema.field("window").type == pa.struct([("start", bounds), ("end", bounds)])
    assert query.schema.names == ["window", "wid", "g", "n", "top", "kind"]


def test_a_large_stream_equals_numpy():
    # 200,000 rows, 500 groups, sliding 60 by 1: more than one slice of the closing grid.
    rng = np.random.default_rng(7)
    n = 200_000
    t = np.sort(rng.integers(0, 400, n)) - rng.integers(0, 5, n)
    g, x = rng.integers(0, 500, n), rng.integers(-1000, 1000, n)
    table = pa.table({"t": t, "g": g, "x": x})
    epochs = [table.slice(i, 50_000) for i in range(0, n, 50_000)]
    feed = lw.feed("t bigint, g bigint, x bigint")
    query = (
        lw.stream(feed, time="t", watermark=lw.slack(5))
        .window(range=60, slide=1)
        .group_by("g")
        .agg(n=lw.count(), total=lw.sum("x"), top=lw.max("x"))
    )
    found = query.run(epochs={feed: epochs}, host="local").results
    grid = np.zeros((500, 600), np.int64)
    total = np.zeros((500, 600), np.int64)
    np.add.at(grid, (g, t + 100), 1)
    np.add.at(total, (g, t + 100), x)
    tops = np.full((500, 600), -(10**9))
    np.maximum.at(tops, (g, t + 100), x)
    group, wid = found["g"].to_numpy(), found["wid"].to_numpy()
    counted = np.zeros((500, 600), np.int64)
    for back in range(60):
        counted[:, : 600 - back] += grid[:, back:]
    assert len(found) == int((counted > 0).sum())
    sample = rng.choice(len(found), 2_000, replace=False)
    for i in sample:
        held = slice(wid[i] + 100, wid[i] + 160)
        assert found["n"][i].as_py() == grid[group[i], held].sum()
        assert found["total"][i].as_py() == total[group[i], held].sum()
        assert found["top"][i].as_py() == tops[group[i], held].max()
