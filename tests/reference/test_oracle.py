"""The oracle is judged, too: by DuckDB on complete data, and by hand where time matters."""

from __future__ import annotations

import math
import random

import duckdb
import pyarrow as pa
import pytest

from tests.reference.windows import AGGREGATES, Near, RowSlack, Slack, Windows, same, simulate

NAMED = {
    "n": ("count", None),
    "n_x": ("count", "x"),
    "total": ("sum", "i"),
    "mean": ("avg", "x"),
    "lo": ("min", "x"),
    "hi": ("max", "x"),
    "spread": ("variance", "x"),
    "dev": ("stddev", "x"),
    "top": ("max", "s"),
}
SQL = """
    SELECT w.wid, r.g, count(*) n, count(x) n_x, sum(i)::bigint total, avg(x) mean, min(x) lo,
           max(x) hi, var_samp(x) spread, stddev_samp(x) dev, max(s) top
    FROM rows r, (SELECT unnest(generate_series(-100, 100)) AS wid) w
    WHERE r.t >= {origin} + w.wid * {slide} AND r.t < {origin} + w.wid * {slide} + {range}
    GROUP BY w.wid, r.g
"""


@pytest.mark.parametrize(
    "windows",
    [Windows(10, 10), Windows(10, 3), Windows(7, 5, 2), Windows(3, 11, -4), Windows(1, 1)],
    ids=str,
)
def test_finals_equal_duckdb(windows):
    rng = random.Random(4)
    stream = [
        {
            "t": rng.randrange(-60, 60),
            "g": rng.choice([None, "a", "b"]),
            "i": rng.choice([None, rng.randrange(-99, 99)]),
            "x": rng.choice([None, rng.uniform(-5, 5)]),
            "s": rng.choice([None, "a", "b", "ä"]),
        }
        for _ in range(200)
    ]
    kinds = [("t", pa.int64()), ("g", pa.string()), ("i", pa.int64()), ("x", pa.float64())]
    rows = pa.Table.from_pylist(stream, pa.schema([*kinds, ("s", pa.string())]))
    with duckdb.connect() as db:
        db.register("rows", rows)
        text = SQL.format(origin=windows.origin or 0, slide=windows.slide, range=windows.range)
        found = db.sql(text).to_arrow_table().to_pylist()
    expected = simulate([stream], windows, Slack(0)).finals(("g",), NAMED)
    assert {(r["wid"], r["g"]) for r in found} == expected.keys()
    for row in found:
        for name, value in expected[(row["wid"], row["g"])].items():
            assert same(value, row[name]), (row, name, value)


def test_landmark_windows_by_hand():
    #  rows 3, 25     (…, 10) holds 3, (…, 20) holds 3, (…, 30) holds both
    story = simulate([[{"t": 3}, {"t": 25}]], Windows(None, 10), Slack(0))
    assert story.finals((), {"n": ("count", None)}) == {
        (0,): {"n": 1},
        (1,): {"n": 1},
        (2,): {"n": 2},
    }


def test_lateness_by_hand():
    #  epoch  0     1     2         a mark decided after 0 closes at the end of 1
    #  rows   25    3     4
    story = simulate([[{"t": 25}], [{"t": 3}], [{"t": 4}]], Windows(10, 10), Slack(0))
    assert [(late.row["t"], late.degree, late.first) for late in story.late] == [(4, 21, 0)]
    strict = simulate(
        [[{"t": 25}], [{"t": 3}], [{"t": 4}]], Windows(10, 10), Slack(0), consistent=True
    )
    assert [late.row["t"] for late in strict.late] == [3, 4]


def test_slack_in_rows_by_hand():
    rule = RowSlack(2)
    rule.after([{"t": 10}, {"t": 20}])
    assert rule.mark({}) == -math.inf
    rule.after([{"t": 5}])
    assert rule.mark({}) == 10


def test_the_future_by_hand():
    story = simulate([[{"t": 10}], [{"t": 21}, {"t": 20}]], Windows(10, 10), Slack(0), max_ahead=10)
    assert story.malformed == [{"t": 21}]


def test_a_wrong_answer_is_told_from_a_right_one():
    assert same(Near(1.0, 1.0), 1.0 + 1e-10)
    assert not same(Near(1.0, 1.0), 1.0 + 1e-8)
    assert not same(Near(1.0, 1.0), None)
    assert not same(Near(math.nan, 1.0), 1.0)
    assert same(Near(math.nan, 1.0), math.nan)
    assert same(math.nan, math.nan)
    assert not same(None, 0)
    assert not same(1, 1.0)
    assert not same(1, True)
    assert same("a", "a")


def test_every_aggregate_passes_over_null():
    for name, function in AGGREGATES.items():
        assert function([None, None]) == (0 if name == "count" else None)
