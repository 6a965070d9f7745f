"""Where windows that rows end may end, for the whole stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Ends:
    """Positions that may end a window, ascending, and how many rows there count towards one."""

    tick: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, tick: np.ndarray, rows: np.ndarray) -> Ends:
        """Add up the rows of equal positions."""
        known, place = np.unique(tick, return_inverse=True)
        return cls(known, np.bincount(place, rows, len(known)).astype(np.int64))

    def to_table(self) -> pa.Table:
        """Return the positions as a table."""
        return pa.table({"tick": self.tick, "rows": self.rows})

    @classmethod
    def together(cls, tables: Sequence[pa.Table]) -> Ends:
        """Bring positions from several places together."""
        both = pa.concat_tables([*tables, cls.none().to_table()])
        return cls.of(both["tick"].to_numpy(), both["rows"].to_numpy())

    @classmethod
    def none(cls) -> Ends:
        """Return no positions."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def between(self, since: int, until: int) -> Ends:
        """Return the positions in [since, until)."""
        chosen = (self.tick >= since) & (self.tick < until)
        return Ends(self.tick[chosen], self.rows[chosen])
