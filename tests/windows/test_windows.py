"""windows, extent, wids and panes: what a window means, proved for every kind."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.ticks import END
from lowwater.windows.axis import LIMIT
from tests.reference.windows import Windows
from tests.strategies import examples

spans = st.integers(1, 10**4) | st.integers(1, 10**12)
points = st.integers(-(10**4), 10**4) | st.integers(-(2**60), 2**60)
origins = st.integers(-(10**4), 10**4) | st.integers(-(10**15), 10**15)


sliding = (
    st.tuples(spans, spans, origins)
    .filter(lambda s: s[0] // s[1] <= 500)
    .map(lambda s: lw.Sliding(range=s[0], slide=s[1], origin=s[2]))
)
landmark = st.builds(
    lambda slide, origin, at: lw.Landmark(slide=slide, origin=origin, landmark=at),
    spans,
    origins,
    st.none() | origins,
)
specs = sliding | landmark


# -- wids inverts extent ---------------------------------------------------------------------------


@examples(400)
@given(sliding, points)
def test_every_window_that_wids_names_holds_the_position(spec, at):
    for wid in lw.wids(spec, at):
        assert at in lw.extent(spec, wid)


@examples(400)
@given(specs, points)
def test_the_windows_next_to_those_that_wids_names_do_not_hold_the_position(spec, at):
    found = lw.wids(spec, at)
    around = [found.start - 1] if len(found) else [found.start - 1, found.start, found.start + 1]
    around += [found.stop] if isinstance(spec, lw.Sliding) else []
    for wid in around:
        assert at not in lw.extent(spec, wid)


@examples(400)
@given(specs, st.integers(-(10**6), 10**6), st.data())
def test_wids_names_every_window_whose_extent_holds_the_position(spec, wid, data):
    held = lw.extent(spec, wid)
    low = max(held.start, -LIMIT + 1)
    if low >= held.end:
        return  # a landmark window that ends before its landmark holds nothing
    for at in {low, held.end - 1, data.draw(st.integers(low, held.end - 1))}:
        assert wid in lw.wids(spec, at)
    for at in {low - 1 if low == held.start else held.end, held.end}:
        assert wid not in lw.wids(spec, at)


@given(landmark, points, st.integers(0, 10**6))
def test_every_later_landmark_window_holds_the_position_too(spec, at, more):
    found = lw.wids(spec, at)
    outside = spec.landmark is not None and at < spec.landmark
    assert (len(found) == 0) == outside
    if not outside:
        assert at in lw.extent(spec, found.start + more)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(-90, 90), st.integers(-200, 200))
def test_wids_equal_brute_force(size, slide, origin, at):
    spec = lw.Sliding(range=size, slide=slide, origin=origin)
    assert list(lw.wids(spec, at)) == Windows(size, slide, origin).holding(at, at)


@given(sliding, st.lists(points, min_size=1, max_size=20))
def test_positions_in_an_array_are_treated_as_one_by_one(spec, positions):
    at = np.array(positions)
    assert spec.first(at).tolist() == [spec.first(p) for p in positions]
    assert spec.last(at).tolist() == [spec.last(p) for p in positions]
    assert spec.pane_of(at).tolist() == [spec.pane_of(p) for p in positions]


# -- Spark's alignment -----------------------------------------------------------------------------


def spark_windows(at, size, slide, start):
    """The rule of Spark's TimeWindowing (analysis/ResolveTimeWindows.scala), in its words."""
    remainder = (at - start) % slide
    last_start = at - remainder
    overlapping = -(-size // slide)
    starts = [last_start - i * slide for i in range(overlapping)]
    return sorted((s, s + size) for s in starts if s <= at < s + size)


@examples(300)
@given(spans, st.integers(1, 10**6), points, st.data())
def test_windows_are_those_of_spark(slide, ratio, at, data):
    size = min(slide * ratio, slide * 50 + 1)
    start = data.draw(st.integers(0, slide - 1))  # Spark wants 0 <= startTime < slideDuration
    spec = lw.Sliding(range=size, slide=slide, origin=start)
    found = [lw.extent(spec, w) for w in lw.wids(spec, at)]
    assert [(e.start, e.end) for e in found] == spark_windows(at, size, slide, start)


def test_by_default_windows_are_counted_from_1970():
    spec = lw.Sliding(range="5 minutes", slide="1 minute")
    assert (lw.extent(spec, 0).start, lw.extent(spec, 0).end) == (0, 300_000_000)


# -- panes -----------------------------------------------------------------------------------------


@examples(300)
@given(sliding, st.integers(-1000, 1000))
def test_a_window_is_exactly_its_panes(spec, wid):
    #  window  |--------------|
    #  panes   |----|----|----|     equal, side by side, from the first tick to the last
    held = lw.extent(spec, wid)
    first, last = spec.pane_of(held.start), spec.pane_of(held.end - 1)
    assert last - first + 1 == spec.panes
    assert spec.panes * spec.pane == spec.range
    assert spec.pane_of(held.start - 1) == first - 1
    assert spec.pane_of(held.end) == last + 1
    assert first == wid * spec.panes_per_slide


@examples(300)
@given(specs, points)
def test_all_positions_of_a_pane_are_in_the_same_windows(spec, at):
    pane = spec.pane_of(at)
    begin = spec.origin + pane * spec.pane
    assert begin <= at < begin + spec.pane
    assert {spec.pane_of(p) for p in (begin, at, begin + spec.pane - 1)} == {pane}
    assert spec.pane_of(begin - 1) == pane - 1
    assert {lw.wids(spec, p) for p in (begin, at, begin + spec.pane - 1)} == {lw.wids(spec, at)}


@given(sliding)
def test_panes_are_as_long_as_can_be(spec):
    # A longer pane would have to divide both, range and slide.
    assert spec.range % spec.pane == 0
    assert spec.slide % spec.pane == 0
    assert np.gcd(spec.range // spec.pane, spec.slide // spec.pane) == 1


# -- marks -----------------------------------------------------------------------------------------


@examples(300)
@given(specs, points)
def test_the_first_open_window_is_the_first_that_ends_after_the_mark(spec, mark):
    first_open = spec.first_open(mark)
    assert lw.extent(spec, first_open).end > mark
    assert lw.extent(spec, first_open - 1).end <= mark


@examples(300)
@given(specs, points)
def test_an_aligned_mark_completes_the_same_windows_and_ends_one_of_them(spec, mark):
    aligned = spec.align(mark)
    assert aligned <= mark
    assert spec.first_open(aligned) == spec.first_open(mark)
    assert lw.extent(spec, spec.first_open(mark) - 1).end == aligned
    assert spec.align(aligned) == aligned


@given(sliding, points)
def test_a_row_behind_an_aligned_mark_has_missed_a_window_and_no_other_row_has(spec, mark):
    aligned = spec.align(mark)
    for at in (aligned - 1, aligned, mark):
        held = lw.wids(spec, at)
        if len(held):
            assert (at < aligned) == (held.start < spec.first_open(mark))


@given(specs)
def test_the_final_mark_completes_every_window_that_can_hold_a_row(spec):
    if isinstance(spec, lw.Sliding):
        assert spec.first_open(END) > spec.last(LIMIT)


# -- windows of a set of positions -----------------------------------------------------------------


@given(
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(-20, 20),
    st.lists(st.integers(-100, 100), max_size=10),
)
def test_windows_are_those_of_all_positions_together(size, slide, origin, positions):
    spec = lw.Sliding(range=size, slide=slide, origin=origin)
    expected = sorted({w for p in positions for w in lw.wids(spec, p)})
    assert lw.window_ids(spec, positions).tolist() == expected


def test_landmark_windows_of_positions_stop_at_the_last():
    spec = lw.Landmark(slide=10)
    assert lw.window_ids(spec, [3, 25]).tolist() == [0, 1, 2]
    assert lw.window_ids(lw.Landmark(slide=10, landmark=20), [3, 25]).tolist() == [0]
    assert lw.window_ids(lw.Landmark(slide=10, landmark=20), [3]).tolist() == []
    assert lw.window_ids(spec, []).tolist() == []


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (lw.Sliding(range=10), "tumbling"),
        (lw.Sliding(range=10, slide=3), "sliding"),
        (lw.Sliding(range=10, slide=30), "hopping with gaps"),
        (lw.Landmark(slide=10), "landmark"),
    ],
)
def test_every_kind_has_a_name_and_is_context_free(spec, name):
    assert spec.describe() == name
    assert spec.wclass == "CF"


