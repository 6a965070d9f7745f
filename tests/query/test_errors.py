"""Mistakes are refused where they are made: the message names parameter, value and remedy."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import lowwater as lw

SCHEMA = (
    "ts timestamp, t bigint, price decimal(10, 2), fine decimal(38, 30), x double, name string, "
    "flag boolean, tags array<string>, attrs map<string, int>, pair struct<a: int>, blob binary"
)


def stream(time="ts", watermark=None, schema=SCHEMA):
    return lw.stream(lw.feed(schema), time=time, watermark=watermark or lw.ordered())


def over_time(**window):
    return stream().window(**window)


def over_numbers(**window):
    return stream(time="t").window(**window)


def counted(watermark, time="ts"):
    size = 10 if time == "t" else "1 minute"
    return stream(time=time, watermark=watermark).window(range=size).agg(n=lw.count())


def agg(**named):
    return over_time(range="1 minute").agg(**named)


def identity(value):
    return value


CASES = {
    # -- columns -----------------------------------------------------------------------------------
    "time column": (lambda: stream(time="tss"), ["'tss'", "Did you mean 'ts'"]),
    "time column far off": (lambda: stream(time="zzz"), ["'zzz'", "it has: ts, t, price"]),
    "on": (lambda: over_time(range=1, on="pric"), ["'pric'", "Did you mean 'price'"]),
    "group by": (
        lambda: over_time(range="1 minute").group_by("nam"),
        ["'nam'", "Did you mean 'name'"],
    ),
    "aggregate": (lambda: agg(n=lw.sum("pricee")), ["'pricee'", "Did you mean 'price'"]),
    "count": (lambda: agg(n=lw.count("pricee")), ["'pricee'", "Did you mean 'price'"]),
    "first": (lambda: agg(n=lw.first("nme")), ["'nme'", "Did you mean 'name'"]),
    "user-defined": (
        lambda: agg(
            n=lw.aggregate("nme", lift=identity, combine=max, lower=identity, returns="string")
        ),
        ["'nme'", "Did you mean 'name'"],
    ),
    "per source column": (
        lambda: counted(lw.per_source("nam", lw.ordered())),
        ["'nam'", "Did you mean 'name'"],
    ),
    "punctuated when": (lambda: counted(lw.punctuated("flg")), ["'flg'", "Did you mean 'flag'"]),
    "punctuated by": (
        lambda: counted(lw.punctuated("flag", by="nam")),
        ["'nam'", "Did you mean 'name'"],
    ),
    # -- range and slide ---------------------------------------------------------------------------
    "zero range": (lambda: over_time(range="0 ms"), ["range='0 ms'", "greater than zero"]),
    "negative range": (
        lambda: over_time(range="-5 seconds"),
        ["range='-5 seconds'", "greater than zero"],
    ),
    "zero slide": (
        lambda: over_time(range="1 minute", slide="0 seconds"),
        ["slide='0 seconds'", "greater than zero"],
    ),
    "negative slide": (lambda: over_numbers(range=10, slide=-1), ["slide=-1", "greater than zero"]),
    "zero number": (lambda: over_numbers(range=0), ["range=0", "greater than zero"]),
    "zero landmark slide": (
        lambda: over_numbers(range=lw.unbounded, slide=0),
        ["slide=0", "greater than zero"],
    ),
    "a thousand million slides": (
        lambda: over_time(range="1000 seconds", slide="1 microsecond"),
        ["range=", "slide=", "1,000,000,000 slides", "1,000,000", "larger slide"],
    ),
    "landmark without slide": (lambda: over_time(range=lw.unbounded), ["lw.unbounded", "slide="]),
    "no duration": (lambda: over_time(range="soon"), ["range='soon'", "'10 seconds'"]),
    "months": (lambda: over_time(range="1 month"), ["range='1 month'", "no fixed length"]),
    "bare number over time": (
        lambda: over_time(range=10),
        ["range=10", "'ts' is a time", "'10 seconds'"],
    ),
    "duration over numbers": (
        lambda: over_numbers(range="10 seconds"),
        ["range='10 seconds'", "'t'", "number"],
    ),
    "not finite": (
        lambda: over_numbers(range=float("inf")),
        ["range=inf", "finite"],
    ),
    "nan": (lambda: over_numbers(range=float("nan")), ["range=nan", "finite"]),
    "finer than the axis": (lambda: over_numbers(range=1.5), ["range=1.5", "'t'", "steps"]),
    "finer than the decimals": (
        lambda: stream().window(range=0.001, on="price"),
        ["range=0.001", "'price'", "1/100"],
    ),
    "finer than a tick": (
        lambda: over_time(range="0.1 microseconds"),
        ["range='0.1 microseconds'", "microsecond"],
    ),
    "range None": (lambda: over_time(range=None), ["range=None", "duration"]),
    "range bool": (lambda: over_numbers(range=True), ["range=True", "number"]),
    "range beyond the axis": (lambda: over_numbers(range=2**70), [f"range={2**70}"]),
    "slide beyond the axis": (lambda: over_numbers(range=10, slide=2**70), [f"slide={2**70}"]),
    "origin beyond the axis": (lambda: over_numbers(range=10, origin=2**70), [f"origin={2**70}"]),
    "axis too fine": (lambda: stream().window(range=1, on="fine"), ["'fine'"]),
    "origin no instant": (
        lambda: over_time(range="1 minute", origin="noon"),
        ["origin='noon'", "not an instant"],
    ),
    "origin number over time": (
        lambda: over_time(range="1 minute", origin=5),
        ["origin=5", "not an instant"],
    ),
    "origin instant over numbers": (
        lambda: over_numbers(range=10, origin="2024-01-01"),
        ["origin='2024-01-01'", "number"],
    ),
    "window over booleans": (
        lambda: over_time(range=1, on="flag"),
        ["'flag'", "bool", "ordered attribute"],
    ),
    "window over arrays": (lambda: over_time(range=1, on="tags"), ["'tags'", "ordered attribute"]),
    "spec zero": (lambda: lw.Sliding(range=0), ["range=0", "greater than zero"]),
    "spec negative slide": (lambda: lw.Landmark(slide="-1 hour"), ["slide='-1 hour'"]),
    "spec slides": (lambda: lw.Sliding(range=10**9, slide=1), ["1,000,000,000 slides"]),
    "spec wrong type": (lambda: lw.Sliding(range=1.5), ["range=1.5"]),
    # -- groups and names --------------------------------------------------------------------------
    "group by map": (
        lambda: over_time(range="1 minute").group_by("attrs"),
        ["'attrs'", "map", "keys"],
    ),
    "group by twice": (
        lambda: over_time(range="1 minute").group_by("name", "name"),
        ["'name'", "twice"],
    ),
    "group by a number": (lambda: over_time(range="1 minute").group_by(5), ["5"]),
    "no aggregate": (agg, ["agg()", "n=lw.count()"]),
    "not an aggregate": (lambda: agg(n="count"), ["n='count'", "lw.count()"]),
    "aggregate not called": (lambda: agg(n=lw.count), ["n=", "lw.count()"]),
    "reserved window": (lambda: agg(window=lw.count()), ["window", "already"]),
    "reserved wid": (lambda: agg(wid=lw.count()), ["wid", "already"]),
    "reserved kind": (lambda: agg(kind=lw.count()), ["kind", "already"]),
    "aggregate named as its group": (
        lambda: over_time(range="1 minute").group_by("name").agg(name=lw.count()),
        ["name", "already"],
    ),
    "reserved group": (
        lambda: stream(schema="ts timestamp, wid int").window(range="1 minute").group_by("wid"),
        ["'wid'", "already"],
    ),
    "hidden column": (
        lambda: stream(schema="ts timestamp, __tick int"),
        ["'__tick'", "Lowwater's own"],
    ),
    # -- aggregates --------------------------------------------------------------------------------
    "sum of text": (lambda: agg(n=lw.sum("name")), ["sum('name')", "string", "cast"]),
    "avg of dates": (lambda: agg(n=lw.avg("ts")), ["avg('ts')", "timestamp", "cast"]),
    "stddev of booleans": (lambda: agg(n=lw.stddev("flag")), ["stddev('flag')", "bool", "cast"]),
    "variance of text": (lambda: agg(n=lw.variance("name")), ["variance('name')", "cast"]),
    "max of arrays": (lambda: agg(n=lw.max("tags")), ["max('tags')", "order"]),
    "min of structs": (lambda: agg(n=lw.min("pair")), ["min('pair')", "order"]),
    "last of maps": (lambda: agg(n=lw.last("attrs")), ["last('attrs')"]),
    "sum of no column": (lambda: agg(n=lw.sum(5)), ["5"]),
    "half an aggregate": (
        lambda: lw.aggregate("x", lift=identity, combine=max, returns="double"),
        ["lift=, combine= and lower="],
    ),
    "both kinds of aggregate": (
        lambda: lw.aggregate(
            "x", lift=identity, combine=max, lower=identity, init=list, returns="double"
        ),
        ["init=, incr= and final="],
    ),
    "aggregate of nothing": (
        lambda: lw.aggregate([], lift=identity, combine=max, lower=identity, returns="double"),
        ["column"],
    ),
    "aggregate of unknown type": (
        lambda: lw.aggregate("x", lift=identity, combine=max, lower=identity, returns="number"),
        ["'number'", "double"],
    ),
    "aggregate that cannot be called": (
        lambda: lw.aggregate("x", lift="abs", combine=max, lower=identity, returns="double"),
        ["lift='abs'"],
    ),
    "fold over a million slides": (
        lambda: over_numbers(range=1_000_000, slide=1).agg(
            n=lw.aggregate("x", init=list, incr=identity, final=identity, returns="double")
        ),
        ["slides", "lift/combine/lower"],
    ),
    # -- progress ----------------------------------------------------------------------------------
    "no policy": (lambda: stream(watermark="soon"), ["'soon'", "lw.slack('10 seconds')"]),
    "policy not called": (lambda: stream(watermark=lw.ordered), ["watermark=", "lw.ordered()"]),
    "slack of nothing": (lw.slack, ["slack('10 seconds')", "rows=100"]),
    "slack of both": (lambda: lw.slack("1 second", rows=5), ["slack('10 seconds')", "rows=100"]),
    "negative slack": (
        lambda: counted(lw.slack("-5 seconds")),
        ["slack", "-5 seconds", "negative"],
    ),
    "negative slack in numbers": (lambda: counted(lw.slack(-5), "t"), ["slack", "-5", "negative"]),
    "negative rows": (lambda: lw.slack(rows=-1), ["rows=-1"]),
    "too many rows": (lambda: lw.slack(rows=10**9), [f"rows={10**9}", "100,000"]),
    "rows as text": (lambda: lw.slack(rows="5"), ["rows='5'"]),
    "half a row": (lambda: lw.slack(rows=1.5), ["rows=1.5"]),
    "slack no duration": (lambda: counted(lw.slack("soon")), ["slack='soon'", "'10 seconds'"]),
    "bare slack over time": (lambda: counted(lw.slack(10)), ["slack=10", "'10 seconds'"]),
    "duration slack over numbers": (
        lambda: counted(lw.slack("10 seconds"), "t"),
        ["slack='10 seconds'", "number"],
    ),
    "mode": (lambda: lw.slack(5, mode="strict"), ["mode='strict'", "'generous' or 'consistent'"]),
    "consistent landmark": (
        lambda: stream(watermark=lw.slack("1 second", mode="consistent"))
        .window(range=lw.unbounded, slide="1 minute")
        .agg(n=lw.count()),
        ["consistent", "landmark", "generous"],
    ),
    "negative idle timeout": (
        lambda: lw.ordered(idle_timeout="-1 second"),
        ["idle_timeout", "-1 second", "negative"],
    ),
    "lull no duration": (lambda: lw.ordered(idle_timeout=5), ["idle_timeout=5", "'10 seconds'"]),
    "lull over numbers": (
        lambda: counted(lw.ordered(idle_timeout="5 seconds"), "t"),
        ["idle_timeout='5 seconds'", "'t' is a number"],
    ),
    "max_ahead negative": (
        lambda: counted(lw.ordered(max_ahead="-1 hour")),
        ["max_ahead", "-1 hour", "negative"],
    ),
    "max_ahead over numbers": (
        lambda: counted(lw.ordered(max_ahead="1 hour"), "t"),
        ["max_ahead='1 hour'", "number"],
    ),
    "clock": (lambda: lw.ordered(clock="utc"), ["clock='utc'", "'wall'"]),
    "punctuated by no boolean": (
        lambda: counted(lw.punctuated("name")),
        ["when='name'", "string", "boolean"],
    ),
    "punctuated by floats": (
        lambda: counted(lw.punctuated("flag", by="x")),
        ["by='x'", "double", "cast"],
    ),
    "sources told apart by floats": (
        lambda: counted(lw.per_source("x", lw.ordered())),
        ["'x'", "double", "cast"],
    ),
    "sources by slack in rows": (
        lambda: lw.per_source("name", lw.slack(rows=5)),
        ["'name'", "slack in rows"],
    ),
    "sources by punctuations": (
        lambda: lw.per_source("name", lw.punctuated("flag")),
        ["'name'", "lw.slack(a span)"],
    ),
    "option on the inner policy": (
        lambda: lw.per_source("name", lw.ordered(max_ahead="1 second")),
        ["max_ahead=", "per_source"],
    ),
    "negative idle": (
        lambda: lw.per_source("name", lw.ordered(idle_timeout="-1 second")),
        ["idle", "-1 second", "negative"],
    ),
    # -- sources -----------------------------------------------------------------------------------
    "no source": (lambda: lw.stream(5, time="ts", watermark=lw.ordered()), ["source=5", "lw.feed"]),
    "a table is no stream": (
        lambda: lw.stream([1, 2], time="ts", watermark=lw.ordered()),
        ["source=[1, 2]", "lw.feed"],
    ),
    "a schema that is none": (lambda: lw.feed(5), ["5", "schema"]),
    "no folder": (lambda: lw.files("/nowhere"), ["'/nowhere'", "folder"]),
    "unknown format": (lambda: lw.files("/tmp", format="xml"), ["'xml'", "'parquet'"]),
    "csv without schema": (lambda: lw.files("/tmp", format="csv"), ["'csv'", "schema="]),
    "no files per epoch": (
        lambda: lw.files("/tmp", schema="t int", files_per_epoch=0),
        ["files_per_epoch=0", "at least 1"],
    ),
    "no rows per epoch": (
        lambda: lw.files("/tmp", schema="t int", max_rows_per_epoch=-1),
        ["max_rows_per_epoch=-1", "at least 1"],
    ),
    "no recording": (lambda: lw.replay("/nowhere.parquet", arrival="a"), ["'/nowhere.parquet'"]),
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "told"), CASES.values(), ids=CASES)
def test_a_mistake_is_refused_when_the_query_is_built(mistake, told):
    with pytest.raises(lw.SpecError) as caught:
        mistake()
    message = str(caught.value)
    for part in told:
        assert part in message, message


def test_every_error_is_lowwaters_and_a_spec_error_is_a_value_error():
    for error in (lw.SpecError, lw.PlanError, lw.StateError, lw.HostError, lw.ResultOverflowError):
        assert issubclass(error, lw.LowwaterError)
    assert issubclass(lw.SpecError, ValueError)
    assert issubclass(lw.ResultOverflowError, ArithmeticError)


def test_a_landmark_slide_of_any_length_is_fine():
    assert lw.Landmark(slide=1).slide == 1


def test_the_largest_number_of_slides_is_fine():
    assert lw.Sliding(range=1_000_000, slide=1).panes == 1_000_000


class TestRunning:
    """Mistakes that show when a query is run."""

    feed = lw.feed("t bigint")
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(n=lw.count())

    def test_a_feed_without_epochs(self):
        with pytest.raises(lw.SpecError, match=re.escape("epochs={feed: [table, ...]}")):
            self.query.run()

    def test_epochs_of_another_feed(self):
        with pytest.raises(lw.SpecError, match="epochs="):
            self.query.run(epochs={lw.feed("t bigint"): []})

    def test_an_unknown_host(self):
        with pytest.raises(lw.SpecError, match=r"host='flink'.*'spark' or 'local'"):
            self.query.run(epochs={self.feed: []}, host="flink")

    def test_a_feed_is_not_started(self):
        with pytest.raises(lw.SpecError, match="bounded"):
            self.query.start(sink=lw.to_memory(), checkpoint="/tmp/none")

    @pytest.mark.parametrize("shards", [0, -1, 1.5])
    def test_a_number_of_shards_that_cannot_be(self, shards):
        with pytest.raises(lw.SpecError, match=f"shards={shards}"):
            self.query.run(epochs={self.feed: [[(1,)]]}, shards=shards)

    def test_epochs_for_a_source_that_has_its_own(self, tmp_path):
        source = lw.files(tmp_path, schema="t bigint")
        query = (
            lw.stream(source, time="t", watermark=lw.ordered()).window(range=10).agg(n=lw.count())
        )
        with pytest.raises(lw.SpecError, match="epochs="):
            query.run(epochs={self.feed: []}, host="local")

    def test_an_error_in_the_users_function_is_chained(self):
        feed = lw.feed("t bigint, x int")
        own = lw.aggregate("x", lift=lambda v: 1 // v, combine=max, lower=identity, returns="int")
        query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(best=own)
        with pytest.raises(lw.HostError) as caught:
            query.run(epochs={feed: [[(1, 0)]]})
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_a_result_of_the_wrong_type_is_chained(self):
        feed = lw.feed("t bigint, x int")
        own = lw.aggregate("x", lift=identity, combine=max, lower=str, returns="int")
        query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(best=own)
        with pytest.raises(lw.HostError) as caught:
            query.run(epochs={feed: [[(1, 0)]]})
        assert isinstance(caught.value.__cause__, pa.ArrowException)
