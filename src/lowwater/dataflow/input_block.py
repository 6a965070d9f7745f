"""Blocks of rows on their way into ingest, with the texts of malformed rows.

A file that cannot be read becomes a block without rows. In an epoch whose rows are set aside, all
rows of a block are malformed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.dataflow.graph import Dataflow, Input
from lowwater.dataflow.route import UNREAD
from lowwater.errors import HostError, located
from lowwater.operators.batch import KEPT, Batch
from lowwater.sinks.files import jsonable
from lowwater.sources.bad_file import BadFileError
from lowwater.sources.lines import REASON, TEXT, shortened, split_faults
from lowwater.sources.source import BlockReader, BlockSource, SourceBlock

ASIDE = "set aside on purpose"
"""The reason why the rows of an epoch that was set aside are malformed."""
_NAMED_FILES = 3
"""The largest number of files that an error names."""


@dataclass(frozen=True)
class InputBlock:
    """A block of an input, and its place `seq` among the input's blocks in the epoch.

    `rows` is the number of rows, if the source knows it before the block is read. `texts` returns
    the texts of some rows, given by number. `bad` is the path of the block's file and the reason
    why it cannot be read; None if it was read. `path` is the path of the block's file, if known.
    """

    input: int
    seq: int
    table: pa.Table
    rows: int | None = None
    texts: Callable[[np.ndarray], pa.Array | None] | None = None
    bad: tuple[str, str] | None = None
    path: str | None = None


def file_names(paths: Iterable[str | None]) -> str:
    """Return the place of an error in one of the files `paths`; empty if no path is known.

    >>> file_names(["a.csv", None, "b.csv", "c.csv", "d.csv"])
    'one of the files a.csv, b.csv, c.csv and 1 more'
    """
    known = list(dict.fromkeys(path for path in paths if path))
    if len(known) <= 1:
        return "".join(f"file {path}" for path in known)
    more = f" and {len(known) - _NAMED_FILES} more" if len(known) > _NAMED_FILES else ""
    return f"one of the files {', '.join(known[:_NAMED_FILES])}{more}"


def read_block(
    flow: Dataflow,
    number: int,
    seq: int,
    reader: BlockReader,
    block: SourceBlock,
    *,
    aside: bool = False,
) -> InputBlock:
    """Return a block of the input `number`, read by `reader`; `seq` is its place in the epoch.

    With `aside`, the epoch's rows are set aside: a damaged file is reported in any case.
    """
    texts = partial(reader.texts, block) if isinstance(reader, BlockSource) else None
    try:
        with located(f"input {number + 1}"):
            table = reader.read(block)
    except (BadFileError, HostError) as problem:
        bad = problem.__cause__ if aside and isinstance(problem, HostError) else problem
        if not isinstance(bad, BadFileError):
            raise
        empty = flow.inputs[number].schema.empty_table()
        return InputBlock(number, seq, empty, block.rows, bad=(bad.path, bad.reason))
    return InputBlock(number, seq, table, block.rows, texts, path=block.path)


def set_aside(block: InputBlock) -> InputBlock:
    """Return `block` with all rows malformed: NULLs, and their texts, or else the rows as JSON."""
    table, lines = split_faults(block.table)
    texts = None if block.texts is None else block.texts(np.arange(len(table)))
    if texts is None:
        rows = table.drop_columns([KEPT] if KEPT in table.column_names else [])
        written = (json.dumps(jsonable(row), default=str).encode() for row in rows.to_pylist())
        texts = pa.array(map(shortened, written), pa.string())
    reasons = pa.array([ASIDE] * len(table), pa.string())
    if lines is not None:
        texts, reasons = (
            pc.coalesce(known.combine_chunks(), new)
            for known, new in zip(lines.columns, (texts, reasons), strict=True)
        )
    columns = {
        f.name: pa.array(np.ones(len(table), bool))
        if f.name == KEPT
        else pa.nulls(len(table), f.type)
        for f in table.schema
    }
    return replace(block, table=pa.table({**columns, TEXT: texts, REASON: reasons}), texts=None)


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
