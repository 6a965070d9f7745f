"""A need says what it promises, and refuses what can never be had."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.needs.statement import GIVES, Need
from tests.strategies import examples


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"fresh": "0 seconds", "right": 1.0}, "fresh='0 seconds'.* must be greater than zero"),
        ({"fresh": "soon", "right": 0.9}, "fresh='soon' is not a duration"),
        ({"fresh": 30, "right": 0.9}, "fresh=30 is not a duration"),
        ({"fresh": "1 minute", "right": 0.9, "exact": "10 seconds"}, "set exact= to fresh= or"),
        ({"fresh": "1 minute"}, "needs one of the two"),
        ({"fresh": "1 minute", "right": 0.9, "error": 0.1}, "needs one of the two"),
        ({"fresh": "1 minute", "right": 98}, "right=98.* at most 1"),
        ({"fresh": "1 minute", "right": True}, "right=True"),
        ({"fresh": "1 minute", "right": 0.9, "share": 0.5}, "share= goes with error="),
        ({"fresh": "1 minute", "error": 0.0}, "error=0.0.* above 0"),
        ({"fresh": "1 minute", "error": 0.1, "share": 1.0}, "share=1.0.* below 1"),
        ({"fresh": "1 minute", "right": 0.9, "gives": "exact"}, r"write gives=\('exact',\)"),
        ({"fresh": "1 minute", "right": 0.9, "gives": ("rows",)}, "'rows' is unknown; name some"),
        ({"fresh": "1 minute", "right": 0.9, "gives": ("exact", "exact")}, "twice"),
        ({"fresh": "1 minute", "right": 0.9, "weight": 0}, "weight=0.* above 0"),
        ({"fresh": "1 minute", "right": 0.9, "fair_by": 3}, "fair_by=3.* one group key"),
        ({"fresh": "1 minute", "right": 0.9, "memory": "much"}, "memory='much'.* not a size"),
        ({"fresh": "1 minute", "right": 0.9, "memory": "0 GB"}, "memory='0 GB'.* greater than"),
    ],
)
def test_a_need_that_can_never_be_had_is_refused(words, told):
    with pytest.raises(lw.SpecError, match=told):
        lw.need(**words)


@pytest.mark.parametrize(
    ("size", "bytes"),
    [("4 GB", 4 * 10**9), ("1.5 KiB", 1536), ("7b", 7), (1024, 1024), ("2mb", 2 * 10**6)],
)
def test_memory_is_a_size(size, bytes):
    assert lw.need(fresh="1 minute", right=0.9, memory=size).memory_bytes == bytes


needs = st.builds(
    lambda fresh, more, right, gives: Need(
        fresh=timedelta(milliseconds=fresh),
        exact=None if more is None else timedelta(milliseconds=fresh + more),
        gives=gives,
        **right,
    ),
    st.integers(1, 10**7),
    st.none() | st.integers(0, 10**7),
    st.floats(0.01, 1.0).map(lambda r: {"right": r})
    | st.floats(0.01, 1.0).map(lambda e: {"error": e, "share": 0.9}),
    st.none()
    | st.permutations(GIVES).flatmap(lambda p: st.integers(0, 3).map(lambda n: tuple(p[:n]))),
)


@given(needs, needs)
@examples(60)
def test_the_parts_of_a_need_make_the_need_again(one, other):
    assert one.changed(one.to_parts()).to_parts() == one.to_parts()
    assert other.changed(one.to_parts()).to_parts() == one.to_parts()


@given(needs)
@examples(30)
def test_what_is_not_named_comes_after_everything_that_gives(one):
    order = GIVES if one.gives is None else one.gives
    for name in GIVES:
        before = one.gives_before(name)
        assert name not in before
        assert before == (order[: order.index(name)] if name in order else order)


def test_one_argument_can_change():
    one = lw.need(fresh="30 seconds", right=0.98, exact="10 minutes")
    assert one.changed({"fresh": "1 minute"}).exact == "10 minutes"
    assert one.changed({"error": 0.1}).right is None
    with pytest.raises(lw.SpecError, match="no such argument; it has: fresh"):
        one.changed({"frsh": "1 minute"})
    with pytest.raises(lw.SpecError, match="set exact= to fresh= or more"):
        one.changed({"fresh": "1 hour"})
