"""Joins against the definition, row by row: who meets whom, what is stored, what is late."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lowwater.kernels.bands import Band, SameWindow
from lowwater.kernels.ingest import DEAD, LATE_DEGREE, TICK
from lowwater.kernels.joining import JoinEpoch
from lowwater.kernels.joins import JoinPlan
from lowwater.windows import Axis
from tests.row_kernels import Runner, bag, bare, marks_upto, small_buckets
from tests.streams import examples

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
    drawn = st.tuples(st.integers(0, 1), st.integers(-REACH, REACH), st.integers(0, 14))
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
        return results + self.let_go(fresh), late, counts

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
    runner, naive = Runner(plan, JoinEpoch, cuts), Naive(plan)
    with small_buckets(bucket):
        for epoch in stream:
            said = runner.run(epoch)
            results, late, counts = naive.run(epoch)
            assert bag(said.results) == bag(results)
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
