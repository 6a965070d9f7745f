"""`allowed_lateness=`: a closed window takes late rows for a while, and its result comes again."""

from __future__ import annotations

import copy
import random
from importlib.util import find_spec
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.control.message import ControlMessage
from lowwater.control.watermark import Watermarks
from lowwater.dataflow.run_operator import step
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import Packet, table_of
from lowwater.operators.window import epoch as buckets
from lowwater.ticks import END
from tests.reference.operators import Input, Way
from tests.reference.plans import Twin, play
from tests.reference.revisions import Revisions
from tests.reference.windows import (
    PerSource,
    Punctuated,
    RowSlack,
    Slack,
    Windows,
    group,
    normal,
    same,
)
from tests.run_query import aggregates, late_rows
from tests.strategies import NAMED, SCHEMA, cut, cuts, examples, rows, sliding
from tests.strategies import row as spelt

SOME = {n: NAMED[n] for n in ("n", "sum_i", "sum_m", "max_x", "first_s", "last_d")}
HOLISTIC = {
    "mid": ("median", "i"), "tails": ("quantile", "i", [0.1, 0.9]),
    "distinct": ("count_distinct", "s"), "top": ("top_k", "s", 2), "most": ("mode", "i"),
}  # fmt: skip
COUNTED = ("in", "admitted", "late", "partly_late", "outside", "results")
ALONE = ""
"""The name of a window that has none."""

revisions = st.sampled_from((40, 16, 9, 5, 200, 2, 1))
shards = st.sampled_from((1, 2, 3))


@st.composite
def crowds(draw):
    """Epochs of many rows, many of them late by anything: one number to draw and to shrink.

    Hypothesis alone would draw few rows, and hardly one behind a mark that has closed its window.
    """
    rng = random.Random(draw(st.integers(0, 9_999)))
    now, stream = rng.randrange(-40, 20), []
    for _ in range(rng.randrange(30, 80)):
        now += rng.choice((0, 1, 1, 2, 6, 14))
        back = rng.choice((0, 0, 0, 1, 4, 9, 16, 30, 60))
        stream.append(spelt(now - back, rng.randrange(12), rng.randrange(88)))
    return cut(stream, sorted(rng.choices(range(len(stream) + 1), k=rng.randrange(6, 14))))


epochs_of_rows = st.one_of(crowds(), crowds(), rows().flatmap(cuts))
keys = st.sampled_from(((), ("b",), ("a", "c")))
sizes = st.sampled_from((1, 2, buckets.TARGET_CELLS))


def asked(feed, windows, progress, revise, keys, named):
    """The query that the oracle's words describe."""
    stream = lw.stream(feed, time="t", watermark=progress)
    if ALONE in windows:
        w = windows[ALONE]
        words = {"range": w.range, "slide": w.slide, "origin": w.origin}
        windowed = stream.window(**words, allowed_lateness=revise)
    else:
        several = lw.windows(**{n: (w.range, w.slide) for n, w in windows.items()})
        windowed = stream.window(several, allowed_lateness=revise)
    return windowed.group_by(*keys).agg(**named)


def played(query, feed, epochs, shards, size=buckets.TARGET_CELLS):
    """What a query gives, epoch by epoch, with buckets of so many cells."""
    with mock.patch.object(buckets, "TARGET_CELLS", size):
        return play(shards, out=Twin(query, (Way(Input(feed, None, epochs=epochs)),)))


def given_out(found, keys):
    """Results by kind and (window name, window, *group); one that comes twice is an error."""
    told = {}
    for row in found:
        cell = (row["kind"], (row.get("window_name", ALONE), row["wid"], *group(row, keys)))
        assert cell not in told, f"{cell} came twice in an epoch"
        told[cell] = row
    return told


def said(row):
    """A late row as both sides tell it."""
    missed = {k: row["missed"][k] for k in ("first", "last")}
    return repr(normal({"window_name": ALONE, **row, "missed": missed}))


