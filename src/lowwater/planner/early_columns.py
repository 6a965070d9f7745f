"""Extra result columns of queries that emit early results."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lowwater.dataflow.graph import Dataflow
from lowwater.operators.late import free

KIND = "kind"
KNOWN = ("completeness", "expected_accuracy", "low", "high", "settled")
"""Columns with the completeness of an early row, its expected accuracy, the interval of its final,
and the probability that its values so far are final."""
HIDDEN = "__"
"""The prefix that the columns of KNOWN have inside the dataflow."""


@dataclass(frozen=True)
class EarlyColumns:
    """The extra result columns of a query that emits early results."""

    schema: pa.Schema
    """The columns of the results without the extra columns."""
    numbers: tuple[str, ...]
    """The names of the aggregates that are numbers."""

    @classmethod
    def of(cls, flow: Dataflow, operator: int, schema: pa.Schema) -> EarlyColumns:
        """Return the extra columns for results of `operator` with the columns `schema`."""
        return cls(schema, flow.operators[operator].plan.numeric_aggregates)

    @property
    def fields(self) -> list[pa.Field]:
        """The extra columns, with names that are not in `schema`."""
        each = pa.struct([(name, pa.float64()) for name in self.numbers])
        types = (pa.float64(), *([each] * (len(KNOWN) - 1)))
        known = [pa.field(free(n, self.schema.names), t) for n, t in zip(KNOWN, types, strict=True)]
        label = [] if KIND in self.schema.names else [pa.field(KIND, pa.string())]
        return [*label, *(known if self.numbers else known[:1])]

    def added(self, rows: pa.Table, known: pa.Table | None) -> pa.Table:
        """Return `rows` with the extra columns from `known`, or with NULLs if `known` is None."""
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
        """The names of the extra columns inside the dataflow."""
        return [HIDDEN + name for name in (KNOWN if self.numbers else KNOWN[:1])]
