"""Order: rows wait until the mark has passed them, then leave by (time, arrival).

What total order costs is plain to see here: every row waits as long as the slowest may take, and
one shard sees them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from lowwater.kernels.bands import MIN
from lowwater.kernels.one_stream import OneStream
from lowwater.kernels.row_buckets import Kept
from lowwater.kernels.row_epoch import Arrivals, RowEpoch
from lowwater.kernels.rows import TICK


@dataclass(frozen=True)
class OrderPlan(OneStream):
    """A stream in the order of its axis, rows of equal time as they arrived."""

    shards: int = 1
    word: ClassVar[str] = "order"
    sequential: ClassVar[bool] = True
    shard_keys: ClassVar[tuple[tuple[str, ...], ...]] = ((),)

    def with_shards(self, shards: int) -> OrderPlan:
        """Return the plan for one shard: an order can have no more."""
        return replace(self, shards=1)

    def explain(self) -> list[str]:
        """Say what leaves, and what is kept for how long."""
        return [
            f"order       by {self.axis.column}, then arrival",
            "state       rows, until the mark has passed them",
            "shards      one, since order is total",
        ]


class OrderEpoch(RowEpoch):
    """An epoch of an order: a row behind the mark is late, for what follows it has left."""

    def __init__(self, plan: OrderPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state)

    def advance(self, arrivals: list[Arrivals], marks: list[int | None]) -> None:
        """Give out what the mark has passed, hold the rest."""
        (rows,), (before,), (after,) = arrivals, self.marks, marks
        late = rows.dead | (rows.ticks < (MIN if before is None else before))
        self.account(0, rows, late)
        self.marks = marks
        limit, store = MIN if after is None else after, self.stores[0]
        held = rows.ticks >= limit
        ready = [*store.cut(limit, wanted=True), rows.kept(~late & ~held)]
        store.add(rows.kept(~late & held))
        self.give(Kept.together(ready).in_order().table.drop_columns([TICK]))