def hold(told, oracle, epochs, keys, *, own=False, size=None):
    """Hold a story against the oracle's: results, late rows, counts, and what is kept."""
    expected = oracle.tell(epochs)
    assert len(told.results["out"]) == len(expected)
    for n, epoch in enumerate(expected):
        found = given_out(told.results["out"][n], keys)
        assert found.keys() == epoch.results.keys(), f"epoch {n}"
        for cell, values in epoch.results.items():
            wrong = {
                c: (v, found[cell][c]) for c, v in values.items() if not same(v, found[cell][c])
            }
            assert not wrong, f"epoch {n}, {cell}: (expected, found) = {wrong}"
            window = oracle.windows[cell[1][0]]
            bounds = {"start": window.start(cell[1][1]), "end": window.end(cell[1][1])}
            assert found[cell]["window"] == bounds
        lost = sorted(said(dict(sorted(row.items()))) for _, _, row in told.late[n])
        assert lost == sorted(said(dict(sorted(row.items()))) for row in epoch.late), f"epoch {n}"
        kept, needed = told.cells[n].get("window", 0), epoch.windows if own else epoch.panes
        # A bucket goes when all of it may go; of one pane each, what is left is what is needed.
        assert kept == needed if size == 1 else kept >= needed, f"kept after epoch {n}"
    counts = told.counts["window"]
    assert {c: counts[c] for c in COUNTED} == {c: oracle.counts[c] for c in COUNTED}
    assert not any(told.cells[-1].values())
    return expected


@examples(150)
@given(epochs_of_rows, sliding(), st.integers(0, 8), revisions, keys, shards, sizes)
def test_results_late_rows_counts_and_state_are_those_of_the_oracle(
    epochs, windows, span, revise, keys, shards, size
):
    feed = lw.feed(SCHEMA)
    query = asked(feed, {ALONE: windows}, lw.slack(span), revise, keys, aggregates(SOME))
    oracle = Revisions({ALONE: windows}, Slack(span), revise, keys, SOME)
    hold(played(query, feed, epochs, shards, size), oracle, epochs, keys, size=size)


NAMES = st.dictionaries(st.sampled_from("uvw"), sliding(gaps=True), min_size=1, max_size=3)


@examples(80)
@given(epochs_of_rows, NAMES, st.integers(0, 8), revisions, keys, shards, sizes)
def test_windows_on_common_panes_are_revised_each_by_itself(
    epochs, found, span, revise, keys, shards, size
):
    windows = {n: Windows(w.range, w.slide) for n, w in found.items()}
    feed = lw.feed(SCHEMA)
    query = asked(feed, windows, lw.slack(span), revise, keys, aggregates(SOME))
    oracle = Revisions(windows, Slack(span), revise, keys, SOME)
    hold(played(query, feed, epochs, shards, size), oracle, epochs, keys)


PROGRESS = {
    "slack in rows": (lw.slack(rows=3), RowSlack(3)),
    "consistent": (lw.slack(3, mode="consistent"), Slack(3)),
    "consistent, in rows": (lw.slack(rows=3, mode="consistent"), RowSlack(3)),
    "sources, their own marks": (lw.per_source("b", lw.slack(3)), PerSource("b", 3, own=True)),
    "sources, one mark": (lw.per_source("a", lw.slack(3)), PerSource("a", 3, own=False)),
    "punctuated": (lw.punctuated("f"), Punctuated("f")),
    "punctuated by group": (lw.punctuated("f", by="b"), Punctuated("f", "b", own=True)),
}


@pytest.mark.parametrize("kind", PROGRESS)
@examples(40)
@given(epochs_of_rows, sliding(), revisions, shards, sizes)
def test_every_progress_policy_has_its_lagging_mark(kind, epochs, windows, revise, shards, size):
    progress, rule = PROGRESS[kind]
    feed = lw.feed(SCHEMA)
    query = asked(feed, {ALONE: windows}, progress, revise, ("b",), aggregates(SOME))
    strict = kind.startswith("consistent")
    oracle = Revisions(
        {ALONE: windows}, copy.deepcopy(rule), revise, ("b",), SOME, consistent=strict
    )
    hold(played(query, feed, epochs, shards, size), oracle, epochs, ("b",), size=size)
    assert not strict or oracle.counts["partly_late"] == 0


