"""Extra result columns of queries that emit early results."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lowwater.dataflow.graph import Dataflow
from lowwater.operators.late import free

KIND = "kind"
KNOWN = ("completeness", "expected_accuracy", "low", "high")
"""Columns with the completeness, the expected accuracy and the interval of an early row."""
HIDDEN = "__"
"""Prefix of their names inside the dataflow."""


@dataclass(frozen=True)
class EarlyColumns:
    """Extra result columns of queries that emit early results."""

    schema: pa.Schema
    """The columns of the results without them."""
    numbers: tuple[str, ...]
    """The aggregates that are numbers."""

    @classmethod
    def of(cls, flow: Dataflow, operator: int, schema: pa.Schema) -> EarlyColumns:
        """Return the columns of results that leave from an operator as `schema`."""
        return cls(schema, flow.operators[operator].plan.numeric_aggregates)

    @property
    def fields(self) -> list[pa.Field]:
        """The columns, under names that are free."""
        each = pa.struct([(name, pa.float64()) for name in self.numbers])
        types = (pa.float64(), *([each] * 3))
        known = [pa.field(free(n, self.schema.names), t) for n, t in zip(KNOWN, types, strict=True)]
        label = [] if KIND in self.schema.names else [pa.field(KIND, pa.string())]
        return [*label, *(known if self.numbers else known[:1])]

    def added(self, rows: pa.Table, known: pa.Table | None) -> pa.Table:
        """Return rows with these columns, which are NULL in finals."""
        for field in self.fields:
            if field.name == KIND:
                label = "final" if known is None else "early"
                column = pa.repeat(pa.scalar(label), len(rows))
            elif known is None:
                column = pa.nulls(len(rows), field.type)
            else:
                column = known.column(HIDDEN + field.name.rstrip("_"))
            rows = rows.append_column(field, column)
        return rows

    @property
    def hidden(self) -> list[str]:
        """The names of these columns inside the dataflow."""
        return [HIDDEN + name for name in (KNOWN if self.numbers else KNOWN[:1])]
