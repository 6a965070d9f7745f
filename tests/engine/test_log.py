"""The control log: one entry per epoch, written once, never changed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.control.context import EpochContext, InputProgress
from lowwater.control.measures import InputMeasure, Measures, ShardMeasure
from lowwater.control.message import ControlMessage
from lowwater.control.watermark import Watermarks
from lowwater.engine.controller import Controller
from lowwater.engine.entry import Accounts, Entry, Positions, ShardAccount
from lowwater.engine.log import KEPT_ENTRIES, FolderLog, MemoryLog
from lowwater.errors import StateError
from lowwater.storage import AtomicFolder
from lowwater.watermarks.tracker import Gauge

sources = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
ticks = st.integers(-(2**62), 2**62)
all_marks = st.builds(Watermarks, st.none() | ticks, st.dictionaries(sources, ticks, max_size=4))


@pytest.fixture(params=["memory", "folder", "folder as an address"])
def log(request, tmp_path):
    if request.param == "memory":
        return MemoryLog()
    if request.param == "folder":
        return FolderLog(str(tmp_path / "control"))
    return FolderLog((tmp_path / "control").as_uri())


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


def test_only_the_newest_entries_are_kept(log):
    for n in range(KEPT_ENTRIES + 20):
        log.append(entry(n, n))
    assert log.read(5) is None
    assert log.read(20).control[0].marks.low == 20
    assert log.newest().epoch == KEPT_ENTRIES + 19


def test_an_empty_log_has_no_newest_entry(log):
    assert log.newest() is None


def test_what_an_epoch_takes_in_is_fixed_when_it_begins(tmp_path):
    log = FolderLog(str(tmp_path))
    assert log.opened(0) is None
    assert log.open(0, Positions({0: ["a.parquet", 7]}))
    assert not log.open(0, Positions({0: ["b.parquet", 9]})), "another run takes in something else"
    assert log.open(0, Positions({0: ["a.parquet", 7]})), "the same epoch is run again"
    assert FolderLog(str(tmp_path)).opened(0) == Positions({0: ["a.parquet", 7]})
    assert log.newest() is None, "an epoch that has only begun has no entry"
    log.append(entry(0, 5))
    assert not log.open(0, Positions({0: ["a.parquet", 7]})), "it has ended"


def test_a_torn_file_is_no_entry(tmp_path):
    # A process killed while it writes leaves a part of a file aside, never a part of an entry.
    log = FolderLog(str(tmp_path))
    log.append(entry(0, 5))
    written = [p.name for p in tmp_path.iterdir()]
    for name in written:
        (tmp_path / f".{name}.4711.tmp").write_bytes(b'{"epoch": 1, "con')
    following = FolderLog(str(tmp_path))
    assert following.newest().epoch == 0
    assert following.read(1) is None
    following.append(entry(1, 8))
    assert following.newest().control[0].marks.low == 8


def test_a_kill_before_an_entry_gets_its_name_leaves_nothing(tmp_path, monkeypatch):
    log = FolderLog(str(tmp_path))

    def killed(aside, target):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.link", killed)
    with pytest.raises(KeyboardInterrupt):
        log.append(entry(0, 5))
    monkeypatch.undo()
    again = FolderLog(str(tmp_path))
    assert again.read(0) is None
    assert again.append(entry(0, 7)).control[0].marks.low == 7


def test_a_second_process_sees_what_the_first_wrote(tmp_path):
    FolderLog(str(tmp_path)).append(entry(3, 5))
    assert FolderLog(str(tmp_path)).newest().epoch == 3


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


# -- versions --------------------------------------------------------------------------------------


def test_a_record_of_another_version_is_refused_with_a_sentence(tmp_path):
    log = FolderLog(str(tmp_path))
    log.append(entry(0, 5))
    log.open(1, Positions({0: 7}))
    for path, kind in (
        (tmp_path / "000000000001.json", "Entry"),
        (tmp_path / "000000000002.opening", "Opening"),
    ):
        kept = json.loads(path.read_text())
        assert kept.pop("version") == 1
        path.write_text(json.dumps(kept))
        sentence = f"a record of {kind} has version None, .* start with a new checkpoint"
        with pytest.raises(StateError, match=sentence):
            log.read(0) if kind == "Entry" else log.opened(1)


def test_a_damaged_record_is_refused_with_a_sentence(tmp_path):
    log = FolderLog(str(tmp_path))
    log.append(entry(0, 5))
    path = tmp_path / "000000000001.json"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StateError, match="the checkpoint is damaged"):
        log.newest()
