"""Rows as a table on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater.errors import SinkError
from lowwater.sinks.sink import Sink

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Console(Sink):
    """Prints the first rows of each epoch."""

    rows: int = 20

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        from rich.console import Console as Screen

        title = f"epoch {epoch}: {len(rows):,} row{'' if len(rows) == 1 else 's'}"
        try:
            Screen().print(as_table(rows.slice(0, self.rows), title=title))
        except SystemExit as closed:
            # rich would end the program; a thread of Spark's that ends so is waited for for ever.
            raise SinkError("console(): nobody reads standard output any more") from closed


def as_table(rows: pa.Table, *, title: str) -> Table:
    """Lay rows out for the screen."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for field in rows.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if number else "left")
    for row in rows.to_pylist():
        table.add_row(*(show(v) for v in row.values()))
    return table


def show(value: Any) -> str:
    """Return a value as a person would write it."""
    if isinstance(value, dict) and set(value) >= {"start", "end"}:
        return f"[{show(value['start'])}, {show(value['end'])})"
    if isinstance(value, float):
        return f"{value:.6g}"
    if hasattr(value, "replace") and hasattr(value, "tzinfo"):
        return f"{value.replace(tzinfo=None)}"
    return "NULL" if value is None else str(value)


def console(*, rows: int = 20) -> Console:
    """Print the first `rows` result rows of every epoch."""
    return Console(rows)
