"""From a query back to a text that builds the same query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from lowwater.cql.calls import call_of
from lowwater.cql.dialect import normal_form
from lowwater.cql.names import column, default_name, identifier
from lowwater.cql.nodes import StreamUnion, Windowed
from lowwater.cql.printed_joins import JoinText, expression, follows
from lowwater.cql.printed_names import Names, Peeled, peeled
from lowwater.cql.printed_pairs import keys_of
from lowwater.cql.printed_results import folded
from lowwater.cql.windows import window_of
from lowwater.errors import SpecError
from lowwater.kernels import WindowPlan
from lowwater.kernels.distinct import DistinctPlan
from lowwater.kernels.joins import JoinPlan
from lowwater.kernels.timed_joins import TimedJoinPlan
from lowwater.query import Stream
from lowwater.query.nodes import Operated, United
from lowwater.sources import Select, Step, Where, WithColumns


def text_of(stream: Stream, names: Sequence[str], named: Mapping[str, Stream]) -> str:
    """Print a stream, over streams of these names."""
    return normal_form(_Printer(Names(stream, names, named)).query(stream))


class _Printer:
    """Prints streams, each as a query or as what stands in FROM."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def query(self, stream: Stream) -> exp.Expr:
        """Return a stream as a query."""
        source = self.source(stream)
        if isinstance(source, exp.Subquery):
            tree: exp.Expr = source.this
            return tree
        return exp.select(exp.Star()).from_(source)

    def source(self, stream: Stream) -> exp.Expr:
        """Return a stream as it stands in FROM."""
        base, steps = self._begun(peeled(stream, self.names))
        return _after(base, steps)

    def _begun(self, found: Peeled) -> tuple[exp.Expr, tuple[Step, ...]]:
        """Return what stands below steps, and the steps that are left to be done."""
        base, steps = found
        node = base.node
        if self.names.of(base) is not None or not isinstance(node, Operated):
            return self._base(base), steps
        if isinstance(node.plan, JoinPlan) and not isinstance(node.plan, TimedJoinPlan):
            select, steps = self._join(node.plan, node.of, steps)
        elif isinstance(node.plan, WindowPlan):
            select, steps = self._windows(node.plan, node.of[0], steps)
        else:
            select = self._distinct(node)
        return select.subquery(copy=False), steps

    def _base(self, stream: Stream) -> exp.Expr:
        name = self.names.of(stream)
        if name is not None:
            return exp.Table(this=identifier(name))
        assert isinstance(stream.node, United)  # noqa: S101
        return self._union(stream.node)

    def _join(
        self, plan: JoinPlan, of: Sequence[Stream], after: tuple[Step, ...]
    ) -> tuple[exp.Select, tuple[Step, ...]]:
        """Return a join as a query, and which of the steps after it are left."""
        mine, other = (self.source(side) for side in of)
        join = JoinText(plan, mine, other)
        if after and isinstance(after[0], Select) and follows(plan, after[0]):
            return join.chosen(after[0]), after[1:]
        return join.all(), after

    def _union(self, node: United) -> exp.Expr:
        parts = [self.source(part) for part in node.of]
        if all(isinstance(part, exp.Table) for part in parts):
            return StreamUnion(expressions=parts)
        first, *rest = (self.query(part) for part in node.of)
        for part in rest:
            first = exp.Union(this=first, expression=part, distinct=False)
        return exp.Subquery(this=first)

    def _distinct(self, node: Operated) -> exp.Select:
        plan = node.plan
        if not isinstance(plan, DistinctPlan):
            raise SpecError("rows in the order of time have no text: a text is about a set of rows")
        (of,) = node.of
        if plan != DistinctPlan(plan.schema, plan.axis, tuple(plan.schema.names), 0):
            raise SpecError("distinct() has a text for equal rows only: SELECT DISTINCT *")
        return exp.select(exp.Star()).distinct().from_(self.source(of))

    def _windows(
        self, plan: WindowPlan, of: Stream, after: tuple[Step, ...]
    ) -> tuple[exp.Select, tuple[Step, ...]]:
        """Return a window aggregate as a query, and which of the steps after it are left."""
        base, begun = self._begun(peeled(of, self.names))
        steps = list(begun)
        inlined = _inlined(plan, of, steps)
        if inlined:
            steps.pop()
        last = steps.pop() if steps and isinstance(steps[-1], Where) else None
        source = _after(base, steps)
        fold = folded(plan, after, _calls(plan, inlined), inlined)
        if not fold.times:
            source = Windowed(this=source, window=window_of(plan))
        keys: dict[str, exp.Expr] = {name: column(time) for name, time in fold.times.items()}
        keys |= {key: inlined.get(key, column(key)) for key in keys_of(plan)}
        items = [_aliased(node, name) for name, node in {**keys, **fold.items}.items()]
        select = exp.select(*items).from_(source)
        if isinstance(last, Where):
            select = select.where(expression(last.condition))
        groups = [node for key, node in keys.items() if key not in plan.partition]
        if groups:
            select = select.group_by(*groups)
        return (select if fold.having is None else select.having(fold.having)), fold.rest


