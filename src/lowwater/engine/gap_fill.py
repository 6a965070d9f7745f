"""Filled gaps: dropped windows, on a line between the finals around them (DROP 6).

A filled row comes when both its neighbours are known. How far off it may be is learned from finals
that were not dropped: each is held against the line between its own neighbours. A value that
wanders strays from such a line by √(d·(n − d)/n) of its usual step, d windows from one end of n.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.dataflow.graph import Dataflow
from lowwater.engine.entry import Entry
from lowwater.intervals import Intervals
from lowwater.operators.packet import Packet, measure_packet, table_packet, tables
from lowwater.operators.window.plan import NAME, WindowPlan
from lowwater.planner.early_columns import HIDDEN
from lowwater.shedding.shedder import LoadShedder
from lowwater.windows.common_panes import Shared
from lowwater.windows.sliding import Sliding

ERROR = HIDDEN + "error"
"""The column of what a filled value may be off by, on its way."""
GROUPS = 2_000
"""The largest number of groups whose gaps are filled; the log holds their last finals."""
MEMORY = 0.95
"""What weight an error keeps when the next is known."""


def filled(
    shedder: LoadShedder | None, before: Entry, flow: Dataflow, packets: Sequence[Packet]
) -> list[Packet]:
    """Return what fills gaps that an epoch's finals end, and what is remembered of the finals."""
    if shedder is None or not shedder.how.fill:
        return []
    known: Mapping[str, Any] = {} if before.shed is None else before.shed.finals
    found, kept = [], {}
    for operator in sorted({o.operator for o in flow.outputs}):
        gaps = _Gaps(flow, operator, before.standing.dropped.of(operator))
        memory = known.get(str(operator), {"groups": {}, "error": {}})
        finals = tables([p for p in packets if p.operator == operator], "results")
        rows = gaps.fill(memory, [row for t in finals for row in t.to_pylist()])
        kept[str(operator)] = rows.memory
        if rows.filled:
            made = gaps.table(rows.filled)
            found.append(replace(table_packet("filled", 0, 0, made), operator=operator))
    return [*found, measure_packet(0, 0, {"finals": kept})]


@dataclass(frozen=True)
class _GapFill:
    filled: list[dict[str, Any]]
    memory: dict[str, Any]


@dataclass(frozen=True)
class _Gaps:
    """The gaps of an operator's results."""

    flow: Dataflow
    operator: int
    dropped: Intervals

    @property
    def plan(self) -> WindowPlan:
        plan = self.flow.operators[self.operator].plan
        assert isinstance(plan, WindowPlan)  # noqa: S101
        return plan

    @property
    def values(self) -> tuple[str, ...]:
        return self.flow.operators[self.operator].plan.numeric_aggregates

    def spec(self, row: Mapping[str, Any]) -> Sliding:
        spec = self.plan.spec
        found = dict(spec.named)[row[NAME]] if isinstance(spec, Shared) else spec
        assert isinstance(found, Sliding)  # noqa: S101
        return found

    def fill(self, memory: Mapping[str, Any], finals: list[dict[str, Any]]) -> _GapFill:
        """Take finals in, in the order of their windows; return the rows between them."""
        groups = {name: list(kept) for name, kept in memory["groups"].items()}
        error = {name: list(kept) for name, kept in memory["error"].items()}
        made: list[dict[str, Any]] = []
        for row in sorted(finals, key=lambda r: r["wid"]):
            named = {k: row[k] for k in (*([NAME] if self.plan.several else []), *self.plan.keys)}
            name = json.dumps(list(named.values()), default=str)
            past = groups.pop(name, [])
            now = [row["wid"], [_number(row[v]) for v in self.values]]
            if past:
                made += self._between(row, named, past[-1], now, error)
            if len(past) > 1:
                self._learn(error, past[-2], past[-1], now)
            groups[name] = [*past[-1:], now]
        newest = dict(list(groups.items())[-GROUPS:])
        return _GapFill(made, {"groups": newest, "error": error})

    def _between(
        self,
        row: Mapping[str, Any],
        named: Mapping[str, Any],
        first: Sequence[Any],
        last: Sequence[Any],
        error: Mapping[str, Sequence[float]],
    ) -> list[dict[str, Any]]:
        """Return the dropped windows between two finals."""
        spec, span, found = self.spec(row), last[0] - first[0], []
        for start, end in self.dropped:
            low = max(first[0] + 1, -((spec.origin + spec.range - 1 - start) // spec.slide))
            high = min(last[0], (end - 1 - (spec.origin + spec.range - 1)) // spec.slide + 1)
            for wid in range(low, high):
                at = wid - first[0]
                line = _line(first[1], last[1], at / span)
                off = {v: _usual(error.get(v)) * _stray(at, span) for v in self.values}
                values = dict(zip(self.values, line, strict=True))
                found.append({**named, **values, "wid": wid, "kind": "filled", ERROR: off})
        return found

    def _learn(
        self,
        error: dict[str, list[float]],
        first: Sequence[Any],
        middle: Sequence[Any],
        last: Sequence[Any],
    ) -> None:
        """Hold a final against the line between its neighbours."""
        at, span = middle[0] - first[0], last[0] - first[0]
        line = _line(first[1], last[1], at / span)
        for name, guess, value in zip(self.values, line, middle[1], strict=True):
            if guess is not None and value is not None:
                total, weight = error.get(name, (0.0, 0.0))
                off = abs(value - guess) / _stray(at, span)
                error[name] = [MEMORY * total + off, MEMORY * weight + 1]

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Return rows as results, and what each may be off by."""
        plan = self.plan
        columns = []
        for field in plan.result_schema:
            if field.name == "window":
                ends = [(self.spec(r).start(r["wid"]), self.spec(r).end(r["wid"])) for r in rows]
                bounds = [
                    plan.bounds.from_ticks(np.array(side)) for side in zip(*ends, strict=True)
                ]
                columns.append(pa.StructArray.from_arrays(bounds, fields=list(field.type)))
            else:
                columns.append(_column([r.get(field.name) for r in rows], field.type))
        made = pa.table(columns, schema=plan.result_schema)
        off = pa.array([r[ERROR] for r in rows], error_type(self.values))
        return made.append_column(ERROR, off)


def error_type(values: Sequence[str]) -> pa.DataType:
    """Return the type of what filled values may be off by."""
    return pa.struct([(name, pa.float64()) for name in values])


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _line(
    first: Sequence[float | None], last: Sequence[float | None], part: float
) -> list[float | None]:
    pairs = zip(first, last, strict=True)
    return [None if a is None or b is None else a + part * (b - a) for a, b in pairs]


def _stray(at: int, span: int) -> float:
    return sqrt(at * (span - at) / span)


def _usual(error: Sequence[float] | None) -> float:
    """Return the usual step of a value; nothing is known before three finals have come."""
    return float("nan") if error is None or not error[1] else error[0] / error[1]


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values in the type of a column; whole numbers are rounded."""
    if pa.types.is_integer(kind):
        values = [None if v is None else round(v) for v in values]
    if pa.types.is_decimal(kind):
        return pa.array(values, pa.float64()).cast(kind, safe=False)
    return pa.array(values, kind)
