"""Hypothesis strategies: random windows, groups, disordered rows and cuts into epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from tests.reference.windows import TIME, Windows

SCHEMA = (
    "t bigint, a int, b string, c double, "
    "i bigint, x double, s string, m decimal(12, 3), d date, f boolean"
)
KEYS = ("a", "b", "c")
NAMED = {
    "n": ("count", None),
    "n_x": ("count", "x"),
    "sum_i": ("sum", "i"),
    "sum_x": ("sum", "x"),
    "sum_m": ("sum", "m"),
    "avg_i": ("avg", "i"),
    "avg_x": ("avg", "x"),
    "avg_m": ("avg", "m"),
    "min_x": ("min", "x"),
    "max_x": ("max", "x"),
    "min_s": ("min", "s"),
    "max_m": ("max", "m"),
    "max_f": ("max", "f"),
    "var_x": ("variance", "x"),
    "dev_i": ("stddev", "i"),
    "first_s": ("first", "s"),
    "last_x": ("last", "x"),
    "last_d": ("last", "d"),
    "first_i": ("first", "i"),
}
_INTS = (None, 0, 1, -1, 7, 2**40, -(2**40), 3)
_FLOATS = (None, 0.0, -0.0, 1.5, -2.25, 1e6, math.nan, 0.1, math.inf, -math.inf, 3.0)
_TEXTS = (None, "", "a", "b", "B", "ä", "zz", "a b")
_DECIMALS = (None, *map(Decimal, ("0.000", "1.005", "-1.005", "999999999.999", "0.001")))
_DATES = (None, date(1970, 1, 1), date(1900, 2, 28), date(2024, 2, 29))
_BOOLS = (None, True, False)


def examples(count: int) -> settings:
    """Draw so many examples; in the profile "explore", ten times as many."""
    return settings(max_examples=max(1, count * settings.default.max_examples // 100))


def row(t: int | None, group: int, value: int) -> dict[str, Any]:
    """Spell out a row from three numbers, so that Hypothesis has little to draw and to shrink."""
    return {
        TIME: t,
        "a": (None, 1, -7, 2)[group % 4],
        "b": (None, "", "ä", "x")[group // 2 % 4],
        "c": (None, math.nan, -0.0, 0.0, 1.5)[group // 3 % 5],
        "i": _INTS[value % 8],
        "x": _FLOATS[value % 11],
        "s": _TEXTS[value // 2 % 8],
        "m": _DECIMALS[value // 3 % 6],
        "d": _DATES[value // 5 % 4],
        "f": _BOOLS[value % 3],
    }


def sliding(*, gaps: bool = True) -> st.SearchStrategy[Windows]:
    """Any range and slide; slide > range too, unless `gaps` is false."""
    spans = st.integers(1, 24)
    origin = st.none() | st.integers(-30, 30)
    found = st.builds(Windows, spans, spans, origin)
    return found if gaps else found.filter(lambda w: w.slide <= w.range)


def landmark() -> st.SearchStrategy[Windows]:
    """Windows since the beginning, or since an origin."""
    return st.builds(Windows, st.none(), st.integers(1, 24), st.none() | st.integers(-30, 30))


def any_windows() -> st.SearchStrategy[Windows]:
    """Windows of every kind."""
    return sliding() | landmark()


@st.composite
def rows(
    draw: st.DrawFn, *, least: int = 0, size: int = 40, malformed: bool = False
) -> list[dict[str, Any]]:
    """Rows in arrival order: time goes on in steps, and each row falls back by some.

    Hypothesis draws few more than the least: what takes many rows to happen needs one.
    """
    steps = st.tuples(
        st.sampled_from((0, 0, 1, 1, 2, 5, 9, 40)),
        st.sampled_from((0, 0, 0, 1, 2, 4, 8, 16)),
        st.integers(0, 11),
        st.integers(0, 87),
    )
    now, out = draw(st.integers(-60, 20)), []
    for step, back, group, value in draw(st.lists(steps, min_size=least, max_size=size)):
        now += step
        t = None if malformed and value % 17 == 3 else now - back
        out.append(row(t, group, value))
    return out


def cuts(stream: Sequence[Any]) -> st.SearchStrategy[list[Sequence[Any]]]:
    """Cut a stream into epochs, some of them empty; one that is long, into some at least."""
    least = min(4, len(stream) // 5)
    at = st.lists(st.integers(0, len(stream)), min_size=least, max_size=8).map(sorted)
    return at.map(lambda found: cut(stream, found))


def cut(stream: Sequence[Any], at: Sequence[int]) -> list[Sequence[Any]]:
    """Cut a stream before the rows numbered `at`."""
    bounds = [0, *at, len(stream)]
    return [stream[a:b] for a, b in pairwise(bounds)]


def disorder(stream: Sequence[dict[str, Any]]) -> int:
    """Return how late the latest row is: a slack that covers it loses nothing."""
    worst, newest = 0, -math.inf
    for found in stream:
        newest = max(newest, found[TIME])
        worst = max(worst, newest - found[TIME])
    return int(worst)
