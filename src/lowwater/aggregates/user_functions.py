"""User-defined aggregates: functions `lift`/`combine`/`lower`, or `init`/`incr`/`final`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns, RawRows
from lowwater.aggregates.aggregate import Aggregate, Kind, call, column_type
from lowwater.aggregates.state_pickle import StatePickle
from lowwater.errors import add_place

NOTHING = None
"""The content of an empty cell."""
_SHOWN = 100
"""The largest number of characters of a value in an error."""


def _mapped(cells: Sequence[Any] | np.ndarray, change: Callable[[Any], Any]) -> np.ndarray:
    """Return `change(content)` of every cell; empty cells stay empty."""
    out = np.full(len(cells), NOTHING, object)
    for i, content in enumerate(cells):
        if content is not NOTHING:
            out[i] = change(content)
    return out


class _ObjectAccumulator(Accumulator):
    """An accumulator whose cells are Python objects; state holds the objects pickled."""

    columns: tuple[str, ...]
    pickle: StatePickle

    types = (pa.binary(),)

    def empty(self, n: int, like: AccumulatorColumns | None = None) -> AccumulatorColumns:
        return AccumulatorColumns((np.full(n, NOTHING, object),))

    def store(self, cells: AccumulatorColumns) -> list[pa.Array]:
        return [pa.array(_mapped(cells.arrays[0], self.pickle.dumps), pa.binary())]

    def load(self, columns: Sequence[pa.Array]) -> AccumulatorColumns:
        return AccumulatorColumns((_mapped(columns[0].to_pylist(), self.pickle.loads),))

    @abstractmethod
    def joined(self, a: Any, b: Any) -> Any:
        """Return the contents `a` and `b` of two cells, combined."""

    def combine(self, a: AccumulatorColumns, b: AccumulatorColumns) -> AccumulatorColumns:
        left, right = a.arrays[0], b.arrays[0]
        out = np.full(left.shape, NOTHING, object)
        for i, (x, y) in enumerate(zip(left.flat, right.flat, strict=True)):
            out.flat[i] = y if x is NOTHING else x if y is NOTHING else self.joined(x, y)
        return AccumulatorColumns((out,))

    @contextmanager
    def naming_rows(self) -> Iterator[SimpleNamespace]:
        """Add the current row, whose `value` the `with` block sets, to an exception."""
        row = SimpleNamespace()
        try:
            yield row
        except Exception as failure:
            names = self.columns[0] if len(self.columns) == 1 else f"({', '.join(self.columns)})"
            value = repr(vars(row).get("value"))
            shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
            add_place(failure, f"a row with {names} = {shown}")
            raise

    def values(self, rows: RawRows, codes: np.ndarray) -> list[tuple[int, Any]]:
        """Return (cell, value) pairs in arrival order; NULLs of a single column are skipped."""
        if len(self.columns) == 1:
            column = rows.column(self.columns[0]).to_pylist()
            return [(c, v) for c, v in zip(codes.tolist(), column, strict=True) if v is not None]
        whole = zip(*(rows.column(c).to_pylist() for c in self.columns), strict=True)
        return list(zip(codes.tolist(), whole, strict=True))


@dataclass(frozen=True)
class PartialAccumulator(_ObjectAccumulator):
    """A partial result: `lift_one` lifts a value, `combine_two` combines two partial results."""

    columns: tuple[str, ...]
    lift_one: Callable[[Any], Any]
    combine_two: Callable[[Any, Any], Any]
    pickle: StatePickle = field(default_factory=StatePickle, repr=False)

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        out = self.empty(n)
        cells = out.arrays[0]
        with self.naming_rows() as row:
            for c, row.value in self.values(rows, codes):
                one = self.lift_one(row.value)
                cells[c] = one if cells[c] is NOTHING else self.combine_two(cells[c], one)
        return out

    def joined(self, a: Any, b: Any) -> Any:  # noqa: D102
        return self.combine_two(a, b)


@dataclass(frozen=True)
class FoldAccumulator(_ObjectAccumulator):
    """A state per window: `init` creates the state, and `incr` adds a value to it (DROP 2.2)."""

    paned: ClassVar[bool] = False
    columns: tuple[str, ...]
    init: Callable[[], Any]
    incr: Callable[[Any, Any], Any]
    pickle: StatePickle = field(default_factory=StatePickle, repr=False)

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        return self.absorb(self.empty(n), rows, codes)

    def absorb(  # noqa: D102
        self, cells: AccumulatorColumns, rows: RawRows, codes: np.ndarray
    ) -> AccumulatorColumns:
        out = _mapped(cells.arrays[0], self.pickle.copy)  # `incr` may modify its argument
        with self.naming_rows() as row:
            for c, row.value in self.values(rows, codes):
                state = self.init() if out[c] is NOTHING else out[c]
                out[c] = self.incr(state, row.value)
        return AccumulatorColumns((out,))

    def joined(self, a: Any, b: Any) -> Any:  # noqa: D102
        raise AssertionError("states of init/incr/final do not combine")


class _ValueAccumulator(_ObjectAccumulator):
    """An accumulator of (position, value) pairs that `incr` has not yet added to a state."""

    folding: FoldAccumulator

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that values are read from."""
        return self.folding.columns

    @property
    def pickle(self) -> StatePickle:  # type: ignore[override]
        """The format of states."""
        return self.folding.pickle

    def gather(self, rows: RawRows, codes: np.ndarray, n: int) -> np.ndarray:
        """Return, for each of `n` cells, its (position, value) pairs in arrival order."""
        out = np.full(n, NOTHING, object)
        for row, value in self.values(rows, np.arange(len(rows))):
            if out[codes[row]] is NOTHING:
                out[codes[row]] = []
            out[codes[row]].append((int(rows.positions[row]), value))
        return out

    def folded(self, state: Any, values: list[tuple[int, Any]]) -> Any:
        """Return `state` after `incr` has added `values` in the order of positions."""
        with self.naming_rows() as row:
            for _, row.value in sorted(values, key=itemgetter(0)):
                state = self.folding.incr(state, row.value)
        return state

    def fold(self, cells: AccumulatorColumns) -> AccumulatorColumns:
        """Return the states of closed windows, with all values added."""
        return AccumulatorColumns((_mapped(cells.arrays[0], self.state_of),))

    @abstractmethod
    def state_of(self, cell: Any) -> Any:
        """Return the state of `cell`, with all values added."""