def _inlined(plan: WindowPlan, of: Stream, steps: Sequence[Step]) -> dict[str, exp.Expr]:
    """Return the columns that can be written where they are used.

    They are those that a text of that form would compute, in the same order: keys, then what
    aggregates are over.
    """
    if not steps or not isinstance(steps[-1], WithColumns):
        return {}
    made = {name: expression(text) for name, text in steps[-1].columns}
    used = [key for key in keys_of(plan) if key in made]
    for aggregate in plan.aggregates.values():
        call = call_of(aggregate)
        used += [a for a in (call[1] if call else ()) if a in made and default_name(made[a]) == a]
    before = plan.schema.names[: len(plan.schema.names) - len(made)]
    times = {axis.column for axis in (plan.axis, plan.second) if axis is not None}
    elsewhere = {*times, of.time, *plan.partition, *before}
    fits = list(dict.fromkeys(used)) == list(made) and not elsewhere & set(made)
    return made if fits and getattr(plan.spec, "slide_on", None) not in made else {}


def _after(source: exp.Expr, steps: Sequence[Step]) -> exp.Expr:
    """Return a stream after steps: queries inside each other, a filter below its columns."""
    held: exp.Expr | None = None
    for step in steps:
        if isinstance(step, Where):
            if held is not None:
                source = _nested([exp.Star()], source, held)
            held = expression(step.condition)
            continue
        items = [_aliased(expression(text), alias) for alias, text in step.columns]
        every = [exp.Star()] if isinstance(step, WithColumns) else []
        source, held = _nested([*every, *items], source, held), None
    return source if held is None else _nested([exp.Star()], source, held)


def _nested(
    items: Sequence[exp.Expr], source: exp.Expr, condition: exp.Expr | None
) -> exp.Subquery:
    select = exp.select(*items).from_(source)
    if condition is not None:
        select = select.where(condition)
    return select.subquery(copy=False)


def _aliased(node: exp.Expr, name: str) -> exp.Expr:
    if default_name(node) == name:
        return node.copy()
    return exp.Alias(this=node.copy(), alias=identifier(name))


def _calls(plan: WindowPlan, inlined: dict[str, exp.Expr]) -> dict[str, exp.Expr]:
    """Return the aggregates as they are called."""
    found = {}
    for alias, aggregate in plan.aggregates.items():
        call = call_of(aggregate)
        if call is None:
            raise SpecError(f"{alias}={aggregate} has no name that a text could call it by")
        found[alias] = _call(*call, inlined)
    return found


def _call(name: str, given: tuple[object, ...], inlined: dict[str, exp.Expr]) -> exp.Expr:
    if not given:
        return exp.Anonymous(this=name, expressions=[exp.Star()])
    arguments = [
        inlined.get(value, column(value)).copy() if isinstance(value, str) else exp.convert(value)
        for value in given
    ]
    return exp.Anonymous(this=name, expressions=arguments)
