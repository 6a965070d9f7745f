"""The parts of the soak that judge: the slope, the verdict, and the comparison of results."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from bench.soak.oracle import compare
from bench.soak.query import build
from bench.soak.report import latencies
from bench.soak.stream import MAX_DELAY_S, RATES, TICK_S, all_rows, rows
from bench.soak.trend import Trend, theil_sen, trend

HOURS = np.linspace(0, 1, 241)


def test_outliers_do_not_bend_the_line():
    values = 3 * HOURS + 5
    values[::7] = 1_000
    assert theil_sen(HOURS, values) == pytest.approx(3)


def test_the_slope_is_in_percent_of_the_level_per_hour():
    found = trend("x", HOURS, 100 + 20 * (HOURS - 2 / 3), limit=10)
    assert (found.level, found.percent) == (pytest.approx(100, 0.01), pytest.approx(20, 0.01))
    assert found.verdict == "grows"


def test_the_warm_up_does_not_count():
    values = np.where(HOURS < 0.3, 1_000 * HOURS, 300)
    assert trend("x", HOURS, values, limit=10).percent == 0
    assert trend("x", HOURS, values, limit=10).verdict == "flat"


def test_a_saw_of_ten_minutes_is_flat_and_a_trend_under_it_is_found():
    saw = 100 * ((HOURS * 6 + 0.3) % 1)
    assert trend("x", HOURS, saw, limit=10).percent == pytest.approx(0, abs=2)
    assert trend("x", HOURS, saw + 50 * HOURS, limit=10).verdict == "grows"


@pytest.mark.parametrize(
    ("percent", "hours", "verdict"),
    [
        (9.9, 1.0, "flat"),
        (-9.9, 1.0, "flat"),
        (10.1, 1.0, "grows"),
        (-10.1, 1.0, "falls"),
        (900.0, 0.1, "too short"),
    ],
)
def test_verdicts(percent, hours, verdict):
    assert Trend("x", 1.0, percent, 10.0, hours).verdict == verdict


def test_a_long_series_has_the_slope_of_all_its_points():
    hours = np.linspace(0, 24, 8_641)
    assert trend("x", hours, 50 + hours, limit=10).percent == pytest.approx(100 / 66, 0.02)


def test_a_series_of_zeros_is_flat():
    assert trend("x", HOURS, np.zeros(241), limit=10).verdict == "flat"


def test_a_minute_has_the_percentiles_of_its_epochs():
    ends = np.arange(0, 180, 0.5)
    took = np.where(ends < 60, 0.1, 0.2)
    found = latencies(np.column_stack([1_000 + ends, took]), 1_000)
    assert found["p95"] == ([0.5 / 60, 1.5 / 60], [pytest.approx(100), pytest.approx(200)])


@pytest.mark.parametrize("stream", RATES)
def test_rows_of_a_tick_are_always_the_same_and_never_later_than_the_bound(stream):
    for tick in (0, 7, 119):
        table = rows(stream, tick, 10**15)
        assert table == rows(stream, tick, 10**15)
        times = table["ts"].cast("int64").to_numpy() - 10**15
        assert times.max() < (tick + 1) * TICK_S * 1e6
        assert times.min() >= (tick * TICK_S - MAX_DELAY_S) * 1e6


def test_results_are_compared_row_by_row(tmp_path):
    began, ticks = 1_700_000_000_000_000, range(30)
    for stream in RATES:
        (tmp_path / "in" / stream).mkdir(parents=True)
        for tick in ticks:
            path = tmp_path / "in" / stream / f"{tick:03d}.parquet"
            pq.write_table(rows(stream, tick, began), path)
    out = tmp_path / "out"
    sinks = {name: lw.to_parquet(out / name) for name in ("windows", "pairs")}
    build(tmp_path).run(host="local", sinks=sinks, early=lw.early_every("5 seconds"))
    given = [all_rows(stream, ticks, began) for stream in ("views", "clicks")]

    def found():
        return {one.output: one for one in compare(*given, out, watermark=1e18)}

    assert all(one.equal for one in found().values())
    lost = next(iter((out / "pairs").glob("*.parquet")))
    pairs = pq.read_table(lost)
    pq.write_table(pairs.slice(1), lost)
    assert (found()["pairs"].missing, found()["pairs"].wrong) == (1, 0)
    pq.write_table(pairs.take([0, *range(len(pairs))]), lost)
    assert (found()["pairs"].missing, found()["pairs"].wrong) == (0, 1)
    changed = max((out / "windows").glob("*.parquet"))
    windows = pq.read_table(changed)
    more = windows.set_column(windows.column_names.index("n"), "n", [[9] * len(windows)])
    pq.write_table(more, changed)
    assert found()["windows"].wrong > 0
