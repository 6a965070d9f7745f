"""Hold: the rows of a burst wait in state until they are released (PROD 6.2).

The watermark in force at a row's arrival is stored with the row. The row missed the windows that
were closed at that time; it misses no more windows by waiting. Rows are released by held interval
and, within an interval, in arrival order. So the windows receive the rows of a pane in the same
order as without a hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lowwater.control.measures import ShardMeasure
from lowwater.control.message import ControlMessage
from lowwater.control.watermark import Watermarks, latest
from lowwater.operators.batch import BEHIND, DEAD, STRETCH, TICK
from lowwater.operators.kernel import META, Step, register
from lowwater.operators.packet import Packet, measure_packet, table_of, table_packet
from lowwater.operators.row_store import RowStore, StoredRows
from lowwater.operators.unary import UnaryPlan
from lowwater.ticks import END, FIRST_TICK
from lowwater.windows.sliding import Sliding

_PER_INTERVAL = 1 << 40
"""The number of places in the store for one held interval; no interval has more rows."""


@dataclass(frozen=True)
class HoldPlan(UnaryPlan):
    """The plan of a hold: some rows wait in state on their way to the windows `spec`.

    The columns `keys` choose the shard in which a row waits. If they are the keys of the windows,
    the rows of a group stay in order.
    """

    spec: Sliding
    keys: tuple[str, ...]
    shards: int = 2
    word: ClassVar[str] = "hold"
    rounds_marks: ClassVar[bool] = True

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns that choose the shard in which a row waits."""
        return (self.keys,)

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """An empty tuple, since a hold emits no late rows."""
        return ()

    def usable(self, port: int, marks: Watermarks) -> Watermarks:
        """Return the watermark of all rows, rounded down to the end of a window."""
        return Watermarks(marks.low).mapped(lambda m: m if m >= END else self.spec.align(m))

    def explain(self) -> list[str]:
        """Return one line that describes the state."""
        return ["hold        rows that are held, until they are released"]


@register(HoldPlan)
class HoldKernel:
    """One epoch of one shard of a hold: it emits released rows, then holds the new rows."""

    def __init__(self, plan: HoldPlan, shard: int, state: Mapping[str, bytes]) -> None:
        self.plan, self.shard, self.out = plan, shard, Step()
        meta: dict[str, Any] | None = json.loads(state[META]) if META in state else None
        self.watermark: int | None = meta["mark"] if meta else None
        self.waiting: dict[int, tuple[int, int]] = {
            int(n): (first, end) for n, first, end in (meta["waiting"] if meta else ())
        }
        """{number of a held interval: the places (first, end) of its waiting rows}."""
        self.rows = RowStore(0, state, self.out.changes, meta["rows"] if meta else None)

    def run(self, packets: Sequence[Packet]) -> Step:
        """Release rows, hold new rows, raise the watermark, and return changes and emissions."""
        control = [ControlMessage.from_bytes(p.payload) for p in packets if p.kind == "control"]
        released = self._release(sum(c.release.get(self.shard, 0) for c in control))
        tables = [table_of(p) for p in packets if p.kind == "rows"]
        numbers = [self._hold(table) for table in tables]
        self.watermark = latest(self.watermark, *(c.marks.low for c in control))
        waiting = [[n, first, end] for n, (first, end) in sorted(self.waiting.items())]
        meta = {"mark": self.watermark, "waiting": waiting, "rows": self.rows.to_json()}
        self.out.changes[META] = json.dumps(meta).encode()
        held = np.unique(np.concatenate([np.zeros(0, np.int64), *numbers]), return_counts=True)
        counts = {"admitted": sum(map(len, tables)), "results": released}
        pairs = tuple(map(tuple, np.stack(held, axis=1).tolist()))
        measure = ShardMeasure(self.shard, self.rows.rows, self.rows.size, counts, held=pairs)
        self.out.emissions.append(measure_packet(self.shard, 0, measure))
        return self.out

    def _release(self, count: int) -> int:
        """Emit the first `count` waiting rows, or all if fewer wait, and return how many."""
        left, limit = count, None
        for number, (first, end) in sorted(self.waiting.items()):
            if not left:
                break
            taken = min(left, end - first)
            left -= taken
            limit = number * _PER_INTERVAL + first + taken
            self.waiting[number] = (first + taken, end)
        self.waiting = {n: (first, end) for n, (first, end) in self.waiting.items() if first < end}
        released = [] if limit is None else self.rows.cut(limit, wanted=True)
        if released:
            rows = StoredRows.together(released).in_order().table.drop_columns([TICK, STRETCH])
            self.out.emissions.append(table_packet("results", self.shard, 0, rows))
        return count - left

    def _hold(self, table: pa.Table) -> np.ndarray:
        """Store the rows of `table`, and return the number of each row's held interval."""
        number = table.column(STRETCH).combine_chunks().to_numpy()
        place = np.zeros(len(number), np.int64)
        for n in np.unique(number).tolist():
            mine = number == n
            first, end = self.waiting.get(n, (0, 0))
            place[mine] = n * _PER_INTERVAL + end + np.arange(mine.sum())
            self.waiting[n] = (first, end + int(mine.sum()))
        dead = table.column(DEAD).combine_chunks().to_numpy(zero_copy_only=False)
        behind = np.where(dead, END, FIRST_TICK if self.watermark is None else self.watermark)
        held = table.drop_columns([TICK, DEAD]).append_column(BEHIND, pa.array(behind))
        self.rows.add(StoredRows.of(held.append_column(TICK, pa.array(place))))
        return np.asarray(number)
