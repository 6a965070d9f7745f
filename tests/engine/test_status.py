"""Where a query stands, in the user's terms."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import lowwater as lw
from lowwater.local.host import LocalEpochs


def started(schema="t timestamp, g int", **window):
    feed = lw.feed(schema)
    query = (
        lw.stream(feed, time="t", watermark=lw.slack("1 minute"))
        .window(**(window or {"range": "1 minute"}))
        .group_by("g")
        .agg(n=lw.count())
    )
    return feed, LocalEpochs(query.assembly.with_shards(2), lw.VirtualClock())


def noon(minute):
    return datetime(2024, 1, 1, 12, minute, tzinfo=UTC)


def test_marks_and_newest_are_values_of_the_time_column():
    feed, local = started()
    assert local.status().watermark is None
    local.run([[feed.table([(noon(5), 1)])]], last=[False])
    status = local.status()
    assert (status.newest, status.watermark) == (noon(5), noon(4))
    assert not status.ended


def test_the_mark_of_a_stream_that_has_ended_is_none():
    feed, local = started()
    local.run([[feed.table([(noon(5), 1)])]], last=[True])
    local.run([[]], last=[True])
    assert local.status().ended
    assert local.status().watermark is None
    assert local.status().newest == noon(5)


def test_cells_and_bytes_are_those_of_the_state():
    feed, local = started()
    local.run([[feed.table([(noon(m), g) for m in (1, 2) for g in range(5)])]], last=[False])
    status = local.status()
    assert status.cells == 10
    assert 0 < status.state_bytes <= sum(len(b) for s in local.state[0] for b in s.values())
    local.run([[]], last=[True])
    local.run([[]], last=[True])
    assert (local.status().cells, local.status().state_bytes) == (0, 0)


def test_counts_are_read_by_name():
    feed, local = started()
    local.run([[feed.table([(noon(5), 1), (None, 2)])]], last=[False])
    status = local.status()
    assert (status["in"], status["admitted"], status["malformed"]) == (2, 1, 1)
    assert status.balanced
    with pytest.raises(KeyError):
        status["typo"]


def test_skew_is_the_busiest_shard_over_the_mean():
    feed, local = started()
    local.run([[feed.table([(noon(5), 1)] * 10)]], last=[False])
    assert local.status().skew in (1.0, 2.0)


def test_counts_go_on_over_epochs():
    feed, local = started()
    for minute in range(5):
        local.run([[feed.table([(noon(minute), 1)])]], last=[False])
    assert local.status()["in"] == 5
    assert local.status().epoch == 4