GREATEST = lw.aggregate("i", lift=int, combine=max, lower=int, returns="bigint")
TOTAL = lw.aggregate("i", init=int, incr=lambda s, v: s + v, final=int, returns="bigint")
KINDS = {
    "all that combine": (NAMED, aggregates(NAMED)),
    "all values": (HOLISTIC, aggregates(HOLISTIC)),
    "sketches of few values": (
        {n: HOLISTIC[n] for n in ("distinct", "mid")},
        aggregates(
            {n: HOLISTIC[n] for n in ("distinct", "mid")},
            sketch=find_spec("datasketches") is not None,
        ),
    ),
    "lift, combine, lower": (
        {**SOME, "own": ("max", "i")},
        {**aggregates(SOME), "own": GREATEST},
    ),
    "init, incr, final": ({**SOME, "own": ("sum", "i")}, {**aggregates(SOME), "own": TOTAL}),
}


@pytest.mark.parametrize("kind", KINDS)
@examples(30)
@given(crowds(), sliding(), revisions, shards, sizes)
def test_every_kind_of_aggregate_is_revised(kind, epochs, windows, revise, shards, size):
    named, own = KINDS[kind]
    feed = lw.feed(SCHEMA)
    query = asked(feed, {ALONE: windows}, lw.slack(2), revise, ("b",), own)
    oracle = Revisions({ALONE: windows}, Slack(2), revise, ("b",), named)
    per_window = kind == "init, incr, final"
    told = played(query, feed, epochs, shards, size)
    hold(told, oracle, epochs, ("b",), own=per_window, size=size)


def shown(results):
    """What an upsert sink shows in the end: of each window and group the last that came."""
    last = {}
    for row in results:
        cell = (row["wid"], *group(row, ("b",)))
        assert row["kind"] == "revised" or cell not in last, "a final after another result"
        last[cell] = (row["n"], row["total"])
    return last


@examples(25)
@given(data=st.data(), blocks=crowds(), span=st.integers(0, 4), windows=sliding())
def test_under_consistent_slack_an_upsert_shows_the_same_however_blocks_are_cut_into_epochs(
    data, tmp_path_factory, blocks, span, windows
):
    folder, revise = tmp_path_factory.mktemp("blocks"), data.draw(revisions)
    schema = lw.feed("t bigint, b string, i bigint").schema
    for n, block in enumerate(blocks):
        table = pa.Table.from_pylist([{k: r[k] for k in "tbi"} for r in block], schema)
        pq.write_table(table, folder / f"{n:04d}.parquet")

    def outcome(files_per_epoch):
        source = lw.files(folder, files_per_epoch=files_per_epoch)
        words = {"range": windows.range, "slide": windows.slide, "origin": windows.origin}
        return (
            lw.stream(source, time="t", watermark=lw.slack(span, mode="consistent"))
            .window(**words, allowed_lateness=revise)
            .group_by("b")
            .agg(n=lw.count(), total=lw.sum("i"))
            .run(host="local")
        )

    one = outcome(1)
    for files_per_epoch in (3, 100):
        more = outcome(files_per_epoch)
        assert shown(more.results.to_pylist()) == shown(one.results.to_pylist())
        assert late_rows(more) == late_rows(one)
        assert more.status["late"] == one.status["late"]
        assert one.status["partly_late"] == more.status["partly_late"] == 0


# -- timelines -------------------------------------------------------------------------------------


