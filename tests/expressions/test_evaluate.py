"""Expressions before the window: the same rows as Spark would give, evaluated by DuckDB."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw

SCHEMA = "t bigint, segment int, speed double, name string, small smallint"
ROWS = [
    (1, 1, 10.0, "a", 1),
    (2, 2, 0.0, "b", 2),
    (3, 1, None, "c", 3),
    (4, 1, 30.0, None, 4),
    (12, 2, 5.0, "E", 5),
]
ZERO = datetime(1970, 1, 1, tzinfo=UTC)


def stream(feed, watermark=None):
    return lw.stream(feed, time="t", watermark=watermark or lw.ordered())


def table(made, rows=ROWS):
    (feed,) = made.assembly.sources
    return made.run(epochs={feed: [rows]}).results


def column(made, name, rows=ROWS):
    return table(made, rows).column(name).to_pylist()


# -- what they mean ------------------------------------------------------------------------------


def test_where_keeps_the_rows_for_which_the_condition_is_true():
    feed = lw.feed(SCHEMA)
    query = stream(feed).where("speed > 0").window(range=10).agg(n=lw.count(), top=lw.max("speed"))
    outcome = query.run(epochs={feed: [ROWS]})
    # t      1   2   3   4 | 12
    # speed 10   0   –  30 |  5
    assert outcome.results.column("n").to_pylist() == [2, 1]
    assert outcome.results.column("top").to_pylist() == [30.0, 5.0]


def test_rows_that_where_drops_are_no_rows_of_the_query():
    feed = lw.feed(SCHEMA)
    query = stream(feed, lw.slack(0)).where("segment = 2").window(range=10).agg(n=lw.count())
    outcome = query.run(epochs={feed: [ROWS[4:], ROWS[:1], ROWS[1:2]]})
    assert outcome.status["in"] == 2
    assert outcome.status["late"] == 1
    assert outcome.status.balanced


def test_an_epoch_of_which_no_row_is_left_is_an_epoch():
    feed = lw.feed(SCHEMA)
    query = stream(feed).where("false").window(range=10).agg(n=lw.count())
    outcome = query.run(epochs={feed: [ROWS, ROWS]})
    assert len(outcome.results) == 0
    assert outcome.status["in"] == 0


def test_with_columns_adds_and_replaces_columns_in_their_place():
    made = stream(lw.feed(SCHEMA)).with_columns(kmh="speed * 1.6", name="upper(name)")
    assert made.schema.names == ["t", "segment", "speed", "name", "small", "kmh"]
    assert column(made, "kmh") == [16.0, 0.0, None, 48.0, 8.0]
    assert column(made, "name") == ["A", "B", "C", None, "E"]
    assert made.schema.field("kmh").type == pa.float64()


def test_expressions_read_the_columns_as_they_were_before():
    made = stream(lw.feed(SCHEMA)).with_columns(segment="segment + 1", twice="segment * 2")
    assert column(made, "segment") == [2, 3, 2, 2, 3]
    assert column(made, "twice") == [2, 4, 2, 2, 4]


def test_select_gives_exactly_the_columns_it_names():
    made = stream(lw.feed(SCHEMA)).select("t", "speed", kmh="speed * 1.6")
    assert made.schema.names == ["t", "speed", "kmh"]
    every = stream(lw.feed(SCHEMA)).select("*", slow="speed < 10")
    assert every.schema.names == ["t", "segment", "speed", "name", "small", "slow"]
    assert column(every, "slow") == [False, True, None, False, True]


def test_the_time_may_get_another_name():
    feed = lw.feed(SCHEMA)
    made = stream(feed).select("speed", at="t").where("speed > 0")
    assert made.time == "at"
    query = made.window(range=10).agg(n=lw.count())
    # t   1   4 | 12        the others have no speed
    assert column(query, "n") == [2, 1]
    assert query.schema.field("window").type.field("end").type == pa.int64()


def test_the_time_of_results_may_get_another_name():
    feeds = [lw.feed("t bigint, v int") for _ in range(2)]
    a, b = (lw.stream(f, time="t", watermark=lw.ordered()) for f in feeds)
    joined = a.join(b, band=(0, 3), time="max").select("v", at="time_max", from_a="t")
    assert joined.time == "at"
    # pairs of (a, b): (1, 4) at 4, (9, 9) at 9, (9, 11) at 11
    epochs = {feeds[0]: [[(1, 0), (9, 0)]], feeds[1]: [[(4, 0), (9, 0), (11, 0)]]}
    by_latest = joined.window(range=10).agg(n=lw.count())
    assert by_latest.run(epochs=epochs).results.column("n").to_pylist() == [2, 1]
    by_first = joined.window(range=5, on="from_a").agg(n=lw.count())
    assert by_first.run(epochs=epochs).results.column("n").to_pylist() == [1, 2]


def test_steps_follow_each_other():
    made = stream(lw.feed(SCHEMA)).with_columns(kmh="speed * 2").where("kmh > 15").select("t")
    assert column(made, "t") == [1, 4]


def test_a_computed_column_can_be_grouped_by_and_windowed_on():
    feed = lw.feed(SCHEMA)
    made = stream(feed).with_columns(u="t * 2", odd="segment % 2 = 1")
    query = made.window(range=10, on="u").group_by("odd").agg(n=lw.count())
    found = query.run(epochs={feed: [ROWS]}).results.to_pylist()
    # u   2   4   6   8 | 24        odd segments: 2, 6, 8
    assert sorted((r["wid"], r["odd"], r["n"]) for r in found) == [
        (0, False, 1),
        (0, True, 3),
        (2, False, 1),
    ]


def test_rows_keep_their_order():
    feed = lw.feed("t bigint, x bigint")
    made = stream(feed).with_columns(y="x + 1").where("y % 3 > 0")
    rows = [(0, i * 7919 % 50_021) for i in range(50_000)]
    expected = [x + 1 for _, x in rows if (x + 1) % 3 > 0]
    assert column(made, "y", rows) == expected


def test_columns_no_expression_reads_are_left_as_they_are():
    schema = pa.schema([("t", pa.int64()), ("at", pa.timestamp("ns", "Asia/Tokyo"))])
    feed = lw.feed(schema)
    made = stream(feed).where("t > 0").with_columns(u="t + 1")
    assert made.schema.field("at") == schema.field("at")


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("segment / 2", pa.float64(), [0.5, 1.0, 0.5, 0.5, 1.0]),
        ("t div 2", pa.int64(), [0, 1, 1, 2, 6]),
        ("small + 1", pa.int32(), [2, 3, 4, 5, 6]),
        ("t % 5", pa.int64(), [1, 2, 3, 4, 2]),
        ("concat(name, '!')", pa.string(), ["a!", "b!", "c!", None, "E!"]),
        ("name || '!'", pa.string(), ["a!", "b!", "c!", None, "E!"]),
        ("coalesce(speed, -1)", pa.float64(), [10.0, 0.0, -1.0, 30.0, 5.0]),
        ("if(speed > 5, 'fast', 'slow')", pa.string(), ["fast", "slow", "slow", "fast", "slow"]),
        ("CASE WHEN t < 3 THEN 0 ELSE 1 END", pa.int32(), [0, 0, 1, 1, 1]),
        ("name RLIKE '^[a-c]$'", pa.bool_(), [True, True, True, None, False]),
        ("log(speed)", pa.float64(), None),
        ("name IN ('a', 'b')", pa.bool_(), [True, True, False, None, False]),
        ("substring(name, 1, 1)", pa.string(), ["a", "b", "c", None, "E"]),
        ("cast(t AS string)", pa.string(), ["1", "2", "3", "4", "12"]),
        ("cast(speed / 7 AS int)", pa.int32(), [1, 0, None, 4, 0]),
        ("floor(speed / 7)", pa.int64(), [1, 0, None, 4, 0]),
    ],
)
def test_expressions_mean_what_they_mean_in_spark(text, kind, values):
    rows = ROWS if values else ROWS[:1]
    made = stream(lw.feed(SCHEMA)).with_columns(found=text)
    assert column(made, "found", rows) == (values or [pytest.approx(2.302585)])
    assert made.schema.field("found").type == kind


def test_times_are_in_utc():
    feed = lw.feed("ts timestamp, x int")
    made = lw.stream(feed, time="ts", watermark=lw.ordered()).with_columns(
        hour="hour(ts)", later="ts + INTERVAL 90 MINUTES", whole="date_trunc('HOUR', ts)"
    )
    at = ZERO + timedelta(hours=5, minutes=40)
    (row,) = table(made, [(at, 1)]).to_pylist()
    assert row["hour"] == 5
    assert row["later"] == at + timedelta(minutes=90)
    assert row["whole"] == ZERO + timedelta(hours=5)
    assert made.schema.field("later").type == pa.timestamp("us", "UTC")


# -- where they are evaluated --------------------------------------------------------------------


def test_files_are_transformed_where_they_are_read(tmp_path):
    table = lw.feed(SCHEMA).table(ROWS)
    for i in range(3):
        pq.write_table(table, tmp_path / f"{i}.parquet")
    files = lw.files(tmp_path, files_per_epoch=1)
    made = lw.stream(files, time="t", watermark=lw.slack(20)).where("speed > 0")
    query = made.with_columns(kmh="speed * 1.6").window(range=10).agg(top=lw.max("kmh"))
    outcome = query.run(host="local")
    assert outcome.results.column("top").to_pylist() == [48.0, 8.0]
    assert outcome.status["in"] == 9


def test_a_transformed_source_travels_to_other_processes(tmp_path):
    pq.write_table(lw.feed(SCHEMA).table(ROWS), tmp_path / "a.parquet")
    made = lw.stream(lw.files(tmp_path), time="t", watermark=lw.ordered()).where("t > 3")
    flow = pickle.loads(pickle.dumps(made.assembly.flow))
    (route,) = flow.inputs[0].routes
    (step,) = route.steps
    assert step(lw.feed(SCHEMA).table(ROWS)).column("t").to_pylist() == [4, 12]


# -- what a query says of them -------------------------------------------------------------------


def test_the_fingerprint_holds_the_expressions_but_not_their_spelling():
    def digest(made):
        return made.window(range=10).agg(n=lw.count()).fingerprint(2)["digest"]

    plain = stream(lw.feed(SCHEMA))
    assert digest(plain.where("speed > 0")) == digest(plain.where("speed>0"))
    assert digest(plain.where("speed > 0")) != digest(plain.where("speed > 1"))
    assert digest(plain.where("speed > 0")) != digest(plain)


def test_explain_tells_the_steps():
    made = stream(lw.feed(SCHEMA)).where("speed>0").with_columns(kmh="speed*1.6")
    told = made.window(range=10).agg(n=lw.count()).explain().splitlines()
    assert told[0] == "rows        where speed > 0"
    assert told[1] == "            with kmh = speed * 1.6"
    assert told[2].startswith("window ")


# -- what is refused -----------------------------------------------------------------------------

REFUSED = {
    "a column that is not there": (lambda s: s.where("sped > 0"), ["'sped'", "mean 'speed'"]),
    "what is no expression": (lambda s: s.where("speed >"), ["'speed >'", "not a Spark SQL"]),
    "an open quote": (lambda s: s.where("name = 'a"), ["name = 'a", "not a Spark SQL"]),
    "two expressions": (lambda s: s.where("speed > 0, t"), ["not one"]),
    "two statements": (lambda s: s.where("true; SELECT 1"), ["not one"]),
    "more than an expression": (lambda s: s.where("true FROM x"), ["more than"]),
    "an aggregate": (lambda s: s.where("max(speed) > 0"), ["many rows", ".agg("]),
    "a window function": (
        lambda s: s.with_columns(n="row_number() OVER (ORDER BY t)"),
        ["many rows"],
    ),
    "a query": (lambda s: s.where("t IN (SELECT 1)"), ["holds a query"]),
    "many rows of one": (lambda s: s.with_columns(x="explode(array(1, 2))"), ["several rows"]),
    "chance": (lambda s: s.with_columns(x="rand()"), ["read again"]),
    "the clock": (lambda s: s.where("ts < current_timestamp()"), ["read again"]),
    "an unknown function": (lambda s: s.where("frobnicate(t)"), ["frobnicate", "carry over"]),
    "a function that was not held against Spark": (
        lambda s: s.with_columns(x="soundex(name)"),
        ["soundex()", "as a DataFrame"],
    ),
    "a float as text": (lambda s: s.with_columns(x="cast(speed AS string)"), ["printed"]),
    "a float in text": (lambda s: s.with_columns(x="concat(name, speed)"), ["printed"]),
    "a quotient of decimals": (lambda s: s.with_columns(x="t / 1.5"), ["cast one", "double"]),
    "a number as a time": (lambda s: s.with_columns(x="cast(t AS timestamp)"), ["a time"]),
    "types that do not fit": (lambda s: s.with_columns(x="name - 1"), ["name - 1", "carry over"]),
    "what is no condition": (lambda s: s.where("speed + 1"), ["'speed + 1'", "double"]),
    "no text": (lambda s: s.where(3), ["3", "as text"]),
    "no column": (lambda s: s.with_columns(), ["needs a column"]),
    "nothing": (lambda s: s.select(), ["needs a column"]),
    "a column twice": (lambda s: s.select("t", t="speed"), ["'t'", "twice"]),
    "an unknown column": (lambda s: s.select("t", "sped"), ["'sped'", "mean 'speed'"]),
    "a stream without its time": (lambda s: s.select("speed"), ["'t'"]),
    "a name of our own": (lambda s: s.with_columns(__x="t"), ["'__x'"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_when_the_query_is_built(what):
    build, told = REFUSED[what]
    with pytest.raises(lw.SpecError) as raised:
        build(stream(lw.feed(SCHEMA)))
    for part in told:
        assert part in str(raised.value)
