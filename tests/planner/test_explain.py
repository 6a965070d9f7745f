"""What a query says about itself."""

from __future__ import annotations

import pytest

import lowwater as lw


def query(watermark=None, own=None, keys=("segment",), **window):
    feed = lw.feed("ts timestamp, t bigint, segment int, speed double, flag boolean")
    windowed = lw.stream(feed, time="ts", watermark=watermark or lw.ordered()).window(**window)
    return windowed.group_by(*keys).agg(n=lw.count(), **(own or {}))


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ({"range": "5 minutes", "slide": "1 minute"}, "sliding: range 5 minutes, slide 1 minute"),
        ({"range": "1 hour"}, "tumbling: range 1 hour, slide 1 hour"),
        ({"range": "1 minute", "slide": "1 hour"}, "hopping with gaps"),
        ({"range": lw.unbounded, "slide": "1 hour"}, "landmark: range unbounded, slide 1 hour"),
        ({"range": 10, "slide": 4, "on": "t"}, "sliding: range 10, slide 4, on t"),
        ({"range": 0.5, "on": "speed"}, "tumbling: range 0.5, slide 0.5, on speed"),
    ],
)
def test_the_window_is_told_in_the_users_units(window, told):
    assert told in query(**window).explain()


def test_the_class_of_the_window_is_told():
    assert "CF (context free" in query(range="1 minute").explain()


def test_panes_are_told():
    text = query(range="10 minutes", slide="4 minutes").explain()
    assert "panes of 2 minutes, 5 to a window" in text


def test_an_aggregate_that_does_not_combine_is_told():
    own = lw.aggregate("speed", init=list, incr=lambda s, v: [*s, v], final=len, returns="int")
    assert "per group and window" in query(own={"own": own}, range="1 minute").explain()


def test_groups_aggregates_and_progress_are_told():
    text = query(lw.slack("10 seconds"), range="1 minute").explain()
    assert "segment" in text
    assert "n = " in text
    assert "10 seconds" in text
    assert "(none)" in query(keys=(), range="1 minute").explain()


def test_a_source_that_closes_its_own_groups_is_told():
    progress = lw.per_source("segment", lw.slack("10 seconds"))
    told = "the watermark of each segment closes its own groups"
    assert told in query(progress, range="1 minute").explain()
    assert told not in query(progress, keys=(), range="1 minute").explain()


def test_rows_that_are_put_aside_are_told():
    asked = query(range="1 minute")
    assert "held  " not in asked.explain()
    told = asked.explain(sideline=lw.sideline(every=5, max_delay="2 minutes"))
    assert "one is released for every 5 new ones, each within 2 minutes" in told


def test_a_fingerprint_tells_queries_apart_and_knows_itself():
    same = [query(range="1 minute").fingerprint(2)["digest"] for _ in range(2)]
    assert same[0] == same[1]
    others = [
        query(range="2 minutes").fingerprint(2),
        query(range="1 minute", slide="30 seconds").fingerprint(2),
        query(range="1 minute").fingerprint(3),
        query(range="1 minute", keys=()).fingerprint(2),
        query(range="1 minute", own={"m": lw.max("speed")}).fingerprint(2),
        query(range="1 minute", own={"m": lw.min("speed")}).fingerprint(2),
        query(lw.per_source("segment", lw.ordered()), range="1 minute").fingerprint(2),
        query(range=lw.unbounded, slide="1 minute").fingerprint(2),
        query(range="1 minute", origin="2024-01-01 00:00:30").fingerprint(2),
    ]
    digests = {f["digest"] for f in others} | set(same)
    assert len(digests) == len(others) + 1


def test_a_fingerprint_does_not_depend_on_the_slack():
    # A longer wait is no other query: a checkpoint may go on with it.
    one = query(lw.slack("10 seconds"), range="1 minute").fingerprint(2)
    other = query(lw.slack("20 seconds"), range="1 minute").fingerprint(2)
    assert one["digest"] == other["digest"]


def test_a_users_function_is_told_without_its_address():
    def twice(a, b):
        return a + b

    own = lw.aggregate("speed", lift=float, combine=twice, lower=float, returns="double")
    feed_of = [query(own={"own": own}, range="1 minute") for _ in range(2)]
    texts = {str(q.fingerprint(2)) for q in feed_of}
    assert len(texts) == 1
    assert "0x" not in texts.pop()