def timeline(*epochs, keys=(), **window):
    """Run over rows (t, k); return (epoch, kind, wid, n) of every result, and the outcome."""
    feed = lw.feed("t bigint, k int")
    stream = [[{"t": r, "k": 0} if isinstance(r, int) else r for r in e] for e in epochs]
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(**window)
    query = query.group_by(*keys).agg(n=lw.count())
    told = played(query, feed, stream, 2)
    found = [
        (n, r["kind"], r["wid"], *(r[k] for k in keys), r["n"])
        for n, epoch in enumerate(told.results["out"])
        for r in epoch
    ]
    return found, told


def test_a_late_row_corrects_its_window_until_the_mark_is_so_far_beyond_its_end():
    #  epoch  0      1                2             3    4                   5
    #  rows   5 12   13               7             31   30                  8
    #  mark          12 closes [0,10) 13: 7 enters  13   31 - 20 >= 10: gone  8 is late
    found, told = timeline([5, 12], [13], [7], [31], [30], [8], range=10, allowed_lateness=20)
    assert found == [
        (1, "final", 0, 1),
        (2, "revised", 0, 2),
        (4, "final", 1, 2),
        (6, "final", 3, 2),
    ]
    assert [row["t"] for epoch in told.late for _, _, row in epoch] == [8]


def test_the_last_tick_before_the_window_is_gone():
    #  the mark is 29 in force when 8 comes: 29 - 20 < 10
    found, told = timeline([5, 29], [29], [8], range=10, allowed_lateness=20)
    assert (2, "revised", 0, 2) in found
    assert not any(told.late)


def test_however_many_late_rows_an_epoch_has_a_window_is_revised_once():
    found, told = timeline([5, 12], [13], [7, 8, 7], [9], range=10, allowed_lateness=20)
    assert [f for f in found if f[1] == "revised"] == [(2, "revised", 0, 4), (3, "revised", 0, 5)]
    assert told.counts["window"]["late"] == told.counts["window"]["partly_late"] == 0
    assert told.counts["window"]["admitted"] == 7
    assert told.counts["window"]["results"] == 4


def test_a_group_whose_first_row_is_late_begins_with_a_revision():
    rows = [{"t": 7, "k": 1}]
    found, _ = timeline([5, 12], [13], rows, range=10, allowed_lateness=20, keys=("k",))
    assert (2, "revised", 0, 1, 1) in found
    assert not [f for f in found if f[1:4] == ("final", 0, 1)]


def test_a_window_in_which_nothing_was_in_time_begins_with_a_revision():
    found, _ = timeline([25], [26], [7], range=10, allowed_lateness=30)
    assert [f for f in found if f[2] == 0] == [(2, "revised", 0, 1)]


def test_only_the_windows_and_groups_that_late_rows_enter_come_again():
    #  sliding: 7 is in [0,10) and [5,15); mark 20 has closed [-5,5) [0,10) [5,15) [10,20)
    groups = [{"t": t, "k": k} for t in (1, 6, 11) for k in (1, 2)]
    found, _ = timeline(
        [*groups, {"t": 20, "k": 1}], [{"t": 21, "k": 1}], [{"t": 7, "k": 1}],
        range=10, slide=5, allowed_lateness=20, keys=("k",),
    )  # fmt: skip
    assert sorted(f for f in found if f[0] == 2) == [
        (2, "revised", 0, 1, 3),
        (2, "revised", 1, 1, 3),
    ]


def test_late_rows_of_a_group_correct_their_windows_and_none_between_or_beside():
    #  mark 60 has closed six windows; 5 and 25 are in the first and third
    found, _ = timeline([*range(1, 60, 10), 60], [61], [25, 5], range=10, allowed_lateness=90)
    assert sorted(f for f in found if f[0] == 2) == [(2, "revised", 0, 2), (2, "revised", 2, 2)]


