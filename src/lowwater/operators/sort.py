"""Sort: rows wait until the watermark has passed them, then are emitted by (time, arrival).

A total order is costly: every row waits for rows with the longest delay, and one shard sorts all
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowwater.operators.batch import TICK
from lowwater.operators.kernel import register
from lowwater.operators.row_kernel import PortRows, RowKernel
from lowwater.operators.row_store import StoredRows
from lowwater.operators.unary import UnaryPlan
from lowwater.ticks import FIRST_TICK


@dataclass(frozen=True)
class SortPlan(UnaryPlan):
    """The plan of a sort: rows are emitted by time, rows of equal time in arrival order."""

    shards: int = 1
    word: ClassVar[str] = "order"
    sorts: ClassVar[bool] = True  # type: ignore[misc]
    shard_keys: ClassVar[tuple[tuple[str, ...], ...]] = ((),)

    @property
    def sequential(self) -> bool:
        """Always true: the order is total, so a single shard must process all rows."""
        return True

    def explain(self) -> list[str]:
        """Return lines that describe the results and the state."""
        return [
            f"order       by {self.axis.column}, then arrival",
            "state       rows, until the watermark has passed them",
            "shards      one, since order is total",
        ]


@register(SortPlan)
class SortKernel(RowKernel):
    """One epoch of a sort; rows behind the watermark are late, since rows up to it were emitted."""

    def advance(self, arrivals: list[PortRows], watermarks: list[int | None]) -> None:
        """Emit the rows that the watermark has passed, and store the others."""
        (rows,), (before,), (after,) = arrivals, self.watermarks, watermarks
        late = rows.dead | (rows.ticks < (FIRST_TICK if before is None else before))
        self.account(0, rows, late)
        self.watermarks = watermarks
        limit, store = FIRST_TICK if after is None else after, self.stores[0]
        waits = rows.ticks >= limit
        ready = [*store.cut(limit, wanted=True), rows.stored(~late & ~waits)]
        store.add(rows.stored(~late & waits))
        self.emit(StoredRows.together(ready).in_order().table.drop_columns([TICK]))
