"""State in segments: what was written is there, before any epoch, after any crash, and no more."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.engine.entry import Entry, Opening, Positions, SegmentRange
from lowwater.engine.folder_log import FolderLog
from lowwater.engine.log import KEPT_EPOCHS, MemoryLog
from lowwater.engine.state_store import Attempt, ShardState, StateFolder, segments_after
from lowwater.errors import HostError, StateError

names = st.sampled_from(["meta", "cells/0", "cells/16", "cells/-3"])
contents = st.none() | st.binary(max_size=200)
epochs = st.lists(
    st.tuples(st.dictionaries(names, contents, max_size=4), st.booleans()), max_size=25
)


class Shard:
    """A shard whose owner appends an entry after each epoch, and then deletes what is unused."""

    def __init__(self, root, shard=0, query="q"):
        self.state = StateFolder(str(root), query)
        self.place, self.segments, self.attempts = (0, shard), (), 0

    def read(self):
        named = {(s.operator, s.start): s for s in self.segments}
        return ShardState(self.state.shard(*self.place), named.get(self.place))

    def attempt(self, epoch, changes):
        """Write a segment that no entry names."""
        self.attempts += 1
        return self.read().write(changes, epoch, Attempt("owner", self.attempts))

    def write(self, epoch, changes):
        written = self.attempt(epoch, changes)
        self.segments = segments_after(self.segments, [written])
        self.state.delete([written])

    def recover(self, epoch, *, opened=False):
        log = MemoryLog()
        log.append(Entry(epoch, segments=self.segments))
        log.opened = lambda: Opening(epoch + 1, Positions()) if opened else None
        self.state.recover([self.place], log)


def apply(kept, changes):
    after = {**kept, **changes}
    return {name: content for name, content in after.items() if content is not None}


@settings(deadline=None)
@given(epochs)
def test_each_epoch_finds_what_the_one_before_left_also_when_it_is_run_again(
    tmp_path_factory, history
):
    shard = Shard(tmp_path_factory.mktemp("state"))
    kept = {}
    for epoch, (changes, attempted) in enumerate(history):
        if attempted:  # an attempt that came as far as writing its state, and died then
            shard.attempt(epoch, {"meta": b"of an attempt", "cells/99": b"too"})
        assert dict(shard.read()) == kept
        shard.write(epoch, changes)
        kept = apply(kept, changes)
    assert dict(shard.read()) == kept


def test_a_late_attempt_of_an_earlier_epoch_changes_nothing(tmp_path):
    shard = Shard(tmp_path)
    shard.write(0, {"a": b"0"})
    late = shard.read()
    for epoch in range(1, 4):
        shard.write(epoch, {"a": b"%d" % epoch})
    late.write({"a": b"late"}, 1, Attempt("owner", 99))
    assert dict(shard.read()) == {"a": b"3"}


def test_a_shard_without_state_is_empty(tmp_path):
    Shard(tmp_path, shard=1).write(0, {"meta": b"m"})
    assert dict(Shard(tmp_path, shard=0).read()) == {}


def test_a_long_run_keeps_what_is_alive_and_what_the_newest_epochs_need(tmp_path):
    old, fresh = b"o" * 1_000, b"f" * 50_000
    shard = Shard(tmp_path)
    shard.write(0, {"old": old, "big": fresh})
    for epoch in range(1, 100):
        shard.write(epoch, {"big": fresh, f"cells/{epoch}": b"c" * 100})
    files = list((tmp_path / "0" / "0").iterdir())
    alive = sum(len(c) for c in shard.read().values())
    assert shard.read()["old"] == old
    assert alive <= sum(p.stat().st_size for p in files) <= alive + (KEPT_EPOCHS + 3) * 60_000


def test_every_kept_epoch_can_be_read_again(tmp_path):
    shard, known = Shard(tmp_path), []
    for epoch in range(60):
        shard.write(epoch, {f"cells/{epoch % 5}": b"%d" % epoch})
        known.append((shard.segments, dict(shard.read())))
    newest = shard.segments
    for segments, content in known[-KEPT_EPOCHS - 1 :]:
        shard.segments = segments
        assert dict(shard.read()) == content
    shard.segments = newest
    shard.recover(59)
    for segments, content in known[-KEPT_EPOCHS - 1 :]:
        shard.segments = segments
        assert dict(shard.read()) == content, "a restart keeps them, too"


# -- recovery --------------------------------------------------------------------------------------


def test_recovery_removes_attempts_and_torn_files(tmp_path):
    shard = Shard(tmp_path)
    shard.write(0, {"a": b"1"})
    shard.attempt(1, {"a": b"2"})
    (tmp_path / "0" / "0" / ".x.1-1.tmp").write_bytes(b"torn")
    shard.recover(0, opened=True)
    assert [p.name for p in (tmp_path / "0" / "0").iterdir()] == [shard.segments[0].name]


def test_a_run_that_slept_after_its_claim_does_not_delete_the_state_of_the_next_owner(tmp_path):
    shard = Shard(tmp_path / "state")
    sleeper, owner = (FolderLog(str(tmp_path / "control"), "q") for _ in range(2))
    owner.claim(0)
    owner.append(Entry(-1))
    owner.open(Opening(0, Positions()))
    sleeper.claim(1)
    owner.claim(2)
    shard.write(0, {"a": b"1"})
    owner.append(Entry(0, segments=shard.segments))
    with pytest.raises(HostError, match="has taken over this checkpoint"):
        shard.state.recover([shard.place], sleeper)
    assert dict(shard.read()) == {"a": b"1"}


def test_state_after_the_end_of_the_log_is_refused(tmp_path):
    shard = Shard(tmp_path)
    for epoch in range(4):
        shard.write(epoch, {"a": b"%d" % epoch})
        if epoch == 1:
            old = shard.segments
    shard.segments = old
    with pytest.raises(StateError, match="its last records are missing"):
        shard.recover(1)
    with pytest.raises(StateError, match="its last records are missing"):
        shard.recover(2)
    assert len(list((tmp_path / "0" / "0").iterdir())) == 4, "nothing is deleted"


@pytest.mark.parametrize("older", [False, True])
def test_a_missing_segment_is_named(tmp_path, older):
    shard = Shard(tmp_path)
    shard.write(0, {"a": b"1" * 100})
    first = shard.segments[0].name
    shard.write(1, {"b": b"2"})
    lost = tmp_path / "0" / "0" / (first if older else shard.segments[0].name)
    lost.unlink()
    with pytest.raises(StateError, match=rf"{lost.name} is missing"):
        shard.recover(1)


def test_any_flipped_bit_is_found_or_changes_nothing(tmp_path):
    shard = Shard(tmp_path)
    shard.write(0, {"a": b"1" * 300, "b": b"x"})
    shard.write(1, {"b": b"2" * 50})
    calm = dict(shard.read())
    chosen = random.Random(3)
    for path in sorted((tmp_path / "0" / "0").iterdir()):
        content = path.read_bytes()
        for bit in chosen.sample(range(8 * len(content)), 400):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            with suppress(StateError):
                assert dict(shard.read()) == calm
        path.write_bytes(content)


@pytest.mark.parametrize("other", ["query", "shard"])
def test_a_segment_of_another_place_is_found(tmp_path, other):
    mine = Shard(tmp_path / "mine")
    theirs = Shard(
        tmp_path / "theirs", 1 if other == "shard" else 0, "x" if other == "query" else "q"
    )
    mine.write(0, {"a": b"1"})
    theirs.write(0, {"a": b"1"})
    (content,) = (tmp_path / "theirs").rglob("*.segment")
    (target,) = (tmp_path / "mine").rglob("*.segment")
    target.write_bytes(content.read_bytes())
    with pytest.raises(StateError, match="is damaged"):
        mine.read()


def test_segments_of_an_entry_are_replaced_shard_by_shard():
    before = (SegmentRange(0, 0, 1, "a", "1"), SegmentRange(0, 1, 2, "b", "2"))
    assert segments_after(before, []) == before