def test_late_rows_whose_windows_overlap_correct_all_of_them():
    #  12 is in the windows from 4 and 8, 16 in those from 8, 12 and 16 (which [16, 24) holds, too)
    found, _ = timeline([10, 40], [41], [12, 16], range=8, slide=4, allowed_lateness=90)
    corrected = [(2, "revised", 2, 2), (2, "revised", 3, 2), (2, "revised", 4, 1)]
    assert sorted(f for f in found if f[0] == 2) == corrected


def test_a_consistent_row_is_late_by_the_end_of_a_window_that_is_gone_and_by_nothing_else():
    #  mark 22, lagging 17: [0, 10) is gone, [10, 20) is not; 12 is in time for that, 9 is not
    feed = lw.feed("t bigint")
    progress = lw.slack(0, mode="consistent")
    windowed = lw.stream(feed, time="t", watermark=progress).window(range=10, allowed_lateness=5)
    epochs = {feed: [[(22,)], [(22,)], [(12,), (9,)]]}
    outcome = windowed.agg(n=lw.count()).run(epochs=epochs, host="local")
    assert [row["t"] for row in outcome.late.to_pylist()] == [9]
    found = [(row["kind"], row["wid"], row["n"]) for row in outcome.results.to_pylist()]
    assert found == [("revised", 1, 1), ("final", 2, 2)]


def test_a_window_that_closes_in_the_epoch_of_its_late_row_is_not_revised():
    #  mark 12 is decided after epoch 0 and acts in 1, after 7 was admitted
    found, _ = timeline([5, 12], [7], range=10, allowed_lateness=20)
    assert [f for f in found if f[2] == 0] == [(1, "final", 0, 2)]


def test_a_row_may_be_too_late_for_one_window_correct_another_and_enter_a_third():
    #  watermark 18, lateness 5: 11 missed [0,12), gone at 13; [4,16) is closed, [8,20) open
    found, told = timeline([5, 18], [18], [11], range=12, slide=4, allowed_lateness=5)
    late = [row for epoch in told.late for _, _, row in epoch]
    assert [(r["missed"]["first"], r["missed"]["last"], r["admitted"]) for r in late] == [
        (0, 0, True)
    ]
    assert [f for f in found if f[0] == 2] == [(2, "revised", 1, 2)]
    assert (3, "final", 2, 3) in found
    assert told.counts["window"]["partly_late"] == 1


class Watched(dict):
    """The state of a shard that notes what is read of it."""

    def __init__(self, shard, read):
        super().__init__(shard)
        self.read = read

    def __getitem__(self, name):
        self.read.append(name)
        return super().__getitem__(name)


def at_work(query):
    return LocalEpochs(query.assembly.with_shards(1), lw.VirtualClock(per_epoch="1 second"))


def counted(**window):
    feed = lw.feed("t bigint")
    return feed, lw.stream(feed, time="t", watermark=lw.ordered()).window(**window).agg(
        n=lw.count()
    )


def test_kept_panes_are_read_where_late_rows_reach_and_nowhere_else():
    #  panes of 10, a bucket each. mark 400 has closed all windows in epoch 2; 35 and 205 are late;
    #  the mark 1015 then lets pane 0 go, without reading it
    feed, query = counted(range=10, allowed_lateness=1000)
    epochs = [[*range(0, 400, 5)], [400], [401], [35, 205], [402], [1015], [1016]]
    noted = []
    with mock.patch.object(buckets, "TARGET_CELLS", 1):
        local = at_work(query)
        for times in epochs:
            read = []
            local.state = [[Watched(shard, read) for shard in shards] for shards in local.state]
            local.run([[feed.table([(t,) for t in times])]], last=[False])
            noted.append({name for name in read if name.startswith("cells/")})
    assert noted[3:] == [{"cells/3", "cells/20"}, {"cells/40"}, set(), {"cells/40", "cells/101"}]
    left = {name for name in local.state[0][0] if name.startswith("cells/")}
    assert left == {f"cells/{n}" for n in (*range(1, 41), 101)}


