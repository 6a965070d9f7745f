"""What experiments on early results are made of: marks, moments, queues, intervals."""

from __future__ import annotations

import numpy as np
import pytest

import lowwater as lw
from experiments.prod import aggressiveness, i1, p2, p4
from experiments.prod.intervals import FEWEST, judge, plain, score
from experiments.streams import recordings as recorded
from experiments.streams.prods import Answers, Ask, Moments, Play, Rows

SECOND = 1_000_000
TENS = Ask(10 * SECOND, 10 * SECOND, {"n": lw.count(), "s": lw.sum("v")})


def at(*seconds):
    return (np.array(seconds) * SECOND).astype(np.int64)


#  arrival   1   4   7   11  12  21        windows [0, 10), [10, 20)
#  time      1   4   7   8   12  21
#                        └ late: the mark for 10 comes after it, with the row of 12
STREAM = Rows.of(at(1, 4, 7, 8, 12, 21), at(1, 4, 7, 11, 12, 21), v=np.arange(6.0))


def test_mark_comes_with_the_first_row_past_it():
    marks, arrived = STREAM.mark_arrivals(at(10, 20, 30))
    assert (marks // SECOND).tolist() == [10, 20]
    assert (arrived // SECOND).tolist() == [12, 21]


def test_mark_waits_for_the_last_row_before_it():
    rows = Rows.of(at(1, 12, 8), at(1, 12, 14), v=np.zeros(3))
    assert (rows.mark_arrivals(at(10))[1] // SECOND).tolist() == [14]


def test_window_is_answered_with_what_had_arrived_and_closed_by_its_mark():
    play, asks = Play.asked(STREAM, TENS, 4 * SECOND)
    found = play.run(asks, "raw")
    assert (found.ends // SECOND).tolist() == [10, 20]
    assert found.early["n"].tolist() == [2, 1]  # of [0, 10) at 6.0; of [10, 20) at 16.0
    assert found.final["n"].tolist() == [4, 1]
    assert found.final["s"].tolist() == [6, 4]
    assert (found.early_at / SECOND).tolist() == [6, 16]
    assert (found.finally_at // SECOND).tolist() == [12, 21]
    assert (found.first // SECOND).tolist() == [1, 12]
    assert found.full.tolist() == [False, True]


def test_accuracy_gain_and_latency_are_those_of_the_paper():
    play, asks = Play.asked(STREAM, TENS, 4 * SECOND)
    found = play.run(asks, "raw")
    assert found.accuracy("n", full=False).tolist() == [50, 100]
    assert found.gains(full=False) == pytest.approx([6, 5], abs=1e-5)
    assert found.latencies(early=True) == pytest.approx([4])
    assert found.latencies(early=False) == pytest.approx([9], abs=1e-5)


def test_window_that_is_not_asked_for_has_no_early_result():
    play, _ = Play.asked(STREAM, TENS, 4 * SECOND)
    assert not play.run(None).answered.any()
    assert play.run({16 * SECOND: 20 * SECOND}).answered.tolist() == [False, True]


def test_clock_stands_at_the_end_of_epochs():
    clock = Moments(np.array([5, 9]))
    assert [clock.now(n) for n in range(4)] == [5, 9, 10, 11]


def test_readings_are_at_most_twenty_seconds_late():
    rows = p2.generate(1, 1)
    late = rows.arrived - rows.ts
    assert 0 <= late.min() < late.max() < 20 * SECOND


def test_generator_clusters_rows_at_whole_seconds():
    rows = aggressiveness.generate(3, 5_000, {"x": lambda random, n: random.random(n)})
    counts = np.bincount(rows.ts // SECOND)
    assert (rows.ts % SECOND == 0).all()
    assert counts.min() >= 1
    assert counts.mean() == pytest.approx(20, rel=0.05)
    assert counts.std() == pytest.approx(19.5, rel=0.08)  # geometric


def test_queue_works_rows_off_one_after_the_other():
    came = np.array([0, 2, 3, 40, 41])
    free, expected = 0, []
    for moment in came:
        free = max(free, moment) + 10
        expected.append(free)
    assert p4.through(came, 10).tolist() == expected


def test_bursts_queue_and_calm_does_not():
    stream = p4.generate(1, 60)
    waited = stream.rows.arrived - stream.rows.came - p4.COST
    second = stream.rows.came // SECOND
    over = np.flatnonzero(stream.rates > SECOND / p4.COST)
    assert waited.max() > SECOND / 2
    assert waited[second < over[0]].max() < SECOND / 5


# -- intervals -----------------------------------------------------------------------------------


def answered(final, early, low, high):
    count = len(final)
    ends = np.arange(1, count + 1) * 10 * SECOND
    return Answers(
        ends,
        np.ones(count, bool),
        ends,
        ends + 15.0 * SECOND,
        ends - 1.0 * SECOND,
        np.full(count, 0.9),
        {"x": final},
        {"x": early},
        {"x": low},
        {"x": high},
    )


def test_interval_is_scored_by_width_and_misses():
    low, high = np.array([1.0, 1.0, 1.0]), np.array([3.0, 3.0, 3.0])
    assert score(low, high, np.array([2.0, 0.5, 4.0])).tolist() == [2, 12, 22]


@pytest.mark.parametrize("measure", ["difference", "ratio"])
def test_plain_interval_is_quantiles_of_what_was_known_then(measure):
    random = np.random.default_rng(1)
    early = random.uniform(50, 100, 60)
    final = early + random.normal(0, 5, 60)
    low, high = plain(answered(final, early, early, early), "x", measure)
    known = 50  # the final of the window before comes only after this one has been asked for
    past = (final - early if measure == "difference" else final / early)[:known]
    ends = np.quantile(past, [0.05, 0.95], method="weibull")
    expected = early[known + 1] + ends if measure == "difference" else early[known + 1] * ends
    assert [low[known + 1], high[known + 1]] == pytest.approx(expected.tolist())
    assert np.isnan(low[: FEWEST + 1]).all()
    assert np.isfinite(low[FEWEST + 1 :]).all()


def test_interval_that_knows_the_noise_is_better_than_plain_ones():
    random = np.random.default_rng(1)
    early, spread = random.uniform(50, 100, 400), np.tile([1.0, 20.0], 200)
    final = early + spread * random.normal(0, 1, 400)
    found = judge(answered(final, early, early - 1.645 * spread, early + 1.645 * spread), "x")
    assert found.windows == 400 - FEWEST - 1
    assert found.coverage == pytest.approx(90, abs=4)
    assert found.ratio < 0.9


def test_absent_streams_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(recorded, "find_spec", lambda _: None)
    monkeypatch.setenv("LOWWATER_DATA", str(tmp_path))
    found, absent = i1.recordings()
    assert not found
    assert [line.ours for line in absent] == [
        "absent: it comes with pip install 'lowwater[demo]'",
        "absent: LOWWATER_DATA has no market_feed.parquet",
        *["absent: LOWWATER_DATA has no zeek_dns.parquet"] * 5,
    ]
    monkeypatch.delenv("LOWWATER_DATA")
    with pytest.raises(lw.LowwaterError, match="set LOWWATER_DATA to the folder of market_feed"):
        recorded.market()
