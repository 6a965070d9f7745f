"""Joins against the definition, row by row: who meets whom, what is stored, what is late."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.join.band import Band, SameWindow
from lowwater.operators.join.kernel import JoinKernel
from lowwater.operators.join.plan import JoinPlan
from lowwater.operators.packet import table_of
from lowwater.ticks import END
from lowwater.windows.axis import Axis
from tests.operators.row_kernels import Runner, bag, bare, marks_upto, packets_of, small_buckets
from tests.strategies import examples

SELF = pa.schema(
    [
        ("t", pa.int64()),
        ("k", pa.int32()),
        ("c", pa.string()),
        ("x", pa.float64()),
        ("id", pa.int8()),
    ]
)
OTHER = pa.schema(
    [
        ("u", pa.int64()),
        ("k", pa.int64()),
        ("d", pa.string()),
        ("x", pa.float64()),
        ("id", pa.int8()),
    ]
)
SCHEMAS = (SELF, OTHER)
KEYS = ((), (("k", "k"),), (("c", "d"),), (("x", "x"),), (("k", "k"), ("c", "d")))
HOWS = ("inner", "left", "right", "full", "anti")
INTS, TEXTS, FLOATS = (None, 1, -7), ("a", None, "b"), (0.0, -0.0, None, math.nan, 1.5)
REACH = 14


def plan_of(on, band, how, time="self"):
    axes = (Axis("t", pa.int64()), Axis("u", pa.int64()))
    return JoinPlan(SCHEMAS, axes, on, band, how, "self" if how == "anti" else time)


def row(port, tick, key, number, dead=False):
    names = SCHEMAS[port].names
    values = [tick, INTS[key % 3], TEXTS[key // 3 % 3], FLOATS[key % 5], number]
    degree = number % 5
    hidden = {TICK: tick, LATE_DEGREE: degree, DEAD: dead}
    return {**dict(zip(names, values, strict=True)), **hidden}


bands = st.one_of(
    st.tuples(st.integers(-6, 6), st.integers(0, 5)).map(lambda b: Band(b[0], b[0] + b[1])),
    st.builds(SameWindow, st.integers(1, 9), st.integers(-5, 5)),
)
plans = st.builds(
    plan_of,
    st.sampled_from(KEYS),
    bands,
    st.sampled_from(HOWS),
    st.sampled_from(["self", "other", "min", "max", "both"]),
)


@st.composite
def epochs(draw, dead=True):
    keys = st.sampled_from([1, 1, 1, *range(15)])  # one is frequent, so that many rows meet
    drawn = st.tuples(st.integers(0, 1), st.integers(-REACH, REACH), keys)
    numbered, out = 0, []
    for rows in draw(st.lists(st.lists(drawn, max_size=8), min_size=1, max_size=6)):
        made = []
        for port, tick, key in rows:
            is_dead = dead and draw(st.integers(0, 15)) == 15
            made.append((port, row(port, tick, key, numbered, is_dead)))
            numbered += 1
        out.append((made, [draw(marks_upto(REACH)), draw(marks_upto(REACH))]))
    return out


# -- the definition -------------------------------------------------------------------------------


def near(band, t, u):
    """Whether self at t and other at u belong together."""
    if isinstance(band, Band):
        return band.lo <= u - t <= band.hi
    return (t - band.origin) // band.size == (u - band.origin) // band.size


def same(a, b):
    """SQL's equality with Spark's floats."""
    if a is None or b is None:
        return False
    return a == b or (a != a and b != b)  # noqa: PLR0124


def partners(band, port, t):
    """All times on the other side that a row of a port may meet."""
    times = range(t - 40, t + 41)
    return [u for u in times if (near(band, t, u) if port == 0 else near(band, u, t))]


def gone(band, port, t, mark_of_other):
    """Whether no partner of a row can come any more."""
    return mark_of_other is not None and all(u < mark_of_other for u in partners(band, port, t))


@dataclass
class Naive:
    """A join that looks at every pair of rows."""

    plan: JoinPlan
    marks: list = field(default_factory=lambda: [None, None])
    stored: list = field(default_factory=lambda: [[], []])

    def run(self, epoch):
        rows, marks = epoch
        late, fresh = [], [[], []]
        counts = {"late": 0, "admitted": 0, "partly_late": 0}
        for port, r in rows:
            verdict = self.verdict(port, r)
            counts[verdict] += 1
            counts["admitted"] += verdict == "partly_late"
            if verdict != "admitted":
                late.append((port, r, verdict == "partly_late"))
            if verdict != "late":
                fresh[port].append([r, verdict == "partly_late"])
        results = self.pairs(fresh)
        for port in (0, 1):
            said = [m for m in (self.marks[port], marks[port]) if m is not None]
            self.marks[port] = max(said, default=None)
        return results, self.let_go(fresh), late, counts

    def verdict(self, port, r):
        if r[DEAD]:
            return "late"
        mark, band = self.marks[port], self.plan.band
        purged = [gone(band, 1 - port, u, mark) for u in partners(band, port, r[TICK])]
        if all(purged):
            return "late"
        return "partly_late" if any(purged) else "admitted"

    def equal(self, a, b):
        return all(same(a[mine], b[other]) for mine, other in self.plan.on)

    def pairs(self, fresh):
        results = []
        mine = [(s, False) for s in self.stored[0]] + [(s, True) for s in fresh[0]]
        other = [(s, False) for s in self.stored[1]] + [(s, True) for s in fresh[1]]
        for a, a_new in mine:
            for b, b_new in other:
                met = near(self.plan.band, a[0][TICK], b[0][TICK]) and self.equal(a[0], b[0])
                if met and (a_new or b_new):
                    a[1] = b[1] = True
                    if self.plan.how != "anti":
                        results.append(self.result(a[0], b[0]))
        return results

    def let_go(self, fresh):
        results = []
        for port in (0, 1):
            kept, left = [], []
            outer = self.plan.how in (("left", "full", "anti"), ("right", "full"))[port]
            for is_new, s in [(False, s) for s in self.stored[port]] + [
                (True, s) for s in fresh[port]
            ]:
                r, settled = s
                if gone(self.plan.band, port, r[TICK], self.marks[1 - port]):
                    if outer and not settled:
                        left.append(r)
                elif not is_new or self.worth_storing(port, r, outer and not settled):
                    kept.append(s)
            self.stored[port] = kept
            left.sort(key=lambda r: r[TICK])
            results += [self.result(r, None) if port == 0 else self.result(None, r) for r in left]
        return results

    def worth_storing(self, port, r, may_leave):
        if self.plan.how == "anti" and port == 0:
            return may_leave
        return may_leave or all(r[pair[port]] is not None for pair in self.plan.on)

    def result(self, a, b):
        plan = self.plan
        if plan.how == "anti":
            return {n: a[n] for n in SELF.names}
        common = [m for m, o in plan.on if m == o]
        out = {n: (a if a is not None else b if n in common else {n: None})[n] for n in SELF.names}
        for name in OTHER.names:
            if name not in common:
                shown = name + "_other" if name in SELF.names else name
                out[shown] = None if b is None else b[name]
        times = [r[TICK] for r in (a, b) if r is not None]
        if plan.time in {"min", "max"}:
            out[f"time_{plan.time}"] = min(times) if plan.time == "min" else max(times)
        return out


def check_state(runner, naive):
    for port in (0, 1):
        kept = [(r, settled) for r, settled in naive.stored[port]]
        kept.sort(key=lambda k: k[0][TICK])
        found = runner.stored(port)
        assert repr([r for r, _ in found]) == repr([bare(r) for r, _ in kept])
        if runner.plan.preserved[port]:
            assert [f for _, f in found] == [settled for _, settled in kept]


@examples(120)
@given(plans, epochs(), st.integers(1, 3), st.integers(1, 5))
def test_every_epoch_is_what_the_definition_says(plan, stream, cuts, bucket):
    plan = pickle.loads(pickle.dumps(plan))
    runner, naive = Runner(plan, JoinKernel, cuts), Naive(plan)
    with small_buckets(bucket):
        for epoch in stream:
            said = runner.run(epoch)
            pairs, alone, late, counts = naive.run(epoch)
            assert bag(said.results) == bag(pairs + alone)
            assert repr(said.results[len(pairs) :]) == repr(alone)  # by (time, arrival)
            check_state(runner, naive)
            assert {n: said.measures[n] for n in counts} == counts
            listed = [
                (
                    p,
                    {
                        **{n: r[n] for n in SCHEMAS[p].names},
                        "late_degree": r[LATE_DEGREE],
                        "admitted": a,
                    },
                )
                for p, r, a in late
            ]
            assert sorted(map(repr, said.late)) == sorted(map(repr, listed))


def static_join(plan, rows):
    """The join of two whole tables, as SQL defines it."""
    naive = Naive(plan)
    sides = [[r for p, r in rows if p == port] for port in (0, 1)]
    meets = {
        (i, j)
        for i, a in enumerate(sides[0])
        for j, b in enumerate(sides[1])
        if near(plan.band, a[TICK], b[TICK]) and naive.equal(a, b)
    }
    lonely = [
        [r for i, r in enumerate(side) if all(pair[port] != i for pair in meets)]
        for port, side in enumerate(sides)
    ]
    if plan.how == "anti":
        return [naive.result(a, None) for a in lonely[0]]
    results = [naive.result(sides[0][i], sides[1][j]) for i, j in meets]
    results += [naive.result(a, None) for a in lonely[0] if plan.how in {"left", "full"}]
    return results + [naive.result(None, b) for b in lonely[1] if plan.how in {"right", "full"}]


@examples(80)
@given(plans, epochs(dead=False), st.data())
def test_while_no_row_is_late_any_cut_into_epochs_gives_the_join_of_the_whole_streams(
    plan, stream, data
):
    rows = rest = [r for made, _ in stream for r in made]
    runner, results = Runner(plan, JoinKernel), []
    with small_buckets():
        while rest:
            n = data.draw(st.integers(1, len(rest)))
            now, rest = rest[:n], rest[n:]
            sure = [min((r[TICK] for p, r in rest if p == port), default=END) for port in (0, 1)]
            marks = [data.draw(st.sampled_from([None, mark])) for mark in sure]
            results += (said := runner.run((now, marks))).results
            assert said.measures["late"] == said.measures["partly_late"] == 0
        results += runner.run(([], [END, END])).results
    assert bag(results) == bag(static_join(plan, rows))
    assert list(runner.state) == ["meta"]


LEFT = plan_of((("k", "k"),), Band(-2, 3), "left")


def run(plan, *stream):
    runner = Runner(plan, JoinKernel)
    return runner, [runner.run(epoch) for epoch in stream]


def numbers(said):
    return [(r["id"], r.get("id_other")) for r in said.results]


def test_rows_without_a_partner_leave_by_time_once_none_can_come():
    #  self   1 2 2 4          partners of t: [t − 2, t + 3]
    #  other  ─────────m5──m6
    rows = [(0, row(0, t, 1, n)) for n, t in enumerate([4, 2, 1, 2])]
    runner, said = run(LEFT, (rows, [None, 4]), ([], [None, 5]), ([], [None, 6]), ([], [9, None]))
    assert [numbers(s) for s in said] == [[], [(2, None)], [(1, None), (3, None)], []]
    assert [r["id"] for r, _ in runner.stored(0)] == [0]


def test_a_partly_late_row_never_leaves_as_unmatched():
    #  self    m10 ───── 8: other rows before 10 − 2 are gone, those from 8 to 11 are not
    partly = [(0, row(0, 8, 1, 5))]
    met = [(1, row(1, 9, 1, 6))]
    _, said = run(LEFT, ([], [10, None]), (partly, [None, None]), ([], [None, END]))
    assert said[1].measures["partly_late"] == said[1].measures["admitted"] == 1
    assert [r["admitted"] for _, r in said[1].late] == [True]
    assert said[2].results == []
    _, said = run(LEFT, ([], [10, None]), (partly, [None, None]), (met, [None, END]))
    assert numbers(said[2]) == [(5, 6)]


def test_a_late_row_takes_no_part_and_is_listed():
    #  self    m14 ───── 8: its partners end at 11, and all before 12 are gone
    runner, said = run(
        LEFT, ([], [14, None]), ([(0, row(0, 8, 1, 5)), (1, row(1, 9, 1, 6))], [None] * 2)
    )
    assert (said[1].measures["late"], said[1].measures["admitted"]) == (1, 1)
    assert [(p, r["id"], r["admitted"]) for p, r in said[1].late] == [(0, 5, False)]
    assert said[1].results == []
    # The row of other has come too late to meet a row of self that comes in time.
    assert runner.stored(1) == []


def test_a_row_that_no_partner_can_reach_joins_and_is_not_stored():
    plan = plan_of((("k", "k"),), Band(-2, 3), "inner")
    other, mine = [(1, row(1, 20, 1, 0))], [(0, row(0, 18, 1, 1)), (0, row(0, 17, 1, 2))]
    runner, said = run(plan, (other, [None, 21]), (mine, [None, None]))
    assert numbers(said[1]) == [(1, 0), (2, 0)]
    assert [r["id"] for r, _ in runner.stored(0)] == [1]


def test_results_leave_in_packets_of_bounded_size():
    plan = plan_of((), Band(-5, 5), "inner")
    rows = [(p, row(p, 0, 0, n)) for n in range(20) for p in (0, 1)]
    with small_buckets(portion=50):
        packets = JoinKernel(plan, 0, {}).run(packets_of(plan, (rows, [None, None]), 1)).emissions
    sizes = [len(table_of(p)) for p in packets if p.kind == "results"]
    assert sum(sizes) == 400
    assert max(sizes) <= 50
    assert len(sizes) == 10


class Watched(dict):
    """State that remembers what was read."""

    def __init__(self, content):
        super().__init__(content)
        self.read = set()

    def __getitem__(self, name):
        self.read.add(name)
        return super().__getitem__(name)


def test_an_epoch_reads_only_the_stretches_of_time_that_its_rows_can_meet():
    plan = plan_of((("k", "k"),), Band(-2, 2), "full")
    with small_buckets(10):
        runner, _ = run(
            plan, ([(p, row(p, t, 1, 0)) for t in range(100) for p in (0, 1)], [None] * 2)
        )
        assert len(runner.state) > 20
        state = Watched(runner.state)
        said = JoinKernel(plan, 0, state).run(
            packets_of(plan, ([(0, row(0, 55, 1, 1))], [None] * 2), 1)
        )
    rows = {name for name in state.read if not name.endswith("/flags")}
    assert {name.split("/")[1] for name in rows} == {"1"}
    assert 1 <= len(rows) <= 2
    # The new row and its flag; its partners had met others before.
    assert sorted(name.split("/")[1:2] + name.split("/")[3:] for name in said.changes) == [
        [],
        ["0"],
        ["0", "flags"],
    ]


def test_a_first_partner_rewrites_a_flag_not_the_rows():
    plan = plan_of((("k", "k"),), Band(-2, 2), "left")
    runner, _ = run(plan, ([(0, row(0, t, 1, 0)) for t in range(50)], [None] * 2))
    out = JoinKernel(plan, 0, runner.state).run(
        packets_of(plan, ([(1, row(1, 9, 1, 1))], [None] * 2), 1)
    )
    flags = {n: len(c) for n, c in out.changes.items() if n.startswith("rows/0")}
    assert list(flags.values()) == [7]


@pytest.mark.parametrize("on", KEYS)
def test_times_too_far_apart_for_one_number_still_meet(on):
    far = 2**61 - 1
    plan = plan_of(on, Band(-far, far), "full", "max")
    rows = [
        (p, row(p, t, 1, n)) for n, (p, t) in enumerate([(0, -far), (1, 0), (1, far), (0, 3 - far)])
    ]
    rows += [(p, row(p, t, 1, 5 + p)) for p, t in ((0, far), (1, -far))]
    _, said = run(plan, (rows[:3], [None, None]), (rows[3:], [END - 1, END]))
    assert bag(said[0].results + said[1].results) == bag(static_join(plan, rows))


def test_an_anti_join_stores_no_row_that_has_met_a_partner():
    plan = plan_of((("k", "k"),), Band(-2, 3), "anti")
    rows = [(0, row(0, 5, 1, 1)), (1, row(1, 6, 1, 2)), (0, row(0, 9, 1, 3))]
    _, said = run(plan, (rows, [None, None]), ([], [None, END]))
    assert said[0].measures["cells"] == 2
    assert [r["id"] for r in said[1].results] == [3]


def test_many_key_columns_of_wide_range_are_told_apart():
    names = ["a", "b", "c", "d"]
    schema = pa.schema([("t", pa.int64()), *((n, pa.int64()) for n in names)])
    axis = Axis("t", pa.int64())
    plan = JoinPlan((schema, schema), (axis, axis), tuple((n, n) for n in names), Band(0, 0))
    hidden = {"t": 0, TICK: 0, LATE_DEGREE: 0, DEAD: False}
    keys = [[60_000 * (i >> bit & 1) for bit in range(4)] for i in range(16)]
    rows = [(p, {**dict(zip(names, k, strict=True)), **hidden}) for k in keys for p in (0, 1)]
    _, (said,) = run(plan, (rows, [None, None]))
    assert sorted([r[n] for n in names] for r in said.results) == sorted(keys)
