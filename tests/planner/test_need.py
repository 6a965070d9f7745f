"""What a need sets for a query, which options win over it, and which needs are refused."""

from __future__ import annotations

import pytest

import lowwater as lw
from lowwater.query.options import RunOptions

NEED = lw.need(fresh="30 seconds", right=0.98, exact="10 minutes")


def stream(schema="ts timestamp, k string, v double", time="ts", **words):
    return lw.stream(lw.feed(schema), time=time, **words)


def query(rows=None, **window):
    words = {"range": "1 minute", **window}
    return (rows or stream()).window(**words).group_by("k").agg(n=lw.count(), s=lw.sum("v"))


def plan(query, **words):
    return query.planned(RunOptions(**words))


def test_a_need_supplies_the_watermark_and_the_early_results():
    made = plan(query(), need=NEED)
    assert made.adapter is not None
    assert made.prodder is not None
    assert [part.name for part in made.needs.parts] == ["results"]


def test_a_stream_without_a_watermark_needs_a_need():
    with pytest.raises(lw.SpecError, match=r"watermark= is missing.*need=lw\.need"):
        query().explain()


def test_watermark_and_early_win_over_a_need():
    rows = stream(watermark=lw.slack("5 seconds"))
    made = plan(query(rows), need=NEED, early=lw.early_every("1 second"))
    assert made.adapter is None
    assert [type(one).__name__ for one in made.prodder.policies] == ["EarlyEvery"]
    told = query(rows).explain(need=NEED, early=lw.early_every("1 second"))
    assert "input 1 has a watermark= of its own, which wins" in told
    assert "early= wins: EarlyEvery" in told


def test_explain_has_the_promises_and_what_gives():
    told = query().explain(need=NEED).splitlines()
    assert (
        "need        first answer within 30 seconds, right to 0.98 in the mean; final within "
        "10 minutes"
    ) in told
    assert "            gives up, in this order: exact, right, windows" in told
    none = lw.need(fresh="30 seconds", right=0.98, gives=())
    assert "            gives up, in this order: nothing" in query().explain(need=none).splitlines()


def test_what_a_query_cannot_give_up_is_left_out_or_refused():
    rows = query(allowed_lateness="1 hour")
    assert "gives up, in this order: exact, right\n" in rows.explain(need=NEED)
    named = lw.need(fresh="30 seconds", right=0.98, gives=("windows",))
    with pytest.raises(lw.SpecError, match=r"gives=\('windows',\).*allowed_lateness="):
        rows.explain(need=named)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: stream().where("v > 1").explain(need=NEED), "does not end with windows"),
        (lambda: query(range=lw.rows(3)).explain(need=NEED), "unknown here before rows arrive"),
        (lambda: query(gap="3 seconds", range=None).explain(need=NEED), "before rows arrive"),
        (
            lambda: query(stream("ts bigint, k string, v double"), range=10).explain(need=NEED),
            "'ts' is a number",
        ),
        (
            lambda: stream().window(range="1 minute").agg(w=lw.first("k")).explain(need=NEED),
            r"w has none; add one to agg\(...\)",
        ),
        (lambda: query().explain(need="30 seconds"), "'30 seconds' is not a need"),
        (lambda: query().explain(need={}), "is not a need"),
        (lambda: query().explain(need={"other": NEED}), "'other', which is not a query"),
        (lambda: plan(query(), need=NEED, trigger="20 seconds"), "two epochs; set a shorter"),
        (
            lambda: query().explain(need=lw.need(fresh="1 minute", right=0.9, fair_by="nobody")),
            r"need\(fair_by='nobody'\): .* add group_by\('nobody'\)",
        ),
        (
            lambda: query().explain(
                need=lw.need(fresh="1 minute", right=0.9, fair_by="k", gives=("right",))
            ),
            r"need\(fair_by='k'\): groups share the loss of windows",
        ),
        (
            lambda: query().explain(
                need=lw.need(fresh="1 minute", right=0.9, memory="1 GB", gives=("right",))
            ),
            "memory='1 GB'.*add 'windows' to gives=",
        ),
    ],
)
def test_a_need_that_the_query_cannot_have_is_refused(build, told):
    with pytest.raises(lw.SpecError, match=told):
        build()


def test_memory_and_weights_go_to_the_shedder():
    rows = stream()
    both = lw.together(board=query(rows), audit=query(rows, range="5 minutes"))
    heavy = lw.need(fresh="1 minute", right=0.9, memory="2 GB", weight=3)
    how = plan(both, need={"board": NEED, "audit": heavy}).shedder.how
    assert (how.memory, how.weights) == (2 * 10**9, {"board": 1.0, "audit": 3})
    assert (how.latency, how.gives) == (30_000_000, "max_gap")


def test_queries_that_run_together_have_needs_by_name():
    rows = stream()
    both = lw.together(board=query(rows), audit=query(rows, range="5 minutes"))
    audit = lw.need(fresh="5 minutes", right=0.9, gives=("exact",))
    made = plan(both, need={"board": NEED, "audit": audit})
    assert [part.name for part in made.needs.parts] == ["board", "audit"]
    told = both.explain(need={"board": NEED, "audit": audit})
    assert "need of board" in told
    with pytest.raises(lw.SpecError, match=r"several; name it, need=\{'board': lw.need"):
        plan(both, need=NEED)
