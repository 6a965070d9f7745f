"""Extra result columns of queries that emit early results."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from lowwater.dataflow.graph import Dataflow
from lowwater.operators.late import free

KIND = "kind"
SHARE = "completeness"
KNOWN = (SHARE, "expected_accuracy", "low", "high", "settled")
"""Columns with the completeness of an early row, its expected accuracy, the interval of its final,
and the probability that its values so far are final."""
FILLED = ("low", "high", "settled")
"""Those of them that filled rows have, too."""
HIDDEN = "__"
"""The prefix that the columns of KNOWN have inside the dataflow."""


@dataclass(frozen=True)
class EarlyColumns:
    """The extra result columns of a query that emits early results."""

    schema: pa.Schema
    """The columns of the results without the extra columns."""
    numbers: tuple[str, ...]
    """The names of the aggregates that are numbers."""
    names: tuple[str, ...] = KNOWN
    """The names of the extra columns, `KNOWN` or some of them."""

    @classmethod
    def of(cls, flow: Dataflow, operator: int, schema: pa.Schema) -> EarlyColumns:
        """Return the extra columns for results of `operator` with the columns `schema`."""
        return cls(schema, flow.operators[operator].plan.numeric_aggregates)

    def only(self, names: tuple[str, ...]) -> EarlyColumns:
        """Return the extra columns `names`."""
        return replace(self, names=names)

    @property
    def fields(self) -> list[pa.Field]:
        """The extra columns, with names that are not in `schema`."""
        each = pa.struct([(name, pa.float64()) for name in self.numbers])
        known = [
            pa.field(free(name, self.schema.names), pa.float64() if name == SHARE else each)
            for name in self._shown
        ]
        label = [] if KIND in self.schema.names else [pa.field(KIND, pa.string())]
        return [*label, *known]

    @property
    def _shown(self) -> list[str]:
        """The names of the extra columns; without numbers, none but the completeness."""
        return [name for name in self.names if self.numbers or name == SHARE]

    def added(self, rows: pa.Table, known: pa.Table | None) -> pa.Table:
        """Return `rows` with the extra columns from `known`, or with NULLs where it lacks them."""
        for field in self.fields:
            name = HIDDEN + field.name.rstrip("_")
            if field.name == KIND:
                label = "final" if known is None else "early"
                column = pa.repeat(pa.scalar(label), len(rows))
            elif known is None or name not in known.column_names:
                column = pa.nulls(len(rows), field.type)
            else:
                column = known.column(name)
            rows = rows.append_column(field, column)
        return rows

    @property
    def hidden(self) -> list[str]:
        """The names of the extra columns inside the dataflow."""
        return [HIDDEN + name for name in self._shown]
