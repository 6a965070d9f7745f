"""The laws of a need, in Lowwater itself on a simulated machine: what no run may break.

Rows of random streams arrive late by random delays, over square waves and ramps of load, stalls of
the source and outages of the query. All that a law says is checked by brute force over the rows.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from experiments.arena.live import Outage, Prices, live, moments, truth
from experiments.arena.stream import ArenaStream
from lowwater.query.options import RunOptions
from lowwater.ticks import TICKS_PER_SECOND as SECOND
from tests.strategies import examples

RANGE, EPOCH = 10 * SECOND, SECOND
BEGIN = 1_700_000_000 * SECOND
SHAPES = ("even", "square", "ramp", "stall")


def stream(seed, shape="even", delay=1.0, rate=6.0, windows=14, slides=1):
    """Rows whose rate has a shape; delays are exponential, with a mean in seconds."""
    random = np.random.default_rng(seed)
    seconds = windows * RANGE // SECOND
    at = np.arange(seconds)
    load = {
        "even": np.ones(seconds),
        "square": np.where(at // 30 % 2 == 1, 1.0, 0.2),
        "ramp": np.interp(at, [0, seconds / 2, seconds], [0.1, 1.0, 0.1]),
        "stall": np.where((at > seconds * 0.4) & (at < seconds * 0.5), 0.0, 1.0),
    }[shape]
    counts = random.poisson(rate * load)
    ts = BEGIN + np.repeat(at, counts) * SECOND
    ts += random.integers(0, SECOND, counts.sum())
    late = (random.exponential(delay, len(ts)) * SECOND).astype(np.int64)
    names = {"name": shape, "split": "tuning", "change": "steady", "epoch": EPOCH}
    values = random.lognormal(1, 0.5, len(ts))
    slide = RANGE // slides
    return ArenaStream.of(ts, ts + late, value=values, range=RANGE, slide=slide, **names)


def need(fresh=8, right=0.9, exact=30, gives=("exact", "right")):
    return lw.need(
        fresh=timedelta(seconds=fresh), right=right, exact=timedelta(seconds=exact), gives=gives
    )


def run(rows, one, **words):
    until = int(rows.arrived[-1]) + 60 * SECOND
    return live(rows, RunOptions(need=one), until=until, **words)


def stops(rows, outages=()):
    """The spans in which the query did not run, or no row arrived for two epochs."""
    gaps = np.flatnonzero(np.diff(rows.arrived) > 2 * EPOCH)
    still = [(int(rows.arrived[g]), int(rows.arrived[g + 1])) for g in gaps]
    return still + [(o.start, o.end) for o in outages]


def reached(rows):
    """The ends of the windows with rows that the newest time has reached."""
    ends = np.array(sorted(truth(rows)))
    return set(ends[moments(rows, ends) >= 0].tolist())


def late_answers(rows, answers, fresh, outages=()):
    """(windows judged, those whose first answer came after `fresh` by the arrival of rows)."""
    ends = np.array(sorted(truth(rows)))
    judged = late = 0
    for end, moment in zip(ends.tolist(), moments(rows, ends).tolist(), strict=True):
        due = moment + fresh * SECOND
        if moment < 0 or any(
            a <= due + EPOCH and moment <= b + EPOCH for a, b in stops(rows, outages)
        ):
            continue
        judged += 1
        first = answers.first(end)
        late += end not in answers.dropped and (first is None or first[0] > due)
    return judged, late


streams = st.builds(
    stream,
    st.integers(0, 10**6),
    st.sampled_from(SHAPES),
    st.sampled_from([0.0, 0.5, 3.0]),
    slides=st.sampled_from([1, 2]),
)


@given(streams, st.sampled_from([5, 8, 20]))
@examples(4)
def test_first_answers_come_within_fresh(rows, fresh):
    answers = run(rows, need(fresh, exact=60))
    judged, late = late_answers(rows, answers, fresh)
    assert late <= 0.01 * judged, (late, judged)


@given(st.integers(0, 10**6), st.sampled_from([0.5, 3.0]), st.sampled_from([12, 20]))
@examples(3)
def test_finals_come_within_exact_also_while_the_source_stands_still(seed, delay, exact):
    rows = stream(seed, "stall", delay)
    answers = run(rows, need(5, exact=exact))
    ends = np.array(sorted(answers.finals))
    known = [
        (e, m) for e, m in zip(ends.tolist(), moments(rows, ends).tolist(), strict=True) if m >= 0
    ]
    late = [e for e, m in known if answers.finals[e][0] > m + exact * SECOND]
    assert len(known) >= 10
    assert not late


@given(streams)
@examples(4)
def test_every_window_with_a_row_has_an_answer_and_none_is_requested_before_it_begins(rows):
    answers = run(rows, need())
    entered = set(answers.finals) | set(answers.early) | answers.dropped
    # A window without an answer holds no row: all of its rows came after it was closed.
    for end in reached(rows) - entered:
        mine = (rows.ts >= end - rows.range) & (rows.ts < end)
        assert (rows.arrived[mine] > end + EPOCH).all()
    for _, newest, _, upto in answers.asked:
        assert upto is None or upto - rows.range <= newest


@given(st.integers(0, 10**6), st.sampled_from([40, 110]), st.sampled_from([15, 45]))
@examples(3)
def test_an_outage_of_the_query_delays_only_the_answers_that_were_due_in_it(seed, at, length):
    rows = stream(seed)
    outage = Outage(BEGIN + at * SECOND, BEGIN + (at + length) * SECOND)
    answers = run(rows, need(8), outages=[outage])
    judged, late = late_answers(rows, answers, 8, [outage])
    assert late <= 0.01 * judged
    assert all(answers.first(end) is not None for end in reached(rows))
    # The new run goes on with the account of the one before: each window counts once.
    told = answers.status.need
    assert told.given_up["windows"] == 0
    counted = sum(told.given_up[n] for n in ("fresh", "windows"))
    assert counted <= judged


@given(st.integers(0, 10**6), st.sampled_from([0.5, 3.0]))
@examples(2)
def test_a_more_patient_need_loses_no_more(seed, delay):
    """Less of what arrives is missing from first answers if they may come later."""
    rows = stream(seed, delay=delay)
    right, lost = truth(rows), []
    for fresh in (5, 10, 25):
        answers = run(rows, need(fresh, exact=60))
        values = [answers.first(end) for end in right]
        error = [
            1.0 if one is None else min(1.0, abs(one[1] - total) / total)
            for one, total in zip(values, right.values(), strict=True)
        ]
        lost.append(float(np.mean(error)))
    assert lost[1] <= lost[0] + 0.01
    assert lost[2] <= lost[1] + 0.01


GIVES = st.permutations(("exact", "right", "windows")).map(tuple)


def priced(rows, fresh, load):
    """Prices with which no span of `fresh` has more work than a share of it, by brute force."""
    epoch = 0.05
    first = np.searchsorted(rows.arrived, rows.arrived - fresh * SECOND, "right")
    most = int((np.arange(len(rows.arrived)) - first + 1).max())
    row = (load - epoch) * fresh * SECOND / most
    return Prices(epoch=int(epoch * EPOCH), row=row, shed=row / 50)


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.5, 3.0]),
    st.sampled_from([1, 2]),
    st.sampled_from([5, 8, 20]),
    st.sampled_from([0.4, 0.78]),
    GIVES,
)
@examples(3)
def test_work_that_fits_in_every_span_of_fresh_drops_nothing_and_delays_nothing(
    seed, delay, slides, fresh, load, gives
):
    judged = late = 0
    for shape in SHAPES:
        rows = stream(seed, shape, delay, slides=slides)
        answers = run(rows, need(fresh, exact=60, gives=gives), prices=priced(rows, fresh, load))
        assert not answers.dropped, shape
        counts = late_answers(rows, answers, fresh)
        judged, late = judged + counts[0], late + counts[1]
    assert late <= 0.01 * judged, (late, judged)


@given(st.integers(0, 10**6), st.sampled_from(["even", "square"]))
@examples(2)
def test_work_that_never_fits_drops_windows_and_the_others_are_in_time(seed, shape):
    rows = stream(seed, shape, windows=24)
    prices = priced(rows, 20, 2.0)
    answers = run(rows, need(20, exact=60, gives=("exact", "right", "windows")), prices=prices)
    ends = sorted(truth(rows))
    assert answers.dropped
    # A row in `dropped` or an answer, never both: a dropped window was never begun.
    assert not answers.dropped & (set(answers.finals) | set(answers.early))
    assert answers.status.need.given_up["windows"] >= len(answers.dropped & set(ends))
    if shape == "even":  # windows that have begun when a wave rises cannot be dropped
        judged, late = late_answers(rows, answers, 20)
        assert late <= 0.1 * judged, (late, judged)
