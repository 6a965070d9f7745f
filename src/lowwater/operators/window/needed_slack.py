"""The slack that rows need for their windows, measured where rows are delivered to windows.

A row of epoch n is late for a window if a watermark that was decided up to epoch n - 2 has reached
the window's end. So it needs a slack above the newest time after epoch n - 2 minus that end. A
window that ends later needs none: of most rows only the number is counted, and the others are
counted by pane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.values import spread
from lowwater.control.context import SlackReference
from lowwater.control.measures import BinCounts, NeededSlack
from lowwater.control.watermark import SourceKey, Watermarks
from lowwater.learners.slack_bins import BINS, SlackBins
from lowwater.operators.batch import Batch
from lowwater.operators.group_codes import group_values
from lowwater.operators.packet import Packet, table_packet
from lowwater.operators.window.admit import row_watermarks
from lowwater.operators.window.plan import WindowPlan
from lowwater.operators.window.value_bound import additions_by_shard, criteria
from lowwater.ticks import FIRST_TICK
from lowwater.windows.sliding import Sliding

OWN_SOURCES = 63
"""The sources that have a slack of their own; all others share one."""
Counts: TypeAlias = np.ndarray
"""Numbers of rows by [class of sources, made or lost, bin]."""


def own_sources(newest: Watermarks) -> list[SourceKey]:
    """Return the sources with a slack of their own: the first that the stream has had."""
    return list(newest.sources)[:OWN_SOURCES]


def needed_slacks(
    plan: WindowPlan, batches: Sequence[Batch], reference: SlackReference
) -> list[NeededSlack]:
    """Return the slacks that rows of `batches` need, in total or for each class of sources.

    Rows that were held count from the newest time at which they arrived.
    """
    if plan.source is None and all(_none_old(rows, reference) for rows in batches):
        total = sum(
            _windows_of_all(window, rows) for rows in batches for _, window in plan.fixed_windows
        )
        return [NeededSlack(0, made=((0, total),))] if total else []
    named: list[SourceKey] = [None]
    if plan.source is not None:
        named += own_sources(reference.newest)
    counts = np.zeros((len(named), 2, BINS), np.int64)
    for rows in batches:
        _count(plan, _Rows.of(plan, rows, reference, named), counts)
    return [
        NeededSlack(0, 0, source, _pairs(made), _pairs(lost))
        for source, (made, lost) in zip(named, counts, strict=True)
        if made.any() or lost.any()
    ]


def _none_old(rows: Batch, reference: SlackReference) -> bool:
    """Return whether no row needs slack: none is older than the time from which needs count."""
    low = FIRST_TICK if reference.newest.low is None else reference.newest.low
    return rows.behind is None and (not len(rows) or int(rows.ticks.min()) >= low)


def _windows_of_all(window: Sliding, rows: Batch) -> int:
    """Return in how many windows rows are, in total."""
    if window.range % window.slide:
        each = window.last(rows.ticks) - window.first(rows.ticks) + 1
        return int(np.maximum(each, 0).sum())
    return len(rows) * (window.range // window.slide)


def additions(
    plan: WindowPlan, batches: Sequence[Batch], reference: SlackReference
) -> Iterator[Packet]:
    """Yield packets of what rows that need slack add to windows, for the shards of the windows."""
    assert plan.bound is not None  # noqa: S101
    kinds = criteria(plan.aggregates, plan.schema, plan.bound)
    bins = slack_bins(plan.fixed_windows)
    ((_, window),) = plan.fixed_windows
    for rows in batches:
        every = _Rows.of(plan, rows, reference, [None])
        old = np.flatnonzero(every.ticks < every.newest)
        if not len(old):
            continue
        row, end, needed = _needs(window, bins, every.where(old))
        table = rows.table.take(pa.array(old))
        for shard, some in additions_by_shard(
            table, plan.keys, kinds, (row, end, needed), plan.shards
        ):
            yield table_packet("additions", shard, rows.seq, some.to_table())


def _needs(window: Sliding, bins: SlackBins, rows: _Rows) -> tuple[np.ndarray, ...]:
    """Return (row, end, bin of the slack that it needs) for each window that a row needs it for."""
    first, last = window.first(rows.ticks), window.last(rows.ticks)
    upto = np.minimum(last + 1, window.first_open(rows.newest))
    wid, one = spread(first, np.maximum(upto, first))
    end = np.asarray(window.end(wid))
    needed = np.searchsorted(bins.edges, rows.where(one).newest - end + 1)
    return one, end, np.minimum(needed, BINS - 1)


def slack_bins(windows: Iterable[tuple[str, Sliding]]) -> SlackBins:
    """Return the bins in which the slacks that rows need for these windows are counted."""
    return SlackBins.of(max(window.range for _, window in windows))


@dataclass(frozen=True)
class _Rows:
    """Rows with their class of sources, the newest time they count from, and their watermark.

    Each of the last three is an array with an element for each row, or one number.
    """

    ticks: np.ndarray
    kind: np.ndarray | int
    newest: np.ndarray | int
    acting: np.ndarray | int

    @classmethod
    def of(
        cls, plan: WindowPlan, rows: Batch, reference: SlackReference, named: Sequence[SourceKey]
    ) -> _Rows:
        """Return the rows of a batch; `named` are the classes of sources."""
        acting = row_watermarks(plan, rows.table, plan.late_by(reference.acting))
        kind, newest = _newest(plan, rows.table, reference.newest, named)
        if rows.behind is not None:
            acting, newest = rows.behind, rows.ticks + rows.degree
        return cls(rows.ticks, kind, newest, acting)

    def where(self, chosen: np.ndarray) -> _Rows:
        """Return the rows with the indices `chosen`."""
        parts = (self.kind, self.newest, self.acting)
        return _Rows(self.ticks[chosen], *(p if np.ndim(p) == 0 else p[chosen] for p in parts))  # type: ignore[index]


def _newest(
    plan: WindowPlan, table: pa.Table, newest: Watermarks, named: Sequence[SourceKey]
) -> tuple[np.ndarray | int, np.ndarray | int]:
    """Return the class of sources of each row, and the newest time from which its need counts."""
    low = FIRST_TICK if newest.low is None else newest.low
    if plan.source is None:
        return 0, low
    codes, sources = group_values(table.column(plan.source))
    classes = {source: number for number, source in enumerate(named) if number}
    kinds = np.array([classes.get(source, 0) for source in sources], np.int64)
    own = np.array([newest.sources.get(source, FIRST_TICK) for source in sources], np.int64)
    return kinds[codes], own[codes]


def _count(plan: WindowPlan, rows: _Rows, counts: Counts) -> None:
    """Add the rows to `counts`, once for each of their windows."""
    some = rows.where(np.flatnonzero(rows.ticks < rows.newest))
    bins = slack_bins(plan.fixed_windows)
    for _, window in plan.fixed_windows:
        _count_all(window, rows, counts)
        if len(some.ticks):
            _count_old(window, bins, *_by_pane(window, some), counts)


def _count_all(window: Sliding, rows: _Rows, counts: Counts) -> None:
    """Add the rows to bin 0 of `counts`, as if none needed slack."""
    each: np.ndarray | int = window.range // window.slide
    if window.range % window.slide:
        each = np.maximum(window.last(rows.ticks) - window.first(rows.ticks) + 1, 0)
    kind = np.broadcast_to(rows.kind, rows.ticks.shape)
    if np.ndim(each):
        counts[:, 0, 0] += np.bincount(kind, each, minlength=len(counts)).astype(np.int64)
    elif len(counts) == 1:
        counts[0, 0, 0] += len(rows.ticks) * each
    else:
        counts[:, 0, 0] += np.bincount(kind, minlength=len(counts)) * each


def _count_old(
    window: Sliding, bins: SlackBins, rows: _Rows, times: np.ndarray, counts: Counts
) -> None:
    """Move rows from bin 0 of `counts` to the bins of their needs; row i stands for `times[i]`."""
    one, end, needed = _needs(window, bins, rows)
    these = rows.where(one)
    lost = (end <= these.acting).astype(np.int64)
    kind, rows_each = np.broadcast_to(these.kind, one.shape), times[one]
    counts[:, 0, 0] -= np.bincount(kind, rows_each, minlength=len(counts)).astype(np.int64)
    place = (kind * 2 + lost) * BINS + needed
    moved = np.bincount(place, rows_each, minlength=counts.size).astype(np.int64)
    counts += moved.reshape(counts.shape)


def _by_pane(window: Sliding, rows: _Rows) -> tuple[_Rows, np.ndarray]:
    """Return one row of each pane and the number of its rows, if only the time sets rows apart."""
    if max(map(np.ndim, (rows.kind, rows.newest, rows.acting))):
        return rows, np.ones(len(rows.ticks), np.int64)
    pane = window.pane_of(rows.ticks)
    first = int(pane.min())
    if int(pane.max()) - first > 4 * len(pane):  # panes far apart
        panes, times = np.unique(pane, return_counts=True)
    else:
        every = np.bincount(pane - first)
        panes = np.flatnonzero(every)
        times, panes = every[panes], panes + first
    return replace(rows, ticks=window.origin + panes * window.pane), times


def _pairs(counts: np.ndarray) -> BinCounts:
    """Return the non-empty bins as pairs (bin, number of rows)."""
    bins = np.flatnonzero(counts)
    return tuple(zip(bins.tolist(), counts[bins].tolist(), strict=True))
