"""The rows of a query's outputs: results, late and malformed rows, dropped windows, bad files.

Late and malformed rows belong to a port of an operator. If an output has rows of several ports with
different columns, there is a struct column for each port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lowwater.dataflow.graph import Dataflow, Output
from lowwater.dataflow.route import malformed_schema
from lowwater.engine.drop_output import shed_rows, shed_schema
from lowwater.engine.gap_fill import KNOWN
from lowwater.engine.status import Status
from lowwater.errors import SpecError
from lowwater.operators.late import late_tables
from lowwater.operators.operator import OperatorPlan
from lowwater.operators.packet import Kind, Packet, start_of, tables
from lowwater.operators.window.plan import NAME, WindowPlan
from lowwater.planner.early_columns import FILLED, EarlyColumns
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sinks.sink import Outputs
from lowwater.sources.bad_file import BAD_FILES

Place = tuple[int, int]
"""The number of an operator, and the number of one of its ports."""
OPERATOR = "operator"


@dataclass(frozen=True)
class OutputWriter:
    """An output of a dataflow, with the schemas and the tables of its rows."""

    flow: Dataflow
    output: Output
    prodded: bool = False
    """Whether the output includes early results."""
    filled: bool = False
    """Whether the output includes filled results of dropped windows."""

    @cached_property
    def behind(self) -> tuple[Place, ...]:
        """The ports of the output's operator and of all operators upstream of it."""
        upstream = {self.output.operator}
        for number in reversed(range(len(self.flow.operators))):
            if any(route.operator in upstream for route in self.flow.operators[number].routes):
                upstream.add(number)
        return tuple(place for place in self.flow.ports if place[0] in upstream)

    @property
    def operators(self) -> frozenset[int]:
        """The output's operator and all operators upstream of it."""
        return frozenset(operator for operator, _ in self.behind)

    @cached_property
    def _final_schema(self) -> pa.Schema:
        steps = self.output.steps
        return steps[-1].schema if steps else self._plan.result_schema

    @cached_property
    def _early(self) -> EarlyColumns | None:
        if not self.prodded and not self.filled:
            return None
        columns = EarlyColumns.of(self.flow, self.output.operator, self._final_schema)
        return columns if self.prodded else columns.only(FILLED)

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row."""
        more = [] if self._early is None else self._early.fields
        return pa.schema([*self._final_schema, *more])

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a result; empty if the results lack such columns."""
        plan = self._plan
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
        schemas = {}
        for operator, port in self.behind:
            if operator in self.flow.holds:
                continue  # only rows that have a time are held
            schema = self.flow.operators[operator].plan.schemas[port]
            schemas[operator, port] = malformed_schema(schema)
        return schemas

    @cached_property
    def _inputs(self) -> frozenset[int]:
        """The inputs whose rows reach the output."""
        return frozenset(
            number
            for number, start in enumerate(self.flow.inputs)
            if any(route.operator in self.operators for route in start.routes)
        )

    @cached_property
    def late_schema(self) -> pa.Schema:
        """The columns of a late row, and columns with its late degree and the windows it missed."""
        return self._together(self._late)

    @cached_property
    def malformed_schema(self) -> pa.Schema:
        """The columns of a malformed row, and columns with the reason and the text."""
        return self._together(self._malformed)

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The schema of each kind of rows, by the name of the sink in `Outputs`."""
        return {
            "results": self.result_schema,
            "late": self.late_schema,
            "malformed": self.malformed_schema,
            "dropped": shed_schema(self._plan, self.flow.fair_by),
            "bad_files": BAD_FILES,
        }

    @property
    def _plan(self) -> OperatorPlan:
        return self.flow.operators[self.output.operator].plan

    def _together(self, schemas: Mapping[Place, pa.Schema]) -> pa.Schema:
        """Return one schema for the rows of all ports; different schemas become struct columns."""
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
        """Return the rows of an epoch for the sinks, as {kind of rows: table}."""
        malformed = self.malformed_schema
        rows = {
            "results": self._results(packets),
            "late": self._placed(packets, "late", self._late, self.late_schema),
            "malformed": self._placed(packets, "malformed", self._malformed, malformed),
            "dropped": shed_rows(self._plan, self.output.operator, packets, self.flow.fair_by),
            "bad_files": self._bad_files(packets),
        }
        return {kind: pa.concat_tables(some) for kind, some in rows.items() if some}

    def write(self, epoch: int, packets: Sequence[Packet], sinks: Outputs) -> None:
        """Write the rows of an epoch to the sinks."""
        for kind, rows in self.tables(packets).items():
            if (sink := sinks.sink(kind)) is not None:
                sink.write(epoch, rows)

    def _bad_files(self, packets: Sequence[Packet]) -> list[pa.Table]:
        own = [p for p in packets if p.kind == "bad_files" and start_of(p.seq) in self._inputs]
        return tables(own, "bad_files")

    def _results(self, packets: Sequence[Packet]) -> list[pa.Table]:
        own = [p for p in packets if p.operator == self.output.operator]
        finals = [self.output.of(t).cast(self._final_schema) for t in tables(own, "results")]
        results = [self._with_more(t, None) for t in finals]
        if self._early is not None:
            for answers in tables(own, "early"):
                rows, known = self._after_steps(answers, self._early.hidden)
                results.append(self._with_more(rows, known))
        for gaps in tables(own, "filled"):
            rows, known = self._after_steps(gaps, list(KNOWN))
            results.append(self._with_more(rows, known))
        return [t for t in results if len(t)]

    def _with_more(self, rows: pa.Table, known: pa.Table | None) -> pa.Table:
        """Return `rows` with the extra columns of early and filled results."""
        return rows if self._early is None else self._early.added(rows, known)

    def _after_steps(self, results: pa.Table, hidden: list[str]) -> tuple[pa.Table, pa.Table]:
        """Return (results after the output's steps, columns `hidden` of the same results)."""
        known, rows = results.select(hidden), results.drop_columns(hidden)
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
    ) -> list[pa.Table]:
        """Return the late or malformed rows of all ports upstream of the output, in one schema."""
        measures = [p for p in packets if p.kind == "measure"]
        rows = []
        for place in schemas:
            own = [p for p in packets if p.kind == kind and (p.operator, p.port) == place]
            if own and kind == "late":
                plan = self.flow.operators[place[0]].plan
                by_packet = late_tables(plan, place[1], own, measures)
            else:
                by_packet = tables(own, kind)
            rows += [self._fitted(place, t.cast(schemas[place]), schema) for t in by_packet]
        return rows

    def _fitted(self, place: Place, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return `table`, rows of one port, in the common schema of all ports."""
        if schema == table.schema:
            return table
        columns = [pa.nulls(len(table), f.type) for f in schema]
        columns[0] = pa.array([self.flow.operators[place[0]].name] * len(table), pa.string())
        struct = table.to_struct_array().combine_chunks()
        at = schema.get_field_index(self._name(place))
        columns[at] = struct if isinstance(struct, pa.Array) else struct.chunk(0)
        return pa.table(columns, schema=schema)


def output_writers(
    flow: Dataflow, *, prodded: bool = False, filled: bool = False
) -> dict[str, OutputWriter]:
    """Return the writer of each output of a dataflow, by the name of the output."""
    return {o.name: OutputWriter(flow, o, prodded, filled) for o in flow.outputs}


def plan_writers(plan: PhysicalPlan) -> dict[str, OutputWriter]:
    """Return the writer of each output of a plan, by the name of the output."""
    return output_writers(plan.flow, prodded=plan.prodder is not None, filled=plan.filled)


def prepare(writers: Mapping[str, OutputWriter], sinks: Mapping[str, Outputs]) -> None:
    """Before a run, call `prepare` of each sink with the schema and the key of its rows.

    Raise SpecError if two outputs would overwrite each other's rows.
    """
    used: dict[str, str] = {}
    for name, writer in writers.items():
        for kind, schema in writer.schemas.items():
            sink = sinks[name].sink(kind)
            for place in () if sink is None else sink.places:
                if used.setdefault(place, f"{kind} of {name!r}") != f"{kind} of {name!r}":
                    raise SpecError(
                        f"{used[place]} and {kind} of {name!r} go to {place}, where each epoch of "
                        f"one would overwrite that of the other; name two folders, or two sinks"
                    )
            if sink is not None:
                sink.prepare(schema, writer.key if kind == "results" else ())


def finals_emitted(flow: Dataflow, status: Status) -> int:
    """Return the number of finals that the operator of the first output has emitted.

    `status["results"]` instead counts the results of the operators that read the inputs.
    """
    last = flow.operators[flow.outputs[0].operator].name
    return status.operators.get(last, {}).get("results", 0)
