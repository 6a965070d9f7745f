"""Ingest: the task that reads raw rows of an input turns them into packets.

First, ingest measures the progress of the stream over all rows, because rows that a filter drops
advance the watermark, too. Then the rows follow their routes, through filters and computed columns,
to the ports of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lowwater.control.context import EpochContext
from lowwater.control.drop import CLASSES
from lowwater.control.measures import InputMeasure, LatenessSection
from lowwater.control.message import ControlMessage
from lowwater.control.prod import Prod
from lowwater.control.watermark import Watermarks
from lowwater.dataflow.future_times import ahead, flags_of, measure_future, reached_by
from lowwater.dataflow.graph import Dataflow, Input, Route
from lowwater.dataflow.input_block import (
    InputBlock,
    before_steps,
    file_names,
    set_aside,
    with_texts,
)
from lowwater.dataflow.route import BACKWARDS, FUTURE, NO_TIME, PAST_CLOCK, UNREAD, take_routes
from lowwater.early.arrivals import count_arrivals
from lowwater.errors import located
from lowwater.operators.batch import KEPT, Batch
from lowwater.operators.group_codes import class_of, group_values
from lowwater.operators.packet import Packet, measure_of, measure_packet, placed, table_packet
from lowwater.sources.bad_file import BAD_FILES
from lowwater.sources.lines import REASON
from lowwater.ticks import END, FIRST_TICK
from lowwater.watermarks.adaptive import monitor
from lowwater.windows.axis import Axis

PORTION_ROWS = 250_000
"""The largest number of rows in a portion of several small blocks."""


class Piece(Protocol):
    """A block, which may not have been read yet."""

    @property
    def input(self) -> int:
        """The number of the block's input."""

    @property
    def rows(self) -> int | None:
        """The number of rows in the block, if known."""


P = TypeVar("P", bound=Piece)
Foresee = Callable[[int, InputMeasure], EpochContext]
"""A function that returns the context after a block, given its input and its measurement."""


def portions(flow: Dataflow, pieces: Iterable[P]) -> list[list[P]]:
    """Return the blocks of an epoch in portions; rows of a portion are reduced together.

    Neighbouring small blocks of any inputs form a portion: their rows of the same group and pane
    become one cell. The portions depend on the blocks alone, never on the number of cores, because
    portions determine the order in which floats are added.
    """
    cut: list[list[P]] = []
    room = -1
    for piece in pieces:
        size = None if flow.inputs[piece.input].consistent else piece.rows
        if size is None or size > room:
            cut.append([])
            room = PORTION_ROWS if size is not None else -1
        cut[-1].append(piece)
        room -= size or 0
    return cut


@np.errstate(over="ignore", invalid="ignore")
def ingest(flow: Dataflow, blocks: Sequence[InputBlock], standing: EpochContext) -> list[Packet]:
    """Return the packets of a portion of blocks; the last packets hold its measurements."""
    batches: list[tuple[Sequence[Route], Batch]] = []
    packets: list[Packet] = []
    measured: list[tuple[int, InputMeasure]] = []
    for block in blocks:
        with located(f"input {block.input + 1}"), located(file_names([block.path])):
            aside = standing.set_aside and flow.inputs[block.input].prods is None
            taken = set_aside(block) if aside else block
            batch, control, measure = _take(flow, taken, standing)
        if block.bad is not None:
            path, reason = ([text] for text in block.bad)
            listed = pa.table([path, reason], schema=BAD_FILES)
            packets.append(table_packet("bad_files", 0, batch.seq, listed))
            measure = replace(measure, bad_files=1)
        batches.append((flow.inputs[block.input].routes, batch))
        packets += control
        measured.append((batch.seq, measure))
    with located(file_names(block.path for block in blocks)):
        sent = take_routes(flow, batches, standing)
    seq, first = measured[0]
    for operator, counts in first.counts.items():
        sent.count(operator, counts)
    measured[0] = seq, replace(first, counts=sent.counts)
    return [*packets, *sent.packets, *(measure_packet(0, seq, m) for seq, m in measured)]


def last_measure(packets: Sequence[Packet]) -> InputMeasure:
    """Return the measurement of a portion's last block, from the packets of the portion."""
    measure = measure_of(packets[-1])
    assert isinstance(measure, InputMeasure)  # noqa: S101
    return measure