def test_nothing_is_read_when_only_the_lagging_mark_passes_a_window():
    #  windows of 8 every 4 end at multiples of 4; the lagging mark passes them at 3, 7, 11 …
    feed, query = counted(range=8, slide=4, allowed_lateness=11)
    with mock.patch.object(buckets, "TARGET_CELLS", 1):
        local = at_work(query)
        for times in ([*range(21)], [23], []):
            read = []
            local.state = [[Watched(shard, read) for shard in shards] for shards in local.state]
            before = len(local.state[0][0])
            local.run([[feed.table([(t,) for t in times])]], last=[False])
            marks = local.log.before(local.epoch).standing.ports[0]
    assert marks.low == 23
    assert [name for name in read if name.startswith("cells/")] == []
    assert len(local.state[0][0]) < before


def test_the_mark_of_results_does_not_lag():
    plain, revised = (
        counted(range=10, slide=4, **words)[1].plan for words in ({}, {"allowed_lateness": 7})
    )
    for mark in range(-30, 60):
        one, two = (plan.marks_out([plan.usable(0, Watermarks(mark))]) for plan in (plain, revised))
        assert one == two


def test_a_kernel_that_is_run_again_as_if_the_stream_ended_repeats_no_revision():
    feed, query = counted(range=10, allowed_lateness=50)
    local = at_work(query)
    for times in ([5, 22], [23], [7]):
        packets = local.run([[feed.table([(t,) for t in times])]], last=[False])
    kinds = [r["kind"] for p in packets if p.kind == "results" for r in table_of(p).to_pylist()]
    assert kinds == ["revised"]
    end = Packet(0, 0, "control", ControlMessage(Watermarks(END)).to_bytes())
    done = step(query.plan.with_shards(1), 0, local.state[0][0], [end])
    found = [row for p in done.emissions if p.kind == "results" for row in table_of(p).to_pylist()]
    assert [(r["kind"], r["wid"], r["n"]) for r in found] == [("final", 2, 2)]


# -- words -----------------------------------------------------------------------------------------

FEED = lw.feed("ts timestamp, t bigint, x double, k int, since timestamp, f boolean")
STREAM = lw.stream(FEED, time="ts", watermark=lw.slack("1 minute"))
HOUR = {"range": "1 hour", "allowed_lateness": "1 hour"}
_PIECES = lw.stream(FEED, time="ts", watermark=lw.punctuated("f", since="since"))
_PAIRS = STREAM.join(STREAM.select("ts", "k"), on="k", band=("0 seconds", "1 second"))


@pytest.mark.parametrize(
    ("stream", "window", "told"),
    [
        (STREAM, {"range": "1 hour", "allowed_lateness": "soon"}, "allowed_lateness='soon'"),
        (STREAM, {"range": "1 hour", "allowed_lateness": 5}, "allowed_lateness=5 is a bare number"),
        (STREAM, {"range": "1 hour", "allowed_lateness": "0 seconds"}, "greater than zero"),
        (
            STREAM,
            {"range": "1 hour", "allowed_lateness": 0},
            "allowed_lateness=0 must be greater than zero",
        ),
        (
            STREAM,
            {"range": "1 hour", "allowed_lateness": "-1 hour"},
            "'-1 hour' must be greater than",
        ),
        (STREAM, {"range": "1 hour", "allowed_lateness": lw.rows(5)}, "allowed_lateness="),
        (STREAM, {"range": 5, "on": "t", "allowed_lateness": "1 hour"}, "give a number"),
        (STREAM, {"range": 5, "on": "t", "allowed_lateness": True}, "give a number"),
        (STREAM, {"range": 5, "on": "t", "allowed_lateness": 2**61}, "exceeds the limit of 't'"),
        (STREAM, {**HOUR, "range": lw.unbounded, "slide": "1 hour"}, "take a bounded range="),
        (STREAM, {"gap": "1 hour", "allowed_lateness": "1 hour"}, "take range= instead of gap="),
        (STREAM, {**HOUR, "slide": lw.rows(1)}, "take slide= on the time"),
        (STREAM, {"range": lw.rows(9), "allowed_lateness": "1 hour"}, "take range= on a time"),
        (
            STREAM,
            {"range": lw.rows(9), "on": lw.rank("ts"), "allowed_lateness": "1 hour"},
            "no number",
        ),
        (STREAM, {**HOUR, "flush": lw.slow_flush(max_delay="1 hour")}, "leave flush= out"),
        (_PAIRS, {**HOUR, "on": ("ts", "ts_other")}, "name one time in on="),
        (_PIECES, HOUR, "take punctuation without since="),
    ],
)
def test_windows_that_cannot_be_revised_are_refused_with_a_way_out(stream, window, told):
    with pytest.raises(lw.SpecError) as caught:
        stream.window(**window).group_by("k").agg(n=lw.count())
    assert told in str(caught.value)
    assert "allowed_lateness=" in str(caught.value)


