"""Order against the definition: rows wait for the mark, then leave by (time, arrival)."""

from __future__ import annotations

import pickle

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lowwater.control.message import ControlMessage
from lowwater.control.watermark import Watermarks
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.packet import Packet, table_of, table_packet
from lowwater.operators.row_store import RowStore, StoredRows
from lowwater.operators.sort import SortKernel, SortPlan
from lowwater.ticks import END
from lowwater.windows.axis import Axis
from tests.operators.row_kernels import Runner, bare, marks_upto, packets_of, said_of, small_buckets
from tests.strategies import examples

SCHEMA = pa.schema([("t", pa.int64()), ("id", pa.int64()), ("late_degree", pa.string())])
PLAN = SortPlan(SCHEMA, Axis("t", pa.int64()))
REACH = 12


def row(tick, number, dead=False):
    shown = {"t": tick, "id": number, "late_degree": "own"}
    return {**shown, TICK: tick, LATE_DEGREE: number % 7, DEAD: dead}


@st.composite
def epochs(draw):
    drawn = st.tuples(st.integers(-REACH, REACH), st.integers(0, 9).map(lambda n: n == 9))
    number, out = 0, []
    for rows in draw(st.lists(st.lists(drawn, max_size=9), min_size=1, max_size=7)):
        made = []
        for tick, dead in rows:
            made.append((0, row(tick, number, dead)))
            number += 1
        out.append((made, [draw(marks_upto(REACH))]))
    return out


def shown(row):
    return {n: row[n] for n in SCHEMA.names}


def ids(rows):
    return [r["id"] for r in rows]


@examples(100)
@given(epochs(), st.integers(1, 3), st.integers(1, 5))
def test_every_epoch_is_what_the_definition_says(stream, cuts, bucket):
    plan = pickle.loads(pickle.dumps(PLAN)).with_shards(4)
    assert plan.shards == 1
    runner, held, mark = Runner(plan, SortKernel, cuts), [], None
    with small_buckets(bucket):
        for rows, (told,) in stream:
            said = runner.run((rows, [told]))
            late = [r for _, r in rows if r[DEAD] or (mark is not None and r[TICK] < mark)]
            held += [r for _, r in rows if r not in late]
            mark = max((m for m in (mark, told) if m is not None), default=None)
            ready = [r for r in held if mark is not None and r[TICK] < mark]
            held = [r for r in held if r not in ready]
            ready.sort(key=lambda r: r[TICK])
            assert said.results == [shown(r) for r in ready]
            assert said.measures["late"] == len(late)
            degrees = [
                {**shown(r), "late_degree_": r[LATE_DEGREE], "admitted": False} for r in late
            ]
            assert [r for _, r in said.late] == degrees
            assert [r for r, _ in runner.stored(0)] == [
                bare(r) for r in sorted(held, key=lambda r: r[TICK])
            ]


def test_the_end_of_the_stream_lets_everything_out():
    runner = Runner(PLAN, SortKernel)
    rows = [(0, row(tick, i)) for i, tick in enumerate([2**61 - 1, 5, -(2**61), 5])]
    assert runner.run((rows, [None])).results == []
    assert ids(runner.run(([], [END])).results) == [2, 1, 3, 0]
    assert list(runner.state) == ["meta"]
    assert runner.run(([(0, row(9, 7))], [None])).measures["late"] == 1


def test_columns_are_known_by_name_not_by_place():
    (packet,) = packets_of(PLAN, ([(0, row(4, 1)), (0, row(2, 2))], [None]), 1)
    table = table_of(packet)
    turned = table_packet("rows", 0, 0, table.select(table.column_names[::-1]))
    end = Packet(0, 0, "control", ControlMessage(Watermarks(END)).to_bytes())
    said = said_of(PLAN, SortKernel(PLAN, 0, {}).run([turned, end]).emissions)
    assert said.results == [shown(row(2, 2)), shown(row(4, 1))]


def test_a_late_comer_does_not_rewrite_what_is_held():
    #  held:  0 ─────────────────────── 999     one more row at 500
    with small_buckets(50):
        runner = Runner(PLAN, SortKernel)
        runner.run(([(0, row(tick, tick)) for tick in range(1000)], [None]))
        names = {n for n in runner.state if n != "meta"}
        runner.run(([(0, row(500, 1000))], [None]))
    assert len(names) == 20
    assert names < set(runner.state)
    assert len(runner.state) == len(names) + 2


def test_rows_that_trickle_in_are_rewritten_a_logarithmic_number_of_times():
    state, memory, written, n = {}, None, 0, 200
    for i in range(n):
        changes = {}
        store = RowStore(0, state, changes, memory)
        store.add(StoredRows.of(pa.table({"id": [i], TICK: [i * 7 % n]})))
        memory, (bucket,) = store.to_json(), store.all
        written += sum(run.rows for run in bucket.runs if run.name in changes)
        state = {k: v for k, v in {**state, **changes}.items() if v is not None}
        assert len(state) == len(bucket.runs) <= 8
    assert n < written < 8 * n
    kept = RowStore(0, state, {}, memory).read(bucket).table
    assert kept["id"].to_pylist() == list(range(n))
