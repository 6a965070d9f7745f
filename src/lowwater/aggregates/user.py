"""Parts that the user defines, as `lift`/`combine`/`lower` or as `init`/`incr`/`final`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lowwater.aggregates.partial import Part, Partial, Rows

NOTHING = None
"""The content of a cell that no value has reached."""


class _Objects(Part):
    """A part whose cells are Python objects, stored pickled."""

    columns: tuple[str, ...]

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.binary(),)

    def empty(self, n: int, like: Partial | None = None) -> Partial:
        return Partial((np.full(n, NOTHING, object),))

    def store(self, cells: Partial) -> list[pa.Array]:
        kept = [None if c is NOTHING else pickle.dumps(c) for c in cells.arrays[0]]
        return [pa.array(kept, pa.binary())]

    def load(self, columns: Sequence[pa.Array]) -> Partial:
        out = self.empty(len(columns[0]))
        for i, kept in enumerate(columns[0].to_pylist()):
            if kept is not None:
                out.arrays[0][i] = pickle.loads(kept)  # noqa: S301  # our own checkpoint
        return out

    def values(self, rows: Rows, codes: np.ndarray) -> list[tuple[int, Any]]:
        """Return (cell, value) in arrival order; NULL is skipped, several columns are a tuple."""
        if len(self.columns) == 1:
            column = rows.column(self.columns[0]).to_pylist()
            return [(c, v) for c, v in zip(codes.tolist(), column, strict=True) if v is not None]
        whole = zip(*(rows.column(c).to_pylist() for c in self.columns), strict=True)
        return list(zip(codes.tolist(), whole, strict=True))


@dataclass(frozen=True)
class Combining(_Objects):
    """`lift` a value to a partial, `combine` two partials; the result is `lower` of the last."""

    columns: tuple[str, ...]
    lift_one: Callable[[Any], Any]
    combine_two: Callable[[Any, Any], Any]

    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
        out = self.empty(n)
        cells = out.arrays[0]
        for c, value in self.values(rows, codes):
            one = self.lift_one(value)
            cells[c] = one if cells[c] is NOTHING else self.combine_two(cells[c], one)
        return out

    def combine(self, a: Partial, b: Partial) -> Partial:  # noqa: D102
        left, right = a.arrays[0], b.arrays[0]
        out = np.full(left.shape, NOTHING, object)
        for i, (x, y) in enumerate(zip(left.flat, right.flat, strict=True)):
            out.flat[i] = y if x is NOTHING else x if y is NOTHING else self.combine_two(x, y)
        return Partial((out,))


@dataclass(frozen=True)
class Folding(_Objects):
    """`init` a state per window, `incr` it by each value, `final` gives the result (DROP 2.2)."""

    paned: ClassVar[bool] = False
    columns: tuple[str, ...]
    init: Callable[[], Any]
    incr: Callable[[Any, Any], Any]

    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
        return self.absorb(self.empty(n), rows, codes)

    def absorb(self, cells: Partial, rows: Rows, codes: np.ndarray) -> Partial:  # noqa: D102
        # incr may change a state in place, so it gets a copy: a kernel leaves its inputs alone.
        out = np.full(len(cells), NOTHING, object)
        for i, kept in enumerate(cells.arrays[0]):
            if kept is not NOTHING:
                out[i] = pickle.loads(pickle.dumps(kept))  # noqa: S301
        for c, value in self.values(rows, codes):
            state = self.init() if out[c] is NOTHING else out[c]
            out[c] = self.incr(state, value)
        return Partial((out,))

    def combine(self, a: Partial, b: Partial) -> Partial:  # noqa: D102
        out = a.arrays[0].copy()
        for i, (mine, theirs) in enumerate(zip(out.flat, b.arrays[0].flat, strict=True)):
            if theirs is NOTHING:
                continue
            if mine is not NOTHING:
                raise AssertionError("states of init/incr/final do not combine")
            out.flat[i] = theirs
        return Partial((out,))


@dataclass(frozen=True)
class Collected(_Objects):
    """The values themselves, for `init`/`incr`/`final` in windows that only the data tell.

    Values stand in the order of their positions, those at one position in the order of arrival.
    """

    bounded: ClassVar[bool] = False
    folding: Folding

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that the values are of."""
        return self.folding.columns

    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
        out = self.empty(n)
        cells = out.arrays[0]
        numbered = self.values(rows, np.arange(len(rows)))
        for row, value in numbered:
            kept = (int(rows.ticks[row]), value)
            if cells[codes[row]] is NOTHING:
                cells[codes[row]] = [kept]
            else:
                cells[codes[row]].append(kept)
        return out

    def combine(self, a: Partial, b: Partial) -> Partial:  # noqa: D102
        left, right = a.arrays[0], b.arrays[0]
        out = np.full(left.shape, NOTHING, object)
        for i, (x, y) in enumerate(zip(left.flat, right.flat, strict=True)):
            out.flat[i] = y if x is NOTHING else x if y is NOTHING else x + y
        return Partial((out,))

    def fold(self, cells: Partial) -> Partial:
        """Return the states that the values lead to."""
        out = self.empty(len(cells))
        for i, values in enumerate(cells.arrays[0]):
            if values is not NOTHING:
                state = self.folding.init()
                for _, value in sorted(values, key=lambda kept: kept[0]):
                    state = self.folding.incr(state, value)
                out.arrays[0][i] = state
        return out
