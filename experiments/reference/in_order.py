"""What out-of-order plans are compared with: operators that keep order (OOP 2, 5.3).

They stand before or between the same kernels that run without them, so that what differs is what
order costs. They hold rows as plain Arrow tables, release them as soon as order allows, and need no
punctuation: their inputs are in order, so every row is a watermark of its stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


class Merge:
    """A union that keeps order: it holds what is ahead of the slowest of its streams."""

    def __init__(self, streams: Sequence[Sequence[pa.Table]], time: str = "ts") -> None:
        self._streams, self._time = streams, time
        self._held = [epochs[0].slice(0, 0) for epochs in streams]
        self._newest: list[int | None] = [None for _ in streams]

    @property
    def rows(self) -> int:
        """How many rows are held back."""
        return sum(len(t) for t in self._held)

    @property
    def size(self) -> int:
        """How many bytes they take up."""
        return sum(int(t.nbytes) for t in self._held)

    def take(self, epoch: int) -> pa.Table:
        """Take in an epoch of each stream; return what no stream can precede any more, in order."""
        for i, epochs in enumerate(self._streams):
            came = epochs[epoch]
            if len(came):
                self._held[i] = pa.concat_tables([self._held[i], came]).combine_chunks()
                self._newest[i] = int(self._ticks(came)[-1])
        known = [t for t in self._newest if t is not None]
        if epoch == len(self._streams[0]) - 1:
            return self._release(None)
        if len(known) < len(self._streams):
            return self._held[0].slice(0, 0)
        return self._release(min(known))

    def _release(self, until: int | None) -> pa.Table:
        """Let go what is not after `until`; all of it, at the end of the streams."""
        free = []
        for i, held in enumerate(self._held):
            cut = len(held)
            if until is not None:
                cut = int(np.searchsorted(self._ticks(held), until, "right"))
            free.append(held.slice(0, cut))
            self._held[i] = held.slice(cut)
        rows = pa.concat_tables(free).combine_chunks()
        return rows.take(pa.array(np.argsort(self._ticks(rows), kind="stable")))

    def _ticks(self, table: pa.Table) -> np.ndarray:
        return np.asarray(table.column(self._time).cast(pa.int64()).to_numpy())


class Sort:
    """Rows that leave in order of their time: it holds what something earlier may still precede.

    What comes is sorted at once and kept as a run. A release takes the front of every run.
    """

    def __init__(self, time: str = "ts") -> None:
        self._time = time
        self._runs: list[tuple[np.ndarray, pa.Table]] = []

    @property
    def rows(self) -> int:
        """How many rows are held back."""
        return sum(len(ticks) for ticks, _ in self._runs)

    @property
    def size(self) -> int:
        """How many bytes they take up."""
        return sum(int(t.nbytes) for _, t in self._runs)

    def take(self, rows: pa.Table, before: int) -> pa.Table:
        """Take in rows; return those before a watermark, in order."""
        if len(rows):
            self._runs.append(self._in_order(rows))
        free, held = [rows.slice(0, 0)], []
        for ticks, table in self._runs:
            cut = int(np.searchsorted(ticks, before))
            free.append(table.slice(0, cut))
            if cut < len(ticks):
                held.append((ticks[cut:], table.slice(cut)))
        self._runs = held
        return self._in_order(pa.concat_tables(free).combine_chunks())[1]

    def _in_order(self, rows: pa.Table) -> tuple[np.ndarray, pa.Table]:
        ticks = np.asarray(rows.column(self._time).cast(pa.int64()).to_numpy())
        order = np.argsort(ticks, kind="stable")
        return ticks[order], rows.take(pa.array(order))
