"""The policy of load shedding: bounds on the length of gaps and on the age of results."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypeAlias, get_args

from lowwater.errors import SpecError, renamed
from lowwater.ticks import Duration, ticks

Gap: TypeAlias = int | Duration
"""The length of a gap: a number of results, or a duration."""
Kind: TypeAlias = Literal["windows", "sampled"]
"""What is skipped under overload: whole windows, or some of the rows of all windows."""
Gives: TypeAlias = Literal["latency", "max_gap"]
"""The bound that gives way if both cannot be kept."""


@dataclass(frozen=True)
class ShedPolicy:
    """A policy that drops a `share` of windows, or as many as its bounds require.

    `latency` is in ticks, `memory` in bytes.
    """

    max_gap: Gap | Mapping[str, Gap]
    share: float | None = None
    latency: int | None = None
    seed: int = 0
    fill: bool = False
    gives: Gives = "latency"
    memory: int | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    fair_by: str | None = None
    kind: Kind = "windows"


@renamed(p="share")
def shed(
    *,
    max_gap: Gap | Mapping[str, Gap] = 10,
    share: float | None = None,
    latency: Duration | None = None,
    seed: int = 0,
    fill: Literal["linear"] | None = None,
    gives: Gives = "latency",
    memory: str | int | None = None,
    weights: Mapping[str, float] | None = None,
    fair_by: str | None = None,
    kind: Kind = "windows",
) -> ShedPolicy:
    """Return a policy that drops whole windows under overload; other windows stay exact (DROP).

    Parameters
    ----------
    max_gap
        The largest number of consecutive missing results, or the longest time without
        results ("10 minutes"). For several queries, give a gap per name: `{"fast": 60, "slow": 5}`.
    share
        The share of windows to drop.
    latency
        The largest age of a result when it is emitted, from the moment at which the watermark could
        have closed its window. Give either `share`, or `latency` or
        `memory` or both.
    seed
        The seed of the random choice of windows.
    fill
        "linear" also emits rows for dropped windows, interpolated between the nearest finals. These
        rows have the kind "filled", and `error` is a bound on their error.

    memory
        The largest size of the state, as text ("4 GB") or in bytes, beside `latency` or alone.
    weights
        The weight of each of several queries by name, 1 by default. If a query must be shut down,
        Lowwater chooses the one with the most rows per weight.
    fair_by
        A column of `group_by`. Its values are divided into 64 classes, and windows are dropped by
        class: first those of the classes with the most rows (max-min fairness). A class that asks
        for less than an equal part loses nothing.
    kind
        "windows" drops whole windows. "sampled" reads a share of the rows instead, chosen at
        random: counts, sums and means are estimated, no window is dropped, and the column
        `sampled` is the share of a result's rows that was read.
    gives
        The bound that gives way if `latency` and `max_gap` cannot both be kept: results get older
        than `latency` ("latency"), or more windows than `max_gap` are missing in a row ("max_gap").

    >>> shed(max_gap=10, share=0.3).share
    0.3
    """
    if (share is None) == (latency is None and memory is None):
        raise SpecError(
            f"lw.shed(share={share!r}, latency={latency!r}, memory={memory!r}) needs exactly "
            f"one of the two: share=0.3 drops that share of windows, latency='5 seconds' drops as "
            f"many as it takes to keep results younger, memory='4 GB' as many as keep the state "
            f"smaller"
        )
    check_gaps(max_gap)
    if share is not None:
        check_share(share)
    if fill not in (None, "linear"):
        raise SpecError(f"shed(fill={fill!r}) is unknown; write fill='linear', or leave it out")
    bound = None if latency is None else bound_ticks(latency)
    check_gives(gives)
    size = None if memory is None else bytes_in(memory)
    filled, weighed = fill is not None, check_weights(weights or {})
    _check_fair_by(fair_by, filled)
    _check_kind(kind, fair_by, size, filled)
    return ShedPolicy(max_gap, share, bound, seed, filled, gives, size, weighed, fair_by, kind)


def _check_fair_by(fair_by: Any, filled: bool) -> None:  # noqa: FBT001
    """Raise SpecError unless `fair_by` is None or a name, and gaps are not filled by class."""
    if fair_by is None:
        return
    if not isinstance(fair_by, str) or not fair_by:
        raise SpecError(
            f"shed(fair_by={fair_by!r}) must be the name of a column of group_by, like "
            f"fair_by='tenant'"
        )
    if filled:
        raise SpecError(
            f"shed(fair_by={fair_by!r}, fill='linear'): a gap is filled for all groups alike, but "
            f"fair_by= drops windows of some groups; leave one of the two out"
        )


def _check_kind(kind: Any, fair_by: str | None, size: int | None, filled: bool) -> None:  # noqa: FBT001
    """Raise SpecError unless `kind` is known and fits the other arguments."""
    if kind not in get_args(Kind):
        raise SpecError(
            f"shed(kind={kind!r}) is unknown; write kind='windows' to drop whole windows, or "
            f"kind='sampled' to read a share of the rows"
        )
    if kind == "windows":
        return
    others = {
        "fair_by": (fair_by, "it is read from the rows of all groups alike"),
        "memory": (size, "state has a partial per group and pane, however few rows were read"),
        "fill": (filled or None, "no window is missing"),
    }
    for name, (value, why) in others.items():
        if value is not None:
            raise SpecError(
                f"shed(kind='sampled', {name}={value!r}): a share is sampled, and {why}; leave "
                f"{name}= out, or take kind='windows'"
            )


_UNITS = {"B": 1} | {
    f"{prefix}{unit}": base**power
    for power, prefix in enumerate("kMGT", 1)
    for unit, base in (("B", 1000), ("iB", 1024))
}


def bytes_in(memory: str | int) -> int:
    """Return a size in bytes; raise SpecError unless it is greater than zero.

    >>> bytes_in("4 GB"), bytes_in("1.5 KiB"), bytes_in(800)
    (4000000000, 1536, 800)
    """
    units = {name.lower(): size for name, size in _UNITS.items()}
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(memory).lower())
    size = 0
    if found is not None and (found[2] in units or found[0].isdigit()):
        size = int(float(found[1]) * units[found[2] or "b"])
    if size <= 0:
        raise SpecError(
            f"shed(memory={memory!r}) is not a size; write one like '4 GB' or '800 MiB', or a "
            f"number of bytes above 0"
        )
    return size


def check_weights(weights: Any) -> Mapping[str, float]:
    """Return `weights`; raise SpecError unless all are numbers above 0."""
    if not isinstance(weights, Mapping):
        raise SpecError(f"shed(weights={weights!r}) must be weights by query, like {{'board': 5}}")
    for name, weight in weights.items():
        if not isinstance(weight, int | float) or not 0 < weight < float("inf"):
            raise SpecError(f"shed(weights={{{name!r}: {weight!r}}}) must be a number above 0")
    return weights


def check_share(share: Any) -> float:
    """Return `share`; raise SpecError unless it is a share of windows that can be dropped."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise SpecError(f"shed(share={share!r}) must be a share from 0 to below 1")
    return share


