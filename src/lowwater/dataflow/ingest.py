"""Ingest: raw rows of an input to packets, where the rows are.

First the stream's progress is measured, over all its rows: a filter must not hide that time has
passed. Then the rows take their routes: through filters and computed columns, to the ports of
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lowwater.codec import encode
from lowwater.control.context import EpochContext, InputProgress
from lowwater.control.message import ControlMessage
from lowwater.control.prod import Prod
from lowwater.control.watermark import Watermarks
from lowwater.dataflow.graph import Dataflow, Input, Route
from lowwater.dataflow.route import BACKWARDS, FUTURE, NO_TIME, take_routes
from lowwater.early.arrivals import measure
from lowwater.operators.batch import KEPT, Batch
from lowwater.operators.group_codes import group_rows
from lowwater.operators.packet import Packet, measure_packet, measures_of, placed
from lowwater.ticks import END, FIRST_TICK
from lowwater.watermarks.adaptive import monitor
from lowwater.windows.axis import Axis

PORTION_ROWS = 250_000
"""How many rows small blocks together may have to be reduced together."""


@dataclass(frozen=True)
class InputBlock:
    """A block of an input, and its place among the blocks of that input in the epoch.

    `rows` is how many there are, where the source could tell before it was read.
    """

    input: int
    seq: int
    table: pa.Table
    rows: int | None = None


class Piece(Protocol):
    """A block, perhaps before it is read."""

    @property
    def input(self) -> int:
        """Where it comes from."""

    @property
    def rows(self) -> int | None:
        """How many rows it has, if that is known."""


P = TypeVar("P", bound=Piece)
Foresee = Callable[[int, Mapping[str, Any]], EpochContext]
"""Returns the context after one more block of an input, given the block's measurements."""


