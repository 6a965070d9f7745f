"""The columns of results on the live page: group keys, and numbers that the chart draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.dataflow.graph import Dataflow
from lowwater.engine.outputs import OutputWriter, output_writers
from lowwater.planner.early_columns import KNOWN
from lowwater.sinks.console import HIDDEN, show, show_in_row
from lowwater.ticks import TICKS_PER_SECOND
from lowwater.ui.plan_svg import picture

APART = frozenset({"window", "wid", "kind", *KNOWN})
"""Columns of results that are neither group keys nor values."""


@dataclass(frozen=True)
class QueryColumns:
    """The columns and properties of a query that its page shows, and the title of the page."""

    flow: Dataflow
    early: bool
    controls: bool
    title: str
    sheds: bool = False

    @cached_property
    def _writer(self) -> OutputWriter:
        return next(iter(output_writers(self.flow, prodded=self.early).values()))

    @cached_property
    def keys(self) -> list[str]:
        """The columns that name a group."""
        plan = self.flow.operators[self._writer.output.operator].plan
        return [k for k in plan.group_keys if k in self._writer.result_schema.names]

    @cached_property
    def values(self) -> list[str]:
        """The columns of numbers, which the chart draws."""
        apart = APART | set(self.keys)
        schema = self._writer.result_schema
        return [f.name for f in schema if f.name not in apart and is_number(f.type)]

    @cached_property
    def timed(self) -> bool:
        """Whether windows are intervals of time, not of numbers."""
        return self.flow.inputs[0].axis.kind == "time"

    @cached_property
    def windowed(self) -> bool:
        """Whether results have windows."""
        schema = self._writer.result_schema
        return "window" in schema.names and pa.types.is_struct(schema.field("window").type)

    @cached_property
    def slide(self) -> float:
        """The smallest slide of the windows, in seconds if `timed`; 0 if no slide is fixed."""
        plan = self.flow.operators[self._writer.output.operator].plan
        return min((window.slide for _, window in plan.fixed_windows), default=0) / self._scale

    @property
    def _scale(self) -> int:
        """The number of ticks in a second or, if not `timed`, in the number 1."""
        return TICKS_PER_SECOND if self.timed else self.flow.inputs[0].axis.per_unit

    def about(self) -> dict[str, Any]:
        """Return the properties of the query that do not change during a run."""
        return {
            "title": self.title,
            "keys": self.keys,
            "values": self.values if self.windowed else [],
            "timed": self.timed,
            "early": self.early,
            "sheds": self.sheds,
            "controls": self.controls,
            "picture": picture(self.flow),
        }

    def point(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a result as a point of the chart; None if it has no window."""
        window = row.get("window") if self.windowed else None
        if window is None or window["end"] is None:
            return None
        ends = row.get("low") or {}, row.get("high") or {}
        return {
            "group": self.group(row),
            "start": position(window["start"]),
            "end": position(window["end"]),
            "kind": row["kind"] if row.get("kind") in ("early", "filled") else "final",
            "values": {n: _drawn(row[n]) for n in self.values},
            "intervals": {n: [_drawn(e.get(n)) for e in ends] for n in self.values if n in ends[0]},
        }

    def group(self, row: Mapping[str, Any]) -> str:
        """Return the name of a row's group."""
        return ", ".join(show(row[k]) for k in self.keys)

    def table_row(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return a result as {column: text}, for the table of results."""
        return {name: show_in_row(row, name) for name in row if name not in HIDDEN}

    def late_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a late row for the table of late rows: late degree, missed windows, columns."""
        degree, missed = row.get("late_degree"), row.get("missed")
        apart = {"late_degree", "missed", "admitted"}
        rest = [f"{n} {show(v)}" for n, v in row.items() if v is not None and n not in apart]
        return {
            "late by": None if degree is None else degree / self._scale,
            "missed": show(missed) if isinstance(missed, dict) else "",
            "partly": bool(row.get("admitted")),
            "row": ", ".join(rest),
        }


def position(value: Any) -> float:
    """Return a time or a duration in seconds, and a number unchanged."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.timestamp() if isinstance(value, datetime) else float(value)


def _drawn(value: Any) -> float | None:
    """Return a value as a number; None for NaN and infinity, which cannot be drawn."""
    number = None if value is None else float(value)
    return number if number is not None and number - number == 0 else None


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of the type `kind` are numbers, which a chart can show."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
