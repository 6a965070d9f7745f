"""Prods: an answer now, as if the streams ended; the exact one later, as if nobody had asked."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.engine.outputs import output_writers
from lowwater.local.host import LocalEpochs, blocks_of, until_the_end
from lowwater.planner.early import prodded
from lowwater.sinks.sink import Outputs
from tests.reference.plans import Noted
from tests.strategies import examples

SCHEMA = "t bigint, k int, v int"
ASK = "t bigint, k int"
EARLY = ("kind", "completeness", "expected_accuracy", "low", "high", "settled")

# -- plans of every kind ---------------------------------------------------------------------------


def aggregates():
    return {"n": lw.count(), "s": lw.sum("v"), "top": lw.max("v"), "mid": lw.median("v")}


def windowed(**words):
    return lambda a, _: a.window(**words).group_by("k").agg(**aggregates())


PLANS = {
    "tumbling": windowed(range=6),
    "sliding": windowed(range=9, slide=2),
    "gaps": windowed(range=2, slide=5),
    "no groups": lambda a, _: a.window(range=8, slide=4).agg(**aggregates()),
    "several names": lambda a, _: (
        a.window(lw.windows(short=(4, 2), long=(12, 2))).group_by("k").agg(n=lw.count())
    ),
    "sessions": lambda a, _: a.window(gap=4).group_by("k").agg(n=lw.count()),
    "by row": lambda a, _: a.window(range=6, slide=lw.rows(1)).agg(n=lw.count(), s=lw.sum("v")),
    "row numbers": lambda a, _: a.window(range=lw.rows(4), slide=lw.rows(2), on=lw.rank("t")).agg(
        s=lw.sum("v")
    ),
    "flush": windowed(range=6, flush=lw.slow_flush(max_delay="2 windows")),
    "union": lambda a, b: a.union(b).window(range=6, slide=3).group_by("k").agg(n=lw.count()),
    "distinct": lambda a, _: (
        a.distinct("k", "v", within=3).window(range=6).group_by("k").agg(n=lw.count())
    ),
    "join": lambda a, b: (
        a.join(b, on="k", band=(-2, 3)).window(range=6).group_by("k").agg(n=lw.count())
    ),
    "outer join": lambda a, b: (
        a.join(b, on="k", band=(-2, 2), how="left").window(range=5).agg(n=lw.count())
    ),
    "anti join": lambda a, b: a.join(b, on="k", band=(-1, 1), how="anti"),
    "windows of windows": lambda a, _: (
        a.window(range=4, slide=2)
        .group_by("k")
        .agg(n=lw.count())
        .window(range=8, slide=4, on="window")
        .agg(most=lw.max("n"), groups=lw.count())
    ),
    "in order": lambda a, _: a.order(),
    "pairs in order": lambda a, b: a.join(b, on="k", band=(-2, 2), how="left", order="time"),
    "three levels": lambda a, b: (
        a.join(b, on="k", band=(-2, 2), how="full")
        .window(range=4)
        .group_by("k")
        .agg(n=lw.count())
        .where("n > 1")
        .window(range=8, on="window")
        .agg(s=lw.sum("n"))
    ),
}


@st.composite
def epochs(draw):
    """Rows with disorder, cut into epochs; some are empty."""
    now, made = 0, []
    for _ in range(draw(st.integers(1, 6))):
        some = []
        for step, back, key, value in draw(
            st.lists(
                st.tuples(
                    st.sampled_from((0, 1, 1, 2, 5)),
                    st.sampled_from((0, 0, 1, 3, 8)),
                    st.sampled_from((1, 2, None)),
                    st.integers(-3, 9),
                ),
                max_size=6,
            )
        ):
            now += step
            some.append((now - back, key, value))
        made.append(some)
    return made


def play(plan, first, second, asks=None, *, slack=3, shards=2):
    """Run a plan on the local host; return for each epoch the finals and the early rows."""
    feeds = [lw.feed(SCHEMA) for _ in range(2)]
    streams = [lw.stream(f, time="t", watermark=lw.slack(slack)) for f in feeds]
    asked = plan(*streams).assembly
    given = {feeds[0]: first, feeds[1]: second}
    if asks is not None:
        feed = lw.feed(ASK)
        asked = prodded(asked, lw.stream(feed, time="t", watermark=lw.ordered()), "raw")
        given[feed] = asks
    asked = asked.with_shards(shards)
    local = LocalEpochs(asked, lw.VirtualClock())
    (way,) = output_writers(asked.flow, prodded=asks is not None).values()
    sources = [[s.table(rows) for rows in given[s]] for s in asked.sources]
    finals, early = [], []
    for n, (blocks, last) in enumerate(until_the_end([blocks_of(s) for s in sources])):
        packets = local.run(blocks, last=last)
        sinks = Outputs(Noted(), Noted(), Noted())
        way.write(n, [p for p in packets if p.kind != "early"], sinks)
        finals.append(sinks.results.epochs.get(n, []))
        way.write(n, [p for p in packets if p.kind == "early"], told := Outputs(Noted()))
        early.append(told.results.epochs.get(n, []))
    return finals, early, local


def bare(row):
    return {n: v for n, v in row.items() if n not in EARLY}


def bag(rows):
    return Counter(repr(bare(row)) for row in rows)


# -- what must hold --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
@examples(12)
@given(first=epochs(), second=epochs(), slack=st.sampled_from((0, 3, 8)), shards=st.integers(1, 3))
def test_early_rows_are_what_would_come_if_the_streams_ended(name, first, second, slack, shards):
    plan, ask = PLANS[name], [[(None, None)]] * (max(len(first), len(second)) + 1)
    finals, early, _ = play(plan, first, second, ask, slack=slack, shards=shards)
    unasked, none, _ = play(plan, first, second, slack=slack, shards=shards)
    assert [list(map(bare, e)) for e in finals[: len(unasked)]] == [
        list(map(bare, e)) for e in unasked
    ]
    assert not any(none)
    for n in range(1, max(len(first), len(second))):
        ended, _, _ = play(plan, first[: n + 1], second[: n + 1], slack=slack, shards=shards)
        given_out = [r for epoch in finals[: n + 1] for r in epoch]
        assert bag(early[n]) == bag(r for e in ended for r in e) - bag(given_out)
