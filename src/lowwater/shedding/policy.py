"""What a user says about shedding: how long a gap may be, and how old results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from lowwater.durations import Duration, ticks
from lowwater.errors import SpecError

Gap: TypeAlias = int | Duration
"""So many results, or for so long."""


@dataclass(frozen=True)
class Shedding:
    """How windows are left out: by a share `p`, or as `latency` (ticks) asks for."""

    max_gap: Gap | Mapping[str, Gap]
    p: float | None = None
    latency: int | None = None
    seed: int = 0
    fill: bool = False


def shed(
    *,
    max_gap: Gap | Mapping[str, Gap] = 10,
    p: float | None = None,
    latency: Duration | None = None,
    seed: int = 0,
    fill: Literal["linear"] | None = None,
) -> Shedding:
    """Leave whole windows out when the stream outruns the machine; all others stay exact (DROP).

    Parameters
    ----------
    max_gap
        How many results in a row may be missing at most, or for how long, "10 minutes". Of several
        queries, by name, `{"fast": 60, "slow": 5}`, where they differ.
    p
        The share of windows to leave out, by hand.
    latency
        Instead of `p`: how old a result may be when it comes. As much is shed as that needs.
    seed
        What the coins begin with.
    fill
        "linear" gives rows for windows that were left out, too, on a line between the finals
        around them: their `kind` is "filled", and `error` says how far off they may be.

    >>> shed(max_gap=10, p=0.3)
    Shedding(max_gap=10, p=0.3, latency=None, seed=0, fill=False)
    """
    if (p is None) == (latency is None):
        raise SpecError(
            f"shed(p={p!r}, latency={latency!r}) must say one of the two: p=0.3 leaves out that "
            f"share of windows, latency='5 seconds' as many as it takes for results to be no older"
        )
    check_gaps(max_gap)
    if p is not None and not 0 <= p < 1:
        raise SpecError(f"shed(p={p!r}) must be a share from 0 to below 1")
    if fill not in (None, "linear"):
        raise SpecError(f"shed(fill={fill!r}) is unknown; gaps are filled 'linear', or not")
    bound = None if latency is None else ticks(latency, name="latency")
    if bound is not None and bound <= 0:
        raise SpecError(f"shed(latency={latency!r}) must be greater than zero")
    return Shedding(max_gap, p, bound, seed, fill is not None)


def check_gaps(max_gap: Any) -> None:
    """Refuse what is no gap, or has one that is none."""
    for name, gap in max_gap.items() if isinstance(max_gap, Mapping) else [("", max_gap)]:
        _check_gap(f"max_gap[{name!r}]" if name else "max_gap", gap)


def gap_of(query: str, max_gap: Any, queries: Collection[str]) -> Gap:
    """Return the gap that the results of one of several queries may have."""
    if not isinstance(max_gap, Mapping):
        gap: Gap = max_gap
        return gap
    odd = [n for n in (*max_gap, *queries) if n not in queries or n not in max_gap]
    if odd:
        raise SpecError(
            f"shed(max_gap=...) and the queries must have the same names; {odd[0]!r} is only in "
            f"one of them. The queries are: {', '.join(queries)}"
        )
    mine: Gap = max_gap[query]
    return mine


def plain(max_gap: Any) -> Any:
    """Return a gap, or several, as JSON has them.

    >>> plain({"fast": timedelta(seconds=1), "slow": 5})
    {'fast': '1000000 microseconds', 'slow': 5}
    """
    if isinstance(max_gap, Mapping):
        return {name: plain(gap) for name, gap in max_gap.items()}
    return f"{ticks(max_gap)} microseconds" if isinstance(max_gap, timedelta) else max_gap


def _check_gap(name: str, gap: Any) -> None:
    if isinstance(gap, str | timedelta):
        if ticks(gap, name=name) > 0:
            return
    elif type(gap) is int and gap >= 1:
        return
    raise SpecError(
        f"shed({name}={gap!r}) must be a number of results from 1, or for how long results may be "
        f"missing, like '1 minute'"
    )


def results_in(gap: Gap, slide: int) -> int:
    """Return how many results in a row may be missing, of windows that slide so.

    >>> results_in("1 minute", 10_000_000), results_in(5, 10_000_000)
    (6, 5)
    """
    return gap if isinstance(gap, int) else ticks(gap, name="max_gap") // slide