def test_specs_are_values():
    assert lw.Sliding(range="1 minute") == lw.Sliding(range=60_000_000)
    assert len({lw.Landmark(slide=5), lw.Landmark(slide=5)}) == 1


# -- windows that the data drive -------------------------------------------------------------------

places = st.lists(st.integers(-40, 60), min_size=1, max_size=25)
by_row = st.builds(lw.RowWindow, range=st.integers(1, 30)) | st.builds(
    lw.RowWindow, range=st.integers(1, 30), slide=st.integers(1, 5)
)
session = st.builds(lw.SessionWindow, gap=st.integers(1, 12))


@examples(300)
@given(by_row | session, places)
def test_wids_inverts_extent_where_the_data_drive_windows(spec, at):
    for wid in lw.window_ids(spec, at).tolist():
        held = lw.extent(spec, wid, at)
        for position in at:
            # Ranks are those of all rows, also where several stand at one position.
            named = [
                w for w in lw.window_ids(spec, at).tolist() if position in lw.extent(spec, w, at)
            ]
            assert (position in held) == (wid in named)
            assert list(lw.wids(spec, position, at)) == named


@examples(200)
@given(session, places)
def test_sessions_hold_each_row_once_and_lie_a_gap_apart(spec, at):
    found = [lw.extent(spec, w, at) for w in lw.window_ids(spec, at).tolist()]
    assert all(sum(position in e for e in found) == 1 for position in at)
    assert all(a.end <= b.start for a, b in pairwise(found))
    for held in found:
        inside = sorted({p for p in at if p in held})
        assert inside[0] == held.start
        assert inside[-1] + spec.gap == held.end
        assert all(b - a < spec.gap for a, b in pairwise(inside))


def test_classes_are_those_of_the_paper():
    assert lw.Sliding(range=300, slide=60).wclass == "CF"
    assert lw.RowWindow(range=300).wclass == "FCB"
    assert lw.RowWindow(range=300, slide=5, slide_on="row_num").wclass == "FCB"
    assert lw.RowWindow(range=300, slide=5).wclass == "FCU"
    assert lw.SessionWindow(gap=5).wclass == "FCU"


def test_windows_that_only_rows_tell_need_them():
    with pytest.raises(lw.SpecError, match="positions="):
        lw.wids(lw.RowWindow(range=5), 3)
    with pytest.raises(lw.SpecError, match="slide_values="):
        lw.window_ids(lw.RowWindow(range=5, slide=2, slide_on="n"), [1, 2])
    assert lw.window_ids(lw.RowWindow(range=5, slide=2, slide_on="n"), [1, 2], [7, 8]).tolist() == [
        2
    ]
