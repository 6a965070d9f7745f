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


class _Kept(_Objects):
    """Values on their way into states of `init`/`incr`/`final`, each with its position."""

    folding: Folding

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that the values are of."""
        return self.folding.columns

    def gather(self, rows: Rows, codes: np.ndarray, n: int) -> np.ndarray:
        """Return the values of each cell, in the order of arrival."""
        out = np.full(n, NOTHING, object)
        for row, value in self.values(rows, np.arange(len(rows))):
            kept = (int(rows.positions[row]), value)
            if out[codes[row]] is NOTHING:
                out[codes[row]] = [kept]
            else:
                out[codes[row]].append(kept)
        return out

    def folded(self, state: Any, values: list[tuple[int, Any]]) -> Any:
        """Return what a state becomes by values, in the order of their positions."""
        for _, value in sorted(values, key=lambda kept: kept[0]):
            state = self.folding.incr(state, value)
        return state

    def fold(self, cells: Partial) -> Partial:
        """Return the states of finished windows."""
        out = self.empty(len(cells))
        for i, kept in enumerate(cells.arrays[0]):
            if kept is not NOTHING:
                out.arrays[0][i] = self.state_of(kept)
        return out

    def state_of(self, kept: Any) -> Any:
        """Return the state that a cell stands for."""
        raise NotImplementedError

    def joined(self, a: Any, b: Any) -> Any:
        """Return the content of two cells as one."""
        raise NotImplementedError

    def combine(self, a: Partial, b: Partial) -> Partial:
        left, right = a.arrays[0], b.arrays[0]
        out = np.full(left.shape, NOTHING, object)
        for i, (x, y) in enumerate(zip(left.flat, right.flat, strict=True)):
            out.flat[i] = y if x is NOTHING else x if y is NOTHING else self.joined(x, y)
        return Partial((out,))


@dataclass(frozen=True)
class Collected(_Kept):
    """The values themselves, for `init`/`incr`/`final` in windows that only the data tell.

    Values stand in the order of their positions, those at one position in the order of arrival.
    """

    bounded: ClassVar[bool] = False
    folding: Folding

    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
        return Partial((self.gather(rows, codes, n),))

    def joined(self, a: Any, b: Any) -> Any:  # noqa: D102
        return a + b

    def state_of(self, kept: Any) -> Any:  # noqa: D102
        return self.folded(self.folding.init(), kept)


@dataclass(frozen=True)
class Continued(_Kept):
    """A state so far and the values after it, for `init`/`incr`/`final` since the beginning.

    Landmark windows hold one another, so the state of the last one that has closed goes on in the
    next. A cell is (whether there is a state, the state, values); of cells that are joined one at
    most has a state.
    """

    folding: Folding

    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
        out = self.empty(n)
        for i, values in enumerate(self.gather(rows, codes, n)):
            if values is not NOTHING:
                out.arrays[0][i] = (False, None, values)
        return out

    def joined(self, a: Any, b: Any) -> Any:  # noqa: D102
        if b[0]:  # rows that came late for closed windows lie before them
            a, b = b, a
        if b[0]:
            raise AssertionError("states of init/incr/final do not combine")
        return (a[0], a[1], a[2] + b[2])

    def state_of(self, kept: Any) -> Any:  # noqa: D102
        begun, state, values = kept
        # incr may change a state in place, and the next window goes on from the same one.
        begin = pickle.loads(pickle.dumps(state)) if begun else self.folding.init()  # noqa: S301
        return self.folded(begin, values)

    def scan(self, grid: Partial) -> Partial:
        """Go on from window to window, each value taken into a state once."""
        out = grid.arrays[0].copy()
        for column in range(out.shape[1]):
            before = NOTHING
            for row in range(out.shape[0]):
                cell = out[row, column]
                if cell is NOTHING:
                    cell = before
                elif before is not NOTHING:
                    cell = self.joined(before, cell)
                if cell is not NOTHING and cell[2]:
                    cell = (True, self.state_of(cell), [])
                out[row, column] = before = cell
        return Partial((out,))

    def settle(self, cells: Partial, closed: np.ndarray) -> Partial:
        """Return cells with the values of closed windows taken into their states."""
        out = cells.arrays[0].copy()
        for i in np.flatnonzero(closed):
            if out[i] is not NOTHING:
                out[i] = (True, self.state_of(out[i]), [])
        return Partial((out,))