def portions(flow: Dataflow, pieces: Iterable[P]) -> list[list[P]]:
    """Cut the blocks of an epoch into portions whose rows are reduced together.

    Small blocks one after the other go together, whatever inputs they come from: cells of the same
    group and pane are then made once. The cut follows from the blocks alone, never from how many
    cores there are, for it decides in which order floats are added.
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
    """Turn a portion of the blocks of an epoch into packets; the last are its measurements."""
    coming: list[tuple[Sequence[Route], Batch]] = []
    packets: list[Packet] = []
    measured: list[tuple[int, dict[str, Any]]] = []
    for came in blocks:
        start, seq = flow.inputs[came.input], placed(came.input, came.seq)
        block, said, measures = _take(flow, came, standing)
        coming.append((start.routes, block))
        packets += said
        measured.append((seq, measures))
    sent = take_routes(flow, coming, standing)
    for operator, counts in sent.counts.items():
        _count(measured[0][1], operator, counts)
    told = [measure_packet(0, seq, measures) for seq, measures in measured]
    return [*packets, *sent.packets, *told]


def _take(
    flow: Dataflow, came: InputBlock, standing: EpochContext
) -> tuple[Batch, list[Packet], dict[str, Any]]:
    """Return the rows of a block, the control they bring, and what is measured of them."""
    start, seq, table = flow.inputs[came.input], placed(came.input, came.seq), came.table
    for step in start.before:
        table = step(table)
    block = _read(start, table.combine_chunks(), standing, came.input, seq)
    measures: dict[str, Any] = {"input": came.input, "counts": {}}
    packets: list[Packet] = []
    if start.prods is not None:
        measures["prods"] = [encode(p) for p in _prods(block, start.prods)]
    if start.mark_when is not None:
        block, said = _with_marks(start, block)
        packets = _take_marks(flow, start, block.keep(said), measures, standing)
        block = block.keep(~said)
        _count(measures, str(start.routes[0].operator), {"punctuations": int(said.sum())})
    block = replace(block, degree=_late_degrees(block, _reached(standing, came.input).newest))
    _measure_progress(start, block, measures)
    if KEPT in table.column_names:
        block = _without_dropped(block)
    return block, packets, measures


def _prods(block: Batch, names: Sequence[str]) -> Iterator[Prod]:
    """Yield what the rows of a stream of prods ask for; NULL names no time, and no group."""
    columns = [block.table.column(n).cast(pa.string()).to_pylist() for n in names]
    for row, (tick, sound) in enumerate(zip(block.ticks.tolist(), block.sound, strict=True)):
        named = {n: c[row] for n, c in zip(names, columns, strict=True) if c[row] is not None}
        yield Prod(None, tick if sound else None, named)


def _count(measures: dict[str, Any], operator: str, counts: Mapping[str, int]) -> None:
    """Add to the counts of an operator."""
    ledger = measures["counts"].setdefault(operator, {})
    for tally, n in counts.items():
        ledger[tally] = ledger.get(tally, 0) + n


def ingest_epoch(
    flow: Dataflow, blocks: Iterable[InputBlock], standing: EpochContext, foresee: Foresee
) -> Iterator[Packet]:
    """Yield the packets of an epoch's blocks; `standing` is the context it began with.

    Consistent slack decides over each block by all blocks before it, also those of the same epoch:
    `foresee(number, measures)` returns the context after one more block of an input.
    """
    contexts: dict[int, EpochContext] = {}
    for portion in portions(flow, blocks):
        number = portion[0].input
        packets = ingest(flow, portion, contexts.get(number, standing))
        yield from packets
        if flow.inputs[number].consistent:
            contexts[number] = foresee(number, measures_of(packets[-1]))


def _without_dropped(block: Batch) -> Batch:
    """Return the rows that the filters of their own engine have kept."""
    kept = block.table.column(KEPT).combine_chunks().to_numpy(zero_copy_only=False)
    left = block.keep(np.asarray(kept, bool))
    return replace(left, table=left.table.drop_columns([KEPT]))


def _reached(standing: EpochContext, number: int) -> InputProgress:
    return standing.inputs[number] if standing.inputs else InputProgress()


def _read(start: Input, table: pa.Table, standing: EpochContext, number: int, seq: int) -> Batch:
    ticks, valid = start.axis.to_ticks(table.column(start.axis.column))
    reached = _reached(standing, number)
    future = valid & _ahead(start, ticks, reached.newest, standing.wall)
    fault = np.where(valid, np.int8(0), np.int8(NO_TIME))
    fault[future] = FUTURE
    by_policy = Watermarks(END) if reached.ended else reached.marks
    own = by_policy if start.consistent else None
    return Batch(table, ticks, np.zeros_like(ticks), fault, seq, own)


def _ahead(start: Input, ticks: np.ndarray, newest: int | None, wall: int | None) -> np.ndarray:
    """Which rows are further ahead than is believed (semantics 4)."""
    known = [t for t in (newest, wall if start.by_wall else None) if t is not None]
    if start.max_ahead is None or not known:
        return np.zeros(len(ticks), bool)
    return np.asarray(ticks > max(known) + start.max_ahead)


def _late_degrees(block: Batch, newest: int | None) -> np.ndarray:
    """How far each row is behind the newest one that arrived before it (semantics 25)."""
    if not len(block):
        return block.ticks
    sound = block.sound
    counted = block.ticks if sound.all() else np.where(sound, block.ticks, FIRST_TICK)
    running = np.maximum.accumulate(counted)
    if newest is not None:
        running = np.maximum(running, newest)
    return np.asarray(running - block.ticks)


def _with_marks(start: Input, block: Batch) -> tuple[Batch, np.ndarray]:
    """Return the rows, and which of them are punctuations.

    Without a time that can be believed, or if it ends before it begins, a row says nothing.
    """
    flags = block.table.column(start.mark_when).fill_null(False)
    found = np.asarray(flags.combine_chunks().to_numpy(zero_copy_only=False), bool)
    if start.mark_since is not None:
        since, known = _since(start, block.table)
        backwards = found & block.sound & known & (since > block.ticks)
        block = replace(block, fault=np.where(backwards, BACKWARDS, block.fault))
    return block, np.asarray(found & block.sound)


def _since(start: Input, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return where the interval of each punctuation begins, and whether its start is known."""
    kind = table.schema.field(start.mark_since).type
    return Axis(str(start.mark_since), kind).to_ticks(table.column(start.mark_since))


