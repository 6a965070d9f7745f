"""State in segments: what was written is there, before any epoch, after any crash, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.engine.state_store import ShardState
from lowwater.errors import StateError

names = st.sampled_from(["meta", "cells/0", "cells/16", "cells/-3"])
contents = st.none() | st.binary(max_size=200)
epochs = st.lists(
    st.tuples(st.dictionaries(names, contents, max_size=4), st.booleans()), max_size=25
)


def apply(kept, changes):
    after = {**kept, **changes}
    return {name: content for name, content in after.items() if content is not None}


@settings(deadline=None)
@given(epochs)
def test_each_epoch_finds_what_the_one_before_left_also_when_it_is_run_again(
    tmp_path_factory, history
):
    root = str(tmp_path_factory.mktemp("state"))
    kept = {}
    for epoch, (changes, attempted) in enumerate(history):
        if attempted:  # an attempt that came as far as writing its state, and died then
            ShardState(root, 0, epoch).write({"meta": b"of an attempt", "cells/99": b"too"})
        found = ShardState(root, 0, epoch)
        assert dict(found) == kept
        found.write(changes)
        kept = apply(kept, changes)
    assert dict(ShardState(root, 0, len(history))) == kept


def test_an_epoch_that_touches_nothing_leaves_the_state_to_the_next(tmp_path):
    ShardState(str(tmp_path), 1, 0).write({"meta": b"m"})
    assert dict(ShardState(str(tmp_path), 1, 5)) == {"meta": b"m"}
    assert dict(ShardState(str(tmp_path), 0, 5)) == {}


def test_a_long_run_keeps_about_as_much_on_disk_as_is_alive(tmp_path):
    old, fresh = b"o" * 1_000, b"f" * 50_000
    ShardState(str(tmp_path), 0, 0).write({"old": old, "big": fresh})
    for epoch in range(1, 60):
        ShardState(str(tmp_path), 0, epoch).write({"big": fresh, f"cells/{epoch}": b"c" * 100})
    on_disk = sum(p.stat().st_size for p in (tmp_path / "0").iterdir())
    alive = sum(len(c) for c in ShardState(str(tmp_path), 0, 60).values())
    assert ShardState(str(tmp_path), 0, 60)["old"] == old
    assert alive <= on_disk <= 4 * alive


def test_a_damaged_segment_is_refused_with_the_way_out(tmp_path):
    ShardState(str(tmp_path), 0, 0).write({"meta": b"m"})
    (segment,) = (tmp_path / "0").iterdir()
    segment.write_bytes(b"\0" * 20)
    with pytest.raises(StateError, match=r"epoch 0 is damaged; .* new checkpoint"):
        ShardState(str(tmp_path), 0, 1)
