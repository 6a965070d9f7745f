"""The work that each stage of a query has left when windows are dropped.

The papers model operators by delays that burn the processor. Here a stage has a price per row that
enters it, and runs of the real kernels count these rows: the same figure without the noise of a
scheduler. A drop at a stage saves work at that stage and at all stages behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.sources.feed import Feed

if TYPE_CHECKING:
    from collections.abc import Callable

GAP = 10
"""How many results in a row may be missing, as in the paper."""
EPOCH = 250
"""Rows of an epoch; there is one for each tick, as the paper's analysis assumes."""
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LIMIT = GAP / (GAP + 1)
"""The largest share of windows that may be dropped: of 11 results one must be emitted."""


@dataclass(frozen=True)
class RemainingWork:
    """The work that is left when a share of windows is dropped, relative to a run without drops.

    `dropped` is the share of results that are missing, `rows` the share of rows that are processed,
    and `results` the share of results that each operator emits, by its name.
    """

    dropped: float
    rows: float
    results: Mapping[str, float]


@dataclass(frozen=True)
class Stage:
    """Work of a query: its total cost, and the share that a drop leaves."""

    cost: float
    left: Callable[[RemainingWork], float]

    def spared(self, *, dropped: bool) -> Stage:
        """Return the stage as it is behind a drop, or with all its work if it stands before one."""
        return self if dropped else Stage(self.cost, lambda _: 1.0)


def counted(
    build: Callable[[lw.Stream], lw.Together],
    ticks: int,
    shares: Sequence[float],
    *,
    gap: int = GAP,
) -> list[RemainingWork]:
    """Run queries over a stream of one row per tick, once for each share of windows to drop."""
    feed = lw.feed("t bigint")
    queries = build(lw.stream(feed, time="t", watermark=lw.ordered()))
    at = np.arange(ticks)
    # The first row is an epoch of its own: the decision after it applies to all other rows.
    epochs = [pa.table({"t": at[:1]})]
    epochs += [pa.table({"t": at[n : n + EPOCH]}) for n in range(1, ticks, EPOCH)]
    whole = _run(queries, feed, epochs, 0.0, gap)
    names = [o.name for o in queries.assembly.flow.operators]
    found = []
    for share in shares:
        out = _run(queries, feed, epochs, share, gap) if share else whole
        any_of, all_of = next(iter(out.values())).status, next(iter(whole.values())).status
        delivered, there = (sum(o.status["results"] for o in r.values()) for r in (out, whole))
        tallies = [o.status.counts for o in out.values()]
        came, shed = (sum(t[name] for t in tallies) for name in ("in", "shed"))
        found.append(
            RemainingWork(
                1 - delivered / there,
                1 - shed / came,
                {n: any_of.operators[n]["results"] / all_of.operators[n]["results"] for n in names},
            )
        )
    return found


def _run(
    queries: lw.Together, feed: Feed, epochs: Sequence[pa.Table], share: float, gap: int
) -> Mapping[str, lw.Outcome]:
    how = lw.shed(max_gap=gap, share=min(share, gap / (gap + 1)))
    with catch_warnings():
        simplefilter("ignore", lw.ShedWarning)
        return queries.run(epochs={feed: epochs}, shards=1, shed=how)


def drop_needed(
    stages: Sequence[Stage], measured: Sequence[RemainingWork], excess: float
) -> float | None:
    """Return the share of results that must be missing for all work to fit; None if none does.

    Between two measured shares, work is taken to fall on a line.
    """
    total = sum(s.cost for s in stages)
    loads = [(1 + excess) * sum(s.cost * s.left(left) for s in stages) / total for left in measured]
    for (before, high), (after, low) in zip(
        zip(measured, loads, strict=True), zip(measured[1:], loads[1:], strict=True), strict=False
    ):
        if low <= 1 <= high:
            part = (high - 1) / (high - low) if high > low else 0.0
            return before.dropped + part * (after.dropped - before.dropped)
    return None


def model(size: int, slide: int, excess: float, *, gap: int = GAP) -> float | None:
    """Return the drop rate that the analysis gives for windows between two stages (DROP 3.6).

    Both stages cost as much for each row that enters them. A run of B windows spares (B+1)δ - ω of
    Bδ rows; the second stage sees a row for every slide.

    >>> round(model(100, 100, 0.25), 3), round(model(100, 1, 0.25), 3), model(100, 10, 0.25)
    (0.2, 0.4, None)
    """
    early = max(0.0, ((gap + 1) * slide - size) / (gap * slide))
    excess_work = (1 + 1 / slide) * excess / (1 + excess)
    p = excess_work / (early + 1 / slide)
    return p if p <= gap / (gap + 1) else None


def between(
    size: int, slide: int, ticks: int, shares: Sequence[float] = SHARES
) -> list[RemainingWork]:
    """Return the work that is left of one window aggregate between two stages."""
    return counted(
        lambda s: lw.together(out=s.window(range=size, slide=slide).agg(n=lw.count())),
        ticks,
        shares,
    )


def around(slide: int) -> list[Stage]:
    """Return the stages before and after one window aggregate, a row costing as much in each."""
    after = Stage(1 / slide, lambda left: left.results["window"])
    return [Stage(1.0, lambda left: left.rows), after]


def percent(value: float | None) -> str:
    """Return a share as text.

    >>> percent(0.2), percent(None)
    ('20.0 %', 'not enough')
    """
    return "not enough" if value is None else f"{value:.1%}".replace("%", " %")
