"""Prints a query as a CQL text from which `lw.sql` builds the same query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from lowwater.cql.dialect import normal_form
from lowwater.cql.functions import call_of
from lowwater.cql.names import column, default_name, identifier
from lowwater.cql.nodes import StreamUnion, WindowedStream
from lowwater.cql.print.having import keys_of, result_clauses
from lowwater.cql.print.join import JoinText, expression, is_select_of
from lowwater.cql.print.windows import window_of
from lowwater.errors import SpecError
from lowwater.expressions.steps import Select, Step, Where, WithColumns
from lowwater.logical.nodes import Apply, Node, Project, Source, Union
from lowwater.operators.distinct import DistinctPlan
from lowwater.operators.join.ordered_plan import OrderedJoinPlan
from lowwater.operators.join.plan import JoinPlan
from lowwater.operators.window.plan import WindowPlan


def text_of(node: Node, names: Sequence[str], named: Mapping[str, Any]) -> str:
    """Return the CQL text of `node`.

    `names` lists the names of the sources in order. `named` maps further names to streams.
    """
    return normal_form(_Printer(Names(node, names, named)).query(node))


class _Printer:
    """A printer of streams, as queries or as sources in FROM."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def query(self, stream: Node) -> exp.Expr:
        """Return the query whose rows are those of `stream`."""
        source = self.source(stream)
        if not isinstance(source, exp.Subquery):
            return exp.select(exp.Star()).from_(source)
        tree: exp.Expr = source.this
        return tree

    def source(self, stream: Node) -> exp.Expr:
        """Return `stream` as a source in FROM: a name, a union, or a subquery."""
        return _after(*self._below(stream))

    def _below(self, stream: Node) -> tuple[exp.Expr, tuple[Step, ...]]:
        """Return a source in FROM, and the steps that turn its rows into the rows of `stream`."""
        node, steps = named_stream(stream, self.names)
        name = self.names.of(node)
        if name is not None:
            return exp.Table(this=identifier(name)), steps
        if isinstance(node, Union):
            return self._union(node), steps
        assert isinstance(node, Apply)  # noqa: S101
        if isinstance(node.plan, JoinPlan) and not isinstance(node.plan, OrderedJoinPlan):
            select, steps = self._join(node.plan, node.of, steps)
        elif isinstance(node.plan, WindowPlan):
            select, steps = self._windows(node.plan, node.of[0], steps)
        else:
            select = self._distinct(node)
        return select.subquery(copy=False), steps

    def _join(
        self, plan: JoinPlan, of: Sequence[Node], after: tuple[Step, ...]
    ) -> tuple[exp.Select, tuple[Step, ...]]:
        """Return the query of a join, and the steps of `after` that are not part of the query."""
        join = JoinText(plan, *map(self.source, of))
        if after and isinstance(after[0], Select) and is_select_of(plan, after[0]):
            return join.chosen(after[0]), after[1:]
        return join.all(), after

    def _union(self, node: Union) -> exp.Expr:
        parts = [self.source(part) for part in node.of]
        if all(isinstance(part, exp.Table) for part in parts):
            return StreamUnion(expressions=parts)
        first, *rest = (self.query(part) for part in node.of)
        for part in rest:
            first = exp.Union(this=first, expression=part, distinct=False)
        return exp.Subquery(this=first)

    def _distinct(self, node: Apply) -> exp.Select:
        plan = node.plan
        if not isinstance(plan, DistinctPlan):
            raise SpecError(
                "order('time') and join(order='time') have no text: a text describes a set of "
                "rows, not the order of time; print the query without it"
            )
        if plan != DistinctPlan(plan.schema, plan.axis, tuple(plan.schema.names), 0):
            raise SpecError(
                "distinct() of some columns, or within a time, has no text: only distinct() of "
                "whole rows is SELECT DISTINCT *; write distinct(), or keep the query in Python"
            )
        return exp.select(exp.Star()).distinct().from_(self.source(node.of[0]))

    def _windows(
        self, plan: WindowPlan, of: Node, after: tuple[Step, ...]
    ) -> tuple[exp.Select, tuple[Step, ...]]:
        """Return the query of a window, and the steps of `after` that are not part of the query."""
        base, before = self._below(of)
        steps = list(before)
        inlined = _inlined(plan, of, steps)
        if inlined:
            steps.pop()
        last = steps.pop() if steps and isinstance(steps[-1], Where) else None
        source = _after(base, steps)
        fold = result_clauses(plan, after, _calls(plan, inlined), inlined)
        if not fold.times:
            source = WindowedStream(this=source, window=window_of(plan))
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


