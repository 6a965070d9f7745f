"""What leaves a query by one of its outputs: results, late and malformed rows, shed windows.

Late and malformed rows belong to a port of an operator. Where an output has several such ports
behind it, whose rows have different columns, each has a struct column of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lowwater.dataflow.graph import Dataflow, Output
from lowwater.dataflow.route import REASON
from lowwater.engine.drop_output import shed_rows, shed_schema
from lowwater.engine.gap_fill import ERROR, error_type
from lowwater.engine.status import Status
from lowwater.operators.late import free, late_tables
from lowwater.operators.operator import OperatorPlan
from lowwater.operators.packet import Kind, Packet, tables
from lowwater.operators.window.plan import NAME, WindowPlan
from lowwater.planner.early_columns import EarlyColumns
from lowwater.sinks.sink import Outputs

Place = tuple[int, int]
"""An operator, and which of its ports."""
OPERATOR = "operator"


@dataclass(frozen=True)
class OutputWriter:
    """An output of a dataflow."""

    flow: Dataflow
    output: Output
    prodded: bool = False
    """Whether early results are among them."""
    filled: bool = False
    """Whether gaps are filled."""

    @cached_property
    def behind(self) -> tuple[Place, ...]:
        """The ports of all operators that the results come from."""
        found = {self.output.operator}
        for number in reversed(range(len(self.flow.operators))):
            if any(route.operator in found for route in self.flow.operators[number].routes):
                found.add(number)
        return tuple(place for place in self.flow.ports if place[0] in found)

    @property
    def operators(self) -> frozenset[int]:
        """The operators that the results come from."""
        return frozenset(operator for operator, _ in self.behind)

    @cached_property
    def _final_schema(self) -> pa.Schema:
        steps = self.output.steps
        plan = self.flow.operators[self.output.operator].plan
        return steps[-1].schema if steps else plan.result_schema

    @cached_property
    def _early(self) -> EarlyColumns | None:
        if not self.prodded:
            return None
        return EarlyColumns.of(self.flow, self.output.operator, self._final_schema)

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row."""
        more = [] if self._early is None else self._early.fields
        return pa.schema([*self._final_schema, *more, *self._error])

    @cached_property
    def _error(self) -> list[pa.Field]:
        """The column of what filled values may be off by."""
        if not self.filled:
            return []
        kind = error_type(self.flow.operators[self.output.operator].plan.numeric_aggregates)
        return [pa.field(free("error", self._final_schema.names), kind)]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a result; empty where results have no such columns."""
        plan = self.flow.operators[self.output.operator].plan
        if not isinstance(plan, WindowPlan):
            return ()
        key = ("wid", *([NAME] if plan.several else []), *plan.keys)
        kept = self._final_schema
        same = all(n in kept.names and kept.field(n) == plan.result_schema.field(n) for n in key)
        return key if same else ()

    @cached_property
    def _late(self) -> dict[Place, pa.Schema]:
        plans = {place: self.flow.operators[place[0]].plan for place in self.behind}
        return {p: plan.late_schemas[p[1]] for p, plan in plans.items() if plan.late_schemas}

    @cached_property
    def _malformed(self) -> dict[Place, pa.Schema]:
        found = {}
        for operator, port in self.behind:
            if operator in self.flow.holds:
                continue  # only rows that have a time are held
            schema = self.flow.operators[operator].plan.schemas[port]
            reason = pa.field(free(REASON, schema.names), pa.string())
            found[operator, port] = pa.schema([*schema, reason])
        return found

    @cached_property
    def late_schema(self) -> pa.Schema:
        """The columns of a late row: the row, how late it was and what it missed."""
        return self._together(self._late)

    @cached_property
    def malformed_schema(self) -> pa.Schema:
        """The columns of a malformed row: the row and what is wrong with it."""
        return self._together(self._malformed)

    @cached_property
    def shed_schema(self) -> pa.Schema:
        """The columns of a dropped window."""
        return shed_schema(self._plan)

    @property
    def _plan(self) -> OperatorPlan:
        return self.flow.operators[self.output.operator].plan

    def _together(self, schemas: Mapping[Place, pa.Schema]) -> pa.Schema:
        """Return one schema for rows of several ports."""
        different = list(dict.fromkeys(schemas.values()))
        if len(different) <= 1:
            return different[0] if different else pa.schema([])
        columns = [pa.field(self._name(p), pa.struct(list(s))) for p, s in schemas.items()]
        return pa.schema([pa.field(OPERATOR, pa.string()), *columns])

    def _name(self, place: Place) -> str:
        operator = self.flow.operators[place[0]]
        if operator.plan.ports == 1:
            return operator.name
        return f"{operator.name} {('self', 'other')[place[1]]}"

    def tables(self, packets: Sequence[Packet]) -> dict[str, pa.Table]:
        """Return the rows that an epoch has for the sinks, by the kind of sink."""
        mine = set(self.behind)
        rows = {
            "results": self._results(packets),
            "late": self._placed(packets, "late", self._late, self.late_schema, mine),
            "malformed": self._placed(
                packets, "malformed", self._malformed, self.malformed_schema, mine
            ),
            "dropped": shed_rows(self._plan, self.output.operator, packets),
        }
        return {kind: pa.concat_tables(some) for kind, some in rows.items() if some}

    def write(self, epoch: int, packets: Sequence[Packet], sinks: Outputs) -> None:
        """Write the rows of an epoch to the sinks."""
        for kind, rows in self.tables(packets).items():
            sink = sinks.sink(kind)
            if sink is not None:
                sink.write(epoch, rows)

    def _results(self, packets: Sequence[Packet]) -> list[pa.Table]:
        own = [p for p in packets if p.operator == self.output.operator]
        finals = [self.output.of(t).cast(self._final_schema) for t in tables(own, "results")]
        found = [self._with_more(t, None) for t in finals]
        if self._early is not None:
            for answers in tables(own, "early"):
                rows, known = self._after_steps(answers, self._early.hidden)
                found.append(self._with_more(rows, known))
        for gaps in tables(own, "filled"):
            rows, known = self._after_steps(gaps, [ERROR])
            found.append(self._with_more(rows, None, known.column(ERROR)))
        return [t for t in found if len(t)]

    def _with_more(
        self, rows: pa.Table, known: pa.Table | None, error: pa.ChunkedArray | None = None
    ) -> pa.Table:
        """Return rows with the columns that early and filled ones have more."""
        if self._early is not None:
            rows = self._early.added(rows, known)
        for field in self._error:
            column = pa.nulls(len(rows), field.type) if error is None else error
            rows = rows.append_column(field, column)
        return rows

    def _after_steps(self, made: pa.Table, hidden: list[str]) -> tuple[pa.Table, pa.Table]:
        """Return rows as they leave; a filter drops what is known of a row with it."""
        known, rows = made.select(hidden), made.drop_columns(hidden)
        for step in self.output.steps:
            kept = step.kept(rows)
            if kept is None:
                rows = step(rows)
            else:
                rows, known = (t.filter(pa.array(kept)) for t in (rows, known))
        return rows.cast(self._final_schema), known

    def _placed(
        self,
        packets: Sequence[Packet],
        kind: Kind,
        schemas: Mapping[Place, pa.Schema],
        schema: pa.Schema,
        mine: set[Place],
    ) -> list[pa.Table]:
        measures = [p for p in packets if p.kind == "measure"]
        rows = []
        for place in schemas:
            own = [p for p in packets if p.kind == kind and (p.operator, p.port) == place]
            if not own or place not in mine:
                continue
            plan = self.flow.operators[place[0]].plan
            found = (
                late_tables(plan, place[1], own, measures) if kind == "late" else tables(own, kind)
            )
            rows += [self._fitted(place, t.cast(schemas[place]), schema) for t in found]
        return rows

    def _fitted(self, place: Place, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return rows of a port in the columns that all ports have in common."""
        if schema == table.schema:
            return table
        name = self._name(place)
        columns = [pa.nulls(len(table), f.type) for f in schema]
        columns[0] = pa.array([self.flow.operators[place[0]].name] * len(table), pa.string())
        struct = table.to_struct_array().combine_chunks()
        columns[schema.get_field_index(name)] = (
            struct if isinstance(struct, pa.Array) else struct.chunk(0)
        )
        return pa.table(columns, schema=schema)


def output_writers(
    flow: Dataflow, *, prodded: bool = False, filled: bool = False
) -> dict[str, OutputWriter]:
    """Return the outputs of a dataflow by name."""
    return {o.name: OutputWriter(flow, o, prodded, filled) for o in flow.outputs}


def prepare(ways: Mapping[str, OutputWriter], sinks: Mapping[str, Outputs]) -> None:
    """Let all sinks make ready, before anything runs."""
    for name, way in ways.items():
        given = sinks[name]
        for sink, schema, key in (
            (given.results, way.result_schema, way.key),
            (given.late, way.late_schema, ()),
            (given.malformed, way.malformed_schema, ()),
            (given.dropped, way.shed_schema, ()),
        ):
            if sink is not None:
                sink.prepare(schema, key)


def given_out(flow: Dataflow, status: Status) -> int:
    """Return how many finals the operator behind the first output has given.

    Those of the status itself are of the operators that rows reach first.
    """
    last = flow.operators[flow.outputs[0].operator].name
    return status.operators.get(last, {}).get("results", 0)
