"""The control log: one entry per epoch, written once, never changed."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater.engine.folder_log as module
from lowwater.codec import _writer
from lowwater.control.context import EpochContext, InputProgress
from lowwater.control.measures import InputMeasure, Measures, ShardMeasure
from lowwater.control.message import ControlMessage
from lowwater.control.watermark import Watermarks
from lowwater.engine.controller import Controller
from lowwater.engine.entry import Accounts, Entry, Opening, Positions, ShardAccount
from lowwater.engine.folder_log import FolderLog
from lowwater.engine.log import KEPT_RECORDS, MemoryLog
from lowwater.errors import HostError, StateError
from lowwater.storage.folder import AtomicFolder
from lowwater.watermarks.tracker import Gauge

sources = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
ticks = st.integers(-(2**62), 2**62)
all_marks = st.builds(Watermarks, st.none() | ticks, st.dictionaries(sources, ticks, max_size=4))


@pytest.fixture(params=["memory", "folder", "folder as an address"])
def log(request, tmp_path):
    if request.param == "memory":
        return MemoryLog()
    if request.param == "folder":
        return FolderLog(str(tmp_path / "control"), "q")
    return FolderLog((tmp_path / "control").as_uri(), "q")


def standing(marks):
    return EpochContext((InputProgress(marks, 1),), (marks,), 2)


def entry(epoch, low=None, **more):
    return Entry(epoch, {0: ControlMessage(Watermarks(low))}, standing(Watermarks(low)), **more)


def test_an_entry_is_read_as_it_was_written(log):
    kept = Entry(
        0,
        {0: ControlMessage(Watermarks(5, {"a": 7, None: 9})), 2: ControlMessage(Watermarks(1))},
        EpochContext(
            (InputProgress(Watermarks(5, {"a": 7}), 11, True),), (Watermarks(5), Watermarks()), 13
        ),
        ({"newest": 11, "deep": [1, [2, None]]},),
        Accounts((3,), {0: {"in": 3}}, {(0, 1): ShardAccount(1, 2, 3)}),
        ended=True,
    )
    log.append(kept)
    assert log.read(0) == kept
    assert log.read(1) is None
    assert log.newest() == kept


def test_an_entry_that_exists_is_never_rewritten(log):
    first = log.append(entry(0, 5))
    assert log.append(entry(0, 99)) == first
    assert log.read(0).control[0].marks.low == 5


def test_an_entry_is_in_force_for_the_epoch_after_it(log):
    assert log.before(0).epoch == -1
    log.append(entry(0, 5))
    assert log.before(1).control[0].marks.low == 5
    assert log.before(0).quiet


@pytest.mark.parametrize("written", [0, 3])
def test_a_run_that_slept_while_its_numbers_were_deleted_writes_nothing(
    tmp_path, monkeypatch, written
):
    monkeypatch.setattr(module, "KEPT_RECORDS", 5)
    folder = str(tmp_path / "control")
    asleep = FolderLog(folder, "q")
    for n in range(written):
        asleep.append(entry(n))
    awake = FolderLog(folder, "q")
    awake.claim(0)
    for n in range(written, 20):
        awake.append(entry(n))
    there = sorted(AtomicFolder(folder).names())
    with pytest.raises(HostError, match="taken over"):
        asleep.append(entry(written, 99))
    assert sorted(AtomicFolder(folder).names()) == there
    assert FolderLog(folder, "q").newest() == awake.newest()


def test_a_crash_before_old_records_are_deleted_leaves_no_gap(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KEPT_RECORDS", 5)
    folder = str(tmp_path / "control")
    for n in range(20):
        log = FolderLog(folder, "q")
        with monkeypatch.context() as crash, suppress(OSError):
            if n % 3:
                crash.setattr(log._folder, "delete", killed)
            log.append(entry(n))
    FolderLog(folder, "q").append(entry(20))
    assert FolderLog(folder, "q").newest().epoch == 20
    assert len(AtomicFolder(folder).names()) <= 5


def killed(name):
    raise OSError(name)


def test_starts_that_fail_again_and_again_do_not_delete_the_newest_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KEPT_RECORDS", 5)
    log = FolderLog(str(tmp_path), "q")
    for n in range(9):
        log.append(entry(n))
    log.open(Opening(9, Positions()))
    for now in range(12):
        FolderLog(str(tmp_path), "q").claim(now)
    log = FolderLog(str(tmp_path), "q")
    assert (log.newest().epoch, log.opened().epoch) == (8, 9)
    log.append(entry(9))
    assert len(AtomicFolder(str(tmp_path)).names()) == 5


def test_only_the_newest_entries_are_kept(log):
    for n in range(KEPT_RECORDS + 20):
        log.append(entry(n, n))
    assert log.read(5) is None
    assert log.read(20).control[0].marks.low == 20
    assert log.newest().epoch == KEPT_RECORDS + 19


def test_an_empty_log_has_no_newest_entry(log):
    assert log.newest() is None


def test_what_an_epoch_takes_in_is_fixed_when_it_begins(tmp_path):
    log = FolderLog(str(tmp_path), "q")
    assert log.opened() is None
    first = Opening(0, Positions({0: ["a.parquet", 7]}), clock=3)
    assert log.open(first) == first
    other = Opening(0, Positions({0: ["b.parquet", 9]}), clock=4)
    assert log.open(other) == first, "a repeated epoch takes in what it was opened for"
    again = FolderLog(str(tmp_path), "q")
    assert again.opened() == first
    assert again.tag == log.tag != ""
    assert again.newest() is None, "an epoch that has only begun has no entry"
    log.append(entry(0, 5))
    assert log.opened() is None


# -- owners ----------------------------------------------------------------------------------------


def test_who_lost_the_log_fails_at_its_next_record(tmp_path):
    first, second = (FolderLog(str(tmp_path), "q") for _ in range(2))
    first.claim(1)
    first.append(entry(0, 5))
    assert first.owned()
    second.claim(2)
    assert second.owned()
    assert not first.owned()
    assert second.newest().epoch == 0, "a claim reads what the last owner wrote"
    with pytest.raises(HostError, match=r"process \d+ of .* has taken over this checkpoint"):
        first.open(Opening(1, Positions()))
    with pytest.raises(HostError, match="has taken over"):
        first.append(entry(1, 6))
    assert second.append(entry(1, 7)).control[0].marks.low == 7
    assert FolderLog(str(tmp_path), "q").newest().control[0].marks.low == 7


def test_many_claims_at_once_make_one_chain(tmp_path):
    logs = [FolderLog(str(tmp_path), "q") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda log: log.claim(1), logs))
    records = list(FolderLog(str(tmp_path), "q").records())
    assert [r.number for r in records] == list(range(7, -1, -1))
    assert {r.content.owner for r in records} == {log.owner for log in logs}


def test_the_first_claim_stays_if_a_second_one_follows_at_once(tmp_path, monkeypatch):
    first, create = FolderLog(str(tmp_path), "q"), AtomicFolder.create

    def overtaken(folder, name, payload):
        created = create(folder, name, payload)
        if name.startswith("000000000000."):
            FolderLog(str(tmp_path), "q").claim(2)
        return created

    monkeypatch.setattr(AtomicFolder, "create", overtaken)
    first.claim(1)
    assert len(list(FolderLog(str(tmp_path), "q").records())) == 2
    assert not first.owned()


def test_a_lost_reply_does_not_make_the_owner_a_stranger(tmp_path, monkeypatch):
    log = FolderLog(str(tmp_path), "q")
    log.claim(1)
    link, lost = os.link, []

    def lose(aside, target):
        link(aside, target)
        if not lost:
            lost.append(target)
            raise FileExistsError(target)

    monkeypatch.setattr("os.link", lose)
    assert log.append(entry(0, 5)).epoch == 0
    assert lost


def test_outputs_are_published_for_certain_after_a_release_or_the_next_opening(tmp_path):
    def fresh():
        return FolderLog(str(tmp_path), "q")

    log = fresh()
    log.claim(1)
    log.append(entry(0, 5))
    assert not fresh().released
    log.release()
    assert fresh().released
    again = fresh()
    again.claim(2)
    assert fresh().released, "a claim does not change what was published"
    again.open(Opening(1, Positions()))
    again.append(entry(1, 6))
    assert not fresh().released
    again.open(Opening(2, Positions()))
    assert fresh().released


def test_a_rewound_log_goes_on_from_the_earlier_entry(tmp_path):
    log = FolderLog(str(tmp_path), "q")
    for n in range(6):
        log.open(Opening(n, Positions()))
        log.append(entry(n, n, tag=f"t{n}"))
    log.rewind(log.read(2))
    again = FolderLog(str(tmp_path), "q")
    assert again.newest().epoch == 2
    again.append(entry(3, 33, tag="new"))
    assert again.read(3).control[0].marks.low == 33
    assert again.read(4) is None
    assert again.tags() == {3: "new", 2: "t2", 1: "t1", 0: "t0"}


# -- damage ----------------------------------------------------------------------------------------


def test_a_torn_file_is_no_entry(tmp_path):
    # A process killed while it writes leaves a part of a file aside, never a part of an entry.
    log = FolderLog(str(tmp_path), "q")
    log.append(entry(0, 5))
    written = [p.name for p in tmp_path.iterdir()]
    for name in written:
        (tmp_path / f".{name}.4711.tmp").write_bytes(b'{"epoch": 1, "con')
    following = FolderLog(str(tmp_path), "q")
    assert following.newest().epoch == 0
    assert following.read(1) is None
    following.append(entry(1, 8))
    assert following.newest().control[0].marks.low == 8


def test_a_kill_before_an_entry_gets_its_name_leaves_nothing(tmp_path, monkeypatch):
    log = FolderLog(str(tmp_path), "q")

    def killed(aside, target):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.link", killed)
    with pytest.raises(KeyboardInterrupt):
        log.append(entry(0, 5))
    monkeypatch.undo()
    again = FolderLog(str(tmp_path), "q")
    assert again.read(0) is None
    assert again.append(entry(0, 7)).control[0].marks.low == 7


def test_a_second_process_sees_what_the_first_wrote(tmp_path):
    FolderLog(str(tmp_path), "q").append(entry(3, 5))
    assert FolderLog(str(tmp_path), "q").newest().epoch == 3


@given(all_marks)
def test_marks_survive_json(marks):
    kept = Entry(0, {0: ControlMessage(marks)}, standing(marks))
    assert Entry.from_bytes(kept.to_bytes()) == kept


@given(all_marks, all_marks, sources)
def test_marks_never_fall(a, b, source):
    raised = a.raised(b)
    for before in (a, b):
        if before.low is not None:
            assert raised.low >= before.low
        if before.of(source) is not None:
            assert raised.of(source) >= before.of(source)
    assert a.raised(b).only_above().of(source) == raised.of(source)


@given(all_marks, all_marks)
def test_raising_marks_does_not_depend_on_the_order(a, b):
    assert a.raised(b) == b.raised(a)
    assert a.raised(a) == a


# -- the controller --------------------------------------------------------------------------------


class Newest:
    """A tracker that believes the newest row."""

    memory_type = dict
    mark_when = None
    asked = 0

    def begin(self):
        return {"newest": None}

    def advance(self, memory, seen, now):
        self.asked += 1
        times = [t for t in (memory["newest"], seen.newest) if t is not None]
        newest = max(times, default=None)
        return {"newest": newest}, Watermarks(newest)


class ByTens:
    """A plan with one operator that acts at every tenth position."""

    contradictable = frozenset()

    def reach(self, inputs, held=()):
        (one,) = inputs
        marks = Watermarks(2**62) if one.ended else one.marks
        return (marks.mapped(lambda m: m if m == 2**62 else m // 10 * 10),)


def controller(log):
    return Controller(log, [Gauge(Newest())], ByTens())


def measured(newest, rows=1):
    block = InputMeasure(0, rows, newest=newest, counts={0: {"in": rows}})
    return Measures((block,), (ShardMeasure(0, 1, 1, {"admitted": rows}),))


def told(entry):
    return entry.control[0].marks.low if entry.control else None


def test_an_epoch_decided_twice_gives_the_same_entry(log):
    first = controller(log).decide(0, measured(25), now=1)
    # After a crash the epoch comes again, perhaps measured and timed otherwise: the entry stands.
    second = controller(log)
    again = second.decide(0, measured(99, 7), now=2)
    assert again == first
    assert second.gauges[0].tracker.asked == 0
    assert log.read(0) == first


def test_a_decision_follows_from_the_entry_before_and_not_from_the_newest(log):
    one = controller(log)
    one.decide(0, measured(25), now=1)
    one.decide(1, measured(45), now=2)
    other = MemoryLog()
    other.append(log.read(0))
    assert controller(other).decide(1, measured(45), now=2) == log.read(1)


def test_only_marks_that_rose_are_sent(log):
    one = controller(log)
    sent = [told(one.decide(n, measured(t), now=n)) for n, t in enumerate((25, 27, 31, 20, 40))]
    assert sent == [20, None, 30, None, 40]


def test_totals_add_up_over_epochs(log):
    one = controller(log)
    one.decide(0, measured(25, 3), now=1)
    assert one.decide(1, measured(26, 4), now=2).accounts.operators[0]["in"] == 7


def test_the_last_block_ends_the_stream(log):
    one = controller(log)
    assert not one.decide(0, measured(25), now=1).ended
    block = measured(26)
    ended = replace(block, inputs=(*block.inputs, InputMeasure(0, last=True)))
    last = one.decide(1, ended, now=2)
    assert last.ended
    assert told(last) == 2**62
    assert one.decide(2, Measures(), now=3).ended


def test_asking_whether_a_mark_is_due_decides_nothing(log):
    one = controller(log)
    kept = one.decide(0, measured(25), now=1)
    one.due(kept, now=99)
    assert log.newest() == kept
    assert log.read(1) is None


# -- the folder ------------------------------------------------------------------------------------


def test_a_folder_reads_what_it_wrote(tmp_path):
    folder = AtomicFolder(str(tmp_path / "a" / "b"))
    assert folder.names() == []
    assert folder.read("x") is None
    folder.write("x", b"1")
    folder.write("x", b"2")
    assert folder.read("x") == b"2"
    assert folder.names() == ["x"]
    folder.delete("x")
    folder.delete("x")
    assert folder.names() == []


def test_a_folder_leaves_no_temporary_files(tmp_path):
    AtomicFolder(str(tmp_path)).write("x", b"1")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


# -- damage ----------------------------------------------------------------------------------------


def filled(folder):
    log = FolderLog(str(folder), "q")
    log.claim(1)
    for n in range(4):
        log.open(Opening(n, Positions({0: n})))
        log.append(entry(n, 5 * n))
    return sorted(folder.iterdir())


def test_any_flipped_bit_of_the_newest_records_is_found_or_changes_nothing(tmp_path):
    paths, calm = filled(tmp_path), FolderLog(str(tmp_path), "q").newest()
    chosen = random.Random(7)
    for path in paths[-2:]:
        content = path.read_bytes()
        for bit in chosen.sample(range(8 * len(content)), 300):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            with suppress(StateError):
                assert FolderLog(str(tmp_path), "q").newest() == calm
        path.write_bytes(content)


def test_a_missing_record_in_between_is_named(tmp_path):
    paths = filled(tmp_path)
    paths[-3].unlink()
    with pytest.raises(StateError, match=rf"{paths[-3].name} is missing, but later records"):
        FolderLog(str(tmp_path), "q")


def test_swapped_records_are_found(tmp_path):
    *_, one, other = filled(tmp_path)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    with pytest.raises(StateError, match="is damaged"):
        FolderLog(str(tmp_path), "q")


def test_a_record_of_another_history_is_found(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    one, other = (filled(folder) for folder in (here, there))
    one[-2].write_bytes(other[-2].read_bytes())
    with pytest.raises(StateError, match="is of another history"):
        list(FolderLog(str(here), "q").records())


def test_a_record_of_another_query_is_refused(tmp_path):
    filled(tmp_path)
    with pytest.raises(StateError, match="belongs to query q, not to other"):
        FolderLog(str(tmp_path), "other")


def test_a_record_of_another_version_is_refused_with_a_sentence(tmp_path, monkeypatch):
    log = FolderLog(str(tmp_path), "q")
    monkeypatch.setattr(Entry, "VERSION", 0)
    _writer.cache_clear()
    log.append(entry(0, 5))
    monkeypatch.undo()
    _writer.cache_clear()
    sentence = "a record of Entry has version 0, .* start with a new checkpoint"
    with pytest.raises(StateError, match=sentence):
        FolderLog(str(tmp_path), "q")
