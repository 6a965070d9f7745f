"""Sort: rows wait until the watermark has passed them, then leave by (time, arrival).

Total order is costly: every row waits as long as the slowest row may take, and one shard sorts all
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
    """A stream in the order of its axis, rows of equal time as they arrived."""

    shards: int = 1
    word: ClassVar[str] = "order"
    sorts: ClassVar[bool] = True  # type: ignore[misc]
    shard_keys: ClassVar[tuple[tuple[str, ...], ...]] = ((),)

    @property
    def sequential(self) -> bool:
        """Order is total, so one shard must see all rows."""
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
    """One epoch of a sort: a row behind the watermark is late, since later rows have left."""

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
