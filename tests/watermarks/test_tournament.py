"""The slack rule: a pure function of a memory that survives the log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.codec import decode, encode
from lowwater.watermarks.adaptive.tournament import SlackNews, Tournament
from lowwater.watermarks.adaptive.tournament_memory import TournamentMemory

RULE = Tournament(target=0.95, range=1_000, slide=500)
epochs = st.lists(
    st.tuples(
        st.integers(0, 3_000),
        st.lists(st.tuples(st.integers(0, 319), st.integers(1, 50)), max_size=5).map(dict),
        st.integers(0, 20),
    ),
    max_size=30,
)


def run(news, memory):
    newest = memory.newest or 0
    slacks = []
    for advance, needed, late in news:
        reference, newest = newest, newest + advance
        told = SlackNews(newest, reference, tuple(sorted(needed.items())), late)
        memory, slack = RULE.step(memory, told)
        slacks.append(slack)
    return memory, slacks


@given(epochs, epochs)
def test_a_run_that_reads_its_memory_from_the_log_goes_on_as_if_it_had_not_stopped(first, second):
    memory, _ = run(first, RULE.begin())
    written = decode(TournamentMemory, json.loads(json.dumps(encode(memory))))
    assert written == memory
    assert run(second, written) == run(second, memory)


@given(epochs)
def test_slacks_are_those_that_rows_needed_or_one_range(news):
    _, slacks = run(news, RULE.begin())
    seen = {b for _, needed, _ in news for b in needed}
    known = {0, RULE.range} | {int(RULE.bins.edges[b]) for b in seen}
    assert set(slacks) <= known


def test_a_memory_of_heavy_tails_stays_small_in_the_log():
    memory = RULE.begin()
    for epoch in range(2_000):
        needed = ((0, 90), (10 + epoch * 7919 % 300, 1))
        memory, _ = RULE.step(memory, SlackNews(250 * epoch, 250 * epoch - 500, needed))
    assert len(json.dumps(encode(memory))) < 20_000  # all 300 bins are filled


@pytest.mark.parametrize("target", [0.5, 0.9, 0.999, 1.0])
def test_where_no_row_needs_slack_there_is_none_after_the_warm_up(target):
    rule = Tournament(target=target, range=1_000, slide=1_000)
    memory = rule.begin()
    slacks = []
    for epoch in range(50):
        news = SlackNews(100 * epoch, 100 * max(epoch - 2, 0), ((0, 10),))
        memory, slack = rule.step(memory, news)
        slacks.append(slack)
    assert slacks[:30] == [1_000] * 30
    assert slacks[31:] == [0] * 19
