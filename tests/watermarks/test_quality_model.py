"""What the quality models say, against joins and windows that are simulated row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.reference.qdj import Join, Pair, Windows
from experiments.reference.quality import Side, quality, quality_of_sides
from lowwater.watermarks.adaptive.join_model import (
    Band,
    free_losses,
    smallest_slack,
    smallest_slacks,
)
from lowwater.watermarks.adaptive.lateness import EDGES, EXACT, LatenessHistogram, late_degrees
from lowwater.watermarks.adaptive.quality_model import (
    OrderedJoinQuality,
    Port,
)

POINT = 0.01
SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(lambda s: np.array([1.0, *s]))
WINDOWS = st.integers(2, 40)
SEEDS = st.integers(0, 2**32 - 1)


def stream(random, shares, ticks, each):
    """Rows with a degree each, in order of arrival: on-time rows come first in their tick.

    Degrees are dealt out by their shares, ten ticks at a time, so that chance decides only who gets
    which, and little of it is left in the mean.
    """
    dealt = (np.arange(10 * each) + random.uniform(size=(ticks // 10, 1))) / (10 * each)
    dealt = random.permuted(dealt, axis=1).ravel()
    degree = np.searchsorted(np.cumsum(shares) / shares.sum(), dealt)
    degree[::each] = 0
    ts = np.repeat(np.arange(ticks), each) + 1
    return ts, degree


def measured(ts, degree):
    order = np.lexsort((degree, ts + degree))
    found = late_degrees(ts[order], None)
    # Of the last rows, late ones come when the newest time no longer moves.
    before_the_end = ts[order] <= ts.max() - 20
    assert (found == degree[order])[before_the_end].all()
    return LatenessHistogram.of(found[before_the_end], 1)


# -- late degrees --------------------------------------------------------------------------------


def test_histogram_is_merged_faded_and_read_back():
    a, b = LatenessHistogram.of([0, 0, 3], 1), LatenessHistogram.of([0, 5_000, 1 << 60], 1)
    assert (a + b).total == (b + a).total == 6
    assert LatenessHistogram.from_json((a + b).to_json()) == a + b
    assert (a + b).decayed(1e-12) == LatenessHistogram.none(1)
    assert LatenessHistogram.none(1).cdf(0) == 1
    assert len(EDGES) < 3 * EXACT


@given(st.lists(st.integers(0, 10**7), max_size=40), st.integers(1, 1000))
def test_no_row_counts_as_less_late_than_it_is(degrees, granule):
    late = LatenessHistogram.of(degrees, granule)
    for most in (0, 1, 7, 1_023, 1_024, 5_000):
        true = np.mean([d <= most * granule for d in degrees]) if degrees else 1
        assert late.cdf(most) <= true + 1e-12
        assert most > EXACT or late.cdf(most) == pytest.approx(true)


# -- joins in order of time ----------------------------------------------------------------------


def test_worked_example_is_exact():
    late = LatenessHistogram(1, np.array([0.6, 0.2, 0.1, 0.1]))
    assert quality(late, late, 3, 2, 0) == pytest.approx(0.465, abs=1e-15)


@given(SHARES, SHARES, WINDOWS, WINDOWS, st.integers(0, 8), st.integers(-6, 6))
def test_slack_of_a_join_in_order_of_time_is_chosen_by_the_model_of_the_thesis(
    p, q, w_a, w_b, slack, lag
):
    degrees = [LatenessHistogram(1, np.asarray(shares)) for shares in (p, q)]
    ahead = max(lag, 0), max(-lag, 0)
    ports = [Port(d, ahead=float(a)) for d, a in zip(degrees, ahead, strict=True)]
    pairs = OrderedJoinQuality((1.0 - w_b, w_a - 1.0))
    expected = quality(*degrees, w_a, w_b, slack, lag=lag)
    assert pairs.estimate(ports, [slack, slack]) == pytest.approx(expected, rel=1e-12)
    # More slack for the stream that is ahead changes nothing until it is no longer ahead.
    more = [slack + a for a in ahead]
    assert pairs.estimate(ports, more) == pytest.approx(expected, rel=1e-12)


@given(SHARES, SHARES, WINDOWS, WINDOWS, st.integers(0, 8), st.integers(-6, 6), SEEDS)
def test_estimate_is_within_a_point_of_the_join(p, q, w_a, w_b, slack, lag, seed):
    random, ticks = np.random.default_rng(seed), 300
    sides = [stream(random, shares, ticks, 12) for shares in (p, q)]
    ts, degree = (np.concatenate(both) for both in zip(*sides, strict=True))
    whose = np.repeat(np.array([0, 1], np.int8), len(ts) // 2)
    order = np.lexsort((degree > 0, ts + degree - lag * (whose == 0)))
    join = Join(Windows((w_a, w_b), 1), ticks)
    join.feed(Pair(ts[order], whose[order]), (slack, slack))
    join.settle()
    since, until = 45, ticks - 25
    given = join.given[since:until].sum() / join.wanted(since, until).sum()
    degrees = [measured(*side) for side in sides]
    assert quality(*degrees, w_a, w_b, slack, lag=lag) == pytest.approx(given, abs=POINT)


@given(SHARES, SHARES, SHARES, st.tuples(WINDOWS, WINDOWS, WINDOWS), st.integers(0, 8), SEEDS)
def test_three_streams_lose_what_the_model_says(p, q, r, windows, slack, seed):
    random, ticks = np.random.default_rng(seed), 300
    sides = [stream(random, shares, ticks, 40) for shares in (p, q, r)]
    t = np.arange(60, ticks - 25)

    def combinations(wait):
        """All ways to take a row of each window at t, at least one of them new, if it is there."""
        whole, old = 1.0, 1.0
        for (ts, degree), window in zip(sides, windows, strict=True):
            rows = np.zeros((ticks + 1, 20))
            np.add.at(rows, (ts, degree), 1)
            upto = np.cumsum(rows, axis=1)
            there = [upto[t - age, min(age + wait, 19)] for age in range(window)]
            whole, old = whole * sum(there), old * sum(there[1:])
        return float((whole - old).sum())

    found = combinations(slack) / combinations(20)
    said = [Side(measured(*s), w) for s, w in zip(sides, windows, strict=True)]
    assert quality_of_sides(said, slack) == pytest.approx(found, abs=POINT)


# -- joins in any order --------------------------------------------------------------------------


def free_quality(degrees, other_degrees, band, slack):
    mine, other = free_losses(degrees, other_degrees, band, slack)
    return 1.0 - mine - other


def free(sides, band, slacks, lag, epoch, key=None):
    """Return the share of pairs that the later row finds, and whose fault the others are."""
    (a, da), (b, db) = sides
    at_a, at_b = a + da - lag, b + db
    # The mark in force is that of the epoch before.
    marks = [
        (at // epoch) * epoch - 1 + shift - k
        for at, shift, k in ((at_a, lag, slacks[0]), (at_b, 0, slacks[1]))
    ]
    x = b - a[:, None]
    pairs = (x >= band[0]) & (x <= band[1]) & (a[:, None] > 30) & (a[:, None] < a.max() - 30)
    if key is not None:
        pairs &= key[0][:, None] == key[1]
    within = np.random.default_rng(1).uniform(-0.5, 0.5, len(b))  # of their tick
    b_later = at_b + within > at_a[:, None]
    by_b = pairs & b_later & (marks[1] > a[:, None] + band[1])
    by_a = pairs & ~b_later & (marks[0][:, None] > b - band[0])
    return 1 - (by_a.sum() + by_b.sum()) / pairs.sum()


@given(
    SHARES,
    SHARES,
    st.tuples(st.integers(-12, 0), st.integers(1, 12)),
    st.integers(0, 6),
    st.integers(-5, 5),
    st.sampled_from([None, 8]),
    SEEDS,
)
def test_free_order_loses_what_the_later_row_does_not_find(p, q, band, slack, lag, keys, seed):
    # With keys only one pair in eight matches: the estimate does not ask how many do.
    random = np.random.default_rng(seed)
    sides = [stream(random, shares, 200, 10) for shares in (p, q)]
    key = None if keys is None else [random.integers(0, keys, len(s[0])) for s in sides]
    found = free(sides, band, (slack, slack), lag, 1, key)
    said = free_quality(*(measured(*s) for s in sides), Band(*band, lag, epoch=1), slack)
    assert said == pytest.approx(found, abs=POINT if keys is None else 3 * POINT)


def test_mark_that_lags_by_the_epoch_loses_less():
    random = np.random.default_rng(7)
    late = np.array([5.0, 1, 1, 1, 1, 1, 1, 1, 1])
    sides = [stream(random, late, 400, 4) for _ in range(2)]
    degrees = [measured(*s) for s in sides]
    for epoch in (1, 4, 8):
        said = free_quality(*degrees, Band(-20, 20, 0, (epoch + 1) / 2), 0)
        assert said == pytest.approx(free(sides, (-20, 20), (0, 0), 0, epoch), abs=POINT)


def test_slack_for_each_side_pays_where_one_is_late():
    late = LatenessHistogram(1, np.array([50.0, *[1.0] * 50]))
    calm = LatenessHistogram.of([0] * 99 + [1], 1)
    band = Band(-10, 10)

    def lost(which):
        return lambda k: free_losses(late, calm, band, k)[which]

    mine, other = smallest_slacks(0.05, lambda k: free_losses(late, calm, band, k), 60)
    both = smallest_slack(0.95, lambda k: free_quality(late, calm, band, k), limit=60)
    assert lost(0)(mine) + lost(1)(other) <= 0.05
    assert other < mine / 10
    assert mine + other < 0.6 * (2 * both)
    assert smallest_slacks(0.0, lambda k: (0.1 + 0 * k, lost(1)(k)), 60) == (60, 60)


def test_free_order_of_the_worked_example():
    late = LatenessHistogram(1, np.array([0.6, 0.2, 0.1, 0.1]))
    assert free_quality(late, late, Band(-1, 2), 0) == pytest.approx(0.6725)
    assert free_quality(late, late, Band(-1, 2), 3) == 1.0


# -- slack and aggregates ------------------------------------------------------------------------


@given(SHARES, st.floats(0, 1), st.integers(1, 4))
def test_smallest_slack_is_what_counting_up_finds(shares, target, step):
    late = LatenessHistogram(1, shares)

    def quality_of(k):
        return quality(late, late, 5, 9, k)

    found = smallest_slack(target, quality_of, step, 40)
    counted = next((k for k in range(0, 40, step) if quality_of(k) >= target), 40)
    assert found == counted
