"""Mistakes in plans are refused where they are made: what was given, and what to give instead."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import lowwater as lw
from tests.reference.plans import bag, play, source

NUMBERS = "t bigint, k int, v int"
SLOW = lw.slow_flush(max_delay=3)
COUNT = {"n": lw.count()}


def stream(schema=NUMBERS, time="t", watermark=None):
    return lw.stream(lw.feed(schema), time=time, watermark=watermark or lw.slack(2))


@pytest.fixture
def s():
    """Streams to make mistakes with."""
    seconds = lw.slack("2 seconds")
    a, b = stream(), stream()
    times = [stream("ts timestamp, k int", "ts", seconds) for _ in range(2)]
    joined = a.join(b, on="k", band=(0, 1))
    return SimpleNamespace(a=a, b=b, x=times[0], y=times[1], joined=joined, d=a.distinct("k"))


def counted(windowed, *keys):
    return windowed.group_by(*keys).agg(**COUNT)


JOINS = {
    "reversed": (
        lambda s: s.a.join(s.b, on="k", band=(3, -2)),
        r"band=\(3, -2\) is reversed.*lower bound first: \(-2, 3\)",
    ),
    "reversed durations": (
        lambda s: s.x.join(s.y, on="k", band=("3 seconds", "-2 seconds")),
        r"band=\('3 seconds', '-2 seconds'\) is reversed",
    ),
    "no band": (lambda s: s.a.join(s.b, band=None), "band=None is unbounded.*for example band="),
    "unbounded": (lambda s: s.a.join(s.b, band=lw.unbounded), "band=lw.unbounded is unbounded"),
    "one side": (
        lambda s: s.a.join(s.b, band=(None, 3)),
        r"band=\(None, 3\) is unbounded on one side.*give the smallest",
    ),
    "other side": (lambda s: s.a.join(s.b, band=(0, lw.unbounded)), "is unbounded on one side"),
    "no pair": (lambda s: s.a.join(s.b, band=3), r"band=3 is not a pair: give \(lowest, highest\)"),
    "three": (lambda s: s.a.join(s.b, band=(1, 2, 3)), r"band=\(1, 2, 3\) is not a pair"),
    "one text": (lambda s: s.x.join(s.y, band="3 seconds"), "band='3 seconds' is not a pair"),
    "numbers over time": (
        lambda s: s.x.join(s.y, band=(-2, 3)),
        "band=-2 is a bare number, but 'ts' is a time; write a duration",
    ),
    "durations over numbers": (
        lambda s: s.a.join(s.b, band=("-2 seconds", "3 seconds")),
        "band='-2 seconds' does not fit 't', of type int64; give a number",
    ),
    "no duration": (
        lambda s: s.x.join(s.y, band=("--2 seconds", "3 seconds")),
        "band='--2 seconds' is not a duration; write one like",
    ),
    "not finite": (lambda s: s.a.join(s.b, band=(float("-inf"), 2)), "band=-inf is not finite"),
    "window of nothing": (
        lambda s: s.a.join(s.b, band=lw.same_window(0)),
        r"same_window\(0\) must be greater than zero",
    ),
    "key types": (
        lambda s: s.a.join(stream("t bigint, k string"), on="k", band=(0, 1)),
        r"on=\('k', 'k'\): types int32 and string cannot be compared; cast one of them",
    ),
    "keys that are lists": (
        lambda _: stream("t bigint, k array<int>").join(
            stream("t bigint, k array<int>"), on="k", band=(0, 1)
        ),
        "on='k': type list.* cannot be compared; take a part of it",
    ),
    "unknown key": (
        lambda s: s.a.join(s.b, on="vv", band=(0, 1)),
        "column 'vv' is not in the stream; it has: t, k, v. Did you mean 'v'",
    ),
    "unknown key there": (
        lambda s: s.a.join(s.b, on={"k": "kk"}, band=(0, 1)),
        "column 'kk' is not in the stream",
    ),
    "a number for a key": (
        lambda s: s.a.join(s.b, on=3, band=(0, 1)),
        "on=3: give the name of a column, several",
    ),
    "numbers for keys": (lambda s: s.a.join(s.b, on=[3], band=(0, 1)), "column 3 is not in"),
    "kind": (
        lambda s: s.a.join(s.b, band=(0, 1), how="outer"),
        "how='outer' is unknown; use one of inner, left, right, full, anti",
    ),
    "time": (
        lambda s: s.a.join(s.b, band=(0, 1), time="late"),
        "time='late' is unknown; use one of self, other, min, max, both",
    ),
    "order": (
        lambda s: s.a.join(s.b, band=(0, 1), order="sorted"),
        "order='sorted' is unknown; write 'free' or 'time'",
    ),
    "both in order": (
        lambda s: s.a.join(s.b, band=(0, 1), order="time", time="both"),
        "time='both' and order='time' contradict each other",
    ),
    "left by other": (
        lambda s: s.a.join(s.b, band=(0, 1), how="left", time="other"),
        "time='other': .* left join has no time of other; take time='max' or 'min'",
    ),
    "right by self": (
        lambda s: s.a.join(s.b, band=(0, 1), how="right", time="self"),
        "time='self': .* right join has no time of self",
    ),
    "full by both": (
        lambda s: s.a.join(s.b, band=(0, 1), how="full", time="both"),
        "time='both': .* full join has no time of self",
    ),
    "anti by max": (
        lambda s: s.a.join(s.b, band=(0, 1), how="anti", time="max"),
        "time='max': an anti join has only the columns of self",
    ),
    "suffix": (
        lambda s: s.a.join(s.b, band=(0, 1), suffix=""),
        "suffix='' would give two columns the same name; write at least one letter",
    ),
    "no stream": (lambda s: s.a.join("b", band=(0, 1)), r"join\('b'\) needs a stream; give"),
    "times that differ": (
        lambda s: s.a.join(s.x, on="k", band=(0, 1)),
        "'t' of type int64 and 'ts' of type timestamp.* cannot be compared as times; cast one",
    ),
}
OTHERS = {
    "columns of a union": (
        lambda s: s.a.union(stream("t bigint, k int, w int")),
        "union: the columns differ: v is missing in the other; w is missing in the first",
    ),
    "types of a union": (
        lambda s: s.a.union(stream("t bigint, k int, v bigint")),
        "union: the columns differ: v is int32 here and int64 there",
    ),
    "times of a union": (
        lambda s: s.a.union(stream(time="v")),
        r"union: the streams' times are 't' and 'v'; rename one with select\(..., t='v'\)",
    ),
    "kinds of windows in a union": (
        lambda s: (
            s.a.window(range=3)
            .agg(**COUNT)
            .union(s.b.window(range=3, slide=lw.rows(1)).agg(**COUNT))
        ),
        "union: 'window' does not mean the same time in all streams; give all of them",
    ),
    "no stream to unite": (lambda s: s.a.union("b"), r"union\('b'\) needs a stream; give"),
    "unknown column of distinct": (lambda s: s.a.distinct("x"), "column 'x' is not in the stream"),
    "a number for a column": (lambda s: s.a.distinct(3), "column 3 is not in the stream"),
    "negative within": (
        lambda s: s.a.distinct("k", within=-1),
        "within=-1 must not be negative; leave it out for equal times",
    ),
    "within of another kind": (
        lambda s: s.a.distinct("k", within="3 seconds"),
        "within='3 seconds' does not fit 't', of type int64; give a number",
    ),
    "a map in distinct": (
        lambda _: stream("t bigint, m map<string,int>").distinct("m"),
        r"distinct\('m'\): a map is not hashable; take one of its keys",
    ),
    "a map among all columns": (
        lambda _: stream("t bigint, m map<string,int>").distinct(),
        r"distinct\('m'\): a map is not hashable; take one of its keys",
    ),
    "another order": (lambda s: s.a.order("v"), r"order\('v'\) is unknown; write order\('time'\)"),
    "landmark windows over results": (
        lambda s: counted(s.d.window(range=lw.unbounded, slide=3)),
        "landmark windows are emitted .* not known in advance; take a range",
    ),
    "landmark windows over windows": (
        lambda s: counted(counted(s.a.window(range=2)).window(range=lw.unbounded, slide=3)),
        "landmark windows are emitted",
    ),
    "results counted as they arrive": (
        lambda s: counted(s.joined.window(range=lw.rows(3))),
        r"no order of arrival of their own.*Count them by lw.rank\(...\)",
    ),
    "slides counted as they arrive": (
        lambda s: counted(s.d.window(range=3, slide=lw.rows(3))),
        r"no order of arrival of their own.*Count them by lw.rank\(...\)",
    ),
    "windows over numbered windows": (
        lambda s: counted(s.a.window(range=lw.rows(3))).window(range=3),
        r"'window' does not progress in this stream.*Take one of these columns: \(none\)",
    ),
    "a column that does not progress": (
        lambda s: s.d.window(range=3, on="v"),
        "'v' does not progress in this stream.* no window over it could close.* columns: t",
    ),
    "a column that does not progress in a part": (
        lambda s: s.a.union(s.d).where("v > 1").window(range=3, on="v"),
        "'v' does not progress in this stream",
    ),
    "a part that is counted as it arrives": (
        lambda s: counted(s.a.union(s.d).where("v > 1").window(range=lw.rows(3))),
        "no order of arrival of their own",
    ),
    "a time that is dropped": (
        lambda s: s.d.select("k"),
        "select k: the column 't', the stream's time, must stay",
    ),
    "a time that is changed": (
        lambda s: s.d.with_columns(t="t + 1"),
        "'t' does not progress in this stream",
    ),
    "an unknown column of results": (
        lambda s: counted(s.a.window(range=3)).where("m > 1"),
        "column 'm' is not in the stream; it has: window, wid, n, kind",
    ),
    "a group of results that is taken": (
        lambda s: counted(counted(s.a.window(range=3)).window(range=6), "wid"),
        r"group_by\('wid'\): results have a column of that name already",
    ),
}
SMOOTH = {
    "overlapping": (
        lambda s: counted(s.a.window(range=4, slide=2, flush=SLOW), "k"),
        "flush= needs windows that do not overlap",
    ),
    "sessions": (
        lambda s: counted(s.a.window(gap=4, flush=SLOW), "k"),
        "flush= needs windows that do not overlap",
    ),
    "several": (
        lambda s: counted(s.a.window(lw.windows(x=3, y=6), flush=SLOW), "k"),
        "flush= needs windows that do not overlap",
    ),
    "rows": (
        lambda s: counted(s.a.window(range=lw.rows(4), flush=SLOW), "k"),
        "flush= counts its delay on the attribute.*take a range on a column",
    ),
    "ranks": (
        lambda s: counted(s.a.window(range=lw.rows(4), on=lw.rank("t"), flush=SLOW), "k"),
        "flush= counts its delay on the attribute.*take a range on a column",
    ),
    "no groups": (
        lambda s: counted(s.a.window(range=4, flush=SLOW)),
        r"flush= spreads groups, and there is no group_by\(...\)",
    ),
    "text": (
        lambda s: counted(s.a.window(range=4, flush="slow"), "k"),
        r"flush='slow' is not .*; give lw.slow_flush\(...\) or lw.lazy_flush\(...\)",
    ),
    "no delay": (
        lambda s: counted(s.a.window(range=4, flush=lw.slow_flush(max_delay=0)), "k"),
        "flush: max_delay=0 must be greater than zero",
    ),
    "a delay in windows that is none": (
        lambda s: counted(s.a.window(range=4, flush=lw.slow_flush(max_delay="0 windows")), "k"),
        "flush: max_delay='0 windows' must be greater than zero",
    ),
    "a delay of another kind": (
        lambda s: counted(s.a.window(range=4, flush=lw.slow_flush(max_delay="2 seconds")), "k"),
        "max_delay='2 seconds' does not fit 't', of type int64; give a number",
    ),
    "less than no room": (
        lambda _: lw.lazy_flush(max_delay=3, keep=-1),
        "keep=-1 must be a whole number, 0 or more, of cells or rows",
    ),
    "room in halves": (lambda _: lw.lazy_flush(max_delay=3, keep=1.5), "keep=1.5 must be"),
}
BOTH = ("t", "t_other")
PAIRS = {
    "no join": (
        lambda s: s.a.window(range=4, on=("t", "v")),
        r"on=\('t', 'v'\): only the two times of an inner join progress together; take one",
    ),
    "a left join": (
        lambda s: s.a.join(s.b, band=(0, 1), how="left").window(range=4, on=BOTH),
        "'t_other' does not progress in this stream",
    ),
    "after distinct": (
        lambda s: s.joined.distinct().window(range=4, on=BOTH),
        "'t_other' does not progress in this stream",
    ),
    "the time of both": (
        lambda s: s.a.join(s.b, band=(0, 1), time="max").window(range=4, on=("time_max", "t")),
        r"on=\('time_max', 't'\): only the two times of an inner join progress together",
    ),
    "unknown": (lambda s: s.joined.window(range=4, on=("t", "u")), "column 'u' is not in"),
    "a value": (lambda s: s.joined.window(range=4, on=("t", "v")), "'v' does not progress"),
    "sliding": (
        lambda s: s.joined.window(range=4, slide=2, on=BOTH),
        r"on=\('t', 't_other'\): windows on two times are tumbling; give range=",
    ),
    "sessions": (
        lambda s: s.joined.window(gap=4, on=BOTH),
        r"on=\('t', 't_other'\): sessions lie on one time",
    ),
    "several": (
        lambda s: s.joined.window(lw.windows(x=3), on=BOTH),
        r"on=\('t', 't_other'\): lw.windows\(...\) are over one column",
    ),
    "a name that is taken": (
        lambda s: s.joined.window(range=4, on=BOTH).agg(window_2=lw.count()),
        r"agg\(window_2=...\): results have a column of that name already",
    ),
}
TOGETHER = {
    "nothing": (lambda _: lw.together(), r"together\(\) takes queries by name, for example"),
    "without names": (lambda s: lw.together(s.a), r"together\(\) takes queries by name"),
    "a number": (
        lambda _: lw.together(x=3),
        r"together\(x=...\): a int is not a query; give a stream",
    ),
    "windows without aggregates": (
        lambda s: lw.together(x=s.a.window(range=3)),
        r"together\(x=...\): a WindowedStream is not a query; name its aggregates",
    ),
    "a sink for nobody": (
        lambda s: lw.together(x=s.a, y=s.b).run(sinks={"z": None}),
        "a sink is given for 'z'; the queries are: x, y",
    ),
    "late rows of nobody": (
        lambda s: lw.together(x=s.a).run(late={"z": None}),
        "a sink is given for 'z'; the queries are: x",
    ),
    "a query without a sink": (
        lambda s: lw.together(x=s.a).start(sinks={}, checkpoint="x"),
        "sinks= has no sink for 'x'; give one to every query",
    ),
    "a feed that goes on": (
        lambda s: lw.together(x=s.a).start(sinks={"x": None}, checkpoint="x"),
        r"a feed is bounded: use query.run\(epochs=",
    ),
    "no epochs": (
        lambda s: s.a.union(s.b).run(),
        r"epochs= has none for the feed of t, k, v, .* run it with epochs=\{feed: \[table, ...\]\}",
    ),
    "epochs of one side": (
        lambda s: s.joined.run(epochs={s.a.node.source: [[]]}),
        "epochs= has none for the feed of t, k, v, which the query reads",
    ),
    "epochs of a stranger": (
        lambda s: s.a.run(epochs={s.a.node.source: [[]], s.x.node.source: [[]]}),
        "epochs=: the query does not read the feed of ts, k; leave it out",
    ),
    "epochs of a stream": (
        lambda s: s.a.run(epochs={s.a: [[]]}),
        "epochs=: the query does not read a Stream, only feeds",
    ),
    "epochs of nobody": (
        lambda s: s.a.run(epochs=[[]]),
        r"epochs=\[\[\]\]: name the feed",
    ),
}
CASES = {
    f"{word}: {name}": case
    for word, cases in {
        "join": JOINS, "stream": OTHERS, "flush": SMOOTH, "pairs": PAIRS, "run": TOGETHER,
    }.items()
    for name, case in cases.items()
}  # fmt: skip


@pytest.mark.parametrize(("build", "message"), CASES.values(), ids=CASES)
def test_a_mistake_is_refused_with_its_remedy(s, build, message):
    with pytest.raises(lw.SpecError, match=message):
        build(s)


# -- what looks odd and is none --------------------------------------------------------------------


def test_columns_that_clash_are_renamed_until_they_do_not():
    mine, other = stream("t bigint, k int, v int, v_other int"), stream()
    names = ["t", "k", "v", "v_other", "t_other", "v_other_other"]
    assert mine.join(other, on="k", band=(0, 1)).schema.names == names
    names = ["t", "k", "v", "v_other", "t2", "k2", "v2"]
    assert mine.join(other, band=(0, 1), suffix="2").schema.names == names
    by_name = mine.select("t", "v", key="k").join(other, on={"key": "k"}, band=(0, 1))
    assert by_name.schema.names == ["t", "v", "key", "t_other", "k", "v_other"]


def test_results_of_windows_that_are_joined_keep_both_windows():
    a, b = (counted(stream().window(range=3), "k") for _ in range(2))
    joined = a.join(b, on="k", band=(0, 0))
    assert joined.schema.names[5:] == ["window_other", "wid_other", "n_other", "kind_other"]


def rows_of(*times):
    return [{"t": t, "k": t % 2, "v": t, "f": False} for t in times]


def test_a_column_named_operator_does_no_harm_among_late_rows():
    mine = stream("t bigint, k int, operator int")
    other = stream()
    query = counted(mine.join(other, on="k", band=(0, 1)).window(range=5))
    epochs = [[(9, 1, 7)], [(20, 1, 7)], [(1, 1, 7)]]
    outcome = query.run(epochs={mine.node.source: epochs, other.node.source: epochs})
    late = outcome.late.to_pylist()
    assert [row["operator"] for row in late] == ["join", "join"]
    assert late[0]["join self"]["operator"] == 7
    assert late[1]["join other"]["v"] == 7


def test_a_partition_of_pairs_of_windows_is_a_group():
    epochs = [rows_of(1, 2, 3), rows_of(5, 8), rows_of(20)]
    found = []
    for by in ({"partition_by": "k"}, {}):
        a, b = (source(f"{NUMBERS}, f boolean", epochs, lw.slack(2), None) for _ in range(2))
        joined = a.stream.join(b.stream, on="k", band=(-3, 3))
        windowed = joined.window(range=4, on=BOTH, **by)
        query = counted(windowed) if by else counted(windowed, "k")
        given = {twin.ways[0].origin.feed: epochs for twin in (a, b)}
        found.append(bag(query.run(epochs=given).results.to_pylist()))
    assert found[0] == found[1]
    assert len(found[0]) > 3


def test_streams_without_epochs_end_at_once():
    a, b = (source(f"{NUMBERS}, f boolean", [], lw.slack(2), None) for _ in range(2))
    told = play(out=a.join(b, on=["k"], band=(0, 1), how="full"))
    assert told.results["out"] == [[], []]
