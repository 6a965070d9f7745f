"""Distinct against the definition: one row after the other, in order of arrival."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.errors import SpecError
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.distinct import DistinctKernel, DistinctPlan, first_arrivals
from lowwater.operators.join.band import Band
from lowwater.ticks import END
from lowwater.windows.axis import Axis
from tests.operators.row_kernels import Runner, marks_upto, small_buckets
from tests.strategies import examples

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("k", pa.int32()),
        ("c", pa.string()),
        ("x", pa.float64()),
        ("n", pa.int8()),
    ]
)
COLUMNS = ((), ("k",), ("c", "k"), ("x",), ("t",), ("k", "k"))
INTS, TEXTS, FLOATS = (None, 1, -7), ("a", None, "b"), (0.0, -0.0, None, math.nan, 1.5)
REACH = 12


def plan_of(columns, within):
    return DistinctPlan(SCHEMA, Axis("t", pa.int64()), columns, within)


def row(tick, key, number, dead=False):
    values = [tick, INTS[key % 3], TEXTS[key // 3 % 3], FLOATS[key % 5], number]
    shown = dict(zip(SCHEMA.names, values, strict=True))
    return {**shown, TICK: tick, LATE_DEGREE: number % 7, DEAD: dead}


@st.composite
def epochs(draw):
    keys = st.sampled_from([1, 1, 1, *range(15)])  # one is frequent, so that many rows repeat
    drawn = st.tuples(st.integers(-REACH, REACH), keys, st.integers(0, 12))
    number, out = 0, []
    for rows in draw(st.lists(st.lists(drawn, max_size=10), min_size=1, max_size=6)):
        made = []
        for tick, key, dead in rows:
            made.append((0, row(tick, key, number, dead == 12)))
            number += 1
        out.append((made, [draw(marks_upto(REACH))]))
    return out


class Naive:
    """A distinct that compares each row with all that it remembers."""

    def __init__(self, plan):
        self.plan, self.mark, self.known = plan, None, []

    def run(self, epoch):
        rows, (told,) = epoch
        passed, late, duplicates = [], [], 0
        for _, r in rows:
            repeats = any(self.repeats(r, known) for known in self.known)
            behind = self.mark is not None and r[TICK] < self.mark
            if r[DEAD] or (behind and not repeats):
                late.append(r)
            elif repeats:
                duplicates += 1
            else:
                passed.append(r)
                self.known.append(r)
        self.mark = max((m for m in (self.mark, told) if m is not None), default=None)
        if self.mark is not None:
            self.known = [r for r in self.known if self.mark <= r[TICK] + self.plan.within]
            self.known = [] if self.mark >= END else self.known
        return passed, late, duplicates

    def repeats(self, a, b):
        same = all(equal(a[c], b[c]) for c in self.plan.columns)
        return same and abs(a[TICK] - b[TICK]) <= self.plan.within


def equal(a, b):
    return a == b or (a != a and b != b)  # noqa: PLR0124


def shown(row):
    return {n: row[n] for n in SCHEMA.names}


@examples(120)
@given(
    st.sampled_from(COLUMNS),
    st.sampled_from([0, 0, 1, 2, 5, 30]),
    epochs(),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_every_epoch_is_what_the_definition_says(columns, within, stream, cuts, bucket):
    plan = pickle.loads(pickle.dumps(plan_of(columns, within)))
    runner, naive = Runner(plan, DistinctKernel, cuts), Naive(plan)
    with small_buckets(bucket):
        for epoch in stream:
            said = runner.run(epoch)
            passed, late, duplicates = naive.run(epoch)
            assert repr(said.results) == repr([shown(r) for r in passed])
            assert said.measures["duplicates"] == duplicates
            assert said.measures["partly_late"] == 0
            listed = [{**shown(r), "late_degree": r[LATE_DEGREE], "admitted": False} for r in late]
            assert repr([r for _, r in said.late]) == repr(listed)
            kept = sorted(naive.known, key=lambda r: r[TICK])
            remembered = [{**{c: r[c] for c in columns}, TICK: r[TICK]} for r in kept]
            assert repr([r for r, _ in runner.stored(0)]) == repr(remembered)


@examples(60)
@given(st.sampled_from(COLUMNS), st.sampled_from([0, 3]), epochs(), st.data())
def test_how_rows_are_cut_into_epochs_does_not_matter_while_none_is_late(
    columns, within, stream, data
):
    rows = [(p, {**r, DEAD: False}) for made, _ in stream for p, r in made]
    ways = []
    for _ in range(2):
        runner, found, rest = Runner(plan_of(columns, within), DistinctKernel), [], rows
        while rest:
            n = data.draw(st.integers(1, len(rest)))
            now, rest = rest[:n], rest[n:]
            sure = min((r[TICK] for _, r in rest), default=END)
            said = runner.run((now, [data.draw(st.sampled_from([None, sure]))]))
            assert said.measures["late"] == 0
            found += said.results
        ways.append(repr(found))
    assert ways[0] == ways[1]


def test_a_row_behind_the_mark_repeats_only_what_is_still_remembered():
    #  within 5:   t = 10 let through ── mark 14 ── 8 repeats it ── mark 16 forgets it ── 11 is late
    runner = Runner(plan_of(("k",), 5), DistinctKernel)
    assert len(runner.run(([(0, row(10, 1, 0))], [14])).results) == 1
    repeat = runner.run(([(0, row(8, 1, 1))], [None])).measures
    assert (repeat["duplicates"], repeat["admitted"], repeat["late"]) == (1, 1, 0)
    runner.run(([], [16]))
    late = runner.run(([(0, row(11, 1, 2))], [None]))
    assert (late.measures["late"], late.results) == (1, [])


def test_a_row_behind_the_mark_repeats_a_row_of_its_epoch_only_if_that_came_first():
    #  mark 10, within 5:   8 is late ── 12 passes, also though 8 is near ── 9 repeats 12
    runner = Runner(plan_of(("k",), 5), DistinctKernel)
    runner.run(([], [10]))
    said = runner.run(([(0, row(t, 1, t)) for t in (8, 12, 9)], [None]))
    assert [r["n"] for r in said.results] == [12]
    assert [r["n"] for _, r in said.late] == [8]
    assert said.measures["duplicates"] == 1


def test_ticks_at_the_ends_of_what_is_held_do_not_wrap_round():
    far = 2**63 - 2
    runner = Runner(plan_of(("k",), 2**62), DistinctKernel)
    rows = [(0, row(t, 1, i)) for i, t in enumerate([far, -far, far - 1, 0, 1 - far])]
    assert [r["n"] for r in runner.run((rows, [None])).results] == [0, 1, 3]


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-40, 40)), max_size=60), st.integers(0, 9))
def test_rows_let_through_in_rounds_are_those_let_through_one_by_one(rows, within):
    kept = []
    expected = []
    for code, t in rows:
        new = all(c != code or abs(u - t) > within for c, u in kept)
        expected.append(new)
        kept += [(code, t)] if new else []
    code, ticks = (np.array([r[i] for r in rows], np.int64) for i in (0, 1))
    found = first_arrivals(code, ticks, Band(-within, within), np.ones(len(rows), bool))
    assert found.tolist() == expected


def test_a_negative_distance_is_refused():
    with pytest.raises(SpecError, match="within=-1"):
        plan_of(("k",), -1)


def test_without_columns_one_shard_sees_all_rows():
    assert plan_of((), 0).with_shards(3).shards == 1
    assert plan_of(("k",), 0).with_shards(3).shards == 3
    assert plan_of(("k",), 0).shard_keys == (("k",),)
