"""Every row is in exactly one account, and the sum is checked in every epoch."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.control.measures import InputMeasure, Measures, ShardMeasure
from lowwater.control.watermark import Watermarks
from lowwater.engine.accounts import ACCOUNTS
from lowwater.engine.controller import Controller
from lowwater.engine.log import MemoryLog
from lowwater.watermarks.tracker import Gauge
from tests.reference.windows import PerSource, Slack, Windows, simulate
from tests.run_query import assert_accounts, assert_finals, finals, run
from tests.strategies import SCHEMA, any_windows, cuts, examples, rows, sliding

COUNT = {"n": lw.count()}
NAMED = {"n": ("count", None)}


@examples(120)
@given(st.data(), any_windows(), rows(malformed=True), st.integers(0, 12))
def test_counts_of_random_streams_are_those_of_the_oracle_and_balance(data, windows, stream, span):
    epochs = data.draw(cuts(stream))
    ahead = data.draw(st.none() | st.integers(0, 60))
    progress = lw.slack(span, max_ahead=ahead)
    outcome = run(SCHEMA, epochs, windows, progress, COUNT, ("a", "c"))
    story = simulate(epochs, windows, Slack(span), max_ahead=ahead)
    assert_accounts(outcome, story)
    assert_finals(outcome, story, windows, ("a", "c"), NAMED)
    accounts = [outcome.status[a] for a in ACCOUNTS]
    assert sum(accounts) == outcome.status["in"] == len(stream)


@examples(50)
@given(st.data(), sliding(), rows(malformed=True), st.booleans())
def test_counts_balance_when_sources_have_marks_of_their_own(data, windows, stream, own):
    epochs = data.draw(cuts(stream))
    progress = lw.per_source("b", lw.slack(2))
    keys = ("b", "c") if own else ("c",)
    outcome = run(SCHEMA, epochs, windows, progress, COUNT, keys)
    story = simulate(epochs, windows, PerSource("b", 2, own))
    assert_accounts(outcome, story)


def test_each_shard_reports_its_rows_and_skew_is_measured():
    stream = [(t, "hot" if t % 10 else "cold") for t in range(1000)]
    outcome = run("t bigint, g string", [stream], Windows(10, 10), lw.ordered(), COUNT, ("g",))
    assert outcome.status["admitted"] == 1000
    assert 1.0 <= outcome.status.skew <= 2.0


class Unmoved:
    """A tracker that never makes progress."""

    memory_type = dict
    mark_when = None

    def begin(self):
        return {}

    def advance(self, memory, seen, now):
        return dict(memory), Watermarks()


class Still:
    """A plan that never moves."""

    contradictable = frozenset()

    def reach(self, inputs, held=()):
        return (Watermarks(),)


def came(rows, **counts):
    return InputMeasure(0, rows, counts={0: {"in": rows, **counts}})


def worked(**counts):
    return ShardMeasure(0, counts=counts)


def controller():
    return Controller(MemoryLog(), [Gauge(Unmoved())], Still())


@pytest.mark.parametrize(
    ("measures", "told"),
    [
        ([came(3, malformed=1, outside=0), worked(admitted=1, late=0)], "received 3, but 2"),
        ([came(1), worked(admitted=1, late=1)], "received 1, but 2"),
        ([came(5)], "received 5, but 0"),
        ([worked(admitted=2)], "received 0, but 2"),
    ],
)
def test_an_epoch_whose_counts_do_not_add_up_is_an_error(measures, told):
    with pytest.raises(lw.HostError, match=told):
        controller().decide(0, Measures.of(measures), now=0)


def test_an_epoch_whose_counts_do_not_add_up_leaves_no_entry():
    broken = controller()
    with pytest.raises(lw.HostError):
        broken.decide(0, Measures.of([came(1)]), now=0)
    assert broken.log.newest() is None


def test_partly_late_rows_are_not_counted_twice():
    measures = [came(3), worked(admitted=2, late=1, partly_late=2)]
    sound = controller().decide(0, Measures.of(measures), now=0)
    assert sound.accounts.operators[0]["in"] == 3


def test_a_kernel_that_loses_a_row_stops_the_query(monkeypatch):
    # The kernel forgets to count late rows: the epoch that has one must not pass.
    from lowwater.operators.window.completion import WatermarkCompletion

    admit = WatermarkCompletion.admit

    def forgetful(self, table, seq):
        kept = admit(self, table, seq)
        self.epoch.counts["late"] = 0
        return kept

    monkeypatch.setattr(WatermarkCompletion, "admit", forgetful)
    with pytest.raises(lw.HostError, match="rows do not balance after epoch 2"):
        run("t bigint", [[(25,)], [(26,)], [(3,)]], Windows(10, 10), lw.ordered(), COUNT)


# -- rows that belong to no window -----------------------------------------------------------------


def test_rows_between_windows_are_outside_and_counted():
    #  windows  [0, 4)      [10, 14)      rows 0 3 | 4 9 | 10 13 | 14
    outcome = run(
        "t bigint", [[(t,) for t in (0, 3, 4, 9, 10, 13, 14)]], Windows(4, 10), lw.ordered(), COUNT
    )
    assert outcome.status["outside"] == 3
    assert {w: r["n"] for (w,), r in finals(outcome).items()} == {0: 2, 1: 2}


def test_rows_before_the_landmark_are_outside():
    outcome = run("t bigint", [[(5,), (15,)]], Windows(None, 10, 10), lw.ordered(), COUNT)
    assert outcome.status["outside"] == 1
    assert {w: r["n"] for (w,), r in finals(outcome).items()} == {0: 1}


# -- malformed times -------------------------------------------------------------------------------


MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
US = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("column", "size", "good"),
    [
        (pa.array([None, 5], pa.int64()), 10, 1),
        (pa.array([2**62, -(2**62), 2**63 - 1, -(2**63), 5], pa.int64()), 10, 1),
        (pa.array([None, 5], pa.int8()), 10, 1),
        (pa.array([math.nan, math.inf, -math.inf, 1e300, None, 0.5], pa.float64()), 1, 1),
        (pa.array([math.nan, 0.5], pa.float32()), 1, 1),
        (pa.array([None, Decimal("1.25")], pa.decimal128(20, 2)), 1, 1),
        (pa.array([Decimal("9" * 36 + ".99"), Decimal("1.25")], pa.decimal128(38, 2)), 1, 1),
        (pa.array([None, MOMENT], pa.timestamp("us")), "1 hour", 1),
        (pa.array([2**63 - 1, -(2**63), 5], pa.int64()).cast(US), "1 hour", 1),
        (pa.array([10**15, -(10**15), 5], pa.timestamp("s")), "1 hour", 1),
        (pa.array([10**17, None, 5], pa.timestamp("ms")), "1 hour", 1),
        (pa.array([None, 5], pa.timestamp("ns")), "1 hour", 1),
        (pa.array([2**31 - 1, -(2**31), 5], pa.int32()).view(pa.date32()), "1 day", 1),
        (pa.array([None, date(2024, 1, 1)], pa.date32()), "1 day", 1),
    ],
    ids=lambda v: str(v.type) if isinstance(v, pa.Array) else None,
)
def test_times_that_cannot_be_are_malformed_and_stop_nothing(column, size, good):
    table = pa.table({"t": column})
    feed = lw.feed(table.schema)
    outcome = (
        lw.stream(feed, time="t", watermark=lw.ordered())
        .window(range=size)
        .agg(n=lw.count())
        .run(epochs={feed: [table, table]})
    )
    assert outcome.status["admitted"] == 2 * good
    assert outcome.status["malformed"] == 2 * (len(column) - good) == len(outcome.malformed)
    assert set(outcome.malformed["reason"].to_pylist()) == {"time is NULL or unreadable"}
    assert outcome.status.balanced


def text_run(*texts):
    feed = lw.feed("t string")
    return (
        lw.stream(feed, time="t", watermark=lw.slack("1 day", max_ahead=None))
        .window(range="1 hour")
        .agg(n=lw.count())
        .run(epochs={feed: [[(t,) for t in texts]]})
    )


@pytest.mark.parametrize(
    "text",
    [
        None, "", " ", "garbage", "now", "today", "NaT", "nan", "NULL", "2024-13-01", "2024-02-30",
        "2024-01-01 25:00:00", "12 o'clock", "2024-01-01T00:00:00+99:00", "\x00", "∞",
    ],
)  # fmt: skip
def test_text_that_reads_as_no_time_is_malformed(text):
    outcome = text_run(text, "2024-01-01 00:30:00")
    assert outcome.status["malformed"] == 1
    assert outcome.malformed["t"].to_pylist() == [text]
    assert outcome.status["admitted"] == 1


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("2024-01-01", "2024-01-01 00:00:00"),
        ("2024-01-01 07:15:00", "2024-01-01 07:00:00"),
        ("2024-01-01T07:15:00", "2024-01-01 07:00:00"),
        ("2024-01-01T07:15:00Z", "2024-01-01 07:00:00"),
        ("2024-01-01T07:15:00.123456", "2024-01-01 07:00:00"),
        ("2024-01-01T07:15:00+02:00", "2024-01-01 05:00:00"),
        ("1969-12-31 23:59:59.999999", "1969-12-31 23:00:00"),
        ("3000-01-01 00:00:00", "3000-01-01 00:00:00"),
        ("1600-01-01 00:00:00", "1600-01-01 00:00:00"),
    ],
)
def test_text_that_reads_as_a_time_is_one(text, start):
    outcome = text_run("garbage", text)
    assert outcome.status["malformed"] == 1
    (row,) = outcome.results.to_pylist()
    assert row["window"]["start"].strftime("%Y-%m-%d %H:%M:%S") == start


# -- rows from the future --------------------------------------------------------------------------


def test_a_row_too_far_ahead_is_malformed_and_moves_nothing():
    #  epoch  0     1              2
    #  rows   10    1000000, 21    12          max_ahead 100: 1000000 > 10 + 100
    epochs = [[(10,)], [(1_000_000,), (21,)], [(12,)], [(13,)]]
    progress = lw.slack(5, max_ahead=100)
    outcome = run("t bigint", epochs, Windows(10, 10), progress, COUNT)
    ahead = {"t": 1_000_000, "reason": "from the future", "text": None}
    assert outcome.malformed.to_pylist() == [ahead]
    assert outcome.status["late"] == 0
    assert outcome.status.newest == 21


def test_max_ahead_counts_from_the_epochs_before_and_not_from_the_same():
    #  epoch  0     1            max_ahead 10: 20 is allowed, 21 is not, although 20 came first
    progress = lw.ordered(max_ahead=10)
    outcome = run("t bigint", [[(10,)], [(20,), (21,)]], Windows(10, 10), progress, COUNT)
    assert outcome.malformed["t"].to_pylist() == [21]


def test_max_ahead_holds_from_the_first_epoch_on_where_the_wall_clock_is_known():
    feed = lw.feed("t timestamp")
    outcome = (
        lw.stream(feed, time="t", watermark=lw.slack("1 minute", max_ahead="1 hour", clock="wall"))
        .window(range="1 hour")
        .agg(n=lw.count())
        .run(
            epochs={
                feed: [[(datetime(2050, 1, 1, tzinfo=UTC),), (datetime(2024, 1, 1, tzinfo=UTC),)]]
            },
            clock=lw.VirtualClock(start="2024-01-01"),
        )
    )
    assert outcome.malformed["t"].to_pylist() == [datetime(2050, 1, 1, tzinfo=UTC)]
    assert outcome.status["admitted"] == 1


def test_max_ahead_follows_the_wall_clock_after_a_silence():
    #  epoch       0                  1  (silent) …  10
    #  wall clock  12:00              12:30          17:00
    #  rows        12:00              –              16:55: 5 h ahead of the stream, but the clock
    #                                                agrees
    feed = lw.feed("t timestamp")
    epochs = [
        [(datetime(2024, 1, 1, 12, tzinfo=UTC),)],
        *[[] for _ in range(9)],
        [(datetime(2024, 1, 1, 16, 55, tzinfo=UTC),)],
    ]
    outcome = (
        lw.stream(feed, time="t", watermark=lw.ordered(max_ahead="1 hour", clock="wall"))
        .window(range="1 hour")
        .agg(n=lw.count())
        .run(
            epochs={feed: epochs},
            clock=lw.VirtualClock(start="2024-01-01 12:00:00", per_epoch="30 minutes"),
        )
    )
    assert outcome.status["malformed"] == 0


def test_a_punctuation_from_the_future_moves_nothing():
    schema = "t bigint, last boolean"
    epochs = [[(1, False)], [(10**9, True)], [(2, False)], [(3, False)], [(12, False)]]
    progress = lw.punctuated("last", max_ahead=100)
    outcome = run(schema, epochs, Windows(10, 10), progress, COUNT)
    assert outcome.status["late"] == 0
    assert {w: r["n"] for (w,), r in finals(outcome).items()} == {0: 3, 1: 1}
    assert outcome.malformed["t"].to_pylist() == [10**9]


def test_a_punctuation_without_a_time_comes_out_as_malformed():
    schema = "t bigint, last boolean"
    epochs = [[(1, False)], [(None, True), (None, None), (3, None)], [(12, False)]]
    outcome = run(schema, epochs, Windows(10, 10), lw.punctuated("last"), COUNT)
    assert len(outcome.malformed) == 2
    assert outcome.status.balanced