def _take_marks(
    flow: Dataflow, start: Input, said: Batch, measures: dict[str, Any], standing: EpochContext
) -> list[Packet]:
    """Turn punctuations into control, for operators and for the controller.

    Where several streams flow into a port, none of them alone can advance its watermark.
    """
    if not len(said):
        return []
    marks = _marks_said(start, said.table, said.ticks)
    measures["marks"] = marks.to_json()
    packets: list[Packet] = []
    for route in start.routes:
        if flow.feeds[route.operator, route.port] == 1:
            packets += _tell(flow, route, marks, said.seq, standing)
    return packets


def _tell(
    flow: Dataflow, route: Route, marks: Watermarks, seq: int, standing: EpochContext
) -> Iterator[Packet]:
    """Yield marks as control for the operator at the end of a route, and for what holds its rows.

    These watermarks do not pass rows that are held.
    """
    usable = flow.operators[route.operator].plan.usable(route.port, marks)
    told = [(route.operator, route.port, usable)]
    if route.hold is not None:
        held = [h for h in standing.held if h.operator == route.operator]
        told = [(route.operator, route.port, usable.holding_back(held)), (route.hold, 0, usable)]
    for operator, port, said in told:
        payload = ControlMessage(said).to_bytes()
        for s in range(flow.operators[operator].plan.shards):
            yield Packet(s, seq, "control", payload, operator, port)


def _marks_said(start: Input, rows: pa.Table, ticks: np.ndarray) -> Watermarks:
    if start.mark_since is not None:
        since, known = _since(start, rows)
        lows = ticks[~known]
        ranges = zip(since[known].tolist(), ticks[known].tolist(), strict=True)
        return Watermarks(int(lows.max()) if len(lows) else None).raised(
            Watermarks(ranges=tuple(ranges))
        )
    if start.source is None:
        return Watermarks(int(ticks.max()))
    return Watermarks(None, newest_by_source(rows.column(start.source), ticks))


def newest_by_source(column: pa.ChunkedArray, ticks: np.ndarray) -> dict[Any, int]:
    """Return the newest tick of each source."""
    values = column.combine_chunks()
    codes, chosen = group_rows([values], len(ticks))
    newest = np.full(len(chosen), FIRST_TICK)
    np.maximum.at(newest, codes, ticks)
    return dict(zip(values.take(pa.array(chosen)).to_pylist(), newest.tolist(), strict=True))


def _measure_late(start: Input, counted: Batch, granule: int) -> list[list[Any]]:
    """Return how late rows are, by source where each has a slack of its own."""
    if start.source is None:
        return monitor.measure(counted.ticks, counted.degree, granule)
    values = counted.table.column(start.source).combine_chunks()
    codes, chosen = group_rows([values], len(counted))
    names = values.take(pa.array(chosen)).to_pylist()
    return monitor.measure_sources(names, codes, counted.ticks, granule)


def _measure_progress(start: Input, block: Batch, measures: dict[str, Any]) -> None:
    counted = block.keep(block.sound)
    ticks = counted.ticks
    measures |= {"rows": len(block), "valid": len(ticks)}
    if not len(ticks):
        return
    measures["newest"] = int(ticks.max())
    if start.bins is not None:
        measures["arrivals"] = measure(ticks, counted.degree, start.bins)
    if start.granule is not None:
        measures["late"] = _measure_late(start, counted, start.granule)
    if start.source is not None:
        newest = newest_by_source(counted.table.column(start.source), ticks)
        measures["sources"] = [[s, t] for s, t in newest.items()]
    if start.tail:
        running = np.maximum.accumulate(ticks)
        steps = np.flatnonzero(np.diff(running, prepend=running[0] - 1))
        recent = steps[max(0, np.searchsorted(steps, len(ticks) - start.tail) - 1) :]
        measures["tail"] = [recent.tolist(), running[recent].tolist()]
