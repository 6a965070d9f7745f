"""Pairs by the slack that they needed, against joins that run with every slack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.control.message import ControlMessage
from lowwater.control.watermark import Watermarks
from lowwater.learners.slack_bins import SlackBins
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.join import row_sample
from lowwater.operators.join.band import Band, SameWindow
from lowwater.operators.join.kernel import JoinKernel
from lowwater.operators.join.ordered_kernel import OrderedJoinKernel
from lowwater.operators.join.ordered_plan import OrderedJoinPlan
from lowwater.operators.join.plan import JoinPlan
from lowwater.operators.join.row_sample import MOST, KeyedRows, SampleStore, sampled
from lowwater.operators.packet import Packet, reference_packet, table_packet
from lowwater.ticks import END
from lowwater.windows.axis import Axis
from tests.operators.row_kernels import said_of
from tests.strategies import examples

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("id", pa.int64())])
AXIS = Axis("t", pa.int64())
LONG = 100
"""A slack with which no pair is lost."""
BANDS = st.one_of(
    st.tuples(st.integers(-4, 3), st.integers(0, 4)).map(lambda b: Band(b[0], b[0] + b[1])),
    st.integers(1, 5).map(lambda size: SameWindow(size, 1)),
)
EPOCHS = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 14), st.integers(0, 1)), max_size=5),
    min_size=1,
    max_size=6,
)


def played(plan, kernel, epochs, slacks):
    """Run a shard over epochs of (side, time, key) with constant slacks.

    The watermark that follows from the rows up to epoch n - 1 acts after the rows of epoch n; needs
    count from the newest times up to epoch n - 2.
    """
    state, said, newest, number = {}, [], [[None, None], [None, None]], 0
    for rows in [*epochs, None]:
        packets = []
        for port in (0, 1):
            mine = [(t, k) for side, t, k in rows or [] if side == port]
            if mine:
                content = [
                    {"t": t, "k": k, "id": number + i, TICK: t, LATE_DEGREE: 1, DEAD: False}
                    for i, (t, k) in enumerate(mine)
                ]
                packets.append(table_packet("rows", 0, port, pa.Table.from_pylist(content), port))
                number += len(mine)
        before, now = newest[-2:]
        packets += [reference_packet(0, 0, t, p) for p, t in enumerate(plan_newest(plan, before))]
        for port in (0, 1):
            low = END if rows is None else now[port]
            if low is not None:
                marks = Watermarks(low if rows is None else low - slacks[port])
                payload = ControlMessage(marks).to_bytes()
                packets.append(Packet(0, 9, "control", payload, port=port))
        step = kernel(plan, 0, state).run(packets)
        after = {**state, **step.changes}
        state = {name: content for name, content in after.items() if content is not None}
        said.append(said_of(plan, step.emissions))
        times = [[t for side, t, _ in rows or [] if side == port] for port in (0, 1)]
        newest.append(
            [max([*mine, *([] if n is None else [n])], default=None)
             for mine, n in zip(times, now, strict=True)]
        )  # fmt: skip
    return said


def plan_newest(plan, newest):
    """Return the newest time of each port, from which its needs count; none if it is unknown."""
    marks = plan.acting([Watermarks(n) for n in newest])
    return [m.low if m.low is not None else -LONG * 10 for m in marks]


def by_need(said, port, edges):
    """Return {slack: pairs that need no more}, and the number of lost pairs."""
    counts, lost = np.zeros(len(edges) + 1, np.int64), 0
    for one in said:
        if port in one.needed:
            for bin, pairs in (*one.needed[port].made, *one.needed[port].lost):
                counts[bin] += pairs
            lost += sum(pairs for _, pairs in one.needed[port].lost)
    return np.cumsum(counts), lost


def all_pairs(plan, epochs):
    both = [[(t, k) for rows in epochs for side, t, k in rows if side == p] for p in (0, 1)]
    return [
        (t, u)
        for t, k in both[0]
        for u, j in both[1]
        if k == j and plan.band.first(t) <= u <= plan.band.last(t)
    ]


@examples(150)
@given(EPOCHS, BANDS, st.integers(0, 1), st.integers(0, 14))
def test_a_pair_is_made_with_the_slack_that_it_needs_and_with_no_less(epochs, band, port, slack):
    plan = JoinPlan((SCHEMA, SCHEMA), (AXIS, AXIS), (("k", "k"),), band, shards=1, pair_unit=1)
    edges, pairs = SlackBins.of(1).edges, len(all_pairs(plan, epochs))
    enough, none = by_need(played(plan, JoinKernel, epochs, (LONG, LONG)), port, edges)
    assert none == 0
    assert enough[-1] == pairs
    slacks = [LONG, LONG]
    slacks[port] = slack
    said = played(plan, JoinKernel, epochs, slacks)
    made = sum(len(one.results) for one in said)
    assert made == enough[np.searchsorted(edges, slack)]
    known, lost = by_need(said, port, edges)
    assert (known[-1], lost) == (pairs, pairs - made)
    assert by_need(said, 1 - port, edges)[1] == 0
    assert (known == enough).all()


@examples(100)
@given(EPOCHS, BANDS, st.tuples(*[st.integers(0, 9)] * 2))
def test_all_pairs_are_made_or_lost_whatever_the_slacks(epochs, band, slacks):
    plan = JoinPlan((SCHEMA, SCHEMA), (AXIS, AXIS), (("k", "k"),), band, shards=1, pair_unit=3)
    said, pairs = played(plan, JoinKernel, epochs, slacks), all_pairs(plan, epochs)
    made = sum(len(one.results) for one in said)
    ways = [by_need(said, port, SlackBins.of(3).edges) for port in (0, 1)]
    assert [counts[-1] for counts, _ in ways] == [len(pairs)] * 2
    assert sum(lost for _, lost in ways) == len(pairs) - made
    assert sum(one.measures["lost"] for one in said) == len(pairs) - made


@examples(150)
@given(EPOCHS, BANDS, st.sampled_from(["self", "other", "min", "max"]), st.integers(0, 14))
def test_in_order_of_time_both_sides_need_the_same_slack(epochs, band, time, slack):
    plan = OrderedJoinPlan(
        (SCHEMA, SCHEMA), (AXIS, AXIS), (("k", "k"),), band, time=time, shards=1, pair_unit=1
    )
    edges, pairs = SlackBins.of(1).edges, len(all_pairs(plan, epochs))
    enough, none = by_need(played(plan, OrderedJoinKernel, epochs, (LONG, LONG)), 0, edges)
    assert (enough[-1], none) == (pairs, 0)
    said = played(plan, OrderedJoinKernel, epochs, (slack, slack))
    made = sum(len(one.results) for one in said)
    assert made == enough[np.searchsorted(edges, slack)]
    known, lost = by_need(said, 0, edges)
    assert (known[-1], lost) == (pairs, pairs - made)
    assert (known == enough).all()


def marks_in_force(epochs, slacks):
    """Return the watermarks of both sides that are in force when `played` joins each epoch."""
    newest, marks = [None, None], [(None, None)]
    for rows in epochs[:-1]:
        marks.append(tuple(n if n is None else n - s for n, s in zip(newest, slacks, strict=True)))
        for side, t, _ in rows:
            newest[side] = t if newest[side] is None else max(newest[side], t)
    return marks


def anti_pairs(plan, epochs, slacks):
    """Return (pairs with a row in state, pairs that a row without a partner lost) of each epoch.

    Every row of an epoch is compared with every row of it and of all epochs before.
    """
    reach = (plan.band, plan.band.inverse)
    known, counts, met_before = ([], []), [], set()

    def first(side, mark):
        """Return the time before which rows of a side have no partners at `mark` or later."""
        return min(u for u in range(-99, 99) if mark is None or reach[side].last(u) >= mark)

    for rows, marks in zip(epochs, marks_in_force(epochs, slacks), strict=True):
        made, lost, met = 0, 0, set()
        gone = [first(side, marks[1 - side]) for side in (0, 1)]
        for side, t, key in rows:
            low, high = reach[side].first(t), reach[side].last(t)
            late, partly = high < gone[1 - side], low < gone[1 - side]
            known[side].append((t, key, len(counts), late))
            if side == 0 and partly and not late:
                met.add(len(known[0]) - 1)
        for i, (t, key, n, late) in enumerate(known[0]):
            for u, other, m, behind in known[1]:
                new = len(counts) in (n, m)
                if not new or key != other or not reach[0].first(t) <= u <= reach[0].last(t):
                    continue
                evicted = (n < m and t < gone[0]) or (m < n and u < gone[1])
                if not (late or behind or evicted):
                    made += 1
                    met.add(i)
                elif i not in met_before:
                    lost += 1
        met_before |= met
        counts.append((made, lost))
    return counts


@examples(300)
@given(EPOCHS, BANDS, st.tuples(*[st.integers(0, 9)] * 2))
def test_a_row_of_an_anti_join_with_a_partner_loses_no_pair(epochs, band, slacks):
    plan = JoinPlan((SCHEMA, SCHEMA), (AXIS, AXIS), (("k", "k"),), band, shards=1, pair_unit=3)
    said = played(replace(plan, how="anti"), JoinKernel, epochs, slacks)
    counts = anti_pairs(plan, epochs, slacks)
    found = [(booked(one.made), booked(one.lost)) for one in said]
    assert found == [*counts, (0, 0)]
    assert [one.measures["lost"] for one in said[:-1]] == [lost for _, lost in counts]
    ways = [by_need(said, port, SlackBins.of(3).edges) for port in (0, 1)]
    assert [known[-1] for known, _ in ways] == [sum(map(sum, counts))] * 2
    assert sum(lost for _, lost in ways) == sum(lost for _, lost in counts)


@pytest.mark.parametrize("seed", range(12))
def test_in_longer_streams_each_row_of_an_anti_join_with_a_partner_loses_no_pair(seed):
    """Rows of many keys come in no order, up to a few epochs late."""
    rng, epochs = np.random.default_rng(seed), []
    for at in range(0, 80, 8):
        ticks = rng.integers(at, at + 8, 40) - rng.choice([0, 0, 8, 20], 40)
        rows = zip(rng.integers(0, 2, 40), ticks, rng.integers(0, 8, 40), strict=True)
        epochs.append([(int(side), int(t), int(k)) for side, t, k in rows if t >= 0])
    plan = JoinPlan(
        (SCHEMA, SCHEMA), (AXIS, AXIS), (("k", "k"),), Band(-3, 2), shards=1, pair_unit=3
    )
    slacks = (int(rng.integers(0, 8)), int(rng.integers(0, 8)))
    said = played(replace(plan, how="anti"), JoinKernel, epochs, slacks)
    counts = anti_pairs(plan, epochs, slacks)
    assert [(booked(one.made), booked(one.lost)) for one in said] == [*counts, (0, 0)]
    assert sum(lost for _, lost in counts) > 10


def booked(pairs):
    """Return the number of pairs that were booked."""
    return sum(n for _, n in pairs)


# -- the sample of rows ----------------------------------------------------------------------------


def rows_at(ticks, keys):
    none = np.zeros(len(ticks), np.int64)
    return KeyedRows(keys, np.asarray(ticks), none, none > 0)


@pytest.mark.parametrize("steps", [1, 40])
def test_a_sample_stays_small_and_counts_without_bias(steps):
    """60,000 rows; the estimate of the rows of each age is right in the mean over 30 samples."""
    rng, n = np.random.default_rng(1), 60_000
    ages, found = np.array([0, 2_000, 10_000, 30_000, n]), []
    for _ in range(30):
        changes: dict[str, bytes | None] = {}
        store = SampleStore(0, {}, changes, None)
        keys = rng.integers(0, 2**60, n)
        for part in np.array_split(np.arange(n), steps):
            store.include(sampled(rows_at(part, keys[part])), int(part[-1]) + 1)
            assert store.rows <= MOST
        kept = store.near(0, n)
        found.append(np.histogram(n - 1 - kept.ticks, ages, weights=kept.stands)[0])
    true = np.diff(ages)
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(mean - true) <= 4 * error + 1e-9).all()
    assert (np.std(found, axis=0) <= 0.25 * true).all()


def test_what_late_rows_have_lost_is_known_long_after_it_was_evicted():
    """Every row of other comes 5,000 ticks late: all pairs are lost, far beyond the band."""
    plan = JoinPlan(
        (SCHEMA, SCHEMA), (AXIS, AXIS), (("k", "k"),), Band(-2, 2), shards=1, pair_unit=10
    )
    rng, epochs = np.random.default_rng(3), []
    for at in range(0, 60_000, 500):
        now = rng.integers(at, at + 500, 400)
        late = rng.integers(at - 5_500, at - 5_000, 400)
        ahead = [(1, at + 499, 7)]
        late = [(1, int(t), int(t) % 4) for t in late if t >= 0]
        epochs.append([*((0, int(t), int(t) % 4) for t in now), *late, *ahead])
    said = played(plan, JoinKernel, epochs, (0, 0))
    pairs, made = len_pairs(epochs, 2), sum(len(one.results) for one in said)
    lost = sum(one.measures["lost"] for one in said)
    assert abs(lost - (pairs - made)) <= 0.05 * (pairs - made)


def test_an_epoch_of_late_rows_alone_makes_no_pairs_and_loses_all_of_its_own():
    """The stream has gone on, so all pairs of the rows of the last epoch are lost."""
    plan = JoinPlan(
        (SCHEMA, SCHEMA), (AXIS, AXIS), (("k", "k"),), Band(-1, 1), shards=1, pair_unit=10
    )
    epochs = [[(0, 3, 0), (1, 3, 0)], [(0, 90, 1), (1, 90, 2)], [(0, 91, 1), (1, 91, 2)], []]
    said = played(plan, JoinKernel, [*epochs, [(0, 4, 0), (1, 4, 0)]], (0, 0))
    late = said[4]
    assert (late.made, late.lost) == ((), ((10, 3),))
    assert late.measures["lost"] == 3


def len_pairs(epochs, reach):
    """Count pairs of equal keys whose times are at most `reach` apart."""
    count, every = 0, [row for rows in epochs for row in rows]
    for key in {k for *_, k in every}:
        a, b = (np.sort([t for s, t, k in every if (s, k) == (side, key)]) for side in (0, 1))
        count += int((np.searchsorted(b, a + reach, "right") - np.searchsorted(b, a - reach)).sum())
    return count


def test_pairs_are_booked_to_their_time():
    plan = JoinPlan((SCHEMA, SCHEMA), (AXIS, AXIS), (("k", "k"),), Band(-1, 1), shards=1)
    plan = replace(plan, pair_unit=10)
    epochs = [[(0, 3, 0), (1, 4, 0)], [(0, 40, 0), (1, 40, 0)], [(0, 60, 0), (1, 60, 0)], []]
    epochs += [[(1, 2, 0), (0, 61, 0)], [(1, 60, 0)]]
    said = played(plan, JoinKernel, epochs, (0, 0))
    closed, missed = ([pair for one in said for pair in getattr(one, n)] for n in ("made", "lost"))
    assert closed == [(10, 1), (50, 1), (70, 1), (70, 1), (70, 2)]
    assert missed == [(10, 1)]


@pytest.mark.parametrize("slack", [20, 60])
def test_what_an_anti_join_has_lost_is_known_though_its_samples_are_full(slack, monkeypatch):
    """In the mean over seeds, counts are those of samples that have all rows."""
    plan = JoinPlan(
        (SCHEMA, SCHEMA), (AXIS, AXIS), (("k", "k"),), Band(-1, 1), shards=1, pair_unit=10
    )
    plan, counts = replace(plan, how="anti"), []
    for seed in range(6):
        rng, epochs = np.random.default_rng(seed), []
        for at in range(0, 1_200, 100):
            mine = rng.integers(at, at + 100, 2_000)
            others = rng.integers(at, at + 100, 2_000) - rng.choice([0, 200], 2_000)
            rows = [(side, t) for side, ticks in ((0, mine), (1, others)) for t in ticks.tolist()]
            epochs.append([(side, t, int(rng.integers(60))) for side, t in rows if t >= 0])
        for fresh, most in ((row_sample.FRESH, MOST), (2**20, 2**21)):
            with monkeypatch.context() as patch:
                patch.setattr(row_sample, "FRESH", fresh)
                patch.setattr(row_sample, "MOST", most)
                said = played(plan, JoinKernel, epochs, (slack, slack))
            counts.append(np.sum([(booked(one.made), booked(one.lost)) for one in said], axis=0))
    found, true = np.array(counts[::2]), np.array(counts[1::2])
    error = (found - true).std(axis=0) / np.sqrt(len(found))
    assert (true.min(axis=0) > 500).all()
    assert (error <= 0.05 * true.mean(axis=0)).all()
    assert (np.abs((found - true).mean(axis=0)) <= 4 * error).all()
