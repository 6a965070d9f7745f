"""Joins in order of time: what algorithm 1 of QDJ gives, and what the definition says."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.join.band import Band
from lowwater.operators.join.ordered_kernel import OrderedJoinKernel
from lowwater.operators.join.ordered_plan import OrderedJoinPlan
from lowwater.ticks import END
from lowwater.windows.axis import Axis
from tests.operators.join.test_join import (
    HOWS,
    KEYS,
    Naive,
    bands,
    epochs,
    near,
    partners,
    static_join,
)
from tests.operators.join.test_join import SCHEMAS as SIDES
from tests.operators.row_kernels import Runner, small_buckets
from tests.reference.qdj import ByEpoch, Tuple
from tests.strategies import examples

# -- algorithm 1 -----------------------------------------------------------------------------------

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("id", pa.int64())])
LATER = 2_000
"""A time after all others, and longer than all spans."""
WINDOWS = st.tuples(st.integers(1, 8), st.integers(1, 8))
SLACKS = st.tuples(st.integers(0, 10), st.integers(0, 10))
DRAWN = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 1), st.integers(0, 1)), max_size=25)


@st.composite
def arrivals(draw):
    """Epochs of (side, row): times drift upwards, and one stream may be ahead of the other."""
    drift, ahead = draw(st.integers(0, 15)), (0, draw(st.integers(-12, 12)))
    found, number = [], 0
    for n, rows in enumerate(draw(st.lists(DRAWN, min_size=1, max_size=7))):
        times = [(max(1, t + n * drift + ahead[side]), side, key) for t, side, key in rows]
        found.append([(s, {"t": t, "k": k, "id": number + i}) for i, (t, s, k) in enumerate(times)])
        number += len(rows)
    return found


def named(rows):
    return [(Tuple(ts=r["t"], key=r["k"], name=r["id"]), side) for side, r in rows]


def kernel_rows(rows):
    return [(side, {**r, TICK: r["t"], LATE_DEGREE: 1, DEAD: False}) for side, r in rows]


def pairs(results):
    return [(r["time_max"], r["id"], r["id_other"]) for r in results]


def windows_of(windows):
    """The band of two windows: a row is in the window of W for W ticks, its own the first."""
    return 1 - windows[1], windows[0] - 1


@examples(120)
@given(arrivals(), WINDOWS, st.data())
def test_pairs_are_those_of_the_pseudo_code_in_its_order(stream, windows, data):
    """Random streams, and slacks that change with every epoch."""
    axis, band = Axis("t", pa.int64()), Band(*windows_of(windows))
    sides, on = ((SCHEMA, SCHEMA), (axis, axis)), (("k", "k"),)
    tracked = data.draw(st.booleans())
    plan = OrderedJoinPlan(*sides, on, band, time="max", pair_unit=7 * tracked)
    runner, literal = Runner(plan, OrderedJoinKernel), ByEpoch(windows)
    given_out, lost, made = [], 0, 0
    with small_buckets():
        for n, rows in enumerate([*stream, []]):
            literal.run(named(rows), ())
            marks = literal.marks(data.draw(SLACKS)) if n < len(stream) else [LATER, LATER]
            literal.run([], marks)
            said = runner.run((kernel_rows(rows), marks))
            given_out, lost = given_out + pairs(said.results), lost + said.measures.get("lost", 0)
            made += said.measures.get("made", 0)
            # What has left is what the pseudo code has of times before its window end.
            settled = [r for r in literal.join.results if r[0] < literal.join.end]
            assert sorted(given_out) == sorted(settled)
    times = [t for t, *_ in given_out]
    assert times == sorted(times)
    assert times == [t for t, *_ in literal.join.results]
    both = [[r for rows in stream for s, r in rows if s == side] for side in (0, 1)]
    all_pairs = [near(band, a["t"], b["t"]) and a["k"] == b["k"] for a in both[0] for b in both[1]]
    assert not tracked or (made, lost) == (len(given_out), sum(all_pairs) - len(given_out))


@given(arrivals(), WINDOWS, SLACKS)
def test_a_query_gives_the_pairs_of_the_pseudo_code(stream, windows, slacks):
    """Marks act after the rows of the next epoch; no result is late for what follows."""
    feeds = [lw.feed("t bigint, k bigint, id bigint") for _ in slacks]
    a, b = (
        lw.stream(f, time="t", watermark=lw.slack(k)) for f, k in zip(feeds, slacks, strict=True)
    )
    joined = a.join(b, on="k", band=windows_of(windows), order="time")
    both = lw.together(joined=joined, counted=joined.window(range=7).agg(n=lw.count()))
    tables = {
        f: [f.table([r for s, r in rows if s == side]) for rows in stream]
        for side, f in enumerate(feeds)
    }
    found = both.run(epochs=tables, host="local")
    literal, marks = ByEpoch(windows), (None, None)
    for rows in stream:
        literal.run(named(rows), marks)
        marks = literal.marks(slacks)
    literal.run([], marks)
    literal.run([], [LATER, LATER])
    given_out = pairs(found["joined"].results.to_pylist())
    assert sorted(given_out) == sorted(literal.join.results)
    assert [t for t, *_ in given_out] == [t for t, *_ in literal.join.results]
    counted = found["counted"]
    assert counted.status.operators["window"]["late"] == 0
    assert sum(r["n"] for r in counted.results.to_pylist()) == len(given_out)
    assert found["joined"].status.balanced


# -- the definition --------------------------------------------------------------------------------


def plan_of(on, band, how, time):
    axes = (Axis("t", pa.int64()), Axis("u", pa.int64()))
    allowed = {"left": {"other"}, "right": {"self"}, "full": {"self", "other"}}.get(how, ())
    time = "self" if how == "anti" else "max" if time in allowed else time
    return OrderedJoinPlan(SIDES, axes, on, band, how, time)


plans = st.builds(
    plan_of,
    st.sampled_from(KEYS),
    bands,
    st.sampled_from(HOWS),
    st.sampled_from(["self", "other", "min", "max"]),
)


@dataclass
class Definition:
    """Every pair of rows, each with the mark of the results that it met when it came."""

    plan: OrderedJoinPlan
    came: list = field(default_factory=lambda: [[], []])
    marks: list = field(default_factory=lambda: [None, None])
    passed: int = -(2**63)

    def run(self, epoch):
        rows, marks = epoch
        counts = {"late": 0, "admitted": 0, "partly_late": 0}
        for port, r in rows:
            verdict = self.verdict(port, r)
            counts[verdict] += 1
            counts["admitted"] += verdict == "partly_late"
            if not r[DEAD]:
                self.came[port].append((r, self.passed))
        for port, mark in enumerate(marks):
            said = [m for m in (self.marks[port], mark) if m is not None]
            self.marks[port] = max(said, default=None)
        found = self.plan.mark_out(*self.marks)
        until = self.passed if found is None else found
        due = [(t, r) for t, met, r in self.results() if met <= t and self.passed <= t < until]
        self.passed = until
        return due, counts

    def verdict(self, port, r):
        t = r[TICK]
        times = [self.time(*((t, u) if port == 0 else (u, t))) for u in self.partners(port, t)]
        times += [t] * self.outer(port)
        behind = [at < self.passed for at in times]
        if r[DEAD] or all(behind):
            return "late"
        return "partly_late" if any(behind) else "admitted"

    def partners(self, port, t):
        return partners(self.plan.band, port, t)

    def outer(self, port):
        return self.plan.how in (("left", "full", "anti"), ("right", "full"))[port]

    def time(self, t, u):
        return {"self": t, "other": u, "min": min(t, u), "max": max(t, u)}[self.plan.time]

    def results(self):
        """Yield (time, the mark it met, result), in the order of ties."""
        rows = Naive(self.plan)
        mine, theirs = ([c for _, c in sorted(enumerate(s), key=by_time)] for s in self.came)
        met = [[False] * len(side) for side in (mine, theirs)]
        for i, (a, m) in enumerate(mine):
            for j, (b, n) in enumerate(theirs):
                if near(self.plan.band, a[TICK], b[TICK]) and rows.equal(a, b):
                    met[0][i] = met[1][j] = True
                    if self.plan.how != "anti":
                        yield self.time(a[TICK], b[TICK]), max(m, n), rows.result(a, b)
        for port, side in enumerate((mine, theirs)):
            for (r, m), settled in zip(side, met[port], strict=True):
                if self.outer(port) and not settled:
                    yield r[TICK], m, rows.result(*((r, None) if port == 0 else (None, r)))


def by_time(numbered):
    number, (r, _) = numbered
    return r[TICK], number


@examples(120)
@given(plans, epochs(), st.integers(1, 3), st.integers(1, 5))
def test_every_epoch_gives_what_the_definition_says_in_order(plan, stream, cuts, bucket):
    plan = pickle.loads(pickle.dumps(plan))
    runner, definition = Runner(plan, OrderedJoinKernel, cuts), Definition(plan)
    with small_buckets(bucket):
        for epoch in [*stream, ([], [END, END])]:
            said = runner.run(epoch)
            due, counts = definition.run(epoch)
            assert repr(said.results) == repr([r for _, r in sorted(due, key=lambda d: d[0])])
            assert {n: said.measures[n] for n in counts} == counts
    assert list(runner.state) == ["meta"]


@examples(80)
@given(plans, epochs(dead=False), st.data())
def test_while_no_row_is_late_any_cut_into_epochs_gives_the_same_rows_in_the_same_order(
    plan, stream, data
):
    rows = rest = [r for made, _ in stream for r in made]
    runner, results = Runner(plan, OrderedJoinKernel), []
    with small_buckets():
        while rest:
            n = data.draw(st.integers(1, len(rest)))
            now, rest = rest[:n], rest[n:]
            sure = [min((r[TICK] for p, r in rest if p == s), default=END) for s in (0, 1)]
            marks = [data.draw(st.sampled_from([None, mark])) for mark in sure]
            results += (said := runner.run((now, marks))).results
            assert said.measures["late"] == said.measures["partly_late"] == 0
        results += runner.run(([], [END, END])).results
        once = Runner(plan, OrderedJoinKernel).run((rows, [END, END])).results
    assert repr(results) == repr(once)
    assert sorted(map(repr, results)) == sorted(map(repr, static_join(plan, rows)))