HOURLY = STREAM.window(**HOUR).group_by("k").agg(n=lw.count())


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda q: q.window(range="1 day").agg(n=lw.sum("n")), "the window over it"),
        (lambda q: q.where("n > 1").window(range="1 day").agg(n=lw.sum("n")), "the window over it"),
        (lambda q: q.union(q).window(range="1 day").agg(n=lw.sum("n")), "the window over it"),
        (lambda q: q.join(q, on="k", band=("0 s", "0 s")), "the join over it"),
        (lambda q: q.distinct("k"), "the distinct over it"),
        (lambda q: q.order(), "would find it late"),
    ],
)
def test_operators_over_revised_results_are_refused_with_a_way_out(build, told):
    with pytest.raises(lw.SpecError) as caught:
        build(HOURLY)
    for word in (told, "allowed_lateness='1 hour'", "lw.slack('1 hour')"):
        assert word in str(caught.value)


def test_steps_and_unions_give_revised_results_out():
    feed = lw.feed("t bigint")
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10, allowed_lateness=50)
    query = query.agg(n=lw.count())
    epochs = {feed: [[(5,), (22,)], [(23,)], [(7,)]]}
    steps = query.where("n > 1").with_columns(twice="n * 2").select("window", "twice", "kind")
    found = steps.run(epochs=epochs).results.to_pylist()
    assert [(r["twice"], r["kind"]) for r in found] == [(4, "revised"), (4, "final")]
    both = query.union(query).run(epochs=epochs).results.to_pylist()
    assert sorted(r["kind"] for r in both) == ["final"] * 4 + ["revised"] * 2


def test_windows_over_results_of_other_operators_are_revised():
    #  a pair that is joined late: 7 meets 5 and itself when the mark of pairs has passed [0, 10)
    feed = lw.feed("t bigint, k int")
    rows = lw.stream(feed, time="t", watermark=lw.ordered())
    joined = rows.join(rows.select("t", "k"), on="k", band=(-100, 0))
    query = joined.window(range=10, allowed_lateness=30).agg(n=lw.count())
    told = played(
        query, feed, [[{"t": 5, "k": 1}, {"t": 25, "k": 2}], [], [], [{"t": 7, "k": 1}]], 2
    )
    found = [[(r["kind"], r["wid"], r["n"]) for r in epoch] for epoch in told.results["out"]]
    assert found[3] == [("revised", 0, 3)]


def test_it_is_explained_and_part_of_what_a_checkpoint_must_agree_on():
    plain = STREAM.window(range="1 hour").group_by("k").agg(n=lw.count())
    line = "revised     by late rows, until the watermark is 1 hour beyond a window's end"
    assert line in HOURLY.explain().splitlines()
    assert "revised" not in plain.explain()
    longer = (
        STREAM.window(range="1 hour", allowed_lateness="2 hours").group_by("k").agg(n=lw.count())
    )
    digests = {q.fingerprint(2)["digest"] for q in (plain, HOURLY, longer)}
    assert len(digests) == 3
