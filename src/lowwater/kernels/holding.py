"""Hold: rows that are put aside, as they came, until they are called (PROD 6.2).

A row waits with the mark that was in force when it came: what it has missed by then it has missed,
and nothing else, however long it waits. Rows leave by stretch, within one in order of arrival. So
what an operator gets of one pane, it gets in the order in which it would have got it at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lowwater.control import Control, Marks
from lowwater.kernels.aggregate import META, Step
from lowwater.kernels.one_stream import OneStream
from lowwater.kernels.packets import Packet, measure_packet, table_of, table_packet
from lowwater.kernels.row_buckets import Kept, RowBuckets
from lowwater.kernels.rows import BEHIND, DEAD, STRETCH, TICK
from lowwater.windows import FOREVER, Sliding

_BEFORE_ALL = np.iinfo(np.int64).min
_PER_STRETCH = 1 << 40
"""Rows of a stretch that can be told apart, in all shards together more than fit anywhere."""


@dataclass(frozen=True)
class HoldPlan(OneStream):
    """Rows on their way to windows, some of which are put aside.

    `keys` say in which shard a row waits: where they are those of the windows, rows of a group stay
    in order.
    """

    spec: Sliding
    keys: tuple[str, ...]
    shards: int = 2
    word: ClassVar[str] = "hold"
    rounds_marks: ClassVar[bool] = True

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns that say in which shard a row waits."""
        return (self.keys,)

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """No row is late here: whether it is, the windows say."""
        return ()

    def with_shards(self, shards: int) -> HoldPlan:
        """Return the plan for so many shards."""
        return replace(self, shards=shards)

    def usable(self, port: int, marks: Marks) -> Marks:
        """Return the mark as the windows can use it."""
        del port
        return Marks(marks.low).mapped(lambda m: m if m >= FOREVER else self.spec.align(m))

    def explain(self) -> list[str]:
        """Say what is kept for how long."""
        return ["hold        rows that are put aside, until they are worked off"]


class HoldEpoch:
    """One epoch of one shard: rows that are called leave, then those that came are put aside."""

    def __init__(self, plan: HoldPlan, shard: int, state: Mapping[str, bytes]) -> None:
        self.plan, self.shard, self.out = plan, shard, Step()
        kept: dict[str, Any] | None = json.loads(state[META]) if META in state else None
        self.mark: int | None = kept["mark"] if kept else None
        self.waiting: dict[int, tuple[int, int]] = {
            int(n): (first, end) for n, first, end in (kept["waiting"] if kept else ())
        }
        """The rows that wait, by stretch: from which number to before which."""
        self.rows = RowBuckets(0, state, self.out.changes, kept["rows"] if kept else None)

    def run(self, packets: Sequence[Packet]) -> Step:
        """Give out what is called, put aside what came, then let the mark rise."""
        control = [Control.from_bytes(p.payload) for p in packets if p.kind == "control"]
        released = self._release(sum(c.release.get(self.shard, 0) for c in control))
        came = [table_of(p) for p in packets if p.kind == "rows"]
        numbers = [self._put_aside(table) for table in came]
        lows = [c.marks.low for c in control if c.marks.low is not None]
        if lows:
            self.mark = max([*lows, *([] if self.mark is None else [self.mark])])
        waiting = [[n, first, end] for n, (first, end) in sorted(self.waiting.items())]
        meta = {"mark": self.mark, "waiting": waiting, "rows": self.rows.to_json()}
        self.out.changes[META] = json.dumps(meta).encode()
        stretches = np.unique(np.concatenate([np.zeros(0, np.int64), *numbers]), return_counts=True)
        measures = {
            "shard": self.shard,
            "cells": self.rows.rows,
            "bytes": self.rows.size,
            "admitted": sum(map(len, came)),
            "results": released,
            "came": np.stack(stretches, axis=1).tolist(),
        }
        self.out.emissions.append(measure_packet(self.shard, 0, measures))
        return self.out

    def _release(self, called: int) -> int:
        """Give out the rows that wait in front; return how many."""
        left, limit = called, None
        for number, (first, end) in sorted(self.waiting.items()):
            if not left:
                break
            taken = min(left, end - first)
            left -= taken
            limit = number * _PER_STRETCH + first + taken
            self.waiting[number] = (first + taken, end)
        self.waiting = {n: (first, end) for n, (first, end) in self.waiting.items() if first < end}
        found = [] if limit is None else self.rows.cut(limit, wanted=True)
        if found:
            rows = Kept.together(found).in_order().table.drop_columns([TICK, STRETCH])
            self.out.emissions.append(table_packet("results", self.shard, 0, rows))
        return called - left

    def _put_aside(self, table: pa.Table) -> np.ndarray:
        """Put rows aside; return of which stretch each is."""
        number = table.column(STRETCH).combine_chunks().to_numpy()
        place = np.zeros(len(number), np.int64)
        for n in np.unique(number).tolist():
            mine = number == n
            first, end = self.waiting.get(n, (0, 0))
            place[mine] = n * _PER_STRETCH + end + np.arange(mine.sum())
            self.waiting[n] = (first, end + int(mine.sum()))
        dead = table.column(DEAD).combine_chunks().to_numpy(zero_copy_only=False)
        behind = np.where(dead, FOREVER, _BEFORE_ALL if self.mark is None else self.mark)
        kept = table.drop_columns([TICK, DEAD]).append_column(BEHIND, pa.array(behind))
        self.rows.add(Kept.of(kept.append_column(TICK, pa.array(place))))
        return np.asarray(number)
