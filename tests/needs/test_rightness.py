"""What the status tells of a need with an error: the share of first answers within it, by truth."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from experiments.arena.live import live, truth
from lowwater.needs.rightness import REMEMBERED, Rightness
from lowwater.query.options import RunOptions
from lowwater.ticks import TICKS_PER_SECOND as SECOND
from tests.needs.test_laws import stream
from tests.strategies import examples

ERROR = 0.05


def counts(seed, delay):
    """A stream whose sums are counts, so that the error of a final is its share of missing rows."""
    rows = stream(seed, delay=delay, rate=8.0, windows=24)
    return replace(rows, value=np.ones(len(rows.ts)))


def run(rows, fresh, watermark=None):
    need = lw.need(
        fresh=timedelta(seconds=fresh),
        error=ERROR,
        share=0.9,
        exact=timedelta(seconds=60),
        gives=("exact", "right"),
    )
    until = int(rows.arrived[-1]) + 80 * SECOND
    return live(rows, RunOptions(need=need), watermark=watermark, until=until)


@given(
    st.integers(0, 10**6), st.sampled_from([0.0, 0.7, 4.0]), st.sampled_from([5, 20]), st.booleans()
)
@examples(8)
def test_the_share_within_the_error_is_that_of_brute_force(seed, delay, fresh, own):
    """Early first answers are compared with their finals, finals with all rows of their window."""
    rows = counts(seed, delay)
    watermark = lw.slack("1 second") if own else None
    answers = run(rows, fresh, watermark)
    due, right = truth(rows), {True: [], False: []}
    for end, total in due.items():
        first, final = answers.first(end), answers.finals.get(end)
        if first is not None:
            early = end in answers.early and first[0] < final[0] if final else True
            if final is not None:
                error = abs(first[1] - final[1]) / final[1] if early else 1 - final[1] / total
                right[early].append(error <= ERROR + 1e-9)
    told = answers.status.need
    each = [(len(some), np.mean(some)) for some in right.values() if some]
    share = sum(n * mean for n, mean in each) / sum(n for n, _ in each)
    assert told.kept["share"] == pytest.approx(share, abs=0.005)
    assert "right" not in told.kept
    assert told.given_up["error"] == pytest.approx((1 - share) * len(due), abs=1)
    assert told.promised == {
        "fresh": timedelta(seconds=fresh),
        "error": ERROR,
        "share": 0.9,
        "exact": timedelta(seconds=60),
    }
    limited = any("too few rows" in text for text in told.limited_by)
    assert limited == (told.kept["share"] < 0.9)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 9), st.integers(1, 40), max_size=3),
            st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=4),
        ),
        max_size=12,
    )
)
def test_wrong_finals_are_those_that_lack_more_rows_than_the_error(epochs):
    account, rows, missed = Rightness(), {}, {}
    for closed, late in epochs:
        account = account.with_missed(late, ERROR)
        for end, n in late:
            if end in rows:
                missed[end] = missed.get(end, 0) + n
        fresh = {end: n for end, n in closed.items() if end not in rows}
        account = account.with_finals(fresh)
        rows |= fresh
    wrong = sum(missed.get(e, 0) > ERROR * (n + missed.get(e, 0)) for e, n in rows.items())
    assert (account.finals, account.wrong) == (len(rows), wrong)
    assert (account.rows, account.missed) == (sum(rows.values()), sum(missed.values()))


def test_the_account_stays_small():
    account = Rightness()
    for end in range(3 * REMEMBERED):
        account = account.with_finals({end: 1})
    assert len(account.windows) == REMEMBERED
    assert account.finals == 3 * REMEMBERED
    assert account.with_missed([(0, 5)], ERROR) == account
