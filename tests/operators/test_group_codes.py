"""Groups: any number of columns of any hashable type, NULL among them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.operators.group_codes import group_rows, shard_of
from tests.reference.windows import Slack, Windows, normal, simulate
from tests.run_query import assert_finals, finals, run
from tests.strategies import examples

COUNT = {"n": lw.count()}
NAMED = {"n": ("count", None)}
KINDS = {
    "boolean": [True, False],
    "tinyint": [-128, 127, 0],
    "int": [-(2**31), 2**31 - 1, 0],
    "bigint": [-(2**63), 2**63 - 1, 0, 2**53 + 1, 2**53],
    "float": [0.0, -0.0, math.nan, math.inf, 1.5],
    "double": [0.0, -0.0, math.nan, -math.inf, 1e-300, 0.1],
    "string": ["", "a", "A", "ä", "a ", "None", "\x00", "😀"],
    "binary": [b"", b"a", b"\x00", b"\xff"],
    "date": [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)],
    "timestamp": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1970, 1, 1), datetime(1900, 1, 1)],  # noqa: DTZ001
    "decimal(38, 3)": [Decimal("0.000"), Decimal("9" * 35 + ".999"), Decimal("-0.001")],
    "array<int>": [[], [1], [1, 2], [2, 1], [None]],
    "array<double>": [[0.0], [-0.0], [math.nan], [1.0, None]],
    "struct<a: int, b: string>": [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 1, "b": None}],
    "struct<a: array<struct<b: double>>>": [{"a": [{"b": 0.0}]}, {"a": [{"b": -0.0}]}, {"a": []}],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_may_be_of_any_type_and_null(kind):
    values = [*KINDS[kind], None]
    stream = [{"t": n, "g": v} for n, v in enumerate(values * 3)]
    epochs = [stream[: len(values)], stream[len(values) :]]
    outcome = run(f"t bigint, g {kind}", epochs, Windows(1000, 1000), lw.slack(99), COUNT, ("g",))
    story = simulate(epochs, Windows(1000, 1000), Slack(99))
    assert_finals(outcome, story, Windows(1000, 1000), ("g",), NAMED)


@examples(60)
@given(st.data(), st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=4))
def test_groups_of_several_columns_equal_the_oracle(data, kinds):
    names = [f"g{i}" for i in range(len(kinds))]
    values = st.tuples(*(st.none() | st.sampled_from(KINDS[k]) for k in kinds))
    drawn = data.draw(st.lists(st.tuples(st.integers(0, 30), values), max_size=20))
    stream = [{"t": t, **dict(zip(names, v, strict=True))} for t, v in drawn]
    schema = ", ".join(["t bigint", *(f"{n} {k}" for n, k in zip(names, kinds, strict=True))])
    windows = Windows(10, 4)
    epochs = [stream[::2], stream[1::2]]
    outcome = run(schema, epochs, windows, lw.slack(99), COUNT, names, shards=3)
    story = simulate(epochs, windows, Slack(99))
    assert_finals(outcome, story, windows, names, NAMED)


def test_pairs_of_columns_are_not_confused():
    rows = [(0, "a", "b"), (0, "ab", ""), (0, "", "ab"), (0, None, "ab"), (0, "ab", None)]
    outcome = run(
        "t bigint, g string, h string", [rows], Windows(10, 10), lw.ordered(), COUNT, ("g", "h")
    )
    assert len(outcome.results) == 5


def test_without_a_group_by_all_rows_are_one_group():
    outcome = run("t bigint, g int", [[(0, 1), (1, 2)]], Windows(10, 10), lw.ordered(), COUNT)
    assert [r["n"] for r in outcome.results.to_pylist()] == [2]
    assert outcome.results.column_names == ["window", "wid", "n", "kind"]


def test_group_columns_keep_their_types_and_order():
    outcome = run(
        "t bigint, a int, b decimal(5, 2), c date",
        [[(0, 1, Decimal("1.50"), date(2024, 1, 1))]],
        Windows(10, 10), lw.ordered(), COUNT, ("c", "a", "b"),
    )  # fmt: skip
    assert outcome.results.column_names == ["window", "wid", "c", "a", "b", "n", "kind"]
    assert outcome.results.schema.field("b").type == pa.decimal128(5, 2)


def test_the_time_column_may_be_a_group():
    outcome = run("t bigint", [[(1,), (1,), (2,)]], Windows(10, 10), lw.ordered(), COUNT, ("t",))
    assert {c: r["n"] for c, r in finals(outcome, ("t",)).items()} == {(0, 1): 2, (0, 2): 1}


@given(st.lists(st.sampled_from([None, 0, 1, 2**62, -(2**62), 7]), min_size=1, max_size=30))
def test_codes_tell_equal_values_from_different_ones(values):
    codes, chosen = group_rows([pa.array(values, pa.int64())], len(values))
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            assert (codes[i] == codes[j]) == (a == b)
    assert [values[c] for c in chosen] == [
        values[codes.tolist().index(g)] for g in range(len(chosen))
    ]


def test_equal_groups_go_to_the_same_shard_wherever_they_are():
    values = pa.array(["a", "b", None, "a", "c"] * 100)
    shards = shard_of([values], len(values), 7)
    by_value = {}
    for value, shard in zip(values.to_pylist(), shards.tolist(), strict=True):
        assert by_value.setdefault(value, shard) == shard
    # Written down: a checkpoint must find its groups again under every version and process.
    assert (
        shard_of([pa.array(["a", "b", "c", None])], 4, 64).tolist()
        == shard_of([pa.array(["a", "b", "c", None])], 4, 64).tolist()
    )


def test_groups_are_spread_over_the_shards():
    keys = pa.array(np.arange(10_000))
    counts = np.bincount(shard_of([keys], 10_000, 8), minlength=8)
    assert counts.min() > 1_000


def test_pandas_categories_are_groups_of_text():
    table = pa.table({"t": [1, 2, 3], "g": pa.array(["a", "b", "a"]).dictionary_encode()})
    feed = lw.feed("t bigint, g string")
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).group_by("g")
    outcome = query.agg(**COUNT).run(epochs={feed: [table]})
    assert {c: r["n"] for c, r in finals(outcome, ("g",)).items()} == {(0, "a"): 2, (0, "b"): 1}


def test_normal_groups_of_the_oracle_are_what_spark_calls_equal():
    assert normal(-0.0) == normal(0.0)
    assert normal(math.nan) == normal(float("nan"))
    assert normal([math.nan]) == normal([math.nan])
    assert normal(None) is None
