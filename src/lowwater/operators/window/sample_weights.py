"""Weights of sampled rows: sums over a pane are divided by the share of its rows that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns
from lowwater.aggregates.accumulators.builtin import (
    ExactSum,
    FloatSum,
    RowCount,
    ValueCount,
    carried,
)
from lowwater.aggregates.aggregate import Aggregate
from lowwater.aggregates.builtin import Avg, Count, Sum
from lowwater.operators.window.cells import Cells
from lowwater.operators.window.close import ClosedWindows
from lowwater.operators.window.plan import WindowPlan
from lowwater.shedding.sample import powers_of

Close = Callable[[Cells, Sequence[Accumulator]], Iterator[ClosedWindows]]
"""A function that closes windows, given the cells and their accumulators."""


def can_be_sampled(aggregate: Aggregate) -> bool:
    """Return whether an aggregate of all rows can be estimated from a share of them."""
    return isinstance(aggregate, Count | Sum | Avg)


def closed_with_weights(plan: WindowPlan, cells: Cells, close: Close) -> Iterator[ClosedWindows]:
    """Yield the windows that `close` returns, over weighted cells where rows were sampled."""
    weights = _weights(plan, cells)
    if weights is None:
        yield from close(cells, plan.parts)
        return
    parts = [
        _weighted(part, content, weights)
        for part, content in zip(plan.parts, cells.parts, strict=True)
    ]
    counts = replace(cells, parts=cells.parts[:1])
    read = close(counts, plan.parts[:1])
    for closed, mine in zip(close(replace(cells, parts=parts), plan.parts), read, strict=True):
        yield replace(closed, read=mine.parts[0].arrays[0])


def read_share(plan: WindowPlan, closed: ClosedWindows) -> np.ndarray:
    """Return the share of the rows of each window that was read, as estimated from those read.

    A sampled pane of which no row was read may have had rows. So where all others were read whole,
    the share is the mean rate over the time of the window.
    """
    share = np.asarray(closed.rows / closed.parts[0].arrays[0])
    if not plan.samples:
        return share
    edges = np.array([edge for s in plan.samples for edge in (s.start, s.end)], np.float64)
    skipped = [0.0]
    for one in plan.samples:
        skipped += [skipped[-1], skipped[-1] + (1 - 2.0**-one.power) * (one.end - one.start)]
    until = np.array(skipped[1:])
    which = np.zeros(len(closed.wid), np.int64) if closed.which is None else closed.which
    for number, (_, window) in enumerate(plan.fixed_windows):
        whole = np.flatnonzero((share == 1) & (which == number))
        start, end = window.start(closed.wid[whole]), window.end(closed.wid[whole])
        left_out = np.interp(end, edges, until) - np.interp(start, edges, until)
        share[whole] = 1 - left_out / (end - start)
    return share


def _weights(plan: WindowPlan, cells: Cells) -> np.ndarray | None:
    """Return the weight of the rows of each cell; None if all rows were read."""
    if not plan.samples:
        return None
    pane_of = plan.spec.pane_of
    samples = [(int(pane_of(s.start)), int(pane_of(s.end)), s.power) for s in plan.samples]
    powers = powers_of(samples, cells.pane)
    return np.left_shift(1, powers.astype(np.int64)) if powers.any() else None


def _weighted(
    part: Accumulator, content: AccumulatorColumns, weights: np.ndarray
) -> AccumulatorColumns:
    """Return the content of cells as if each row had been read as often as its weight."""
    assert isinstance(part, RowCount | ValueCount | FloatSum | ExactSum)  # noqa: S101
    arrays = carried(content.arrays) if isinstance(part, ExactSum) else content.arrays
    return replace(content, arrays=tuple([a * weights for a in arrays]))
