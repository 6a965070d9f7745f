"""What share of a window's rows has arrived: learned from late degrees and counts."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.codec import decode, encode
from lowwater.control.completeness import Completeness
from lowwater.early.arrivals import MOST_BINS, Arrivals, ArrivalsMemory, Lateness, count_arrivals

SECOND = 1_000_000


def degrees_of(ticks):
    return np.maximum.accumulate(ticks) - ticks


def learned(arrivals, ticks, *, epochs=10, lag=None):
    """Advance through rows in arrival order; without `lag` there are no marks."""
    memory, degrees = arrivals.begin(), degrees_of(ticks)
    for part, late in zip(
        np.array_split(ticks, epochs), np.array_split(degrees, epochs), strict=True
    ):
        newest = max(memory.newest or 0, int(part.max()))
        low = None if lag is None else newest - lag
        memory = arrivals.advance(memory, [count_arrivals(part, late, arrivals.width)], low)
    return memory


bins = st.lists(
    st.tuples(st.integers(1, 50), st.floats(0, 1), st.floats(0, 100)), min_size=1, max_size=8
)


@given(bins, st.integers(-100, 300), st.integers(1, 200))
def test_completeness_is_the_sum_over_the_ticks_of_a_window(bins, start, length):
    widths, share, weight = (np.array(x) for x in zip(*bins, strict=True))
    edges = np.concatenate([[0], np.cumsum(widths)])
    arrived = Completeness(edges, share, weight, 0.7)
    ticks = np.arange(start, start + length)
    bin = np.searchsorted(edges, ticks, "right") - 1
    inside = (bin >= 0) & (bin < len(widths))
    at = np.clip(bin, 0, len(widths) - 1)
    expected = np.where(inside, weight[at] / widths[at], 0.7)
    there = np.where(inside, share[at], ticks < 0) * expected
    found = arrived.completeness([start], [start + length])[0]
    if expected.sum() > 1e-6:
        assert found == pytest.approx(there.sum() / expected.sum(), abs=1e-6)
    assert 0 <= found <= 1


@given(bins)
def test_arrived_survives_json(bins):
    widths, share, weight = (np.array(x) for x in zip(*bins, strict=True))
    edges = np.concatenate([[10**15], 10**15 + np.cumsum(widths)])
    before = Completeness(edges, share, weight, 0.5)
    after = Completeness.from_json(json.loads(json.dumps(before.to_json())))
    assert np.array_equal(after.edges, edges)
    windows = edges[:-1], edges[1:]
    assert after.completeness(*windows) == pytest.approx(before.completeness(*windows), abs=1e-4)


def test_a_landmark_window_that_began_before_all_time_is_mostly_there():
    first = np.iinfo(np.int64).min
    assert Completeness.until(0).completeness([first], [10])[0] == pytest.approx(1.0)


def test_where_no_rows_are_expected_time_alone_decides():
    arrived = Completeness(np.array([0, 10, 20]), np.array([1.0, 0.0]), np.zeros(2), 0.0)
    assert arrived.completeness([0, 30], [20, 40]).tolist() == [0.5, 0.0]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60), st.integers(0, 2 * 10**6))
def test_lateness_brackets_the_empirical_distribution(degrees, x):
    late = count_arrivals(np.zeros(len(degrees), np.int64), np.array(degrees), 1).late
    found = float(Lateness(late).below(x))
    # A bin is at most a quarter of its lower edge wide.
    assert np.mean(np.array(degrees) <= x / 1.25 - 1) - 1e-9 <= found
    assert found <= np.mean(np.array(degrees) <= 1.25 * x + 1) + 1e-9


def test_lateness_zero_is_a_bin_of_its_own():
    late = count_arrivals(np.zeros(4, np.int64), np.array([0, 0, 0, 1]), 1).late
    assert Lateness(late).below([-1, 0, 1]).tolist()[:2] == [0.0, 0.75]


@settings(max_examples=25)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.integers(1, 1000))
def test_mean_share_is_the_integral(degrees, start):
    lateness = Lateness(count_arrivals(np.zeros(len(degrees), np.int64), np.array(degrees), 1).late)
    fine = np.linspace(start, start + 1000, 4001)
    mean = lateness.mean_below(np.array([start]), np.array([start + 1000.0]))[0]
    assert mean == pytest.approx(np.mean(lateness.below(fine)), abs=2e-3)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 500), min_size=1, max_size=50), st.integers(1, 49))
def test_blocks_measured_apart_are_measured_together(ticks, cut):
    ticks = np.array(ticks)
    degrees = degrees_of(ticks)
    arrivals = Arrivals(10, 600)
    parts = [
        count_arrivals(t, d, 10)
        for t, d in ((ticks[:cut], degrees[:cut]), (ticks[cut:], degrees[cut:]))
    ]
    apart = arrivals.advance(arrivals.begin(), parts, None)
    together = arrivals.advance(arrivals.begin(), [count_arrivals(ticks, degrees, 10)], None)
    assert apart == together


def test_rows_in_order_need_nothing_but_the_rate():
    #  rows      . . . . . . . . . . .       one each second
    #  window              [20 ........ 30)  prodded at 25: half of it is there
    arrivals = Arrivals(SECOND, 30 * SECOND)
    memory = learned(arrivals, np.arange(25) * SECOND)
    found = arrivals.arrived(memory, 25 * SECOND).completeness([20 * SECOND], [30 * SECOND])
    assert found[0] == pytest.approx(0.5, abs=0.02)


def test_the_share_that_is_late_is_learned():
    rng = np.random.default_rng(1)
    times = np.sort(rng.integers(0, 400 * SECOND, 40_000))
    delay = np.where(rng.random(40_000) < 0.5, 0, rng.integers(0, 20 * SECOND, 40_000))
    arrivals = Arrivals(SECOND, 60 * SECOND)
    seen = times + delay <= 390 * SECOND
    order = np.argsort((times + delay)[seen], kind="stable")
    memory = learned(arrivals, times[seen][order], epochs=50)
    starts, ends = np.array([375, 380, 385]) * SECOND, np.array([380, 385, 390]) * SECOND
    found = arrivals.arrived(memory, 390 * SECOND).completeness(starts, ends)
    truth = [np.mean(seen[(times >= a) & (times < b)]) for a, b in zip(starts, ends, strict=True)]
    assert found == pytest.approx(truth, abs=0.05)


def test_rows_later_than_the_mark_are_not_waited_for():
    rng = np.random.default_rng(2)
    times = np.arange(20_000) * (SECOND // 50)
    delay = np.where(rng.random(20_000) < 0.8, 0, rng.integers(5, 40, 20_000) * SECOND)
    ticks = times[np.argsort(times + delay, kind="stable")]
    arrivals = Arrivals(SECOND, 30 * SECOND)
    window = [380 * SECOND], [390 * SECOND]
    strict = arrivals.arrived(learned(arrivals, ticks, epochs=400, lag=SECOND), 395 * SECOND)
    patient = arrivals.arrived(learned(arrivals, ticks, epochs=400), 395 * SECOND)
    assert strict.completeness(*window)[0] > 0.97
    assert patient.completeness(*window)[0] < 0.9


def test_a_lull_is_no_reason_to_expect_what_did_not_come():
    # Bursts of rows come at random: of a stretch that has passed empty nothing more is expected.
    rng = np.random.default_rng(3)
    ticks = np.repeat(np.arange(200), rng.geometric(0.02, 200) * rng.integers(0, 2, 200)) * SECOND
    arrivals = Arrivals(SECOND, 30 * SECOND)
    arrived = arrivals.arrived(learned(arrivals, ticks), 230 * SECOND)
    assert arrived.completeness([200 * SECOND], [235 * SECOND])[0] < 0.1
    assert arrived.weight[-20:].sum() < 20


def test_an_epoch_of_a_year_keeps_a_small_memory():
    rng = np.random.default_rng(4)
    ticks = np.sort(rng.integers(0, 365 * 86_400 * SECOND, 20_000))
    arrivals = Arrivals(SECOND, 600 * SECOND)
    degrees = rng.integers(0, 2**60, 20_000)
    block = count_arrivals(ticks, degrees, arrivals.width)
    assert len(block.counts) <= MOST_BINS
    memory = arrivals.advance(arrivals.begin(), [block] * 5, int(ticks[-1]))
    written = json.dumps(encode(memory))
    assert len(written) < 5_000
    assert decode(ArrivalsMemory, json.loads(written)) == memory
    assert len(json.dumps(arrivals.arrived(memory, int(ticks[-1])).to_json())) < 5_000


def test_without_rows_nothing_changes_and_a_step_is_said():
    arrivals = Arrivals(SECOND, 30 * SECOND)
    none = count_arrivals(np.zeros(0, np.int64), np.zeros(0, np.int64), SECOND)
    memory = arrivals.advance(arrivals.begin(), [none], None)
    assert memory == arrivals.begin()
    arrived = arrivals.arrived(memory, 15 * SECOND)
    assert arrived.completeness([0], [30 * SECOND]).tolist() == [0.5]


@pytest.mark.parametrize("width", [1, 4, 10])
@pytest.mark.parametrize(("size", "slide", "ahead"), [(30, 10, 5), (30, 30, 15)])
def test_counts_are_foretold_as_well_as_with_the_true_rate(width, size, slide, ahead):
    """PROD 4.4: geometric clusters of 20 rows each second, prodded in the middle of a slide."""
    counts = np.random.default_rng(5).geometric(0.05, 2_000)
    arrivals = Arrivals(width * SECOND, (size + slide) * SECOND)
    memory = arrivals.begin()
    found = []
    for now in range(len(counts)):
        end = now + ahead
        if end % slide == 0 and size <= end <= len(counts):
            window = [(end - size) * SECOND], [end * SECOND]
            there = arrivals.arrived(memory, now * SECOND).completeness(*window)[0]
            raw, final = counts[end - size : now].sum(), counts[end - size : end].sum()
            found.append(np.abs([raw, raw / there, raw + 20 * ahead] - final) / final)
        ticks = np.full(counts[now], now * SECOND)
        block = count_arrivals(ticks, np.zeros_like(ticks), arrivals.width)
        memory = arrivals.advance(memory, [block], now * SECOND)
    raw, ours, oracle = 1 - np.mean(found, axis=0)
    assert ours >= 0.98 * oracle
    assert ours > raw