def _inlined(plan: WindowPlan, of: Node, steps: Sequence[Step]) -> dict[str, exp.Expr]:
    """Return {name: expression} of the computed columns that can be printed where they are used.

    Parsing the text must compute the same columns in the same order: keys, then the arguments of
    aggregates.
    """
    if not steps or not isinstance(steps[-1], WithColumns):
        return {}
    new = {name: expression(text) for name, text in steps[-1].columns}
    used = [key for key in keys_of(plan) if key in new]
    for aggregate in plan.aggregates.values():
        call = call_of(aggregate)
        used += [a for a in (call[1] if call else ()) if a in new and default_name(new[a]) == a]
    before = plan.schema.names[: len(plan.schema.names) - len(new)]
    times = {axis.column for axis in (plan.axis, plan.second) if axis is not None}
    elsewhere = {*times, of.time, *plan.partition, *before}
    fits = list(dict.fromkeys(used)) == list(new) and not elsewhere & set(new)
    return new if fits and getattr(plan.spec, "slide_on", None) not in new else {}


def _after(source: exp.Expr, steps: Sequence[Step]) -> exp.Expr:
    """Return `source` after `steps`: nested queries with at most one filter and one SELECT each."""
    condition: exp.Expr | None = None
    for step in steps:
        if isinstance(step, Where):
            if condition is not None:
                source = _nested([exp.Star()], source, condition)
            condition = expression(step.condition)
            continue
        items = [_aliased(expression(text), alias) for alias, text in step.columns]
        every = [exp.Star()] if isinstance(step, WithColumns) else []
        source, condition = _nested([*every, *items], source, condition), None
    return source if condition is None else _nested([exp.Star()], source, condition)


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
    """Return {name: call} of the aggregates of `plan`."""
    calls: dict[str, exp.Expr] = {}
    for alias, aggregate in plan.aggregates.items():
        call = call_of(aggregate)
        if call is None:
            problem = f"{alias}={aggregate} has no text: CQL has no name for it"
            raise SpecError(f"{problem}; remove it to print the query")
        arguments = [
            inlined.get(a, column(a)).copy() if isinstance(a, str) else exp.convert(a)
            for a in call[1]
        ]
        calls[alias] = exp.Anonymous(this=call[0], expressions=arguments or [exp.Star()])
    return calls


class Names:
    """The names of the streams of a query: the names in `named`, and the names of its sources."""

    def __init__(self, node: Node, names: Sequence[str], named: Mapping[str, Any]) -> None:
        self._of = {}
        for name, given in named.items():
            if not hasattr(given, "node"):
                raise SpecError(f"sql({name}={given!r}): give a stream of the query")
            self._of[id(given.node)] = name
        sources = list(dict.fromkeys(self._sources(node)))
        several = [f"s{i + 1}" for i in range(len(sources))] if len(sources) > 1 else ["s"]
        if names and len(names) != len(sources):
            count = "there is 1" if len(sources) == 1 else f"there are {len(sources)}"
            raise SpecError(f"sql{tuple(names)!r}: give a name for each stream; {count}")
        self._of |= dict(zip(sources, names or several, strict=False))

    def of(self, node: Node) -> str | None:
        """Return the name of the stream `node`; None if `node` has no name."""
        return self._of.get(id(node))

    def _sources(self, node: Node) -> Iterator[int]:
        if id(node) in self._of:
            return
        if isinstance(node, Source):
            yield id(node)
            return
        for of in (node.of,) if isinstance(node, Project) else node.of:
            yield from self._sources(of)


class NamedStream(NamedTuple):
    """A stream `base`, which has a name or is an operator or union, and the `steps` after it."""

    base: Node
    steps: tuple[Step, ...] = ()


def named_stream(node: Node, names: Names) -> NamedStream:
    """Return the named stream, operator or union that `node` continues, and the steps after it."""
    if isinstance(node, Source):
        return NamedStream(node, node.steps)
    if names.of(node) is not None:
        return NamedStream(node)
    if isinstance(node, Project):
        before = named_stream(node.of, names)
        return NamedStream(before.base, (*before.steps, node.step))
    return _united(node, names) if isinstance(node, Union) else NamedStream(node)


def _united(node: Union, names: Names) -> NamedStream:
    """Return the union `node` without the last steps that its inputs share, and these steps."""
    parts = node.of
    steps: tuple[Step, ...] = ()
    while (shorter := _without_last(parts, names)) is not None:
        parts, steps = shorter[0], (shorter[1], *steps)
    first = parts[0]
    union = Union(schema=first.schema, time=first.time, times=first.times, of=parts)
    return NamedStream(union, steps)


def _without_last(parts: tuple[Node, ...], names: Names) -> tuple[tuple[Node, ...], Step] | None:
    nodes = [part for part in parts if names.of(part) is None]
    stepped = [node for node in nodes if isinstance(node, Project)]
    if len(stepped) < len(parts) or len({str(node.step) for node in stepped}) > 1:
        return None
    before = tuple(node.of for node in stepped)
    alike = all((p.schema, p.time) == (before[0].schema, before[0].time) for p in before)
    return (before, stepped[0].step) if alike else None
