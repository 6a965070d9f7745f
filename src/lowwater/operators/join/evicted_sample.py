"""A sample of the rows that a join has evicted, to count the pairs that late rows have missed.

The sample is bounded, however long the stream is. Each row has a hash of its key and its time, and
a *level*: a row of level k is in the sample if its hash is below 2^-k of all hashes, so it stands
for 2^k rows. If the sample grows too large, levels rise: a row that was evicted twice as long ago
as another one has a level above it. So the estimated number of pairs has no bias, counts stay whole
numbers, and few rows stand for the distant past, with which few late rows join.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

import numpy as np
import pyarrow as pa

from lowwater.operators.batch import TICK
from lowwater.operators.group_codes import group_rows, hashes_of
from lowwater.operators.row_store import NEED, RowStore, StoredRows, column_or_zeros
from lowwater.ticks import END, FIRST_TICK

MOST = 4_096
"""The largest number of rows in the sample of one side in one shard."""
BITS = 63
"""The number of bits of a hash."""
HIGHEST = 30
"""The highest level; rows that would need a higher one are forgotten."""
LEVEL, HASH = "__level", "__hash"
"""The columns of a sampled row with its level and its hash."""
FORGOTTEN = HIGHEST + 1


def sampled(keys: Sequence[str], rows: StoredRows) -> StoredRows:
    """Return some of `rows` as rows of a sample: their key columns, need, level and hash.

    All rows have one level, 0 unless they are too many. The flag of a row is raised if the row was
    late, so it has never been stored.
    """
    hashes = _hashes(keys, rows)
    level = max(0, ceil(log2(max(len(rows), 1) / (MOST // 2))))
    if level:
        chosen = hashes >> (BITS - level) == 0
        rows, hashes = rows.where(chosen), hashes[chosen]
    table = rows.table.select([*keys, TICK])
    table = table.append_column(NEED, pa.array(column_or_zeros(rows.table, NEED)))
    table = table.append_column(LEVEL, pa.array(np.full(len(rows), level)))
    table = table.append_column(HASH, pa.array(hashes))
    return StoredRows(table, rows.ticks, rows.flags)


def _hashes(keys: Sequence[str], rows: StoredRows) -> np.ndarray:
    """Return the hash of the key and the time of each row, of `BITS` bits."""
    columns = [rows.table.column(key).combine_chunks() for key in keys]
    if not all(pa.types.is_integer(column.type) for column in columns):
        # Texts are hashed one by one: once for each group.
        code, first = group_rows(columns, len(rows))
        groups = hashes_of([column.take(pa.array(first)) for column in columns], len(first))
        columns = [pa.array(groups[code].view(np.int64))]
    hashes = hashes_of([*columns, pa.array(rows.ticks)], len(rows))
    return (hashes >> np.uint64(64 - BITS)).astype(np.int64)


def weights(rows: StoredRows) -> np.ndarray:
    """Return how many evicted rows each row of a sample stands for."""
    return np.asarray(np.left_shift(np.int64(1), rows.table.column(LEVEL).to_numpy()))


def thinned(rows: StoredRows, limit: int, most: int) -> StoredRows:
    """Return at most `most` of the rows of a sample, with new levels.

    Rows of age b or less keep their level; those of age up to 2 b have at least level 1, those of
    age up to 4 b level 2, and so on. b is as long as possible. The age is the distance to `limit`.
    """
    level, hashed = (rows.table.column(name).to_numpy() for name in (LEVEL, HASH))
    top = limit if limit < END else int(rows.ticks.max(initial=FIRST_TICK))
    age = np.log2(np.maximum(top - rows.ticks.astype(np.float64), 0.0) + 1.0)
    base = float(np.ceil(age.max(initial=0.0)))
    while True:
        raised = np.maximum(level, np.ceil(np.maximum(age - base, 0.0)).astype(np.int64))
        raised = np.minimum(raised, FORGOTTEN)
        kept = (hashed >> (BITS - raised) == 0) & (raised <= HIGHEST)
        if int(kept.sum()) <= most:
            break
        base -= 1.0
    at = rows.table.schema.get_field_index(LEVEL)
    table = rows.table.set_column(at, LEVEL, pa.array(raised))
    return StoredRows(table, rows.ticks, rows.flags).where(kept)


class SampleStore(RowStore):
    """A store whose rows wait for nothing, so they do not count as open."""

    open_rows = 0


class EvictedSample:
    """The sample of one side, in a store of the kernel's state."""

    def __init__(self, store: SampleStore, keys: Sequence[str]) -> None:
        self.store, self.keys = store, list(keys)

    def add(self, rows: StoredRows, limit: int) -> None:
        """Add evicted or late rows; `limit` is the time before which rows are evicted."""
        if not len(rows):
            return
        new = sampled(self.keys, rows)
        if self.store.rows + len(new) > MOST:
            new = StoredRows.together([*self.store.cut(END, wanted=True), new])
            new = thinned(new, limit, MOST // 2)
        self.store.add(new)

    def clear(self) -> None:
        """Forget all rows: the streams have ended."""
        self.store.cut(END, wanted=False)
