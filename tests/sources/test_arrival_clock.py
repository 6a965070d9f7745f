"""The epochs of a recording: which rows each has, and where the clock stands at its end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.engine.clock import RecordedClock
from lowwater.sources.arrival_clock import ArrivalClock, ArrivalEpochs
from lowwater.sources.replay import replay
from lowwater.sources.unix_time import to_timestamps

ARRIVALS = st.lists(st.integers(-1_000, 5_000), min_size=1, max_size=40).map(sorted)


@given(st.lists(ARRIVALS, min_size=1, max_size=3), st.integers(1, 300))
def test_each_row_is_in_the_epoch_of_its_span_and_the_next_span_is_an_epoch_too(several, length):
    arrivals = [np.array(one) for one in several]
    epochs = ArrivalEpochs.of(arrivals, length)
    cuts = epochs.cuts.tolist()
    assert cuts == sorted(set(cuts))
    filled = {a // length for one in several for a in one}
    assert {(span + 1) * length for span in filled} <= set(cuts)
    assert {(span + 2) * length for span in filled} <= set(cuts)
    for one, arrived in zip(several, arrivals, strict=True):
        by_end = epochs.rows(arrived)
        assert by_end.tolist() == [sum(a < cut for a in one) for cut in cuts]


@given(ARRIVALS, st.integers(1, 50))
def test_a_silence_has_epochs_at_doubling_distances(arrivals, length):
    epochs = ArrivalEpochs.of([np.array(arrivals)], length)
    filled = epochs.filled.tolist()
    for before, after in pairwise(filled):
        between = [c // length - 1 for c in epochs.cuts if before < c // length - 1 < after]
        assert [span - before for span in between] == [2**i for i in range(len(between))]
        assert after - before <= 2 ** len(between)


def test_the_clock_of_progress_stands_while_rows_are_behind():
    # rows     3   5   -   4   9
    # clock    3   5   5   5   9
    table = pa.table({"t": [3, 5, None, 4, 9]})
    assert ArrivalClock("t", progress=True).read(table).tolist() == [3, 5, 5, 5, 9]


def test_one_time_of_the_distant_future_does_not_move_the_clock_of_progress():
    times = pa.array([1_000, 9 * 10**15, 2_000], pa.timestamp("us"))
    clock = ArrivalClock("t", progress=True)
    assert clock.read(pa.table({"t": times})).tolist() == [1_000, 1_000, 2_000]


def test_numbers_of_arrival_are_seconds_unless_they_cannot_be():
    assert ArrivalClock("a").read(pa.table({"a": [1, 2]})).tolist() == [1_000_000, 2_000_000]
    with pytest.raises(lw.SpecError, match=r"as in arrival=a:ms"):
        ArrivalClock("a").read(pa.table({"a": [1_715_000_000_000_000]}))


@pytest.mark.parametrize(
    ("numbers", "unit", "ticks"),
    [
        ([1_500, None, -1], "ms", [1_500_000, None, -1_000]),
        ([1_500.25, float("nan"), float("inf")], "s", [1_500_250_000, None, None]),
        ([1_999, 2**62, 3], "ns", [1, 2**62 // 1_000, 0]),
        ([2**62], "s", [None]),
    ],
)
def test_numbers_become_times_and_impossible_ones_become_null(numbers, unit, ticks):
    table = to_timestamps(pa.table({"t": numbers}), {"t": unit})
    assert table["t"].type == pa.timestamp("us", "UTC")
    assert table["t"].cast(pa.int64()).to_pylist() == ticks


def test_the_clock_of_a_recording_shows_the_end_of_each_epoch_and_then_goes_on_by_ticks():
    clock = RecordedClock(np.array([10, 20]))
    assert [clock.now(n) for n in range(4)] == [10, 20, 21, 22]


def cut(tmp_path, arrivals, length):
    """Return a prepared recording of rows numbered by arrival, cut into epochs."""
    table = pa.table({"n": range(len(arrivals)), "at": pa.array(arrivals, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "r.parquet")
    source = replay(tmp_path / "r.parquet", arrival="at", speed=None)
    epochs = ArrivalEpochs.of([np.array(sorted(arrivals))], length)
    cut = replace(source, clock=ArrivalClock("at"), epochs=epochs)
    return cut.prepare(str(tmp_path / "ready"))


def played(source):
    """Return the rows of each epoch, and whether the stream ends with the epoch."""
    at, epochs = source.begin(), []
    while (end := source.available(at)) != at:
        blocks = source.blocks(at, end)
        rows = [n for block in blocks for n in source.read(block)["n"].to_pylist()]
        epochs.append((rows, any(block.last for block in blocks)))
        at = end
    return epochs


def test_an_epoch_has_the_rows_of_its_span_and_the_last_one_ends_the_stream(tmp_path):
    # arrivals   12 3  |  11  |  (20, 30)  |  31
    found = played(cut(tmp_path, [12, 3, 11, 31], 10))
    assert found == [([1], False), ([2, 0], False), ([], False), ([3], False), ([], True)]


def test_positions_of_other_epochs_are_refused(tmp_path):
    source = cut(tmp_path, [12, 3, 11, 31], 10)
    other = cut(tmp_path, [12, 3, 11, 31], 5)
    at = source.available(source.begin())
    with pytest.raises(lw.StateError, match="was cut into other epochs when 1 of its rows"):
        other.available(at)
