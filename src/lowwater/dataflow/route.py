"""Routing: rows pass the steps of a route, and are delivered to the port at its end.

A route sheds the rows that only dropped windows need (DROP 3.2). The times of these rows are
computed backwards, from the last operator to the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.control.context import EpochContext
from lowwater.control.drop import CLASSES, ClassDrops, DropPlan
from lowwater.control.measures import Counts
from lowwater.dataflow.deliver import deliver
from lowwater.dataflow.graph import Dataflow, Route, Transform
from lowwater.intervals import Intervals, intersection
from lowwater.operators.batch import STRETCH, Batch
from lowwater.operators.group_codes import class_of
from lowwater.operators.late import free
from lowwater.operators.packet import Packet, table_packet
from lowwater.shedding.drop_geometry import within
from lowwater.shedding.sample import skipped_rows
from lowwater.sources.lines import REASON as LINE_REASON
from lowwater.sources.lines import TEXT as LINE_TEXT

REASON, TEXT = "reason", "text"
FAULTS = (
    None,
    "time is NULL or unreadable",
    "from the future",
    "a punctuation whose interval ends before it begins",
    "the line cannot be read",
    "more than a day ahead of this machine's clock",
)
"""The reasons why a row is malformed, by the number of the fault; 0 means no fault."""
NO_TIME, FUTURE, BACKWARDS, UNREAD, PAST_CLOCK = 1, 2, 3, 4, 5


@dataclass
class RouteResult:
    """The packets sent along routes, and {operator: {outcome: number of rows}} as `counts`."""

    packets: list[Packet]
    counts: dict[int, dict[str, int]]

    def count(self, operator: int, counts: Counts) -> None:
        """Add `counts` to the counts of `operator`."""
        known = self.counts.setdefault(operator, {})
        for tally, n in counts.items():
            known[tally] = known.get(tally, 0) + n


def take_routes(
    flow: Dataflow, blocks: Iterable[tuple[Sequence[Route], Batch]], standing: EpochContext
) -> RouteResult:
    """Send batches along their routes; the batches for a port are delivered together."""
    met: dict[tuple[int, int], list[Batch]] = {}
    sent = RouteResult([], {})
    needless = skipped(flow, standing.dropped) if standing.dropped else None
    for routes, block in blocks:
        for route in routes:
            needed = block
            if needless is not None:
                unneeded = unread(flow, needless, route, block, standing.dropped)
                needed = _shed(route, block, unneeded, sent)
            rows, held = _split_held(route, needed, standing)
            if route.hold is not None and held is not None:
                met.setdefault((route.hold, 0), []).append(held)
            for stage in route.steps:
                rows = _transformed(rows, stage)
            met.setdefault((route.operator, route.port), []).append(rows)
    for (operator, port), arrived in met.items():
        packets, counts = _arrive(flow, operator, port, arrived, standing)
        sent.packets += [replace(p, operator=operator) for p in packets]
        sent.count(operator, counts)
    return sent


def _transformed(rows: Batch, step: Transform) -> Batch:
    """Return the rows of a batch after `step`; no filter drops a row that could not be read."""
    kept = step.kept(rows.table)
    if kept is None:
        return replace(rows, table=step(rows.table))
    return rows.keep(kept if rows.lines is None else kept | (rows.fault == UNREAD))


def _shed(route: Route, block: Batch, unneeded: np.ndarray | None, sent: RouteResult) -> Batch:
    """Return the rows that operators need, and count the `unneeded` rows as shed."""
    if unneeded is None:
        return block
    shed = int(unneeded.sum())
    sent.count(route.operator, {"in": shed, "shed": shed})
    return block.keep(~unneeded)


def _split_held(route: Route, block: Batch, standing: EpochContext) -> tuple[Batch, Batch | None]:
    """Return the rows that continue on a route, and the rows that are held before its steps."""
    intervals = [h for h in standing.held if h.operator == route.operator]
    if route.hold is None or not intervals:
        return block, None
    number = np.zeros(len(block), np.int64)
    for h in intervals:
        number[(block.ticks >= h.start) & (block.ticks < h.end)] = h.number
    number[~block.sound] = 0
    if not number.any():
        return block, None
    held = block.keep(number > 0)
    numbers = pa.array(number[number > 0])
    return block.keep(number == 0), replace(held, table=held.table.append_column(STRETCH, numbers))


def _arrive(
    flow: Dataflow, operator: int, port: int, blocks: Sequence[Batch], standing: EpochContext
) -> tuple[list[Packet], dict[str, int]]:
    """Return the packets of rows that arrive at a port, and {outcome: number of rows}."""
    packets, sound = [], []
    for block in blocks:
        fine = block.keep(block.sound)
        if len(fine) < len(block):
            bad = _malformed(block.keep(~block.sound))
            packets.append(table_packet("malformed", 0, block.seq, bad, port))
        if len(fine):
            sound.append(fine)
    arrived, left = sum(map(len, blocks)), sum(map(len, sound))
    watermarks = flow.in_force(standing, operator, port)
    reference = standing.references.get(flow.numbers[operator, port])
    plan = flow.operators[operator].plan
    delivered, outside = deliver(plan, port, sound, watermarks, reference)
    counts = {"in": arrived, "malformed": arrived - left, "outside": outside}
    return packets + delivered, counts


def malformed_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a malformed row: its own columns, which may be NULL, reason and text.

    >>> malformed_schema(pa.schema([("t", pa.int64()), ("text", pa.string())])).names
    ['t', 'text', 'reason', 'text_']
    """
    names = (free(name, schema.names) for name in (REASON, TEXT))
    own = (field.with_nullable(True) for field in schema)
    return pa.schema([*own, *(pa.field(name, pa.string()) for name in names)])


