"""Filled results: estimates of dropped windows, interpolated between neighbouring finals (DROP 6).

A filled row is emitted once both neighbouring finals are known. The error bound is learned from
windows that were not dropped: each final is compared with the line between its own neighbours.
Results are modelled as a random walk. Between finals of windows 0 and n, the expected distance of
window d from the line is √(d·(n − d)/n) times the usual change from one window to the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.control.measures import EpochMeasure, GapMemory
from lowwater.dataflow.graph import Dataflow
from lowwater.engine.entry import Entry
from lowwater.intervals import Intervals
from lowwater.operators.packet import Packet, measure_packet, table_packet, tables
from lowwater.operators.window.plan import NAME, WindowPlan
from lowwater.planner.early_columns import HIDDEN
from lowwater.shedding.drop_geometry import window_runs
from lowwater.shedding.shedder import LoadShedder
from lowwater.windows.sliding import Sliding

ERROR = HIDDEN + "error"
"""The hidden column with the error bounds of filled values."""
GROUPS = 2_000
"""The largest number of groups with filled results; the log stores each group's last finals."""
MEMORY = 0.95
"""The factor by which the weight of earlier errors shrinks with each new error."""


def filled(
    shedder: LoadShedder | None, before: Entry, flow: Dataflow, packets: Sequence[Packet]
) -> list[Packet]:
    """Return packets with the filled rows of an epoch, and with the finals to remember."""
    if shedder is None or not shedder.how.fill:
        return []
    known = {} if before.shed is None else before.shed.finals
    fills: list[Packet] = []
    kept: dict[int, GapMemory] = {}
    for operator in sorted({o.operator for o in flow.outputs}):
        gaps = _Gaps(flow, operator, before.standing.dropped.of(operator))
        memory = known.get(operator, GapMemory())
        finals = tables([p for p in packets if p.operator == operator], "results")
        all_finals = [row for t in finals for row in t.to_pylist()]
        rows, kept[operator] = gaps.fill(memory, all_finals)
        if rows:
            packet = table_packet("filled", 0, 0, gaps.table(rows))
            fills.append(replace(packet, operator=operator))
    return [*fills, measure_packet(0, 0, EpochMeasure(finals=kept))]


@dataclass(frozen=True)
class _Gaps:
    """The dropped windows of an operator, and the results that fill them."""

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
        return self.plan.numeric_aggregates

    def spec(self, row: Mapping[str, Any]) -> Sliding:
        return dict(self.plan.fixed_windows)[row.get(NAME, "")]

    def fill(
        self, memory: GapMemory, finals: list[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], GapMemory]:
        """Return (rows that fill the gaps before an epoch's finals, memory after the epoch)."""
        groups, error = dict(memory.groups), dict(memory.error)
        fills: list[dict[str, Any]] = []
        for row in sorted(finals, key=lambda r: r["wid"]):
            named = {k: row[k] for k in (*([NAME] if self.plan.several else []), *self.plan.keys)}
            name = json.dumps(list(named.values()), default=str)
            past = groups.pop(name, ())
            values = [row[v] for v in self.values]
            now = row["wid"], tuple([None if v is None else float(v) for v in values])
            if past:
                fills += self._between(row, named, past[-1], now, error)
            if len(past) > 1:
                self._learn(error, past[-2], past[-1], now)
            groups[name] = (*past[-1:], now)
        newest = dict(list(groups.items())[-GROUPS:])
        return fills, GapMemory(newest, error)

    def _between(
        self,
        row: Mapping[str, Any],
        named: Mapping[str, Any],
        first: Sequence[Any],
        last: Sequence[Any],
        error: Mapping[str, tuple[float, float]],
    ) -> list[dict[str, Any]]:
        """Return the filled rows of the dropped windows between the finals `first` and `last`."""
        span, fills = last[0] - first[0], []
        for start, end in window_runs(self.spec(row), self.dropped):
            for wid in range(max(first[0] + 1, start), min(last[0], end)):
                at = wid - first[0]
                line = _line(first[1], last[1], at / span)
                off = {v: _usual(error.get(v)) * _stray(at, span) for v in self.values}
                values = dict(zip(self.values, line, strict=True))
                fills.append({**named, **values, "wid": wid, "kind": "filled", ERROR: off})
        return fills

    def _learn(
        self,
        error: dict[str, tuple[float, float]],
        first: Sequence[Any],
        middle: Sequence[Any],
        last: Sequence[Any],
    ) -> None:
        """Add to `error` the distance of `middle` from the line between `first` and `last`."""
        at, span = middle[0] - first[0], last[0] - first[0]
        line = _line(first[1], last[1], at / span)
        for name, guess, value in zip(self.values, line, middle[1], strict=True):
            if guess is not None and value is not None:
                total, weight = error.get(name, (0.0, 0.0))
                off = abs(value - guess) / _stray(at, span)
                error[name] = MEMORY * total + off, MEMORY * weight + 1

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Return filled rows as a table of results, with the column of error bounds."""
        plan = self.plan
        columns = []
        for field in plan.result_schema:
            if field.name == "window":
                ends = [(self.spec(r).start(r["wid"]), self.spec(r).end(r["wid"])) for r in rows]
                sides = zip(*ends, strict=True)
                bounds = [plan.bounds.from_ticks(np.array(side)) for side in sides]
                columns.append(pa.StructArray.from_arrays(bounds, fields=list(field.type)))
            else:
                columns.append(_column([r.get(field.name) for r in rows], field.type))
        bounds = pa.array([r[ERROR] for r in rows], error_type(self.values))
        return pa.table(columns, schema=plan.result_schema).append_column(ERROR, bounds)


def error_type(values: Sequence[str]) -> pa.DataType:
    """Return the type of the column of error bounds: a struct with a number per aggregate."""
    return pa.struct([(name, pa.float64()) for name in values])


def _line(
    first: Sequence[float | None], last: Sequence[float | None], part: float
) -> list[float | None]:
    pairs = zip(first, last, strict=True)
    return [None if a is None or b is None else a + part * (b - a) for a, b in pairs]


def _stray(at: int, span: int) -> float:
    return sqrt(at * (span - at) / span)


def _usual(error: Sequence[float] | None) -> float:
    """Return the mean of `error`, a pair (weighted sum, weight); NaN before the first error."""
    return float("nan") if error is None or not error[1] else error[0] / error[1]


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return `values` as an array of type `kind`; values of an integer type are rounded."""
    if pa.types.is_integer(kind):
        values = [None if v is None else round(v) for v in values]
    if pa.types.is_decimal(kind):
        return pa.array(values, pa.float64()).cast(kind, safe=False)
    return pa.array(values, kind)