def _take(
    flow: Dataflow, block: InputBlock, standing: EpochContext
) -> tuple[Batch, list[Packet], InputMeasure]:
    """Return the rows of a block, control packets of its punctuations, and its measurement."""
    start, seq = flow.inputs[block.input], placed(block.input, block.seq)
    table, lines, rows = before_steps(start, block.table)
    batch = _read(start, table.combine_chunks(), standing, block.input, seq)
    if lines is not None:
        unread = np.asarray(lines.column(REASON).is_valid())
        batch = replace(batch, fault=np.where(unread, UNREAD, batch.fault), lines=lines)
    measure = InputMeasure(block.input)
    packets: list[Packet] = []
    if start.prods is not None:
        measure = replace(measure, prods=tuple(_prods(batch, start.prods)))
    if start.mark_when is not None:
        batch, punctuates = _with_marks(start, batch)
        batch = with_texts(batch, block, rows)
        marks, packets = _take_marks(flow, start, batch.keep(punctuates), standing)
        batch = batch.keep(~punctuates)
        counts = {start.routes[0].operator: {"punctuations": int(punctuates.sum())}}
        measure = replace(measure, marks=marks, counts=counts)
    else:
        batch = with_texts(batch, block, rows)
    batch = replace(batch, degree=_late_degrees(batch, reached_by(standing, block.input).newest))
    measure = measure_future(start, batch, standing, measure)
    measure = _measure_progress(start, batch, measure)
    measure = replace(measure, classes=_rows_by_class(batch, flow.class_column(block.input)))
    if KEPT in table.column_names:
        batch = _without_dropped(batch)
    return batch, packets, measure


def _rows_by_class(block: Batch, column: str | None) -> dict[int, int]:
    """Return the number of rows with a usable time by the class of their value in `column`."""
    if column is None or not len(block):
        return {}
    numbers = class_of(block.table.column(column), CLASSES)[block.sound]
    return {n: count for n, count in enumerate(np.bincount(numbers).tolist()) if count}


def _prods(block: Batch, names: Sequence[str]) -> Iterator[Prod]:
    """Yield a prod for each row of a stream of prods; NULL means any time, or any group."""
    columns = [block.table.column(n).cast(pa.string()).to_pylist() for n in names]
    for row, (tick, sound) in enumerate(zip(block.ticks.tolist(), block.sound, strict=True)):
        named = {n: c[row] for n, c in zip(names, columns, strict=True) if c[row] is not None}
        yield Prod(None, tick if sound else None, named)


def ingest_epoch(
    flow: Dataflow, blocks: Iterable[InputBlock], standing: EpochContext, foresee: Foresee
) -> Iterator[Packet]:
    """Yield the packets of an epoch's blocks; `standing` is the context before the epoch.

    With consistent slack, the watermark after a block decides which rows of the next block are
    late: `foresee(input, measure)` returns the context after a block with that measurement.
    """
    contexts: dict[int, EpochContext] = {}
    for portion in portions(flow, blocks):
        number = portion[0].input
        packets = ingest(flow, portion, contexts.get(number, standing))
        yield from packets
        if flow.inputs[number].consistent:
            contexts[number] = foresee(number, last_measure(packets))


def _without_dropped(block: Batch) -> Batch:
    """Return the rows that passed the filters of the engine that read the block."""
    kept = block.table.column(KEPT).combine_chunks().to_numpy(zero_copy_only=False)
    left = block.keep(np.asarray(kept, bool))
    return replace(left, table=left.table.drop_columns([KEPT]))


def _read(start: Input, table: pa.Table, standing: EpochContext, number: int, seq: int) -> Batch:
    """Return the rows of `table` as a batch, with their ticks and faults."""
    ticks, valid = start.axis.to_ticks(table.column(start.axis.column))
    reached = reached_by(standing, number)
    by_clock, by_newest = ahead(start, ticks, standing, number)
    fault = np.where(valid, np.int8(0), np.int8(NO_TIME))
    fault[valid & by_newest] = FUTURE
    fault[valid & by_clock] = PAST_CLOCK
    by_policy = Watermarks(END) if reached.ended else reached.marks
    own = by_policy if start.consistent else None
    return Batch(table, ticks, np.zeros_like(ticks), fault, seq, own)


def _late_degrees(block: Batch, newest: int | None) -> np.ndarray:
    """Return each row's late degree, in ticks: its distance behind the newest time so far."""
    if not len(block):
        return block.ticks
    sound = block.sound
    counted = block.ticks if sound.all() else np.where(sound, block.ticks, FIRST_TICK)
    running = np.maximum.accumulate(counted)
    if newest is not None:
        running = np.maximum(running, newest)
    return np.asarray(running - block.ticks)


