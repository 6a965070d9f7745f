"""What the rows of a query are to the page: which columns name a group, which are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.kernels import Dataflow, WindowPlan
from lowwater.query import Leaving, leaving
from lowwater.query.early_columns import KNOWN
from lowwater.sinks.console import show
from lowwater.ui.picture import picture
from lowwater.windows import Shared, Sliding

APART = frozenset({"window", "wid", "kind", *KNOWN})
"""Columns of results that are neither groups nor values."""
_TICKS = 1_000_000


@dataclass(frozen=True)
class Described:
    """A query, as the page needs to know it; `title` is what the page is called."""

    flow: Dataflow
    prodded: bool
    controls: bool
    title: str
    sheds: bool = False

    @cached_property
    def _way(self) -> Leaving:
        return next(iter(leaving(self.flow, prodded=self.prodded).values()))

    @cached_property
    def keys(self) -> list[str]:
        """The columns that name a group."""
        plan = self.flow.operators[self._way.output.operator].plan
        keys = plan.keys if isinstance(plan, WindowPlan) else ()
        return [k for k in keys if k in self._way.result_schema.names]

    @cached_property
    def values(self) -> list[str]:
        """The columns that can be drawn."""
        apart = APART | set(self.keys)
        schema = self._way.result_schema
        return [f.name for f in schema if f.name not in apart and is_number(f.type)]

    @cached_property
    def timed(self) -> bool:
        """Whether windows lie over time."""
        return self.flow.inputs[0].axis.kind == "time"

    @cached_property
    def windowed(self) -> bool:
        """Whether results have windows."""
        schema = self._way.result_schema
        return "window" in schema.names and pa.types.is_struct(schema.field("window").type)

    @cached_property
    def slide(self) -> float:
        """How far the ends of windows are apart, as the page counts."""
        plan = self.flow.operators[self._way.output.operator].plan
        spec = plan.spec if isinstance(plan, WindowPlan) else None
        several = [w for _, w in spec.named] if isinstance(spec, Shared) else [spec]
        slides = [w.slide for w in several if isinstance(w, Sliding)]
        return min(slides, default=0) / (_TICKS if self.timed else self._per_unit)

    @property
    def _per_unit(self) -> int:
        return self.flow.inputs[0].axis.per_unit

    def about(self) -> dict[str, Any]:
        """Return what does not change while a run goes on."""
        return {
            "title": self.title,
            "keys": self.keys,
            "values": self.values if self.windowed else [],
            "timed": self.timed,
            "prodded": self.prodded,
            "sheds": self.sheds,
            "controls": self.controls,
            "picture": picture(self.flow),
        }

    def point(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a result as a point of the chart."""
        window = row.get("window") if self.windowed else None
        if window is None or window["end"] is None:
            return None
        low, high = row.get("low") or {}, row.get("high") or {}
        values = {n: _drawn(row[n]) for n in self.values}
        intervals = {n: [_drawn(low.get(n)), _drawn(high.get(n))] for n in self.values if n in low}
        return {
            "group": self.group(row),
            "start": position(window["start"]),
            "end": position(window["end"]),
            "kind": row["kind"] if row.get("kind") in ("early", "filled") else "final",
            "values": values,
            "intervals": intervals,
        }

    def group(self, row: Mapping[str, Any]) -> str:
        """Return the name of a row's group."""
        return ", ".join(show(row[k]) for k in self.keys)

    def listed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result as a line of the table: texts, by column."""
        hidden = {"wid", "expected_accuracy", "low", "high"}
        return {n: self._text(n, v, row) for n, v in row.items() if n not in hidden}

    def _text(self, name: str, value: Any, row: Mapping[str, Any]) -> str:
        if name == "completeness":
            return "" if value is None else f"{value:.0%}"
        low, high = row.get("low") or {}, row.get("high") or {}
        if low.get(name) is not None and high.get(name) is not None:
            return f"{show(value)} ({low[name]:.4g} – {high[name]:.4g})"
        return show(value)

    def late_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a late row as a line of its table: how late, what it missed, and the row."""
        degree, missed = row.get("late_degree"), row.get("missed")
        rest = {
            n: show(v)
            for n, v in row.items()
            if v is not None and n not in {"late_degree", "missed", "admitted"}
        }
        scale = _TICKS if self.timed else self._per_unit
        return {
            "late by": None if degree is None else degree / scale,
            "missed": "" if not isinstance(missed, dict) else _stretch(missed),
            "partly": bool(row.get("admitted")),
            "row": ", ".join(f"{n} {v}" for n, v in rest.items()),
        }


def _stretch(missed: Mapping[str, Any]) -> str:
    return show({"start": missed["start"], "end": missed["end"]})


def position(value: Any) -> float:
    """Return a position or a length on an axis: seconds of time, a number as it is."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.timestamp() if isinstance(value, datetime) else float(value)


def _drawn(value: Any) -> float | None:
    """Return a value that can be drawn; NaN and infinity cannot."""
    found = None if value is None else float(value)
    return found if found is not None and found - found == 0 else None


def is_number(kind: pa.DataType) -> bool:
    """Say whether values of a type can be drawn."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
