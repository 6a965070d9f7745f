"""Windows that rows drive, under every way a stream can make progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.operators.window.test_row_windows import ENDS, assert_same, flat, run
from tests.reference import row_windows as driven
from tests.reference.windows import PerSource, Punctuated, Rule, Slack
from tests.run_query import aggregates
from tests.strategies import NAMED, cuts, examples, rows

SOURCE = "b"


@dataclass(frozen=True)
class Policy:
    """A policy of Lowwater, and the oracle's rule for it, given whether sources close groups."""

    progress: Callable[[int], Any]
    rule: Callable[[int, bool], Rule]
    consistent: bool = False


def _each(span: int, mode: str) -> Any:
    return lw.per_source(SOURCE, lw.slack(span, mode=mode))


POLICIES = {
    "consistent slack": Policy(
        lambda span: lw.slack(span, mode="consistent"), lambda span, _: Slack(span), consistent=True
    ),
    "by source": Policy(
        lambda span: _each(span, "generous"), lambda span, own: PerSource(SOURCE, span, own)
    ),
    "by source, consistent": Policy(
        lambda span: _each(span, "consistent"),
        lambda span, own: PerSource(SOURCE, span, own),
        consistent=True,
    ),
    "punctuated": Policy(lambda _: lw.punctuated("f"), lambda _, __: Punctuated("f")),
    "punctuated by group": Policy(
        lambda _: lw.punctuated("f", by=SOURCE), lambda _, own: Punctuated("f", SOURCE, own)
    ),
}
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
streams = rows(least=15)
spans = st.integers(0, 6)
sizes = st.integers(1, 9)
keys = st.sampled_from([(), ("a",), (SOURCE,), ("a", SOURCE)])


def _came(
    epochs: Sequence[Any], policy: Policy, span: int, by: Sequence[str] = (), *, own: bool = False
) -> list[driven.Came]:
    rule = policy.rule(span, own)
    return flat(driven.arrivals(epochs, rule, by, consistent=policy.consistent))


def _assert_late(outcome: lw.Outcome, came: list[driven.Came], size: int) -> None:
    late = [r for r in came if r.dead or r.t + size <= r.closed]
    assert outcome.status["late"] == len(late)
    assert outcome.status["partly_late"] == sum(not r.in_time for r in came) - len(late)
    assert len(outcome.late) == sum(not r.in_time for r in came)


@every_policy
@pytest.mark.parametrize("kind", ENDS)
@examples(8)
@given(st.data(), streams, st.integers(1, 30), spans, keys, st.integers(1, 3))
def test_windows_that_rows_of_the_stream_end(policy, kind, data, stream, size, span, by, shards):
    window, ends = ENDS[kind]
    epochs = data.draw(cuts(stream))
    progress = policy.progress(span)
    outcome = run(epochs, progress, aggregates(NAMED), by, shards, range=size, **window)
    came = _came(epochs, policy, span)
    assert_same(outcome, driven.slide_by_row(came, size, ends, by), by)
    _assert_late(outcome, came, size)


@every_policy
@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("by", [("a",), (SOURCE,), ("a", SOURCE)], ids=repr)
@examples(6)
@given(st.data(), streams, st.integers(1, 30), spans)
def test_windows_that_rows_of_a_partition_end(policy, kind, by, data, stream, size, span):
    window, ends = ENDS[kind]
    epochs = data.draw(cuts(stream))
    progress = policy.progress(span)
    outcome = run(epochs, progress, aggregates(NAMED), range=size, partition_by=by, **window)
    came = _came(epochs, policy, span, by, own=SOURCE in by)
    assert_same(outcome, driven.slide_by_row(came, size, ends, by, by), by)
    _assert_late(outcome, came, size)


