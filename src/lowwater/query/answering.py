"""Early results as they leave: with what is known about their accuracy.

Operators answer prods with what has arrived. Here, where all answers of an epoch are together,
they become estimates; and finals that come out tell how good earlier estimates were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lowwater.control import Arrived, Entry, Known, Reached
from lowwater.kernels import Dataflow, Packet, WindowPlan
from lowwater.kernels.estimating import bare, completed, completeness
from lowwater.kernels.packets import measure_packet, measures_of, table_packet, tables
from lowwater.kernels.plan import free
from lowwater.prodding import Prodder

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


def judged(
    prodder: Prodder | None,
    before: Entry,
    flow: Dataflow,
    packets: Sequence[Packet],
    now: int,
) -> list[Packet]:
    """Return what an epoch gave, its answers as estimates, with what the epoch taught."""
    if prodder is None:
        return list(packets)
    found = [p for p in packets if p.kind != "early"]
    asked = any(control.prods for control in before.control.values())
    if not asked:
        return found
    measured = [measures_of(p) for p in packets if p.kind == "measure"]
    known = Known(reached(before, measured, len(flow.inputs)), measured, now)
    arrived = flow.expected(prodder.arrived(before.prodding, known))
    for operator in sorted({o.operator for o in flow.outputs}):
        early = tables((p for p in packets if p.operator == operator), "early")
        if early:
            share = arrived[flow.numbers[operator, 0]]
            rows = _estimated(prodder, flow, operator, pa.concat_tables(early), share)
            found.append(replace(table_packet("early", 0, 0, rows), operator=operator))
            found.append(measure_packet(0, 0, {"early": len(rows)}))
    return found


def reached(before: Entry, measured: Sequence[Mapping[str, Any]], inputs: int) -> list[Reached]:
    """Return how far the inputs are after an epoch, as far as its rows tell."""
    known = before.standing.inputs or [Reached() for _ in range(inputs)]
    found = []
    for number, one in enumerate(known):
        newest = [m["newest"] for m in measured if m.get("input") == number and "newest" in m]
        most = max([*newest, *([] if one.newest is None else [one.newest])], default=None)
        found.append(replace(one, newest=most))
    return found


def _estimated(
    prodder: Prodder, flow: Dataflow, operator: int, rows: pa.Table, arrived: Arrived | None
) -> pa.Table:
    """Return answers as estimates of the final results."""
    plan = flow.operators[operator].plan
    share = completeness(plan, rows, arrived)
    values = bare(rows)
    if prodder.complete:
        values = completed(plan, values, share)
    shown = pa.nulls(len(rows), pa.float64()) if share is None else pa.array(share)
    values = values.append_column(HIDDEN + KNOWN[0], shown)
    if isinstance(plan, WindowPlan):
        each = pa.struct([(name, pa.float64()) for name in numbers(flow, operator)])
        for name in KNOWN[1:]:
            values = values.append_column(HIDDEN + name, pa.nulls(len(rows), each))
    return values