def _with_marks(start: Input, block: Batch) -> tuple[Batch, np.ndarray]:
    """Return the rows, and a mask of the rows that are punctuations.

    A row without a readable time, or with an interval that ends before it begins, is malformed.
    """
    flagged = flags_of(start, block)
    if start.mark_since is not None:
        since, known = _since(start, block.table)
        backwards = flagged & block.sound & known & (since > block.ticks)
        block = replace(block, fault=np.where(backwards, BACKWARDS, block.fault))
    return block, np.asarray(flagged & block.sound)


def _since(start: Input, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the start of each punctuation's interval, and a mask of the known starts."""
    kind = table.schema.field(start.mark_since).type
    return Axis(str(start.mark_since), kind).to_ticks(table.column(start.mark_since))


def _take_marks(
    flow: Dataflow, start: Input, rows: Batch, standing: EpochContext
) -> tuple[Watermarks | None, list[Packet]]:
    """Return the watermarks of punctuations, and control packets with these watermarks.

    A port that reads several streams gets no packet: one stream alone cannot advance the port.
    """
    if not len(rows):
        return None, []
    marks = _punctuated(start, rows.table, rows.ticks)
    alone = (r for r in start.routes if flow.feeds[r.operator, r.port] == 1)
    return marks, [p for route in alone for p in _control(flow, route, marks, rows.seq, standing)]


def _control(
    flow: Dataflow, route: Route, marks: Watermarks, seq: int, standing: EpochContext
) -> Iterator[Packet]:
    """Yield control packets with `marks` for the operator of a route, and for the route's hold.

    The watermarks for the operator do not pass rows that are held.
    """
    usable = flow.operators[route.operator].plan.usable(route.port, marks)
    sent = [(route.operator, route.port, usable)]
    if route.hold is not None:
        held = [h for h in standing.held if h.operator == route.operator]
        sent = [(route.operator, route.port, usable.holding_back(held)), (route.hold, 0, usable)]
    for operator, port, watermarks in sent:
        payload = ControlMessage(watermarks).to_bytes()
        for s in range(flow.operators[operator].plan.shards):
            yield Packet(s, seq, "control", payload, operator, port)


def _punctuated(start: Input, rows: pa.Table, ticks: np.ndarray) -> Watermarks:
    """Return the watermarks that the punctuations in `rows` state."""
    if start.mark_since is not None:
        since, known = _since(start, rows)
        low = None if known.all() else int(ticks[~known].max())
        ranges = zip(since[known].tolist(), ticks[known].tolist(), strict=True)
        return Watermarks(low).raised(Watermarks(ranges=tuple(ranges)))
    if start.source is None:
        return Watermarks(int(ticks.max()))
    return Watermarks(None, newest_by_source(rows.column(start.source), ticks))


def newest_by_source(column: pa.ChunkedArray, ticks: np.ndarray) -> dict[Any, int]:
    """Return {source: its newest tick}; `column` contains the source of each row."""
    codes, sources = group_values(column)
    newest = np.full(len(sources), FIRST_TICK)
    np.maximum.at(newest, codes, ticks)
    return dict(zip(sources, newest.tolist(), strict=True))


def _measure_late(start: Input, counted: Batch, granule: int) -> tuple[LatenessSection, ...]:
    """Return counts of late degrees, separately by source if the input has a source column."""
    if start.source is None:
        return monitor.measure(counted.ticks, counted.degree, granule)
    codes, sources = group_values(counted.table.column(start.source))
    return monitor.measure_sources(sources, codes, counted.ticks, granule)


def _measure_progress(start: Input, block: Batch, measure: InputMeasure) -> InputMeasure:
    """Return `measure` with the block's progress, as the policies of the input need it."""
    counted = block.keep(block.sound)
    ticks = counted.ticks
    if not len(ticks):
        return replace(measure, rows=len(block))
    measured: dict[str, Any] = {"behind": int(counted.degree.sum())}
    if start.bins is not None:
        measured["arrivals"] = count_arrivals(ticks, counted.degree, start.bins)
    if start.granule is not None:
        measured["late"] = _measure_late(start, counted, start.granule)
    if start.source is not None:
        measured["sources"] = newest_by_source(counted.table.column(start.source), ticks)
    if start.tail:
        running = np.maximum.accumulate(ticks)
        steps = np.flatnonzero(np.diff(running, prepend=running[0] - 1))
        recent = steps[max(0, np.searchsorted(steps, len(ticks) - start.tail) - 1) :]
        measured["tail"] = tuple(recent.tolist()), tuple(running[recent].tolist())
    newest = int(ticks.max())
    return replace(measure, rows=len(block), valid=len(ticks), newest=newest, **measured)
