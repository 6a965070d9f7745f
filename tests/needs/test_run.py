"""A need in a run: decided in the log, retuned while it runs, accounted for in the status."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.engine.entry import Entry
from lowwater.engine.retune import retuning
from lowwater.local.host import LocalEpochs
from lowwater.query.options import RunOptions
from lowwater.testing import play
from tests.strategies import examples

START = datetime(2024, 1, 1, tzinfo=UTC)
CLOCK = lw.VirtualClock(start=START.isoformat(), per_epoch="1 second")
FEED = lw.feed("ts timestamp, k int, v double")
NEED = lw.need(fresh="6 seconds", right=0.9, exact="30 seconds", gives=("exact", "right"))
EPOCHS = 40


def at(seconds):
    return START + timedelta(seconds=seconds)


def rows(seconds=EPOCHS, late=0.0, by=3):
    """Four rows a second; a share of them comes some seconds late."""
    epochs = [[] for _ in range(seconds)]
    for n in range(seconds * 4):
        behind = by if late and n % round(1 / late) == 0 else 0
        if n // 4 + behind < seconds:
            epochs[n // 4 + behind].append((at(n / 4), n % 2, 1.0))
    return epochs


def query(slide=None):
    windowed = lw.stream(FEED, time="ts").window(range="5 seconds", slide=slide)
    return windowed.group_by("k").agg(n=lw.count(), s=lw.sum("v"))


def begun(need=NEED):
    return LocalEpochs(query().planned(RunOptions(need=need)).with_shards(2), CLOCK)


def restarted(before, need=NEED):
    """What goes on after a crash: state and log as they are on disk, all else anew."""
    local = begun(need)
    local.epoch, local.state = before.epoch, copy.deepcopy(before.state)
    for n in range(-1, before.epoch):
        local.log.append(Entry.from_bytes(before.log.read(n).to_bytes()))
    return local


def decided(restarts=(), asked=None):
    local = begun()
    for n, epoch in enumerate(rows(late=0.2)):
        local = restarted(local) if n in restarts else local
        given = [retuning(local.controller, asked[n])] if asked and n in asked else []
        local.run([[FEED.table(epoch)]], last=[n == EPOCHS - 1], asked=given)
    return [local.log.read(n) for n in range(EPOCHS)]


@given(st.sets(st.integers(1, EPOCHS - 1), min_size=1, max_size=3))
@examples(5)
def test_after_a_crash_the_same_is_decided(restarts):
    undisturbed = [e.to_bytes() for e in decided()]
    assert [e.to_bytes() for e in decided(restarts)] == undisturbed


def test_a_log_entry_stays_small():
    """The memory of a need in an entry: a few hundred bytes."""
    entries = decided()
    with_need = entries[-2].to_bytes()
    object.__setattr__(entries[-2], "need", None)
    assert len(with_need) - len(entries[-2].to_bytes()) < 1_500


def test_every_window_has_its_first_answer_within_fresh_and_its_final():
    late = rows(60, late=0.2)
    outputs = play(query(), {FEED: late}, clock=CLOCK, need=NEED)
    first, finals = {}, {}
    for output in outputs[:-1]:
        for row in output.results:
            end = (row["window"]["end"] - START).total_seconds()
            first.setdefault((end, row["k"]), output.epoch)
            if row["kind"] == "final":
                finals[end, row["k"]] = output.epoch
    ended = [(end, k) for end in range(5, 50, 5) for k in (0, 1)]
    assert all(first[key] - key[0] <= 6 for key in ended)
    assert set(ended) <= set(finals)


def test_the_status_has_what_was_promised_and_kept():
    words = {"epochs": {FEED: rows(60)}, "clock": CLOCK, "need": NEED}
    told = query().run(**words).status.need
    assert told.promised["fresh"] == timedelta(seconds=6)
    assert told.kept == {"fresh": 1.0, "right": 1.0, "exact": 1.0}
    assert told.given_up == {"windows": 0, "fresh": 0, "exact": 0}
    assert told.limited_by == ()


def test_a_final_without_its_late_rows_is_not_told_to_be_right():
    """A final that is the first answer is as right as the share of rows that it contains."""
    words = {"epochs": {FEED: rows(200, late=0.1, by=12)}, "clock": CLOCK}
    need = lw.need(fresh="5 seconds", right=0.7, gives=("exact", "right"))
    told = query().run(**words, need=need).status
    (quality,) = told.quality.values()
    assert told.need.answers == "finals"
    assert 0.85 < quality.overall < 0.95
    # Finals that waited for these rows, as in the warm-up, came after an early first answer.
    assert told.need.kept["right"] == pytest.approx(0.9, abs=0.02)


def test_answers_in_a_silence_are_given_up_to_it():
    """The source stands still, and then the newest time jumps over many windows at once."""
    epochs = [rows(80)[n] if n < 30 or n > 70 else [] for n in range(80)]
    need = lw.need(fresh="3 seconds", right=0.9, gives=("exact", "right"))
    told = query().run(epochs={FEED: epochs}, clock=CLOCK, need=need).status.need
    assert told.given_up["windows"] == 0
    assert told.kept["fresh"] >= 0.9


def test_epochs_that_are_too_long_are_named():
    slow = lw.VirtualClock(start=START.isoformat(), per_epoch="5 seconds")
    epochs = [[row for epoch in rows(60)[n : n + 5] for row in epoch] for n in range(0, 60, 5)]
    told = query().run(epochs={FEED: epochs}, clock=slow, need=NEED).status.need
    assert any(text.startswith("epochs: one takes 5 seconds") for text in told.limited_by)


def test_a_need_can_be_retuned():
    entries = decided(asked={10: {"need": {"fresh": "20 seconds"}}})
    plain = decided()
    assert entries[:10] == plain[:10]
    changed = entries[-1].overrides["need"].value
    assert (changed["fresh"], changed["exact"]) == ("20 seconds", "30 seconds")
    requested = [
        sum(bool(m.prods) for e in es for m in e.control.values()) for es in (entries, plain)
    ]
    assert requested[0] < requested[1]


def test_the_status_has_the_need_in_force():
    local = begun()
    for n, epoch in enumerate(rows()):
        given = [retuning(local.controller, {"need": {"fresh": "20 seconds"}})] if n == 10 else []
        local.run([[FEED.table(epoch)]], last=[n == EPOCHS - 1], asked=given)
    (told,) = local.status().needs.values()
    assert told.promised["fresh"] == timedelta(seconds=20)
    assert told.promised["exact"] == timedelta(seconds=30)
    assert told.slack == timedelta(seconds=20 - 3 if told.answers == "finals" else 30 - 3)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"need": {"fresh": "1 hour"}}, "set exact= to fresh= or more"),
        ({"need": {"soon": 3}}, "no such argument; it has: fresh"),
        ({"need": {"right": 3}}, "right=3"),
    ],
)
def test_a_need_that_cannot_be_is_refused_while_it_runs(values, told):
    with pytest.raises(lw.SpecError, match=told):
        retuning(begun().controller, values)


def test_a_query_without_a_need_has_none_to_retune():
    plain = lw.stream(FEED, time="ts", watermark=lw.ordered()).window(range="1 second")
    local = LocalEpochs(plain.agg(n=lw.count()).assembly.with_shards(1), CLOCK)
    with pytest.raises((lw.PlanError, lw.SpecError), match=r"need=lw\.need"):
        retuning(local.controller, {"need": {"fresh": "1 minute"}})


def test_queries_that_share_a_stream_wait_for_the_most_patient():
    stream = lw.stream(FEED, time="ts")
    board = stream.window(range="5 seconds").agg(n=lw.count())
    audit = stream.window(range="10 seconds").agg(n=lw.count())
    patient = lw.need(fresh="25 seconds", right=0.9, gives=("exact",))
    both = lw.together(board=board, audit=audit)
    outcomes = both.run(
        epochs={FEED: rows(80, late=0.2)}, clock=CLOCK, need={"board": NEED, "audit": patient}
    )
    assert outcomes["board"].status.need.kept["fresh"] == 1.0
    assert outcomes["audit"].status.need.kept["fresh"] == 1.0
    assert outcomes["audit"].status.need.promised["fresh"] == timedelta(seconds=25)
