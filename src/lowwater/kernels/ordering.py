"""Order: rows wait until the mark has passed them, then leave by (time, arrival).

What total order costs is plain to see here: every row waits as long as the slowest may take, and
one shard sees them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from lowwater.control import Marks
from lowwater.kernels.bands import MIN
from lowwater.kernels.row_buckets import Kept
from lowwater.kernels.row_epoch import Arrivals, RowEpoch, late_schema
from lowwater.kernels.rows import TICK
from lowwater.windows import Axis


@dataclass(frozen=True)
class OrderPlan:
    """A stream in the order of its axis, rows of equal time as they arrived."""

    schema: pa.Schema
    axis: Axis
    shards: int = 1
    word: ClassVar[str] = "order"
    ports: ClassVar[int] = 1
    rounds_marks: ClassVar[bool] = False
    sequential: ClassVar[bool] = True
    shard_keys: ClassVar[tuple[tuple[str, ...], ...]] = ((),)

    def with_shards(self, shards: int) -> OrderPlan:
        """Return the plan for one shard: an order can have no more."""
        return replace(self, shards=1)

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of the stream."""
        return (self.schema,)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The attribute that the stream progresses on."""
        return (self.axis,)

    @property
    def result_schema(self) -> pa.Schema:
        """Rows leave as they came."""
        return self.schema

    @cached_property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row."""
        return (late_schema(self.schema),)

    def align(self, port: int, mark: int) -> int:
        """Every mark may set rows free."""
        return mark

    def usable(self, port: int, marks: Marks) -> Marks:
        """Return the mark that holds for all rows."""
        return Marks(marks.low)

    def marks_out(self, ports: Sequence[Marks]) -> Mapping[str, Marks]:
        """Return the mark of the rows still to leave."""
        return {self.axis.column: Marks(self.mark_out(ports[0].low))}

    def explain(self) -> list[str]:
        """Say what leaves, and what is kept for how long."""
        return [
            f"order       by {self.axis.column}, then arrival",
            "state       rows, until the mark has passed them",
            "shards      one, since order is total",
        ]

    def mark_out(self, mark: int | None) -> int | None:
        """Return what is known of the rows still to leave: they have not passed the mark."""
        return mark


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
