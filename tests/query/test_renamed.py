"""Old names are refused with the new one."""

from __future__ import annotations

import pytest

import lowwater as lw

NAMES = {
    "Session": "SessionWindow",
    "SlideByRow": "RowWindow",
    "aggressive": "early_before",
    "callback": "to_callback",
    "console": "to_console",
    "csv": "to_csv",
    "every": "early_every",
    "json": "to_json",
    "memory": "to_memory",
    "on_demand": "early_on_demand",
    "parquet": "to_parquet",
    "pd": "pd_controller",
    "postgres": "to_postgres",
    "session": "spark_session",
}


@pytest.mark.parametrize(("old", "new"), NAMES.items())
def test_an_old_name_is_refused_with_the_new_one(old, new):
    with pytest.raises(AttributeError, match=f"lowwater.{new}"):
        getattr(lw, old)
    assert hasattr(lw, new)


FEED = lw.feed("ts timestamp, k string, m boolean")


def stream():
    return lw.stream(FEED, time="ts", watermark=lw.ordered())


def query():
    return stream().window(range="1 second").agg(n=lw.count())


OLD = {
    "stream progress": (lambda **old: lw.stream(FEED, time="ts", **old), "progress", "watermark"),
    "window smooth": (lambda **old: stream().window(range="1 second", **old), "smooth", "flush"),
    "window revise_for": (
        lambda **old: stream().window(range="1 second", **old),
        "revise_for",
        "allowed_lateness",
    ),
    "join smooth": (lambda **old: stream().join(stream(), band=None, **old), "smooth", "flush"),
    "run prods": (lambda **old: query().run(**old), "prods", "early"),
    "run left_out": (lambda **old: query().run(**old), "left_out", "dropped"),
    "start prods": (lambda **old: query().start(**old), "prods", "early"),
    "start left_out": (lambda **old: query().start(**old), "left_out", "dropped"),
    "together run prods": (lambda **old: lw.together(a=query()).run(**old), "prods", "early"),
    "together run left_out": (
        lambda **old: lw.together(a=query()).run(**old),
        "left_out",
        "dropped",
    ),
    "together start prods": (lambda **old: lw.together(a=query()).start(**old), "prods", "early"),
    "together start left_out": (
        lambda **old: lw.together(a=query()).start(**old),
        "left_out",
        "dropped",
    ),
    "shed p": (lw.shed, "p", "share"),
    "pd_controller track": (lambda **old: lw.pd_controller(0.9, **old), "track", "interval"),
}
for _policy in ("slack", "ordered", "punctuated", "per_source", "adaptive", "quality"):
    for _old in ("lull", "idle"):
        OLD[f"{_policy} {_old}"] = (getattr(lw, _policy), _old, "idle_timeout")


@pytest.mark.parametrize("name", OLD)
def test_an_old_argument_is_refused_with_the_new_one(name):
    call, old, new = OLD[name]
    with pytest.raises(TypeError, match=rf"{old}=...\) is now .*\({new}=...\)"):
        call(**{old: "1 second"})
