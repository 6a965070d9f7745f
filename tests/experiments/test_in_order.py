"""Plans that keep order, and what plans hold: what the experiments of OOP are made of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from experiments.oop.pairs import compare
from experiments.reference.in_order import Merge, Sort
from experiments.streams.hold import UnorderedRows, play, same
from experiments.streams.traffic import Flows, schema

SECOND = 1_000_000
SCHEMA = schema(())


def at(*seconds):
    return pa.table([pa.array([round(s * SECOND) for s in seconds], pa.int64())], ["ts"]).cast(
        SCHEMA
    )


def seconds(table):
    return [t // SECOND for t in table.column("ts").cast(pa.int64()).to_pylist()]


# -- links -----------------------------------------------------------------------------------------


def test_link_gives_its_packets_in_order_and_late():
    link = Flows(10, 5).link(20, 1, delay=3)
    epochs = link.epochs(SECOND, 14)
    assert [len(e) for e in epochs[:3]] == [0, 0, 0]
    assert sum(map(len, epochs)) == 200
    assert (np.diff(link.ts) >= 0).all()
    for n, epoch in enumerate(epochs):
        assert set(seconds(epoch)) <= {n - 3}


def test_answers_carry_the_columns_of_what_they_answer():
    flows = Flows(2, 50)
    there, back = (flows.link(500, 7, reverse=r).packets for r in (False, True))
    assert back.column("dst").equals(there.column("src"))
    assert back.column("sport").equals(there.column("dport"))


# -- merge and sort --------------------------------------------------------------------------------


#  epoch       0        1       2
#  first     1  2       4       9
#  second     –        2 3      5        what is ahead of the slower one is held
def test_merge_holds_what_is_ahead_of_the_slowest_stream():
    merge = Merge([[at(1, 2), at(4), at(9)], [at(), at(2, 3), at(5)]])
    assert seconds(merge.take(0)) == []
    assert merge.rows == 2
    assert merge.size == 16
    assert seconds(merge.take(1)) == [1, 2, 2, 3]
    assert merge.rows == 1
    assert seconds(merge.take(2)) == [4, 5, 9], "at the end all rows leave"
    assert merge.rows == 0


def test_sort_holds_what_has_not_passed_the_mark():
    sort = Sort()
    assert seconds(sort.take(at(5, 1, 3), 3 * SECOND)) == [1]
    assert seconds(sort.take(at(2, 4), 5 * SECOND)) == [2, 3, 4]
    assert (sort.rows, sort.size) == (1, 8)
    assert seconds(sort.take(at(), 6 * SECOND)) == [5]


@pytest.mark.parametrize("seed", range(5))
def test_merge_gives_every_row_once_and_in_order(seed):
    random = np.random.default_rng(seed)
    streams = []
    for _ in range(3):
        ts = np.sort(random.integers(0, 50, 100))
        cuts = np.sort(random.integers(0, 101, 9))
        streams.append([at(*part) for part in np.split(ts, cuts)])
    merge = Merge(streams)
    out = [s for n in range(10) for s in seconds(merge.take(n))]
    assert out == sorted(s for epochs in streams for e in epochs for s in seconds(e))


# -- what is held ----------------------------------------------------------------------------------


def test_most_that_was_held_counts_open_windows_and_rows_held_back():
    epochs = [at(1, 2, 3), at(11), at(12, 21)]

    def query(feed):
        stream = lw.stream(feed, time="ts", watermark=lw.ordered())
        return stream.window(range="10 seconds").agg(n=lw.count())

    free, kept = (lw.feed(SCHEMA) for _ in range(2))
    ours = play(query(free), {free: UnorderedRows(epochs)}, epochs=3, epoch=SECOND)
    # The first window closes in the epoch after the one that brings 11; so two are open then.
    assert ours.tuples == 2
    silent = [at(), at(), at(30)]
    theirs = play(query(kept), {kept: Merge([epochs, silent])}, epochs=3, epoch=SECOND)
    assert theirs.tuples == 4, "four rows wait for the silent stream"
    assert ours.results.column("n").to_pylist() == [3, 2, 1]


def test_both_plans_of_a_join_give_the_same():
    flows = Flows(20, 10)
    links = [flows.link(20, s, reverse=s > 1, delay=s) for s in range(4)]

    def ask(mine, theirs):
        band = ("-1 second", "1 second")
        return mine.join(theirs, on={"src": "dst", "sport": "dport"}, band=band)

    pair = compare(3, [links[:2], links[2:]], ask, epoch=SECOND)
    assert len(pair.oop.results) > 100
    assert same(pair.oop.results, pair.iop.results)
    assert not same(pair.oop.results, pair.iop.results.slice(1))
