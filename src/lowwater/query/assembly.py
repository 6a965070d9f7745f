"""From streams to a dataflow: which inputs there are, which operators, who sends rows to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater.control import Controller, ControlLog, Gauge
from lowwater.durations import ticks
from lowwater.errors import SpecError
from lowwater.kernels import (
    Dataflow,
    Input,
    Operator,
    OperatorPlan,
    Output,
    Route,
    WindowPlan,
)
from lowwater.kernels.joins import both
from lowwater.prodding import Prodder, Sideliner
from lowwater.progress import Progress
from lowwater.progress.slacks import Slacks
from lowwater.query.adapting import adapted
from lowwater.query.nodes import Leaf, Operated, Stepped, United
from lowwater.query.revising import refuse_revised
from lowwater.shedding import LoadShedder
from lowwater.sources.steps import Transform
from lowwater.windows import Axis

if TYPE_CHECKING:
    from lowwater.query.stream import Stream

BEATS_PER_LULL = 4
"""How often in a lull the clock moves a mark, where windows may end anywhere."""
Steps = tuple[Transform, ...]


@dataclass(frozen=True)
class Assembly:
    """A dataflow, and for each of its inputs a source and how its progress is learned."""

    flow: Dataflow
    sources: tuple[Any, ...]
    policies: tuple[Progress, ...]
    prodder: Prodder | None = None
    sideliner: Sideliner | None = None
    adapter: Slacks | None = None
    shedder: LoadShedder | None = None

    @cached_property
    def gauges(self) -> tuple[Gauge, ...]:
        """How the progress of each input is learned."""
        fine = any(not o.plan.rounds_marks for o in self.flow.operators)
        return tuple(
            Gauge(
                policy.bind(start.axis, _measured_schema(start)),
                wall=policy.clock == "wall",
                grain=_lull(policy) // BEATS_PER_LULL if fine else 0,
            )
            for start, policy in zip(self.flow.inputs, self.policies, strict=True)
        )

    def controller(self, log: ControlLog) -> Controller:
        """Return the controller of a run."""
        return Controller(
            log,
            self.gauges,
            self.flow,
            self.prodder,
            self.sideliner,
            adapter=self.adapter,
            shedder=self.shedder,
        )

    @property
    def filled(self) -> bool:
        """Whether gaps are filled."""
        return self.shedder is not None and self.shedder.how.fill

    def with_shards(self, shards: int) -> Assembly:
        """Return the same for so many shards of each operator."""
        return replace(self, flow=self.flow.with_shards(shards))


def _lull(policy: Progress) -> int:
    return 0 if policy.lull is None else ticks(policy.lull, name="lull")


def _measured_schema(start: Input) -> pa.Schema:
    return start.before[-1].schema if start.before else start.schema


def assemble(outputs: Mapping[str, Stream]) -> Assembly:
    """Lay out what gives these streams; what they have in common is there once."""
    made = _Assembling()
    found = tuple(made.output(name, stream) for name, stream in outputs.items())
    flow = Dataflow(
        tuple(
            replace(i, routes=tuple(r)) for i, r in zip(made.inputs, made.from_input, strict=True)
        ),
        tuple(
            replace(o, routes=tuple(r))
            for o, r in zip(made.operators, made.from_operator, strict=True)
        ),
        found,
    )
    done = Assembly(flow, tuple(leaf.source for leaf, *_ in made.leaves), tuple(made.policies))
    _ = done.gauges
    return adapted(done)


class _Assembling:
    """The parts of a dataflow while it is laid out, from outputs back to sources."""

    def __init__(self) -> None:
        self.leaves: list[tuple[Leaf, str, Steps]] = []
        self.policies: list[Progress] = []
        self.inputs: list[Input] = []
        self.from_input: list[list[Route]] = []
        self.nodes: list[Operated] = []
        self.operators: list[Operator] = []
        self.from_operator: list[list[Route]] = []

    def output(self, name: str, stream: Stream) -> Output:
        """Lay out what leads to an output."""
        at, node = stream, stream.node
        steps: Steps = ()
        while isinstance(node, Stepped):
            at, steps = node.of, (node.transform, *steps)
            node = at.node
        if isinstance(node, Operated):
            return Output(name, self.operator(at), steps)
        return Output(name, self.operator(stream.collected()))

    def operator(self, stream: Stream) -> int:
        """Return the number of an operator, laid out after all that feeds it."""
        node = stream.node
        assert isinstance(node, Operated)  # noqa: S101
        if node in self.nodes:
            return self.nodes.index(node)
        before = [
            self._lead(of, plan_axis) for of, plan_axis in zip(node.of, node.plan.axes, strict=True)
        ]
        number = len(self.operators)
        level = 0
        for port, starts in enumerate(before):
            for kind, start, on, steps in starts:
                route = Route(number, port, on, steps, _progress(node.plan, on, steps))
                if kind == "input":
                    self.from_input[start].append(route)
                else:
                    refuse_revised(node.plan, self.operators[start].plan)
                    self.from_operator[start].append(route)
                    level = max(level, self.operators[start].level + 1)
        self.nodes.append(node)
        name = self._name(node.plan)
        self.operators.append(Operator(node.plan, name, level, stream.times or ()))
        self.from_operator.append([])
        return number

    def _name(self, plan: OperatorPlan) -> str:
        same = sum(o.name.split()[0] == plan.word for o in self.operators)
        return f"{plan.word} {same + 1}" if same else plan.word

    def _lead(
        self, stream: Stream, axis: Axis, steps: Steps = ()
    ) -> list[tuple[str, int, str, Steps]]:
        """Return where a stream comes from: inputs and operators, each with the steps after it."""
        node = stream.node
        if isinstance(node, United):
            return [way for of in node.of for way in self._lead(of, axis, steps)]
        if isinstance(node, Stepped):
            return self._lead(node.of, axis, (node.transform, *steps))
        if isinstance(node, Operated):
            return [("operator", self.operator(stream), _traced(axis.column, steps), steps)]
        number, rest = self._input(node, axis, steps)
        return [("input", number, axis.column, rest)]

    def _input(self, leaf: Leaf, axis: Axis, steps: Steps) -> tuple[int, Steps]:
        """Return the number of an input, and the steps that its rows take after it."""
        split = _measured_after(leaf.progress, axis.column, steps)
        before, rest = steps[:split], steps[split:]
        for number, (known, on, done) in enumerate(self.leaves):
            same = known.source is leaf.source and known.progress == leaf.progress
            if same and on == axis.column and done == before:
                return number, rest
        schema = before[-1].schema if before else leaf.source.schema
        tracker = leaf.progress.bind(axis, schema)
        self.leaves.append((leaf, axis.column, before))
        self.policies.append(leaf.progress)
        self.from_input.append([])
        self.inputs.append(
            Input(
                getattr(leaf.source, "full_schema", leaf.source.schema),
                axis,
                before=before,
                source=tracker.source,
                tail=tracker.tail,
                mark_when=tracker.mark_when,
                mark_since=tracker.mark_since,
                consistent=tracker.consistent,
                max_ahead=leaf.progress.ahead(axis),
                by_wall=leaf.progress.clock == "wall",
            )
        )
        return len(self.inputs) - 1, rest


def _progress(plan: OperatorPlan, on: str, steps: Steps) -> str:
    """Return by what an operator's port progresses: a time, or two together."""
    second = plan.second if isinstance(plan, WindowPlan) else None
    return on if second is None else both(on, _traced(second.column, steps))


def _traced(column: str, steps: Steps) -> str:
    """Return what a column was called before steps that may have renamed it."""
    for step in reversed(steps):
        column = step.origin(column) or column
    return column


def _measured_after(progress: Progress, on: str, steps: Sequence[Transform]) -> int:
    """Return how many steps make the columns that progress is measured on."""
    read = (on, *progress.reads)
    made = [
        i + 1
        for i, step in enumerate(steps)
        if any(c in step.schema.names and not step.carries(c) for c in read)
    ]
    return made[-1] if made else 0


def refuse_arrival(stream: Stream) -> None:
    """Refuse to number the results of operators as they arrive."""
    if stream.times is not None:
        raise SpecError(
            "results of other operators have no order of arrival of their own, so rows cannot be "
            "counted by it: the numbers would depend on how the query is run. Count them by "
            "lw.rank(...) of their time"
        )
