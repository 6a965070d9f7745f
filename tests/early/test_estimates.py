"""Early rows of a query: medians between the ends of their intervals, for any number of shards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

import lowwater as lw

SCHEMA = "ts timestamp, k int, v double, w decimal(9,2)"
START = datetime(2024, 1, 1, tzinfo=UTC)
AGGREGATES = {
    "n": lw.count(),
    "total": lw.sum("v"),
    "money": lw.sum("w"),
    "mean": lw.avg("v"),
    "top": lw.max("v"),
    "bottom": lw.min("v"),
    "kinds": lw.count_distinct("k2"),
    "last": lw.last("v"),
}


def epochs(windows, groups=5):
    """Rows that take a few seconds each, group 0 longer than the others; an epoch per second."""
    rng = np.random.default_rng(1)
    rows = 20 * 10 * windows
    when, key = rng.uniform(0, 10 * windows, rows), rng.zipf(1.6, rows) % groups
    value = rng.lognormal(2.0, 0.5, rows).round(2)
    arrived = when + rng.exponential(np.where(key == 0, 4.0, 1.0))
    made = [[] for _ in range(int(arrived.max()) + 1)]
    for i in np.argsort(arrived):
        ts = START + timedelta(seconds=float(when[i]))
        row = (ts, int(key[i]), float(value[i]), Decimal(f"{value[i]:.2f}"))
        made[int(arrived[i])].append(row)
    return made


def run(rows, shards=1, **words):
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack("8 seconds"))
    stream = stream.with_columns(k2="cast(v as int)")
    query = stream.window(range="10 seconds").group_by("k").agg(**AGGREGATES)
    clock = lw.VirtualClock(start=START.isoformat(), per_epoch="1 second")
    early = lw.early_before(0.1)
    return query.run(epochs={feed: rows}, early=early, clock=clock, shards=shards, **words)


def by_kind(outcome, kind):
    rows = [r for r in outcome.results.to_pylist() if r["kind"] == kind]
    return {(r["wid"], r["k"]): r for r in rows}


@pytest.fixture(scope="module")
def rows():
    return epochs(25)


@pytest.fixture(scope="module")
def outcome(rows):
    return run(rows)


def test_early_rows_lie_between_the_ends_of_their_intervals(rows, outcome):
    for answered in (outcome, run(rows, estimate="raw")):
        early = by_kind(answered, "early")
        assert len(early) > 80
        for row in early.values():
            for name in AGGREGATES:
                value = float(row[name])
                tiny = 1e-12 * abs(value)  # a decimal may differ from its double
                assert row["low"][name] <= value + tiny, (name, row)
                assert row["high"][name] >= value - tiny, (name, row)
                assert 0 <= row["settled"][name] <= 1


def test_finals_are_the_same_with_early_rows_and_have_no_intervals(outcome):
    finals = by_kind(outcome, "final")
    for row in finals.values():
        assert [row[name] for name in ("completeness", "low", "high", "settled")] == [None] * 4


def test_early_rows_do_not_depend_on_the_number_of_shards(rows, outcome):
    other = by_kind(run(rows, shards=3), "early")
    assert other == by_kind(outcome, "early")


def test_groups_that_are_later_are_estimated_by_their_own_lateness(outcome):
    early, final = (by_kind(outcome, kind) for kind in ("early", "final"))
    for group in (0, 1):
        mine = [c for c in early if c[1] == group and c[0] - min(early)[0] >= 8]
        bias = np.mean([early[c]["total"] / final[c]["total"] - 1 for c in mine])
        assert abs(bias) < 0.1, group


def test_intervals_hold_most_finals(outcome):
    early, final = (by_kind(outcome, kind) for kind in ("early", "final"))
    for name in AGGREGATES:
        held = [
            r["low"][name] <= float(final[c][name]) <= r["high"][name] for c, r in early.items()
        ]
        assert np.mean(held) >= 0.9 - 2 * np.sqrt(0.09 / 25), name
