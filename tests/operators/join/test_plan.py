"""Plans of joins: what results look like, how far they have come, which times belong together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.errors import SpecError
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.join.band import Band, SameWindow, open_from
from lowwater.operators.join.kernel import JoinKernel
from lowwater.operators.join.plan import STEPS, JoinPlan
from lowwater.operators.operator import GradualFlush
from lowwater.ticks import END
from lowwater.windows.axis import Axis
from tests.operators.row_kernels import Runner
from tests.strategies import examples

SIDE = pa.schema([("t", pa.int64()), ("k", pa.int64())])
GRID = 30
HOWS = ("inner", "left", "right", "full", "anti")
bands = st.one_of(
    st.tuples(st.integers(-6, 6), st.integers(0, 5)).map(lambda b: Band(b[0], b[0] + b[1])),
    st.builds(SameWindow, st.integers(1, 9), st.integers(-5, 5)),
)


def plan_of(band, how="inner", on=(("k", "k"),), **more):
    axis = Axis("t", pa.int64())
    return JoinPlan((SIDE, SIDE), (axis, axis), on, band, how, **more)


def row(tick, key):
    return {"t": tick, "k": key, TICK: tick, LATE_DEGREE: 0, DEAD: False}


# -- which times belong together ------------------------------------------------------------------


@given(bands, st.integers(-50, 50), st.integers(-50, 50))
def test_partners_are_partners_from_both_sides(band, t, u):
    there = band.first(t) <= u <= band.last(t)
    assert there == (band.inverse.first(u) <= t <= band.inverse.last(u))
    assert band.first(t) <= band.first(t + 1)
    assert band.last(t) <= band.last(t + 1)
    # A mark leaves open exactly the times whose partners reach it.
    assert (t >= open_from(band, u)) == (band.last(t) >= u)
    assert open_from(band, band.align(u)) == open_from(band, u)
    assert band.align(u) <= u


@given(bands, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_times_at_the_ends_of_int64_do_not_wrap_round(band, ticks):
    at = np.array(ticks, np.int64)
    for vector, one in ((band.first(at), band.first), (band.last(at), band.last)):
        exact = np.clip(np.array([one(t) for t in ticks], object), -(2**63), 2**63 - 1)
        slack = 2 * getattr(band, "size", 0)  # a window that int64 cuts off may be cut anywhere
        near_end = [min(t + 2**63, 2**63 - 1 - t) < slack for t in ticks]
        assert all(v == e or n for v, e, n in zip(vector.tolist(), exact, near_end, strict=True))


def test_marks_of_common_windows_are_rounded_to_where_windows_begin():
    plan = plan_of(SameWindow(10, origin=3))
    assert [plan.align(port, 27) for port in (0, 1)] == [23, 23]
    assert plan.align(0, END) == END
    assert plan_of(Band(-2, 2)).align(0, 27) == 27


@given(
    st.builds(SameWindow, st.integers(1, 90), st.integers(-5, 5)),
    st.builds(GradualFlush, st.integers(1, 400), st.sampled_from([None, 5])),
    st.integers(-500, 500),
)
def test_marks_are_rounded_where_unmatched_rows_move_on_in_steps(band, smooth, mark):
    plan = plan_of(band, "left", flush=smooth)
    assert plan.align(1, END) == END
    assert plan.rounds_marks
    # Rows of other wait for nothing, so self's mark is of use where a window begins.
    assert plan.align(0, mark) == band.align(mark)
    rounded = plan.align(1, mark)
    assert mark - max(1, smooth.delay // STEPS) < rounded <= mark
    assert plan.align(1, rounded) == rounded
    # What `mark` completes and what has to have left by then is the same.
    assert open_from(band, rounded) == open_from(band, mark)
    assert plan.left_from(0, rounded) == plan.left_from(0, mark)


def test_few_marks_of_a_long_delay_are_of_use():
    plan = plan_of(SameWindow(10_000), "left", flush=GradualFlush(15_000))
    used = {plan.align(1, mark) for mark in range(10_000, 20_000)}
    # Steps of 234 ticks, and one where the window before the last must have left.
    assert len(used) == 43 + 1
    assert 15_000 in used


def test_rows_may_stay_behind_the_mark_of_the_other_side_where_they_are_preserved():
    delays = {
        how: [plan_of(Band(0, 1), how, flush=GradualFlush(3)).delay(port) for port in (0, 1)]
        for how in HOWS[1:]
    }
    assert delays == {"left": [3, 0], "right": [0, 3], "full": [3, 3], "anti": [3, 0]}
    assert plan_of(Band(0, 1), "full").delay(0) == 0


# -- how far results have come --------------------------------------------------------------------


def later_results(plan, marks):
    """Return what comes after the marks if all that may have come has, and all that may come does.

    Each time has a row with a key of both sides and one whose key no row of the other side has.
    """
    runner = Runner(plan, JoinKernel)
    everything = [
        (p, row(t, k)) for t in range(-GRID, GRID) for p, k in ((0, 0), (0, 1), (1, 0), (1, 2))
    ]
    runner.run((everything, list(marks)))
    to_come = [(p, r) for p, r in everything if r[TICK] >= marks[p]]
    said = [runner.run((to_come, [None, None])), runner.run(([], [END, END]))]
    assert not sum(s.measures["late"] + s.measures["partly_late"] for s in said)
    return [r for s in said for r in s.results]


def earliest(plan, marks):
    """Return the earliest times of results still to come."""
    times = [(r["t"], r.get("t_other")) for r in later_results(plan, marks)]
    found = {"self": min(t for t, _ in times if t is not None)}
    if plan.how != "anti":
        both = [[x for x in pair if x is not None] for pair in times]
        found["other"] = min(u for _, u in times if u is not None)
        found |= {"min": min(map(min, both)), "max": min(map(max, both))}
    return found


@examples(40)
@given(bands, st.sampled_from(HOWS), st.integers(-10, 10), st.integers(-10, 10))
def test_marks_of_results_are_the_earliest_times_still_to_come(band, how, mark_self, mark_other):
    plan = plan_of(band, how)
    found = earliest(plan, (mark_self, mark_other))
    assert found == {n: plan.progress(mark_self, mark_other)[n] for n in found}


smooths = st.builds(GradualFlush, st.integers(1, 5), st.sampled_from([None, 10**6]))


@examples(40)
@given(bands, st.sampled_from(HOWS[1:]), smooths, st.integers(-10, 10), st.integers(-10, 10))
def test_marks_of_results_are_behind_all_that_waits_to_be_given_out(
    band, how, smooth, mark_self, mark_other
):
    plan = plan_of(band, how, flush=smooth)
    found = earliest(plan, (mark_self, mark_other))
    assert all(plan.progress(mark_self, mark_other)[n] <= at for n, at in found.items())


@examples(40)
@given(bands, st.sampled_from(HOWS[1:]), smooths, st.integers(-10, 10))
def test_marks_of_results_are_as_far_as_rows_that_wait_allow(band, how, smooth, time):
    plan = plan_of(band, how, flush=smooth)
    port = 0 if plan.preserved[0] else 1
    runner = Runner(plan, JoinKernel)
    said = runner.run(([(port, row(time, k)) for k in range(40)], [None, None]))
    waiting = 40
    # The last of so many rows leave with the last tick of their delay.
    for mark in range(time - 15, time + 25):
        marks = [END, mark] if port == 0 else [mark, END]
        said = runner.run(([], marks))
        waiting -= said.measures["results"]
        reached = plan.progress(*marks)["other" if port else "self"]
        assert (waiting > 0) == (reached <= time)


@pytest.mark.parametrize("how", HOWS)
def test_results_have_no_mark_before_both_sides_have_one_and_end_with_them(how):
    plan = plan_of(Band(-3, 7), how)
    attributes = ("self", "other", "min", "max")
    assert plan.progress(None, 5) == plan.progress(5, None) == dict.fromkeys(attributes)
    assert plan.progress(END, END) == dict.fromkeys(attributes, END)
    assert plan.mark_out(END, 5) == -2
    # Rows of self have ended: what other may still meet is stored, from 5 − 7 on.
    assert plan.progress(END, 5)["other"] == 5


def test_a_join_that_progresses_on_both_times_is_as_far_as_the_slower_one():
    assert plan_of(Band(-3, 7), time="both").mark_out(10, 10) == 3
    assert plan_of(Band(-3, 7), time="max").mark_out(10, 10) == 10
    assert plan_of(Band(2, 7), time="max").mark_out(10, 40) == 12


# -- what results look like -----------------------------------------------------------------------

LEFT = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        ("v", pa.string()),
        ("time_min", pa.int64()),
    ]
)
RIGHT = pa.schema(
    [
        ("v_other", pa.string()),
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.string(), nullable=False),
    ]
)


def wide(how, time="self", **more):
    axes = tuple(Axis("ts", pa.timestamp("us", "UTC")) for _ in range(2))
    return JoinPlan((LEFT, RIGHT), axes, (("k", "k"),), Band(0, 0), how, time, **more)


def test_columns_of_other_give_way_to_those_of_self():
    names = ["ts", "k", "v", "time_min", "v_other", "ts_other", "v_other_other"]
    assert wide("inner").result_schema.names == names
    assert wide("inner", suffix="2").result_schema.names[4:] == ["v_other", "ts2", "v2"]
    assert wide("anti").result_schema == LEFT
    assert wide("inner", "min").result_schema.names[-1] == "time_min_"
    assert wide("inner", "min").result_times == ("time_min_",)
    assert wide("inner", "both").result_times == ("ts", "ts_other")
    assert wide("inner", "other").result_times == ("ts_other",)


@pytest.mark.parametrize(
    ("how", "nullable"),
    [("inner", ""), ("left", "ts_other"), ("right", "ts"), ("full", "ts ts_other")],
)
def test_columns_are_nullable_where_a_side_may_be_missing(how, nullable):
    schema = wide(how).result_schema
    times = [n for n in ("ts", "k", "ts_other") if schema.field(n).nullable]
    assert times == nullable.split()
    kind = pa.int64() if how in {"right", "full"} else pa.int32()
    assert schema.field("k").type == kind


def test_times_of_different_types_meet_in_one():
    text, time = Axis("ts", pa.string()), Axis("at", pa.timestamp("ms", "UTC"))
    sides = pa.schema([("ts", pa.string())]), pa.schema([("at", pa.timestamp("ms", "UTC"))])
    plan = JoinPlan(sides, (text, time), (), Band(0, 3_000_000), "full", "max")
    hidden = {LATE_DEGREE: 0, DEAD: False}
    rows = [
        (0, {"ts": "1970-01-01 00:00:01", TICK: 1_000_000, **hidden}),
        (0, {"ts": "1970-01-01 00:01:01", TICK: 61_000_000, **hidden}),
        (1, {"at": 3_000, TICK: 3_000_000, **hidden}),
        (1, {"at": 90_000, TICK: 90_000_000, **hidden}),
    ]
    said = Runner(plan, JoinKernel).run((rows, [END, END]))
    assert plan.result_schema.field("time_max").type == pa.timestamp("us", "UTC")
    assert [r["time_max"].timestamp() for r in said.results] == [3, 61, 90]


def test_what_a_port_needs_is_listed_for_each():
    plan = wide("inner")
    assert plan.ports == len(plan.schemas) == len(plan.axes) == len(plan.late_schemas) == 2
    assert plan.late_schemas[1].names == [*RIGHT.names, "late_degree", "admitted"]
    assert plan_of(Band(0, 1), on=()).shard_keys == ((), ())
    assert plan_of(Band(0, 1), on=()).with_shards(4).shards == 1
    assert plan.with_shards(4).shards == 4
    mixed = JoinPlan(plan.schemas, plan.axes, (("v", "v_other"), ("k", "k")), Band(0, 0))
    assert mixed.shard_keys == (("v", "k"), ("v_other", "k"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Band(3, 2), r"band=\(3, 2\) is empty"),
        (lambda: SameWindow(0), "size=0"),
        (lambda: plan_of(Band(0, 1), "outer"), "how='outer' is unknown; use one of inner, left"),
        (lambda: plan_of(Band(0, 1), time="late"), "time='late' is unknown"),
        (lambda: plan_of(Band(0, 1), "anti", time="max"), "time='max': an anti join"),
        (lambda: plan_of(Band(0, 1), suffix=""), "suffix=''"),
        (lambda: plan_of(Band(0, 1), flush=GradualFlush(3)), "flush= spreads .* leave flush= out"),
        (
            lambda: JoinPlan((LEFT, RIGHT), wide("inner").axes, (("k", "v"),), Band(0, 1)),
            r"on=\('k', 'v'\): types int32 and string cannot be compared; cast",
        ),
        (
            lambda: JoinPlan(
                (LEFT, RIGHT), (wide("inner").axes[0], Axis("k", pa.int64())), (), Band(0, 1)
            ),
            "cannot be compared as times; cast",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_remedy(build, message):
    with pytest.raises(SpecError, match=message):
        build()
