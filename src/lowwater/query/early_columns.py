"""The columns that results have more where early ones are among them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lowwater.kernels import Dataflow, WindowPlan
from lowwater.kernels.plan import free

KIND = "kind"
KNOWN = ("completeness", "expected_accuracy", "low", "high")
"""The columns that say how far an early row can be trusted."""
HIDDEN = "__"
"""How they begin on their way."""


@dataclass(frozen=True)
class EarlyColumns:
    """The columns that results have more where early ones are among them."""

    schema: pa.Schema
    """The columns of the results without them."""
    numbers: tuple[str, ...]
    """The aggregates that are numbers."""

    @classmethod
    def of(cls, flow: Dataflow, operator: int, schema: pa.Schema) -> EarlyColumns:
        """Return the columns of results that leave from an operator as `schema`."""
        return cls(schema, numbers(flow, operator))

    @property
    def fields(self) -> list[pa.Field]:
        """The columns, under names that are free."""
        each = pa.struct([(name, pa.float64()) for name in self.numbers])
        types = (pa.float64(), *([each] * 3))
        known = [pa.field(free(n, self.schema), t) for n, t in zip(KNOWN, types, strict=True)]
        label = [] if KIND in self.schema.names else [pa.field(KIND, pa.string())]
        return [*label, *(known if self.numbers else known[:1])]

    def added(self, rows: pa.Table, known: pa.Table | None) -> pa.Table:
        """Return rows with the columns; finals have nothing in them."""
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
        """The columns of answers that these are made of."""
        return [HIDDEN + name for name in (KNOWN if self.numbers else KNOWN[:1])]


def numbers(flow: Dataflow, operator: int) -> tuple[str, ...]:
    """Return the aggregates of an operator whose results are numbers."""
    plan = flow.operators[operator].plan
    if not isinstance(plan, WindowPlan):
        return ()
    kinds = {n: a.result_type(plan.schema) for n, a in plan.aggregates.items()}
    return tuple(n for n, t in kinds.items() if _is_number(t))


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
