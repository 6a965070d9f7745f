"""State of user-defined aggregates: only code that the query was given is loaded."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import os
import pickle
import uuid
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

import lowwater as lw
from lowwater.aggregates.state_pickle import StatePickle

ROWS = [(1, 2.0), (2, 3.0), (12, 5.0)]


@dataclass
class Histogram:
    """A state of a class that Lowwater does not know."""

    counts: dict = field(default_factory=dict)

    def add(self, value):
        self.counts[value] = self.counts.get(value, 0) + 1
        return self


class Attack:
    """A pickle that runs a command where it is read."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def query(feed, own):
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    return stream.window(range=10).agg(own=own)


def folded(**options):
    make = options.pop("init", Histogram)
    return lw.aggregate(
        "x", init=make, incr=lambda s, v: s.add(v), final=lambda s: len(s.counts), returns="int",
        **options,
    )  # fmt: skip


def results(own):
    feed = lw.feed("t bigint, x double")
    return query(feed, own).run(epochs={feed: [ROWS[:1], ROWS[1:]]}).results["own"].to_pylist()


# -- what is written ------------------------------------------------------------------------------


def test_a_class_that_is_named_or_creates_the_state_is_code_of_the_query():
    assert results(folded()) == [2, 1]
    by_function = {"init": lambda: Histogram()}  # noqa: PLW0108
    assert results(folded(**by_function, state=Histogram)) == [2, 1]
    assert results(folded(**by_function, state=[dict, Histogram])) == [2, 1]
    assert results(folded(**by_function, state="any")) == [2, 1]


def test_a_class_that_is_not_named_is_refused_in_the_first_epoch():
    with pytest.raises(lw.SpecError, match=r"lw.aggregate\('x', ...\).*Histogram.*state=Histogram"):
        results(folded(init=lambda: Histogram()))  # noqa: PLW0108


@pytest.mark.parametrize("state", ["all", 3, [3], "Histogram"])
def test_a_state_that_names_no_class_is_refused(state):
    with pytest.raises(lw.SpecError, match=r"state=.* must be a class"):
        folded(state=state)


PLAIN = [
    None, 1, 2.5, "a", b"a", True, [1, [2]], {"a": {1, 2}}, (1, frozenset({2})), 1j, range(3),
    bytearray(b"x"), collections.Counter("aab"), collections.deque([1], 3),
    collections.OrderedDict(a=1), collections.defaultdict(list, a=[1]), decimal.Decimal("1.50"),
    dt.date(2024, 1, 1), dt.timedelta(1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), uuid.UUID(int=7),
]  # fmt: skip


@pytest.mark.parametrize("state", PLAIN, ids=repr)
def test_plain_data_need_no_code(state):
    stored = StatePickle(("x",))
    assert stored.loads(stored.dumps(state)) == state


@pytest.mark.parametrize(
    "state",
    [np.zeros(3, int), np.arange(6.0).reshape(2, 3), np.array(["a", None], object), np.float64(2)],
    ids=lambda a: str(getattr(a, "dtype", a)),
)
def test_arrays_need_no_code(state):
    stored = StatePickle(("x",))
    found = stored.loads(stored.dumps([state]))[0]
    assert (type(found), found.dtype) == (type(state), state.dtype)
    assert np.array_equal(found, state)


def test_a_class_of_a_script_is_found_on_executors_where_no_module_has_it():
    # Spark ships a class of __main__ by value: a worker cannot import it by its name.
    class Local(Histogram):
        pass

    sent = cloudpickle.loads(cloudpickle.dumps(StatePickle(("x",), (Local,))))
    (there,) = sent.code
    assert sent.loads(sent.dumps(there({1.0: 2}))).counts == {1.0: 2}


# -- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("own", ["lift", "init"])
def test_an_altered_state_is_refused_and_runs_nothing(tmp_path, own):
    stored = StatePickle(("x",))
    total = {
        "lift": lw.aggregate("x", lift=float, combine=max, lower=float, returns="double"),
        "init": lw.aggregate("x", init=list, incr=lambda s, v: [*s, v], final=len, returns="int"),
    }[own]
    (part,) = total.parts(pa.schema([("x", pa.float64())]))
    payload = pickle.dumps(Attack(tmp_path / "owned"))
    for read in (stored.loads, lambda p: part.load([pa.array([p], pa.binary())])):
        with pytest.raises(lw.StateError, match=r"posix.mkdir.*checkpoint was altered"):
            read(payload)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "payload",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.",
        b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93.",
        b"\x80\x04\x8c\x0bcollections\x8c\x1cCounter.__init__.__globals__\x93.",
        b"clowwater.aggregates.state_pickle\n_own\n(S'posix'\nS'system'\ntR.",
    ],
    ids=["GLOBAL", "INST", "eval", "getattr", "a dotted name", "the stand-in for own code"],
)
def test_no_way_to_name_other_code_is_open(payload):
    with pytest.raises(lw.StateError, match="not given as code for state"):
        StatePickle(("x",), (Histogram,)).loads(payload)


def test_state_given_any_is_loaded_as_it_is(tmp_path):
    StatePickle(("x",), trusted=True).loads(pickle.dumps(Attack(tmp_path / "made")))
    assert (tmp_path / "made").exists()


def test_a_query_without_own_aggregates_unpickles_nothing(monkeypatch):
    def refuse(*_):
        raise AssertionError("nothing may be unpickled")

    for name in ("loads", "load", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    feed = lw.feed("t bigint, x double")
    aggregates = {"n": lw.count(), "m": lw.median("x"), "d": lw.count_distinct("x", sketch=True)}
    made = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(**aggregates)
    found = made.run(epochs={feed: [ROWS[:1], ROWS[1:]]}, host="local").results
    assert found["n"].to_pylist() == [2, 1]


def test_a_restart_without_the_code_is_refused():
    """The same query, but a program that does not name the class any more."""
    with_code = folded(init=lambda: Histogram(), state=Histogram)  # noqa: PLW0108
    without = folded(init=lambda: Histogram())  # noqa: PLW0108
    state = with_code.part.pickle.dumps(Histogram({1.0: 1}))
    assert with_code.part.pickle.loads(state) == Histogram({1.0: 1})
    with pytest.raises(lw.StateError, match="add state=Histogram"):
        without.part.pickle.loads(state)


def test_code_for_state_is_not_part_of_the_fingerprint():
    functions = {"lift": float, "combine": max, "lower": float, "returns": "double"}
    one, other = (lw.aggregate("x", **functions, state=state) for state in (None, Histogram))
    assert repr(one) == repr(other)
