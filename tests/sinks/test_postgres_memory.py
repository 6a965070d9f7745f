"""The memory of a PostgreSQL table: its owner, its epochs, the way back, rows of others, NUL."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import lowwater as lw
from lowwater.engine.log import KEPT_EPOCHS
from lowwater.errors import SinkError, SpecError
from lowwater.sinks import postgres_memory
from lowwater.sinks.sink import History
from tests.wait import wait_until

psycopg = pytest.importorskip("psycopg")
SCHEMA = pa.schema([("wid", pa.int64()), ("g", pa.string()), ("x", pa.float64())])


def asked(dsn, text):
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else None


def rows(*values):
    return pa.table(list(zip(*values, strict=True)), schema=SCHEMA)


def history(epochs, run="run", query="q", **more):
    """The history with these epochs, {epoch: tag}."""
    tags = {-1: ""} | epochs
    return History(query, f"/{query}", run, max(tags), tags, **more)


def sink_of(dsn, table, key=("wid", "g"), **options):
    sink = lw.to_postgres(dsn, table=table, **options)
    sink.prepare(SCHEMA, key)
    return sink


def stored(dsn, table):
    return sorted(asked(dsn, f"SELECT wid, g, x FROM {table}"), key=repr)


# -- one owner -------------------------------------------------------------------------------------


def test_a_run_that_lost_the_table_writes_nothing_and_names_the_new_owner(dsn):
    first, second = sink_of(dsn, "fenced"), sink_of(dsn, "fenced")
    first.take_over(history({}, "one"))
    first.write_epoch(0, rows((1, "a", 1.0)), "t0")
    second.take_over(history({0: "t0"}, "two"))
    second.write_epoch(1, rows((1, "a", 2.0)), "t1")
    for epoch in (1, 2):
        with pytest.raises(SinkError, match=r"now belongs to query q \(checkpoint /q, process \d+"):
            first.write_epoch(epoch, rows((1, "a", 9.0)), "t1")
    with pytest.raises(SinkError, match="now belongs to"):
        first.truncate(history({}, "one"))
    assert stored(dsn, "fenced") == [(1, "a", 2.0)]


def test_an_owner_in_the_middle_of_an_epoch_finishes_before_the_next_owner_starts(dsn):
    """The first run holds the table while its rows wait for a lock of a third connection."""
    first, second = sink_of(dsn, "raced"), sink_of(dsn, "raced")
    first.take_over(history({}, "one"))
    done = []

    def write():
        first.write_epoch(0, rows((1, "a", 1.0)), "t0")
        done.append("first")

    def take_over():
        second.take_over(history({0: "t0"}, "two"))
        done.append("second")
        second.write_epoch(0, rows((1, "a", 1.0)), "t0")  # the epoch is published again

    threads = [threading.Thread(target=write), threading.Thread(target=take_over)]
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with psycopg.connect(dsn) as third:
        third.execute("LOCK TABLE raced IN SHARE MODE")
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lambda n=number: asked(dsn, waiting) >= [(n + 1,)])
        assert not done
    for thread in threads:
        thread.join()
    assert done == ["first", "second"]
    assert asked(dsn, "SELECT x, lowwater_write FROM raced") == [(1.0, 1)]
    with pytest.raises(SinkError, match="now belongs to"):
        first.write_epoch(1, rows((2, "a", 1.0)), "t1")


def test_a_run_that_sleeps_before_its_lock_finds_the_table_taken(dsn):
    """The second run takes over while the rows of the first wait in their transaction."""
    first, second = sink_of(dsn, "slept"), sink_of(dsn, "slept")
    first.take_over(history({}, "one"))
    failures = []

    def write():
        try:
            first.write_epoch(0, rows((1, "a", 1.0)), "t0")
        except SinkError as failure:
            failures.append(str(failure))

    asleep, awake = threading.Event(), threading.Event()
    locked = first._next_write

    def sleep(cursor):
        asleep.set()
        assert awake.wait(30)
        return locked(cursor)

    first._next_write = sleep
    thread = threading.Thread(target=write)
    thread.start()
    assert asleep.wait(30)
    second.take_over(history({}, "two"))
    second.write_epoch(0, rows((1, "a", 2.0)), "other")
    awake.set()
    thread.join()
    assert "now belongs to query q" in failures[0]
    assert stored(dsn, "slept") == [(1, "a", 2.0)]


def test_a_run_that_lost_its_checkpoint_does_not_take_the_table_back(dsn):
    first, second = sink_of(dsn, "claimed"), sink_of(dsn, "claimed")
    second.take_over(history({}, "two"))
    with pytest.raises(SinkError, match="another run has taken over the checkpoint"):
        first.take_over(history({}, "one", owned=lambda: False))
    second.write_epoch(0, rows((1, "a", 1.0)), "t0")
    assert stored(dsn, "claimed") == [(1, "a", 1.0)]


def test_two_outputs_of_a_run_cannot_share_a_table(dsn):
    sink_of(dsn, "shared").take_over(history({}, "one"))
    with pytest.raises(SinkError, match="name two tables"):
        sink_of(dsn, "shared").take_over(history({}, "one"))


def test_a_server_ends_the_transaction_of_a_frozen_run(dsn, monkeypatch):
    monkeypatch.setattr("lowwater.sinks.postgres._LONGEST_PAUSE", "200ms")
    frozen, next_run = sink_of(dsn, "frozen"), sink_of(dsn, "frozen")
    frozen.take_over(history({}, "one"))

    def freeze():
        with frozen._transaction() as cursor:
            frozen._next_write(cursor)
            next_run.take_over(history({}, "two"))
            cursor.execute("SELECT 1")

    with pytest.raises(SinkError, match="idle-in-transaction"):
        freeze()


# -- epochs ----------------------------------------------------------------------------------------


def test_the_same_epoch_of_another_history_is_refused(dsn):
    sink = sink_of(dsn, "reopened")
    sink.take_over(history({}))
    sink.write_epoch(0, rows((1, "a", 1.0)), "t0")
    sink.write_epoch(0, rows((1, "a", 1.0)), "t0")
    with pytest.raises(SinkError, match="holds epoch 0 of another history"):
        sink.write_epoch(0, rows((1, "a", 2.0)), "other")
    assert stored(dsn, "reopened") == [(1, "a", 1.0)]


@pytest.mark.parametrize("key", [("wid", "g"), ()])
def test_truncate_restores_replaced_rows_and_keep_goes_on(dsn, key):
    table = f"back_{len(key)}"
    sink = sink_of(dsn, table, key)
    sink.take_over(history({}))
    nan = float("nan")
    sink.write_epoch(0, rows((1, "a", nan), (1, None, 1e300), (2, "b", 3.0)), "t0")
    before = repr(stored(dsn, table))
    sink.write_epoch(2, rows((1, "a", 4.0), (3, "c", 5.0)), "t2")
    sink.write_epoch(3, rows((1, "a", 6.0), (1, None, 7.0), (3, "c", 8.0)), "t3")
    after = repr(stored(dsn, table))
    again = history({0: "t0", 1: "t1"}, "next")
    sink.take_over(again)
    assert sink.ahead(again) == 3
    sink.truncate(again)
    assert sink.ahead(again) is None
    assert repr(stored(dsn, table)) == before
    sink.write_epoch(2, rows((1, "a", 4.0), (3, "c", 5.0)), "u2")
    sink.write_epoch(3, rows((1, "a", 6.0), (1, None, 7.0), (3, "c", 8.0)), "u3")
    assert repr(stored(dsn, table)) == after
    kept = history({0: "t0", 1: "t1"}, "third")
    sink.take_over(kept)
    assert sink.ahead(kept) == 3
    sink.write_epoch(2, rows((9, "z", 1.0)), "v2")
    sink.write_epoch(3, rows((9, "y", 1.0)), "v3")
    assert len(stored(dsn, table)) == len(after.split("),")) + 2
    last = history({0: "t0", 1: "t1", 2: "v2", 3: "v3"}, "fourth")
    sink.take_over(last)
    assert sink.ahead(last) is None, "what was kept is not ahead of later epochs"


def test_a_way_back_that_is_too_long_is_refused(dsn, monkeypatch):
    assert postgres_memory.KEPT_REPLACED >= KEPT_EPOCHS
    monkeypatch.setattr(postgres_memory, "KEPT_REPLACED", 3)
    monkeypatch.setattr(postgres_memory, "KEPT_WRITES", 6)

    def at(epoch, table, key, other=0):
        """Go back to `epoch` after ten epochs; `other` is the window that all of them write."""
        sink = sink_of(dsn, table, key, existing="overwrite")
        sink.take_over(history({}, query=table + str(epoch)))
        for e in range(10):
            sink.write_epoch(e, rows((e * other, "a", float(e))), "t")
        to = history(dict.fromkeys(range(epoch + 1), "t"), "next", query=table + str(epoch))
        sink.take_over(to)
        assert sink.ahead(to) == 9
        sink.truncate(to)
        return [x for _, _, x in stored(dsn, table)]

    assert at(6, "far", ("wid", "g")) == [6.0]
    with pytest.raises(
        SinkError, match=r"cannot go back to epoch 5: .* newest 3 epochs only; start"
    ):
        at(5, "far", ("wid", "g"))
    assert stored(dsn, "far") == [(0, "a", 9.0)], "nothing was removed"
    assert at(5, "far_new", ("wid", "g"), other=1) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert at(4, "far_plain", ()) == [0.0, 1.0, 2.0, 3.0, 4.0]
    with pytest.raises(SinkError, match="remembers only its newest 6 epochs"):
        at(2, "far_plain", ())


def test_rows_that_another_query_wrote_since_bar_the_way_back(dsn):
    one = sink_of(dsn, "mixed")
    one.take_over(history({}))
    one.write_epoch(0, rows((1, "a", 1.0)), "t0")
    other = sink_of(dsn, "mixed", existing="append")
    other.take_over(history({}, query="other"))
    other.write_epoch(0, rows((1, "a", 2.0)), "t0")
    one.write_epoch(1, rows((1, "b", 3.0)), "t1")
    to = history({0: "t0"}, "next")
    one.take_over(to)
    assert one.ahead(to) == 1
    one.truncate(to)
    assert stored(dsn, "mixed") == [(1, "a", 2.0)]
    to = history({}, "third")
    one.take_over(to)
    with pytest.raises(SinkError, match="query other has written to it since"):
        one.truncate(to)


# -- rows of others --------------------------------------------------------------------------------


def test_rows_of_others_need_a_word(dsn):
    asked(dsn, "CREATE TABLE foreign_rows (wid bigint, g text, x float8, lowwater_write bigint, "
               "note text DEFAULT 'x', UNIQUE NULLS NOT DISTINCT (wid, g))")  # fmt: skip
    asked(dsn, "INSERT INTO foreign_rows VALUES (1, 'a', 0.5), (2, 'a', 0.5)")
    with pytest.raises(SinkError, match=r"rows that Lowwater did not write.*existing='append'"):
        sink_of(dsn, "foreign_rows").take_over(history({}))
    sink = sink_of(dsn, "foreign_rows", existing="append")
    sink.take_over(history({}))
    sink.write_epoch(0, rows((1, "a", 1.0), (3, "a", 1.0)), "t0")
    assert stored(dsn, "foreign_rows") == [(1, "a", 1.0), (2, "a", 0.5), (3, "a", 1.0)]
    sink.truncate(history({}))
    assert stored(dsn, "foreign_rows") == [(1, "a", 0.5), (2, "a", 0.5)]
    assert asked(dsn, "SELECT DISTINCT note FROM foreign_rows") == [("x",)]
    sink.write_epoch(0, rows((1, "a", 1.0)), "u0")
    with pytest.raises(SinkError, match=r"another writer: query q \(checkpoint /q"):
        sink_of(dsn, "foreign_rows").take_over(history({}, query="other"))
    other = sink_of(dsn, "foreign_rows", existing="overwrite")
    other.take_over(history({}, query="other"))
    assert stored(dsn, "foreign_rows") == []
    with pytest.raises(SinkError, match="now belongs to query other"):
        sink.write_epoch(1, rows((1, "a", 1.0)), "u1")
    other.write_epoch(0, rows((7, "a", 1.0)), "o0")
    other.take_over(history({0: "o0"}, "next", query="other"))
    assert stored(dsn, "foreign_rows") == [(7, "a", 1.0)], "a query does not overwrite itself"


def test_two_queries_may_append_to_a_table_at_the_same_time(dsn):
    sinks = [sink_of(dsn, "appended", (), existing="append") for _ in range(2)]
    for number, sink in enumerate(sinks):
        sink.take_over(history({}, query=f"q{number}"))
    for epoch, sink in itertools.product(range(2), sinks):
        sink.write_epoch(epoch, rows((epoch, "a", 1.0)), "same")
    assert [wid for wid, *_ in stored(dsn, "appended")] == [0, 0, 1, 1]


def test_arguments_are_checked():
    for options, problem in (
        ({"existing": "replace"}, "existing='replace' is unknown"),
        ({"nul": "a\0"}, "must be a text without NUL"),
        ({"nul": 0}, "must be a text without NUL"),
    ):
        with pytest.raises(SpecError, match=problem):
            lw.to_postgres("host=h", table="t", **options)
    with pytest.raises(SpecError, match="beside the results"):
        lw.to_postgres("host=h", table="s.lowwater_epochs")


def test_a_nul_character_is_refused_by_name_or_replaced(dsn):
    table = pa.table({
        "t": ["a\0b", None], "l": [["x\0", "\\u0000"], ["y"]], "f": [1.0, None],
        "m": pa.array([[("k\0", 1)], None], pa.map_(pa.string(), pa.int64())),
    })  # fmt: skip

    def write(rows, name, **options):
        sink = lw.to_postgres(dsn, table=name, **options)
        sink.prepare(rows.schema, ())
        sink.write(0, rows)
        return asked(dsn, f"SELECT {rows.column_names[0]} FROM {name} ORDER BY place")

    for column in "tlm":
        with pytest.raises(SinkError, match=rf"column '{column}' contains .*NUL.*nul='\ufffd'"):
            write(table.select([column]), f"nul_{column}")
        assert asked(dsn, f"SELECT count(*) FROM nul_{column}") == [(0,)]
    assert write(table.select(["t"]), "nul_t", nul="?") == [("a?b",), (None,)]
    assert write(table.select(["l"]), "nul_l", nul="") == [(["x", "\\u0000"],), (["y"],)]
    assert write(table.select(["m"]), "nul_m", nul="?")[0] == ([["k?", 1]],)


# -- any order of two owners -----------------------------------------------------------------------


@dataclass
class World:
    """A control log, its owner, and the runs that want it; an entry is (epoch, tag, rows)."""

    dsn: str
    key: tuple[str, ...]
    query: str
    log: list = field(default_factory=list)
    owner: str = ""
    numbers: itertools.count = field(default_factory=itertools.count)

    def name(self):
        return f"{self.query}-{next(self.numbers)}"

    def fold(self, log):
        """The table after the epochs of `log`."""
        if not self.key:
            return sorted((row for *_, new in log for row in new), key=repr)
        by_key = {row[:2]: row for *_, new in log for row in new}
        return sorted(by_key.values(), key=repr)

    def table(self):
        return stored(self.dsn, f"world_{len(self.key)}")


class Runner:
    """A run, which takes one step at a time: claim, take over, settle, then append and publish."""

    def __init__(self, world):
        table = f"world_{len(world.key)}"
        self.world, self.sink = world, sink_of(world.dsn, table, world.key, existing="overwrite")
        self.start()

    def start(self):
        """Start, or start again after a kill."""
        self.new, self.steps = (), self.life()

    def step(self, new):
        """Take the next step with these rows; a run that has lost the log or the table ends."""
        self.new = new
        with suppress(SinkError):
            next(self.steps, None)

    def life(self):
        world = self.world
        token = world.owner = world.name()
        log = list(world.log)
        yield
        tags = {-1: ""} | {epoch: tag for epoch, tag, _ in log}
        known = History(world.query, "", token, max(tags), tags, lambda: world.owner == token)
        self.sink.take_over(known)
        yield
        if self.sink.ahead(known) is not None:
            self.sink.truncate(known)
        if log:
            self.publish(log)
        while True:
            yield
            if world.owner != token:
                return
            log.append((len(log), world.name(), self.new))
            world.log = list(log)
            yield
            self.publish(log)

    def publish(self, log):
        epoch, tag, new = log[-1]
        self.sink.write_epoch(epoch, rows(*new), tag)
        assert self.world.table() == self.world.fold(log)


ROW = st.tuples(st.integers(0, 2), st.sampled_from(["a", None]))
STEP = st.tuples(
    st.sampled_from([0, 1]),
    st.lists(ROW, min_size=1, max_size=3, unique=True),
    st.sampled_from(["step", "step", "start", "rewind"]),
    st.sampled_from([1, 2, 3, 5, 9]),
)
EXAMPLES = itertools.count()


@pytest.mark.parametrize("key", [("wid", "g"), ()])
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(STEP, min_size=4, max_size=12))
@example(steps=[(0, [(0, "a")], "step", 1), (1, [(1, "a")], "step", 9), (0, [], "step", 2)])
def test_any_order_of_two_owners_leaves_the_rows_of_one_history(dsn, key, steps):
    world = World(dsn, key, f"world-{next(EXAMPLES)}")
    runs = [Runner(world), Runner(world)]
    values = itertools.count()
    for number, keys, action, times in steps:
        if action == "start":
            runs[number].start()
        elif action == "rewind":
            world.owner, world.log = world.name(), world.log[: -1 - number]
        for _ in range(times):
            runs[number].step([(wid, g, float(next(values))) for wid, g in keys])
    last = Runner(world)
    for _ in range(3):
        next(last.steps)
    assert world.table() == world.fold(world.log)
