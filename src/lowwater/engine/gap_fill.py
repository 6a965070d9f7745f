"""Filled results: estimates of dropped windows, interpolated between neighbouring finals (DROP 6).

A filled row is emitted once both neighbouring finals are known. What it may be off by is learned
from windows that were not dropped: each final is compared with the line between its own neighbours.
Results are modelled as a random walk. Between finals of windows 0 and n, the distance of window d
from the line is √(d·(n − d)/n) times that of a single window. Like an early value, a filled value
is the median of the distribution of its final, `low` and `high` are quantiles of it, and `settled`
is the probability that the final is the filled value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan, sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.control.measures import EpochMeasure, GapMemory
from lowwater.dataflow.graph import Dataflow
from lowwater.engine.entry import Entry
from lowwater.intervals import Intervals
from lowwater.operators.packet import Packet, measure_packet, table_packet, tables
from lowwater.operators.window.plan import NAME, WindowPlan
from lowwater.planner.early_columns import FILLED, HIDDEN
from lowwater.shedding.drop_geometry import window_runs
from lowwater.shedding.shedder import LoadShedder
from lowwater.windows.sliding import Sliding

KNOWN = tuple(HIDDEN + name for name in FILLED)
"""The hidden columns with the interval of a filled value, and the probability that it is right."""
LEVELS = (0.05, 0.5, 0.95)
"""The levels of `low`, of the value and of `high`."""
GROUPS = 2_000
"""The largest number of groups with filled results; the log stores each group's last finals."""
REMEMBERED = 400
"""The number of distances from the line that are remembered for each aggregate."""


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
        error: Mapping[str, tuple[float, ...]],
    ) -> list[dict[str, Any]]:
        """Return the filled rows of the dropped windows between the finals `first` and `last`."""
        span, fills = last[0] - first[0], []
        if span == 1:
            return []
        off = [_quantiles(error.get(name, ())) for name in self.values]
        for start, end in window_runs(self.spec(row), self.dropped):
            for wid in range(max(first[0] + 1, start), min(last[0], end)):
                at = wid - first[0]
                line = _line(first[1], last[1], at / span)
                found = self._distribution(line, off, _stray(at, span), error)
                fills.append({**named, **found, "wid": wid, "kind": "filled"})
        return fills

    def _distribution(
        self,
        line: Sequence[float | None],
        off: Sequence[Sequence[float]],
        stray: float,
        error: Mapping[str, tuple[float, ...]],
    ) -> dict[str, Any]:
        """Return the values of a filled row, and the columns of what is known about them."""
        by_name = {
            name: [None if value is None else value + stray * end for end in ends]
            for name, value, ends in zip(self.values, line, off, strict=True)
        }
        low, high = ({n: ends[side] for n, ends in by_name.items()} for side in (0, 2))
        values = {n: ends[1] for n, ends in by_name.items()}
        settled = {
            name: None if guess is None else self._settled(name, guess, stray, error.get(name, ()))
            for name, guess in zip(self.values, line, strict=True)
        }
        return {**values, **dict(zip(KNOWN, (low, high, settled), strict=True))}

    def _settled(
        self, name: str, guess: float, stray: float, errors: Sequence[float]
    ) -> float | None:
        """Return the share of past distances with which the final is the filled value."""
        if not errors:
            return None
        finals, middle = guess + stray * np.array(errors), guess + stray * _quantiles(errors)[1]
        whole = pa.types.is_integer(self.plan.result_schema.field(name).type)
        size = 0.5 if whole else 1e-9 * max(abs(middle), 1e-300)
        return float(np.mean(np.abs(finals - (round(middle) if whole else middle)) <= size))

    def _learn(
        self,
        error: dict[str, tuple[float, ...]],
        first: Sequence[Any],
        middle: Sequence[Any],
        last: Sequence[Any],
    ) -> None:
        """Add to `error` the distance of `middle` from the line between `first` and `last`."""
        at, span = middle[0] - first[0], last[0] - first[0]
        line = _line(first[1], last[1], at / span)
        for name, guess, value in zip(self.values, line, middle[1], strict=True):
            if guess is not None and value is not None:
                off = float(f"{(value - guess) / _stray(at, span):.6g}")
                error[name] = (*error.get(name, ()), off)[-REMEMBERED:]

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Return filled rows as a table of results, with the columns of their intervals."""
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
        table = pa.table(columns, schema=plan.result_schema)
        kind = pa.struct([(name, pa.float64()) for name in self.values])
        emitted: list[dict[str, Any]] = table.select(self.values).to_pylist()
        for name, side in zip(KNOWN[:2], (min, max), strict=True):
            both = zip(rows, emitted, strict=True)
            around = [_around(r[name], values, side) for r, values in both]
            table = table.append_column(name, pa.array(around, kind))
        return table.append_column(KNOWN[2], pa.array([r[KNOWN[2]] for r in rows], kind))


def _around(
    ends: Mapping[str, float | None], values: Mapping[str, Any], side: Callable[..., float]
) -> dict[str, float | None]:
    """Return interval ends that hold the emitted values, which may be rounded; None if unknown."""
    return {
        name: None if end is None or isnan(end) else side(end, float(values[name]))
        for name, end in ends.items()
    }


def _line(
    first: Sequence[float | None], last: Sequence[float | None], part: float
) -> list[float | None]:
    pairs = zip(first, last, strict=True)
    return [None if a is None or b is None else a + part * (b - a) for a, b in pairs]


def _stray(at: int, span: int) -> float:
    return sqrt(at * (span - at) / span)


def _quantiles(errors: Sequence[float]) -> list[float]:
    """Return the quantiles of past distances from the line; before the first, the line alone."""
    if not errors:
        return [nan, 0.0, nan]
    return [float(q) for q in np.quantile(errors, LEVELS, method="weibull")]


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return `values` as an array of type `kind`; values of an integer type are rounded."""
    if pa.types.is_integer(kind):
        values = [None if v is None else round(v) for v in values]
    if pa.types.is_decimal(kind):
        return pa.array(values, pa.float64()).cast(kind, safe=False)
    return pa.array(values, kind)
