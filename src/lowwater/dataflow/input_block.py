"""Blocks of rows on their way into ingest, with the texts of malformed rows.

A file that cannot be read becomes a block without rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from lowwater.dataflow.graph import Dataflow, Input
from lowwater.dataflow.route import UNREAD
from lowwater.errors import located
from lowwater.operators.batch import Batch
from lowwater.sources.bad_file import BadFileError
from lowwater.sources.lines import REASON, TEXT, split_faults
from lowwater.sources.source import BlockReader, BlockSource, SourceBlock


@dataclass(frozen=True)
class InputBlock:
    """A block of an input, and its place `seq` among the input's blocks in the epoch.

    `rows` is the number of rows, if the source knows it before the block is read. `texts` returns
    the texts of some rows, given by number. `bad` is the path of the block's file and the reason
    why it cannot be read; None if it was read.
    """

    input: int
    seq: int
    table: pa.Table
    rows: int | None = None
    texts: Callable[[np.ndarray], pa.Array | None] | None = None
    bad: tuple[str, str] | None = None


def read_block(
    flow: Dataflow, number: int, seq: int, reader: BlockReader, block: SourceBlock
) -> InputBlock:
    """Return a block of the input `number`, read by `reader`; `seq` is its place in the epoch."""
    texts = partial(reader.texts, block) if isinstance(reader, BlockSource) else None
    try:
        with located(f"input {number + 1}"):
            table = reader.read(block)
    except BadFileError as problem:
        empty = flow.inputs[number].schema.empty_table()
        return InputBlock(number, seq, empty, block.rows, bad=(problem.path, problem.reason))
    return InputBlock(number, seq, table, block.rows, texts)


def before_steps(
    start: Input, table: pa.Table
) -> tuple[pa.Table, pa.Table | None, np.ndarray | None]:
    """Return rows after the steps that come before the watermark: rows, lines, numbers.

    `lines` are the hidden columns of malformed rows. The numbers are those of the rows in the
    block; None if all rows are left. No filter drops a row that could not be read.
    """
    table, lines = split_faults(table)
    numbers: np.ndarray | None = None
    for step in start.before:
        kept = step.kept(table)
        if kept is None:
            table = step(table)
            continue
        if lines is not None:
            kept = kept | np.asarray(lines.column(REASON).is_valid())
            lines = lines.filter(pa.array(kept))
        table = table.filter(pa.array(kept))
        numbers = np.flatnonzero(kept) if numbers is None else numbers[kept]
    return table, lines, numbers


def with_texts(batch: Batch, block: InputBlock, numbers: np.ndarray | None) -> Batch:
    """Return `batch` with the texts of rows that were read, but have no usable time."""
    untimed = np.flatnonzero((batch.fault != 0) & (batch.fault != UNREAD))
    if block.texts is None or not len(untimed):
        return batch
    texts = block.texts(untimed if numbers is None else numbers[untimed])
    if texts is None:
        return batch
    empty = pa.nulls(len(batch), pa.string())
    lines = batch.lines or pa.table([empty, empty], names=[TEXT, REASON])
    column = np.array(lines.column(TEXT).to_pylist(), object)
    column[untimed] = texts.to_pylist()
    return replace(batch, lines=lines.set_column(0, TEXT, pa.array(column, pa.string())))
