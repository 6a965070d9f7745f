"""What is told of windows is true: settled quality, waits and buffers, by brute force over rows.

Streams are those of the arena's families. A window counts as settled long before the stream ends,
and rows that come later may still miss it; so the truth is known only at the end.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

import lowwater as lw
from experiments.arena.families import FAMILIES
from experiments.arena.live import truth
from experiments.arena.play import SCHEMA, Cuts, epochs
from lowwater.engine.quality_status import quality_status
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import tables
from lowwater.watermarks.adaptive.told_quality import Survival, told_quality

ROWS = 1_000
MOST, LEAST = 0.01, -0.02
WINDOWS = 120
TIMES = 5


def shortened(stream, windows=WINDOWS):
    """The first windows of a stream, in epochs of a third of a window."""
    chosen = stream.arrived < stream.arrived[0] + windows * stream.slide
    columns = {n: getattr(stream, n)[chosen] for n in ("ts", "arrived", "key", "value", "matches")}
    return replace(stream, **columns, epoch=max(stream.epoch, stream.range // 3))


class Played:
    """A run over a stream: what was told on the way, and what had come by the end."""

    def __init__(self, stream, target):
        feed = lw.feed(SCHEMA)
        rows = lw.stream(feed, time="ts", watermark=lw.quality(target)).where("matches")
        range, slide = (timedelta(microseconds=span) for span in (stream.range, stream.slide))
        query = rows.window(range=range, slide=slide).agg(n=lw.count())
        local = LocalEpochs(query.assembly.with_shards(1), Cuts(stream.cuts))
        self.adapter, self.flow = local.adapter, local.flow
        (self.window,) = local.adapter.windows
        self.finals, self.closed, self.told = {}, [], []
        tables_of = epochs(stream)
        every = max(1, len(tables_of) // TIMES)
        for n, table in enumerate(tables_of):
            self._run(local, table, last=False)
            if n % every == every - 1:
                self.told.append(self._told(local))
        self.status = quality_status(local.log.newest(), self.flow, self.adapter, None)
        self.spans = local.log.newest().adapting.windows[0].book.spans
        self._run(local, tables_of[0].slice(0, 0), last=True)
        self._run(local, tables_of[0].slice(0, 0), last=True)

    def _run(self, local, table, *, last):
        packets = local.run([[table]], last=[last])
        entry = local.log.newest()
        newest = entry.adapting.windows[0].one.rule.newest
        for found in tables(packets, "results"):
            for row in found.select(["window", "n"]).to_pylist():
                end = round(row["window"]["end"].timestamp() * 1e6)
                self.finals[end] = row["n"]
                if not last:
                    self.closed.append((end, newest - end))

    def _told(self, local):
        memory = local.log.newest().adapting.windows[0]
        return told_quality(self.window, memory, ended=False)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("slow-exponential", 0.9),
        ("pareto", 0.99),
        ("regimes", 0.95),
        ("late-values", 0.9),
    ],
)
def test_the_quality_told_of_settled_windows_is_true_over_any_thousand_rows(name, target):
    stream = shortened(FAMILIES[name].stream(2))
    played = Played(stream, target)
    due = truth(counted(stream))
    ends = np.array(sorted(due))
    given = np.array([played.finals.get(end, 0) for end in ends.tolist()])
    total = np.array([due[end] for end in ends.tolist()])
    judged = 0
    for told in played.told:
        since, said, true, rows = 0, 0.0, 0, 0
        for span in told.spans:
            upto = bisect_left(ends.tolist(), span.end + 1)
            if span.settled and span.quality is not None:
                mine = int(total[since:upto].sum())
                said, true = said + span.quality * mine, true + int(given[since:upto].sum())
                rows += mine
            since = upto
            if rows >= ROWS:
                judged += 1
                assert LEAST <= said / rows - true / rows <= MOST, (name, target, span)
                said, true, rows = 0.0, 0, 0
    assert judged


def counted(stream):
    """The stream of the rows that match, each with the value 1: its sums are counts."""
    columns = {n: getattr(stream, n)[stream.matches] for n in ("ts", "arrived", "key", "matches")}
    return replace(stream, **columns, value=np.ones(int(stream.matches.sum())))


def test_waits_and_buffers_are_those_of_the_closed_windows():
    stream = shortened(FAMILIES["slow-exponential"].stream(1), 60)
    played = Played(stream, 0.95)
    (status,) = played.status.values()
    waits = [wait for _, wait in played.closed]
    assert status.wait.total_seconds() * 1e6 == pytest.approx(np.mean(waits), rel=0.01)
    slacks = [span.slack for span in played.spans for _ in range(span.windows)]
    assert status.buffer.total_seconds() * 1e6 == pytest.approx(np.mean(slacks), rel=0.01)
    assert status.buffer <= status.wait


@pytest.mark.parametrize("name", ["large-values-late", "lognormal"])
def test_a_bound_on_the_error_of_sums_is_kept_where_large_values_are_late(name):
    """After the first 20 windows, the share of sums within the error is .995 of the one asked."""
    stream = shortened(FAMILIES[name].stream(4), 160)
    feed, share, error = lw.feed(SCHEMA), 0.95, 0.05
    span = timedelta(microseconds=stream.range)
    rows = lw.stream(feed, time="ts", watermark=lw.quality(error=error, share=share))
    query = rows.window(range=span).agg(total=lw.sum("value"))
    out = query.run(epochs={feed: epochs(stream)}, clock=Cuts(stream.cuts), shards=1)
    finals = {
        round(row["window"]["end"].timestamp() * 1e6): row["total"]
        for row in out.results.to_pylist()
    }
    due = truth(stream)
    ends = sorted(due)[20:]
    within = [abs(finals.get(end, 0.0) - due[end]) <= error * abs(due[end]) for end in ends]
    assert np.mean(within) >= 0.995 * share
    (told,) = out.status.quality.values()
    assert abs(told.overall - np.mean(within)) <= 0.05


def survival(longest, recent, newest=1_000):
    """Rows that need more slack than 0, 100, 200 and 400, of 100,000 and of 1,000 recent ones."""
    edges = np.array([0, 100, 200, 400])
    return Survival(newest, edges, np.array(longest), np.array(recent), (100_000.0, 1_000.0))


def test_a_window_is_settled_when_hardly_a_row_needs_its_distance():
    usual = survival([0.1, 0.01, 0.0001, 0.0], [0.1, 0.001, 0.0, 0.0])
    assert not usual.settled(1_000 - 199)
    assert usual.settled(1_000 - 200)


def test_while_delays_grow_a_window_is_settled_at_twice_the_distance():
    growing = survival([0.01, 0.00005, 0.0, 0.0], [0.5, 0.2, 0.001, 0.0])
    assert growing.missing(1_000 - 200) < 0.0001
    assert not growing.settled(1_000 - 399)
    assert growing.settled(1_000 - 400)


def test_one_row_that_is_a_year_late_keeps_no_window_open():
    outlier = survival([0.00001] * 4, [0.001] * 4)
    assert outlier.settled(999)
    two = survival([0.00002] * 4, [0.002] * 4)
    assert not two.settled(0)
