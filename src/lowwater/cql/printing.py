"""From a query back to a text that builds the same query."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lowwater.cql.calls import call_of
from lowwater.cql.dialect import normal_form, parse
from lowwater.cql.names import column, default_name, identifier
from lowwater.cql.nodes import Windowed
from lowwater.cql.windows import window_of
from lowwater.errors import SpecError
from lowwater.query import Query
from lowwater.sources import Step, Where, WithColumns


def text_of(query: Query, name: str) -> str:
    """Print a query over a stream of a name."""
    plan, steps = query.plan, list(query.stream.steps)
    inlined = _inlined(query)
    if inlined:
        steps.pop()
    last = steps.pop() if steps and isinstance(steps[-1], Where) else None
    source = Windowed(this=_source(steps, name), window=window_of(plan))
    items = [_named(key, inlined.get(key)) for key in plan.keys]
    for alias, aggregate in plan.aggregates.items():
        call = call_of(aggregate)
        if call is None:
            raise SpecError(f"{alias}={aggregate} has no name that a text could call it by")
        items.append(_aliased(_call(*call, inlined), alias))
    select = exp.select(*items).from_(source)
    if isinstance(last, Where):
        select = select.where(_expression(last.condition))
    groups = [key for key in plan.keys if key not in plan.partition]
    if groups:
        select = select.group_by(*(inlined.get(key, column(key)) for key in groups))
    return normal_form(select)


def _inlined(query: Query) -> dict[str, exp.Expr]:
    """Return the columns that can be written where they are used.

    They are those that a text of that form would compute, in the same order: keys, then what
    aggregates are over.
    """
    plan, steps = query.plan, query.stream.steps
    if not steps or not isinstance(steps[-1], WithColumns):
        return {}
    made = {name: _expression(text) for name, text in steps[-1].columns}
    used = [key for key in plan.keys if key in made]
    for aggregate in plan.aggregates.values():
        call = call_of(aggregate)
        used += [a for a in (call[1] if call else ()) if a in made and default_name(made[a]) == a]
    before = plan.schema.names[: len(plan.schema.names) - len(made)]
    elsewhere = {plan.axis.column, query.stream.time, *plan.partition, *before}
    fits = list(dict.fromkeys(used)) == list(made) and not elsewhere & set(made)
    return made if fits and _slide_attribute(query) not in made else {}


def _slide_attribute(query: Query) -> str | None:
    return getattr(query.plan.spec, "slide_on", None)


def _source(steps: Sequence[Step], name: str) -> exp.Expr:
    """Return the stream after steps: queries inside each other, a filter below its columns."""
    source: exp.Expr = exp.Table(this=identifier(name))
    held: exp.Expr | None = None
    for step in steps:
        if isinstance(step, Where):
            if held is not None:
                source = _nested([exp.Star()], source, held, name)
            held = _expression(step.condition)
            continue
        items = [_aliased(_expression(text), alias) for alias, text in step.columns]
        every = [exp.Star()] if isinstance(step, WithColumns) else []
        source, held = _nested([*every, *items], source, held, name), None
    return source if held is None else _nested([exp.Star()], source, held, name)


def _nested(
    items: Sequence[exp.Expr],
    source: exp.Expr,
    condition: exp.Expr | None,
    name: str,
) -> exp.Subquery:
    select = exp.select(*items).from_(source)
    if condition is not None:
        select = select.where(condition)
    return select.subquery(identifier(name).sql("spark"), copy=False)


def _expression(text: str) -> exp.Expr:
    tree: exp.Expr = parse(f"SELECT {text}").expressions[0]
    return tree


def _named(name: str, node: exp.Expr | None) -> exp.Expr:
    return column(name) if node is None else _aliased(node, name)


def _aliased(node: exp.Expr, name: str) -> exp.Expr:
    if default_name(node) == name:
        return node.copy()
    return exp.Alias(this=node.copy(), alias=identifier(name))


def _call(name: str, given: tuple[object, ...], inlined: dict[str, exp.Expr]) -> exp.Expr:
    if not given:
        return exp.Anonymous(this=name, expressions=[exp.Star()])
    arguments = [
        inlined.get(value, column(value)).copy() if isinstance(value, str) else exp.convert(value)
        for value in given
    ]
    return exp.Anonymous(this=name, expressions=arguments)
