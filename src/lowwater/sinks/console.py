"""A sink that prints rows as tables, and functions that return values as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater.errors import SinkError
from lowwater.sinks.sink import Sink

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Console(Sink):
    """A sink that prints the first `rows` rows of each epoch."""

    rows: int = 20

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        from rich.console import Console as Screen

        title = f"epoch {epoch}: {len(rows):,} row{'' if len(rows) == 1 else 's'}"
        try:
            Screen().print(as_table(rows.slice(0, self.rows), title=title))
        except SystemExit as closed:
            # rich raises SystemExit on a closed pipe; in a Spark thread, the query would hang.
            raise SinkError("to_console(): standard output is closed") from closed


def as_table(rows: pa.Table, *, title: str) -> Table:
    """Return `rows` as a table for the screen."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for field in rows.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if number else "left")
    for row in rows.to_pylist():
        table.add_row(*(show(v) for v in row.values()))
    return table


def show(value: Any) -> str:
    """Return `value` as short text: a window as [start, end), a time without its zone."""
    if isinstance(value, dict) and set(value) >= {"start", "end"}:
        return f"[{show(value['start'])}, {show(value['end'])})"
    if isinstance(value, float):
        return f"{value:.6g}"
    if hasattr(value, "replace") and hasattr(value, "tzinfo"):
        return f"{value.replace(tzinfo=None)}"
    return "NULL" if value is None else str(value)


HIDDEN = ("wid", "expected_accuracy", "low", "high", "settled")
"""Columns that tables hide, or print together with the value that they describe."""


def show_in_row(row: Mapping[str, Any], name: str) -> str:
    """Return column `name` of a result as text; the text of an early value has its interval."""
    value, low, high = row[name], row.get("low") or {}, row.get("high") or {}
    if name == "completeness":
        return "" if value is None else f"{value:.0%}"
    if low.get(name) is None or high.get(name) is None:
        return show(value)
    return f"{show(value)} ({low[name]:.4g} – {high[name]:.4g})"


def to_console(*, rows: int = 20) -> Console:
    """Return a sink that prints the first `rows` rows of every epoch."""
    return Console(rows)
