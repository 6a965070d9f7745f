"""Small blocks are reduced together: fewer cells travel, and nothing else changes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.control.context import EpochContext, InputProgress
from lowwater.control.watermark import Watermarks
from lowwater.dataflow.ingest import PORTION_ROWS, ingest, portions
from lowwater.dataflow.input_block import InputBlock
from tests.strategies import examples

FEED = lw.feed("t bigint, g bigint, v bigint")


@dataclass(frozen=True)
class Piece:
    input: int
    rows: int | None


def flow_of(mode="generous"):
    streams = [
        lw.stream(
            lw.feed("t bigint, g bigint, v bigint"), time="t", watermark=lw.slack(5, mode=mode)
        )
        for _ in range(3)
    ]
    asked = streams[0].union(*streams[1:]).window(range=10).group_by("g")
    return asked.agg(n=lw.count(), s=lw.sum("v")).assembly.with_shards(2).flow


@examples(60)
@given(st.lists(st.builds(Piece, st.integers(0, 2), st.none() | st.integers(0, 2 * PORTION_ROWS))))
def test_every_piece_is_in_one_portion_in_its_order_and_none_holds_too_much(pieces):
    cut = portions(flow_of(), pieces)
    assert [p for portion in cut for p in portion] == pieces
    for portion in cut:
        assert len(portion) == 1 or sum(p.rows for p in portion) <= PORTION_ROWS
    for one, other in pairwise(cut):
        both = [p.rows for p in (*one, other[0])]
        assert None in both or sum(both) > PORTION_ROWS


def test_blocks_that_are_decided_over_one_by_one_stay_alone():
    pieces = [Piece(0, 3), Piece(0, 3)]
    assert portions(flow_of("consistent"), pieces) == [[p] for p in pieces]


def rows(*drawn):
    return pa.Table.from_pylist([{"t": t, "g": g, "v": v} for t, g, v in drawn], FEED.schema)


def test_rows_that_meet_make_one_cell_and_late_rows_keep_their_block():
    flow = flow_of()
    standing = standing_at(flow, 20)
    came = [InputBlock(n, 0, rows((25, 1, n), (21, 2, n), (3, 1, 7))) for n in range(3)]
    apart = [p for one in came for p in ingest(flow, [one], standing)]
    packets = ingest(flow, came, standing)
    assert len([p for p in apart if p.kind == "cells"]) == 3 * len(
        [p for p in packets if p.kind == "cells"]
    )
    late = [p.seq for p in packets if p.kind == "rows"]
    assert late == [p.seq for p in apart if p.kind == "rows"]
    assert len(set(late)) == 3
    assert len([p for p in packets if p.kind == "measure"]) == 3


def standing_at(flow, mark):
    inputs = tuple(InputProgress(marks=Watermarks(mark), newest=mark + 5) for _ in flow.inputs)
    return EpochContext(inputs, flow.reach(inputs), None)


drawn = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 3), st.integers(-9, 9)), min_size=1, max_size=8
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory.mktemp("portions")


@examples(25)
@given(data=st.data())
def test_a_union_of_many_small_files_equals_the_same_union_of_feeds(folders, data):
    """A feed does not tell how large its tables are, so each is reduced alone."""
    count = data.draw(st.integers(1, 3))
    given_rows = data.draw(
        st.lists(st.lists(drawn, min_size=count, max_size=count), min_size=1, max_size=4)
    )
    home = folders / str(len(list(folders.iterdir())))
    outcomes = []
    for fused in (True, False):
        feeds, starts = {}, []
        for n in range(count):
            epochs = [rows(*epoch[n]) for epoch in given_rows]
            if fused:
                (home / str(n)).mkdir(parents=True)
                for e, table in enumerate(epochs):
                    pq.write_table(table, home / str(n) / f"{e:03d}.parquet")
                source = lw.files(home / str(n), files_per_epoch=1)
            else:
                source = lw.feed("t bigint, g bigint, v bigint")
                feeds[source] = epochs
            starts.append(lw.stream(source, time="t", watermark=lw.slack(5)))
        asked = starts[0].union(*starts[1:]) if count > 1 else starts[0]
        query = asked.window(range=10, slide=5).group_by("g")
        asked_for = query.agg(n=lw.count(), s=lw.sum("v"), first=lw.first("v"))
        how = {"epochs": feeds} if feeds else {}
        outcomes.append(asked_for.run(host="local", **how))
    one, other = outcomes
    assert one.results.equals(other.results)
    assert one.late.equals(other.late)
    assert one.status == other.status