@dataclass(frozen=True)
class ValueList(_ValueAccumulator):
    """All values of a cell, for `init`/`incr`/`final` in windows whose cells must combine.

    `incr` adds values in the order of position; at equal positions, in arrival order.
    """

    bounded: ClassVar[bool] = False
    folding: FoldAccumulator

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        return AccumulatorColumns((self.gather(rows, codes, n),))

    def joined(self, a: Any, b: Any) -> Any:  # noqa: D102
        return a + b

    def state_of(self, cell: Any) -> Any:  # noqa: D102
        return self.folded(self.folding.init(), cell)


@dataclass(frozen=True)
class ResumableFold(_ValueAccumulator):
    """A state and the values still to be added, for `init`/`incr`/`final` in landmark windows.

    Each landmark window contains the previous window, so the state of the last closed window is
    reused by the next window. A cell is a tuple (has a state, state, values). Of two cells that are
    combined, at most one has a state.
    """

    folding: FoldAccumulator

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        values = self.gather(rows, codes, n)
        return AccumulatorColumns((_mapped(values, lambda after: (False, None, after)),))

    def joined(self, a: Any, b: Any) -> Any:  # noqa: D102
        if b[0]:  # late rows of closed windows precede the state
            a, b = b, a
        if b[0]:
            raise AssertionError("states of init/incr/final do not combine")
        return (a[0], a[1], a[2] + b[2])

    def state_of(self, cell: Any) -> Any:  # noqa: D102
        begun, state, values = cell
        return self.folded(self.pickle.copy(state) if begun else self.folding.init(), values)

    def scan(self, grid: AccumulatorColumns) -> AccumulatorColumns:
        """Return `grid` with a state in each cell, which continues the state of the cell above."""
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
        return AccumulatorColumns((out,))

    def settle(self, cells: AccumulatorColumns, closed: np.ndarray) -> AccumulatorColumns:
        """Return `cells`; where `closed` is True, the values of a cell are added to its state."""
        out = cells.arrays[0].copy()
        for i in np.flatnonzero(closed):
            if out[i] is not NOTHING:
                out[i] = (True, self.state_of(out[i]), [])
        return AccumulatorColumns((out,))


@dataclass(frozen=True)
class UserDefined(Aggregate):
    """A user-defined aggregate: an accumulator, and the function `finish` that returns a result."""

    part: PartialAccumulator | FoldAccumulator
    finish: Callable[[Any], Any]
    returns: pa.DataType
    complete: Callable[[Any, float], Any] | None = None

    @property
    def written(self) -> str:  # noqa: D102
        columns = self.part.columns
        return call("aggregate", columns[0] if len(columns) == 1 else list(columns))

    def kind(self, schema: pa.Schema) -> Kind:  # noqa: D102
        del schema
        return "lift" if isinstance(self.part, PartialAccumulator) else "init"

    def extrapolate(self, values: pa.Array, completeness: np.ndarray) -> pa.Array:  # noqa: D102
        if self.complete is None:
            return values
        pairs = zip(values.to_pylist(), completeness.tolist(), strict=True)
        expected = [None if v is None else self.complete(v, share) for v, share in pairs]
        return pa.array(expected, self.returns)

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        for column in self.part.columns:
            column_type(schema, column)
        return (self.part,)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return self.returns

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        states = cells[0].arrays[0].tolist()
        return pa.array([None if c is NOTHING else self.finish(c) for c in states], self.returns)
