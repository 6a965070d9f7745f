"""Steering to an accuracy: every window has an early result, however early or late the rows are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import lowwater as lw

START = datetime(2024, 1, 1, tzinfo=UTC)
SECONDS, WINDOW = 160, 4
TAIL = 2
"""The last windows: the end of the stream completes them without a warning."""


def epochs(keep=lambda _: True, late=0):
    """One epoch for each second with four rows; the value is the second within its window."""
    rows = [[] for _ in range(SECONDS)]
    for second in filter(keep, range(SECONDS - late)):
        for n in range(4):
            at = START + timedelta(seconds=second + n / 4)
            rows[second + late * (n == 3)].append((at, float(second % WINDOW)))
    return rows


def played(policy, rows, slide=WINDOW, slack=1, where=None):
    """Return {end of a window: (epoch of its first early row or None, epoch of its final)}."""
    feed, sink = lw.feed("ts timestamp, v double"), lw.to_memory()
    stream = lw.stream(feed, time="ts", watermark=lw.slack(f"{slack} seconds"))
    stream = stream if where is None else stream.where(where)
    sizes = {"range": f"{WINDOW} seconds", "slide": f"{slide} seconds"}
    clock = lw.VirtualClock(start=START + timedelta(seconds=1), per_epoch="1 second")
    query = stream.window(**sizes).agg(n=lw.count())
    outcome = query.run(epochs={feed: rows}, sink=sink, clock=clock, early=policy, shards=1)
    early, final = {}, {}
    for epoch, table in sorted(sink.epochs.items()):
        for row in table.to_pylist():
            of = early if row["kind"] == "early" else final
            of.setdefault(row["window"]["end"], epoch)
    return {end: (early.get(end), at) for end, at in sorted(final.items())}, outcome.status.prods


def unanswered(windows):
    return [end for end, (early, _) in list(windows.items())[:-TAIL] if early is None]


@pytest.mark.parametrize("slide", [WINDOW, 2])
@pytest.mark.parametrize("accuracy", [0.5, 0.9, 1.0])
def test_every_window_has_an_early_result(accuracy, slide):
    windows, _ = played(lw.early_before(accuracy=accuracy), epochs(late=3), slide, slack=4)
    assert len(windows) >= SECONDS / slide
    assert unanswered(windows) == []
    assert all(early < final for early, final in windows.values() if early is not None)


def test_silences_do_not_stop_steering():
    flow = epochs(lambda second: second % 60 < 40)
    windows, _ = played(lw.early_before(accuracy=0.9), flow)
    assert unanswered(windows) == []


def test_an_accuracy_of_one_is_as_late_as_possible_before_the_final():
    for slack in (0, 1, 6):
        windows, _ = played(lw.early_before(accuracy=1.0), epochs(), slack=slack)
        before = [final - early for early, final in windows.values() if early is not None]
        assert unanswered(windows) == []
        assert set(before[5:-TAIL]) <= {1, 2}


def test_prods_before_the_first_row_of_a_window_steer_back():
    """
    rows that match            **        **        **
    windows            |-------|-------|-------|
    """
    rows = epochs()
    where = f"v = {WINDOW - 1}"
    windows, prods = played(lw.early_before(accuracy=0.6), rows, slack=6, where=where)
    assert unanswered(windows) == []
    assert prods["empty"] >= 1
    assert prods["asked"] <= 3 * len(windows)
    found = prods["asked"] - prods["empty"]
    assert found == len([early for early, _ in windows.values() if early is not None])