def _malformed(block: Batch) -> pa.Table:
    """Return malformed rows with columns for the reason and the text."""
    reason = pa.array(np.array(FAULTS, object)[block.fault], pa.string())
    text = pa.nulls(len(block), pa.string())
    if block.lines is not None:
        text, why = (block.lines.column(n).combine_chunks() for n in (LINE_TEXT, LINE_REASON))
        reason = pc.coalesce(why, reason)
    columns = [*block.table.columns, reason, text]
    return pa.table(columns, schema=malformed_schema(block.table.schema))


@dataclass(frozen=True)
class UnneededTimes:
    """The times of unneeded data: `results[i]` for results of operator i, `rows[j]` for port j.

    `classes` are those of single classes of groups, whose drops include the drops of all groups.
    """

    results: tuple[Intervals, ...]
    rows: tuple[Intervals, ...]
    classes: tuple[tuple[ClassDrops, UnneededTimes], ...] = ()

    def class_results(self, operator: int) -> tuple[ClassDrops, ...]:
        """Return the unneeded results of an operator, by class of groups."""
        each = ((drops, times.results[operator]) for drops, times in self.classes)
        return tuple(replace(drops, intervals=found) for drops, found in each if found)


def skipped(flow: Dataflow, dropped: DropPlan) -> UnneededTimes:
    """Return the times whose results or rows are not needed, given the dropped windows."""
    classes = tuple((one, _skipped(flow, plan)) for one, plan in dropped.by_class())
    return replace(_skipped(flow, dropped), classes=classes)


def _skipped(flow: Dataflow, dropped: DropPlan) -> UnneededTimes:
    """Return the times whose results or rows no class of groups needs."""
    results: list[Intervals] = [() for _ in flow.operators]
    rows: list[Intervals] = [() for _ in flow.ports]
    for number in reversed(range(len(flow.operators))):
        operator = flow.operators[number]
        readers = [rows[flow.numbers[r.operator, r.port]] for r in operator.routes]
        if any(o.operator == number for o in flow.outputs):
            readers.append(dropped.of(number))
        results[number] = reduce(intersection, readers) if readers else ()
        for port in range(operator.plan.ports):
            rows[flow.numbers[number, port]] = operator.plan.unread(results[number])
    return UnneededTimes(tuple(results), tuple(rows))


def unread(
    flow: Dataflow, known: UnneededTimes, route: Route, block: Batch, dropped: DropPlan
) -> np.ndarray | None:
    """Return a mask of the rows on a route that no operator reads; None if all are read."""
    port = flow.numbers[route.operator, route.port]
    each = [(one, times.rows[port]) for one, times in known.classes if times.rows[port]]
    if not known.rows[port] and not each and not dropped.samples:
        return None
    unneeded = within(known.rows[port], block.ticks) | skipped_rows(dropped, block.ticks, block.seq)
    numbers: dict[str, np.ndarray] = {}
    for one, intervals in each:
        name = route.origin(one.column)
        if name is None or name not in block.table.column_names:
            continue
        if name not in numbers:
            numbers[name] = class_of(block.table.column(name), CLASSES)
        unneeded |= (numbers[name] == one.number) & within(intervals, block.ticks)
    unneeded &= block.sound
    outside = flow.operators[route.operator].plan.outside(block.ticks)
    if outside is not None:
        unneeded &= ~outside
    return unneeded if unneeded.any() else None