@every_policy
@pytest.mark.parametrize("partition", [(), ("a",), (SOURCE,)], ids=repr)
@examples(8)
@given(st.data(), streams, sizes, sizes, spans)
def test_windows_over_arriving_rows(policy, partition, data, stream, size, slide, span):
    epochs, by = data.draw(cuts(stream)), (*partition, "c")
    window = {"range": lw.rows(size), "slide": lw.rows(slide), "partition_by": partition}
    outcome = run(epochs, policy.progress(span), aggregates(NAMED), ("c",), **window)
    came = _came(epochs, policy, span)
    assert_same(outcome, driven.numbered(came, size, slide, by, partition), by)
    assert outcome.status["late"] == 0


@every_policy
@pytest.mark.parametrize("partition", [(), ("a",), (SOURCE,)], ids=repr)
@examples(8)
@given(st.data(), streams, sizes, sizes, spans)
def test_windows_over_ranked_rows(policy, partition, data, stream, size, slide, span):
    epochs, by = data.draw(cuts(stream)), (*partition, "c")
    window = {"range": lw.rows(size), "slide": lw.rows(slide), "on": lw.rank("t")}
    progress = policy.progress(span)
    outcome = run(epochs, progress, aggregates(NAMED), ("c",), partition_by=partition, **window)
    came = _came(epochs, policy, span)
    cells = driven.numbered(came, size, slide, by, partition, by_rank=True)
    assert_same(outcome, cells, by)
    assert outcome.status["late"] == len(outcome.late) == sum(not r.in_time for r in came)


@every_policy
@pytest.mark.parametrize("by", [(), ("a",), (SOURCE,), ("a", SOURCE)], ids=repr)
@examples(10)
@given(st.data(), streams, st.integers(1, 8), spans, st.integers(1, 3))
def test_sessions(policy, by, data, stream, gap, span, shards):
    epochs = data.draw(cuts(stream))
    outcome = run(epochs, policy.progress(span), aggregates(NAMED), by, shards, gap=gap)
    rule = policy.rule(span, SOURCE in by)
    cells, late = driven.sessions(epochs, gap, rule, by, consistent=policy.consistent)
    assert_same(outcome, cells, by)
    assert outcome.status["late"] == len(late) == len(outcome.late)
    assert outcome.status["partly_late"] == 0


# -- several windows -------------------------------------------------------------------------------


def _of_one(outcome: lw.Outcome, name: str) -> lw.Outcome:
    mine = outcome.results.filter(pc.equal(outcome.results["window_name"], name))
    return replace(outcome, results=mine.drop_columns(["window_name"]))


several_sizes = st.lists(
    st.tuples(st.integers(1, 24), st.integers(1, 24)), min_size=1, max_size=3
).map(lambda found: {f"w{i}": size for i, size in enumerate(found)})


@every_policy
@pytest.mark.parametrize("by", [("a",), (SOURCE,)], ids=repr)
@examples(10)
@given(st.data(), streams, several_sizes, spans)
def test_several_windows(policy, by, data, stream, several, span):
    epochs = data.draw(cuts(stream))
    window = {"several": lw.windows(**several)}
    outcome = run(epochs, policy.progress(span), aggregates(NAMED), by, **window)
    rule, rounded = policy.rule(span, SOURCE in by), driven.latest_end(several)
    came = flat(driven.arrivals(epochs, rule, consistent=policy.consistent, rounded=rounded))
    for name, size in several.items():
        assert_same(_of_one(outcome, name), driven.sliding(came, *size, by), by)
        late = outcome.late.filter(pc.equal(outcome.late["window_name"], name)).to_pylist()
        told = [(r["t"], r["missed"]["first"], r["missed"]["last"]) for r in late]
        lost = [(r.t, driven.held_and_missed(r, *size)[1]) for r in came]
        assert sorted(told) == sorted((t, w[0], w[-1]) for t, w in lost if w)
    fates = [[driven.held_and_missed(r, *size) for size in several.values()] for r in came]
    entered, missed = ([any(f[i] for f in fate) for fate in fates] for i in (0, 1))
    both = list(zip(entered, missed, strict=True))
    expected = {
        "admitted": sum(entered),
        "late": both.count((False, True)),
        "partly_late": both.count((True, True)),
        "outside": both.count((False, False)),
    }
    assert {name: outcome.status[name] for name in expected} == expected