def check_gives(gives: Any) -> Gives:
    """Return `gives`; raise SpecError unless it names a bound."""
    if gives not in get_args(Gives):
        raise SpecError(
            f"shed(gives={gives!r}) is unknown; write gives='latency' to let results get older, or "
            f"gives='max_gap' to let gaps get longer, when both bounds cannot be kept"
        )
    return gives  # type: ignore[no-any-return]


def bound_ticks(latency: Duration) -> int:
    """Return the bound on latency in ticks; raise SpecError unless it is greater than zero."""
    bound = ticks(latency, name="latency")
    if bound <= 0:
        raise SpecError(f"shed(latency={latency!r}) must be greater than zero")
    return bound


def check_gaps(max_gap: Any) -> None:
    """Raise SpecError unless `max_gap` is a valid gap, or a mapping with only valid gaps."""
    for name, gap in max_gap.items() if isinstance(max_gap, Mapping) else [("", max_gap)]:
        label = f"max_gap[{name!r}]" if name else "max_gap"
        span = ticks(gap, name=label) if isinstance(gap, str | timedelta) else gap
        if type(span) is not int or span < 1:
            raise SpecError(
                f"shed({label}={gap!r}) must be a number of results from 1 on, or the longest time "
                f"without results, like '1 minute'"
            )


def gap_of(query: str, max_gap: Any, queries: Collection[str]) -> Gap:
    """Return the gap of `query`; raise SpecError if `max_gap` and `queries` differ in names."""
    if not isinstance(max_gap, Mapping):
        return max_gap  # type: ignore[no-any-return]
    odd = [n for n in (*max_gap, *queries) if n not in queries or n not in max_gap]
    if odd:
        raise SpecError(
            f"shed(max_gap=...) and the queries must have the same names; {odd[0]!r} is only in "
            f"one of them. The queries are: {', '.join(queries)}"
        )
    return max_gap[query]  # type: ignore[no-any-return]


def plain(max_gap: Any) -> Any:
    """Return `max_gap` as a JSON value; durations become texts.

    >>> plain({"fast": timedelta(seconds=1), "slow": 5})
    {'fast': '1000000 microseconds', 'slow': 5}
    """
    if isinstance(max_gap, Mapping):
        return {name: plain(gap) for name, gap in max_gap.items()}
    return f"{ticks(max_gap)} microseconds" if isinstance(max_gap, timedelta) else max_gap


def results_in(gap: Gap, slide: int) -> int:
    """Return `gap` as a number of results, if results are `slide` ticks apart.

    >>> results_in("1 minute", 10_000_000), results_in(5, 10_000_000)
    (6, 5)
    """
    return gap if isinstance(gap, int) else ticks(gap, name="max_gap") // slide
