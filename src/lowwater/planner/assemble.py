"""Turns logical nodes into a physical plan: inputs, operators and the routes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lowwater.dataflow.graph import Dataflow, Input, Operator, Output, Route
from lowwater.errors import SpecError
from lowwater.expressions.steps import Transform
from lowwater.logical.build import collect
from lowwater.logical.nodes import Apply, Node, Project, Source, Union, below_steps
from lowwater.operators.join.plan import both
from lowwater.operators.operator import OperatorPlan
from lowwater.planner.compatibility import refuse, rule_for
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.planner.quality import adapted
from lowwater.watermarks.functions import ordered
from lowwater.watermarks.policy import NoPolicy, WatermarkPolicy
from lowwater.windows.axis import Axis

Steps = tuple[Transform, ...]


def assemble(outputs: Mapping[str, Node], watermark: WatermarkPolicy | None = None) -> PhysicalPlan:
    """Return the physical plan for `outputs`; a node that several outputs read is planned once.

    `watermark` is the policy of streams that have none.
    """
    parts = _Assembler(watermark)
    ends = tuple(parts.output(name, node) for name, node in outputs.items())
    inputs = zip(parts.inputs, parts.from_input, strict=True)
    operators = zip(parts.operators, parts.from_operator, strict=True)
    flow = Dataflow(
        tuple(replace(start, routes=tuple(routes)) for start, routes in inputs),
        tuple(replace(operator, routes=tuple(routes)) for operator, routes in operators),
        ends,
    )
    leaves = [leaf for leaf, *_ in parts.leaves]
    sources = tuple(leaf.source for leaf in leaves)
    plan = PhysicalPlan(flow, sources, tuple(leaf.watermark for leaf in leaves))
    _ = plan.gauges  # raises SpecError if a watermark policy does not fit its input
    return adapted(plan)


def check(outputs: Mapping[str, Node]) -> PhysicalPlan:
    """Return a plan for `outputs`; raise SpecError if there is none.

    A stream without `watermark=` passes: `need=` may supply one when the query runs.
    """
    return assemble(outputs, ordered())


class _Assembler:
    """A builder of the inputs, operators and routes of a dataflow, from outputs back to sources."""

    def __init__(self, watermark: WatermarkPolicy | None) -> None:
        self.watermark = watermark
        self.leaves: list[tuple[Source, str, Steps]] = []
        self.inputs: list[Input] = []
        self.from_input: list[list[Route]] = []
        self.nodes: list[Apply] = []
        self.operators: list[Operator] = []
        self.from_operator: list[list[Route]] = []

    def output(self, name: str, node: Node) -> Output:
        """Return the output `name` for the rows of `node`; add the operator that emits them."""
        below, steps = below_steps(node)
        if isinstance(below, Apply):
            return Output(name, self.operator(below), steps)
        return Output(name, self.operator(collect(node)))

    def operator(self, node: Apply) -> int:
        """Return the number of the operator `node`; add it and its inputs if they are new."""
        if node in self.nodes:
            return self.nodes.index(node)
        ports = zip(node.of, node.plan.axes, strict=True)
        before = [self._lead(of, axis) for of, axis in ports]
        number, level, second = len(self.operators), 0, node.plan.second
        for port, starts in enumerate(before):
            for kind, start, on, steps in starts:
                times = on if second is None else both(on, _traced(second.column, steps))
                route = Route(number, port, on, steps, times)
                if kind == "input":
                    since = self.inputs[start].mark_since
                    if since is not None:
                        refuse("since", node.plan.labels, f"lw.punctuated(..., since={since!r})")
                    self.from_input[start].append(route)
                else:
                    below = self.operators[start].plan
                    _refuse_revised(node.plan, below)
                    if "since" in below.labels and node.plan.word != "rows":
                        refuse("since", {"second level"}, "lw.punctuated(since=...)")
                    self.from_operator[start].append(route)
                    level = max(level, self.operators[start].level + 1)
        self.nodes.append(node)
        word = node.plan.word
        same = sum(o.name.split()[0] == word for o in self.operators)
        name = f"{word} {same + 1}" if same else word
        self.operators.append(Operator(node.plan, name, level, node.times or ()))
        self.from_operator.append([])
        return number

    def _lead(self, node: Node, axis: Axis, steps: Steps = ()) -> list[tuple[str, int, str, Steps]]:
        """Return (kind, number, time column, steps) of each input or operator that feeds `node`."""
        if isinstance(node, Union):
            return [way for of in node.of for way in self._lead(of, axis, steps)]
        if isinstance(node, Project):
            return self._lead(node.of, axis, (node.transform, *steps))
        if isinstance(node, Apply):
            return [("operator", self.operator(node), _traced(axis.column, steps), steps)]
        number, rest = self._input(node, axis, steps)
        return [("input", number, axis.column, rest)]

    def _input(self, leaf: Source, axis: Axis, steps: Steps) -> tuple[int, Steps]:
        """Return the number of the input for `leaf`, and the `steps` that run after the input."""
        if self.watermark is not None and isinstance(leaf.watermark, NoPolicy):
            leaf = replace(leaf, watermark=self.watermark)
        split = _measured_after(leaf.watermark, axis.column, steps)
        before, rest = steps[:split], steps[split:]
        for number, (known, on, known_steps) in enumerate(self.leaves):
            same = known.source is leaf.source and known.watermark == leaf.watermark
            if same and on == axis.column and known_steps == before:
                return number, rest
        schema = before[-1].schema if before else leaf.source.schema
        tracker = leaf.watermark.bind(axis, schema)
        self.leaves.append((leaf, axis.column, before))
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
                max_ahead=leaf.watermark.ahead(axis),
                guard=leaf.watermark.guard(axis),
                by_wall=leaf.watermark.clock == "wall",
            )
        )
        return len(self.inputs) - 1, rest


def _refuse_revised(plan: OperatorPlan, below: OperatorPlan) -> None:
    """Raise SpecError if late rows may revise the results of `below`, which `plan` reads."""
    if not below.revise or plan.word == "rows":
        return
    span = below.axes[0].say(below.revise)
    rule = rule_for("allowed_lateness", {"order over results" if plan.sorts else "second level"})
    if rule is not None:
        over = replace(rule, remedy=rule.remedy.replace("lw.slack(...)", f"lw.slack({span!r})"))
        raise SpecError(over.text(f"allowed_lateness={span!r} and the {plan.word} over it"))


def _traced(column: str, steps: Steps) -> str:
    """Return the name that `column` had before `steps`, which may have renamed it."""
    for step in reversed(steps):
        column = step.origin(column) or column
    return column


def _measured_after(progress: WatermarkPolicy, on: str, steps: Sequence[Transform]) -> int:
    """Return how many of `steps` must run before rows have all columns that the watermark reads."""
    for count in range(len(steps), 0, -1):
        step = steps[count - 1]
        if any(c in step.schema.names and step.origin(c) != c for c in (on, *progress.reads)):
            return count
    return 0


def refuse_arrival(of: Node) -> None:
    """Raise SpecError if the node `of` has results of operators, which have no arrival order."""
    if of.times is not None:
        raise SpecError(
            "windows over rows by arrival: results of operators have no order of arrival of their "
            "own, so the numbers of rows would depend on how the query is run. Count them by "
            "lw.rank(...) of their time"
        )
