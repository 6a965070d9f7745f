"""Newest first: of a backlog after an outage, rows of older windows are held, and lose nothing.

clock      0 … 20      70                 74     one epoch a second
rows read  0 … 20       20-25  25-30  …          the query did not run from 20 to 70
held                    [20, 64)                 windows that ended more than 5 seconds ago
closes                         66 68 70 …  20 22  the newest in time, the older ones when released
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.local.host import LocalEpochs, blocks_of, until_the_end
from lowwater.operators.packet import tables
from lowwater.planner.sidelining import sidelined
from tests.sidelining.test_sideline import SCHEMA, at, ticks
from tests.strategies import examples

SECOND = 1_000_000
FIRST, LAST = 20, 70
"""The query does not run between these seconds."""
END = 120


@dataclass
class Outage:
    """A clock with an epoch each second, but for the outage."""

    def now(self, epoch):
        return round((epoch + 1 if epoch < FIRST else epoch + 1 - FIRST + LAST) * SECOND)

    def took(self, epoch, began):
        del epoch, began


def backlog(per_epoch, late):
    """Two rows a second; after the outage, an epoch reads at most `per_epoch` of them."""
    rows = [(n / 2 + (late if n % 7 == 3 else 0), n / 2) for n in range(2 * END)]
    arrived = [(came, (at(t), n % 3, 1, False)) for n, (came, t) in enumerate(sorted(rows))]
    epochs, place, epoch = [], 0, 0
    while place < len(arrived):
        now = Outage().now(epoch) / SECOND
        some = []
        while place < len(arrived) and arrived[place][0] < now and len(some) < per_epoch:
            some.append(arrived[place][1])
            place += 1
        epochs.append(some)
        epoch += 1
    return epochs


def query(slide=2):
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack("3 seconds"))
    windows = stream.window(range="4 seconds", slide=f"{slide} seconds").group_by("k")
    return windows.agg(n=lw.count(), s=lw.sum("v"))


def played(asked, epochs):
    """Return {(end, key): (epoch of the final, count)}, the late rows, and the largest hold."""
    local = LocalEpochs(asked.with_shards(2), Outage())
    (feed,) = asked.sources
    finals, late, most = {}, 0, 0
    blocks = blocks_of([feed.table(rows) for rows in epochs])
    for n, (given_, last) in enumerate(until_the_end([blocks])):
        packets = local.run(given_, last=last)
        for table in tables(packets, "results"):
            for row in table.to_pylist():
                key = ticks(row["window"]["end"]) // SECOND, row["k"]
                assert key not in finals
                finals[key] = n, row["n"]
        status = local.status()
        assert status.balanced
        most = max(most, status["sidelined"])
        late = status["late"]
    return finals, late, most


def newest(how="5 seconds", **words):
    return lambda asked: sidelined(
        asked.assembly, lw.sideline(newest_first=how, every=2, max_delay="1 hour", **words), None
    )


@given(st.sampled_from([6, 10, 20]), st.sampled_from([0, 2]), st.sampled_from([2, 4]))
@examples(4)
def test_held_windows_have_exact_finals_and_no_row_is_late_by_it(per_epoch, late, slide):
    epochs = backlog(per_epoch, late)
    plain, lost, _ = played(query(slide).assembly, epochs)
    found, missed, most = played(newest()(query(slide)), epochs)
    assert {key: n for key, (_, n) in found.items()} == {key: n for key, (_, n) in plain.items()}
    assert missed == lost
    assert most > 40


@dataclass
class Machine:
    """A clock that a row which is processed moves by far more than one that is held."""

    time: float = 0.0

    def now(self, epoch):
        del epoch
        return round(self.time * SECOND)

    def took(self, epoch, began):
        del epoch, began


def worked(asked):
    """Return {(end, key): the clock at its final} of a machine that can process 8 rows a second."""
    machine, (feed,) = Machine(), asked.sources
    local, finals, place = LocalEpochs(asked.with_shards(2), machine), {}, 0
    while machine.time < END:
        if FIRST <= machine.time < LAST:
            machine.time = LAST
        upto = min(int(2 * machine.time), place + 20, 2 * END)
        rows = [(at(n / 2), n % 3, 1, False) for n in range(place, upto)]
        spans = [(h.start, h.end) for h in local.log.before(local.epoch).standing.held]
        held = sum(any(a <= ticks(row[0]) < b for a, b in spans) for row in rows)
        machine.time += max(1.0, 0.01 * held + 0.12 * (len(rows) - held))
        for table in tables(local.run([[feed.table(rows)]], last=[False]), "results"):
            for row in table.to_pylist():
                finals[ticks(row["window"]["end"]) // SECOND, row["k"]] = machine.time
        place = upto
    return finals


def test_the_newest_windows_come_in_time_and_the_older_ones_later():
    """Without it, the rows of a backlog delay all that come after them."""
    plain, found = worked(query().assembly), worked(newest()(query()))

    def oldest(finals, since, until):
        return max(
            finals[cell] - cell[0] for cell in plain if since <= cell[0] < until and cell in finals
        )

    # Windows that end just after the outage: 100 rows wait, and processing them takes 12 seconds.
    assert oldest(plain, LAST, LAST + 6) > 12
    assert oldest(found, LAST, LAST + 6) < 8
    # Windows that ended before it are the same, those that ended in it are overtaken.
    before = {cell: found[cell] for cell in found if cell[0] < FIRST - 4}
    assert before == {cell: plain[cell] for cell in before}
    assert found[LAST + 2, 0] < found.get((LAST - 20, 0), END)
    assert plain[LAST + 2, 0] > plain[LAST - 20, 0]


def test_nothing_is_held_while_the_query_keeps_up():
    epochs = backlog(10**6, 0)[:FIRST]
    _, _, most = played(newest()(query()), epochs)
    assert most == 0


@pytest.mark.parametrize("wrong", ["0 seconds", "-1 second"])
def test_a_time_that_is_none_is_refused(wrong):
    with pytest.raises(lw.SpecError, match="newest_first"):
        lw.sideline(newest_first=wrong)


def test_explain_names_what_is_held():
    text = query().explain(sideline=lw.sideline(newest_first=timedelta(seconds=5)))
    assert "newest first: rows of windows that ended 5 seconds ago, too" in text
    with pytest.raises(lw.SpecError, match="newest_first='10 seconds'"):
        query().run(epochs={}, sideline=True)
