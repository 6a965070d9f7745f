"""Steps after a window that are the SELECT and the HAVING of its query, back to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from lowwater.cql.names import default_name
from lowwater.cql.printed_joins import expression
from lowwater.kernels import WindowPlan
from lowwater.sources import Select, Step, Where
from lowwater.sources.steps import is_column


class Folded(NamedTuple):
    """What SELECT gives beside keys, by name, HAVING, and the steps that are left."""

    items: Mapping[str, exp.Expr]
    having: exp.Expr | None
    rest: tuple[Step, ...]


def folded(
    plan: WindowPlan,
    steps: Sequence[Step],
    calls: Mapping[str, exp.Expr],
    inlined: Mapping[str, exp.Expr],
) -> Folded:
    """Take those steps into a query that its text would make; `calls` are the aggregates."""
    rest = list(steps)
    where = rest.pop(0) if rest and isinstance(rest[0], Where) else None
    chosen = rest.pop(0) if rest and _is_of_results(rest[0], plan) else None
    text = _Text(plan, calls, inlined)
    items = dict(calls) if chosen is None else text.items(chosen)
    having = text.over(where.condition) if isinstance(where, Where) else None
    fits = text.sound and (where is not None or chosen is not None)
    if not fits or text.order != list(calls):
        return Folded(calls, None, tuple(steps))
    return Folded(items, having, tuple(rest))


def _is_of_results(step: Step, plan: WindowPlan) -> bool:
    """Say whether a step keeps what results always have, in its place."""
    if not isinstance(step, Select):
        return False
    first = ("window", "wid", *plan.keys)
    kept = (*step.columns[: len(first)], step.columns[-1])
    return len(step.columns) > len(first) and all(
        name == always and is_column(text, always)
        for (name, text), always in zip(kept, (*first, "kind"), strict=True)
    )


class _Text:
    """Expressions over results as they are written. `sound` if they would be read as they were.

    `order` are the aggregates in the order in which a text names them: first those that are items.
    """

    def __init__(
        self, plan: WindowPlan, calls: Mapping[str, exp.Expr], inlined: Mapping[str, exp.Expr]
    ) -> None:
        self.plan, self.calls, self.inlined = plan, calls, inlined
        known = list(plan.aggregates.values())
        self.sound = all(known.index(a) == i for i, a in enumerate(known))
        self.order = list(calls)

    def items(self, step: Step) -> dict[str, exp.Expr]:
        """Return the items of SELECT that are no keys."""
        assert isinstance(step, Select)  # noqa: S101
        given = step.columns[len(self.plan.keys) + 2 : -1]
        plain = [name for name, text in given if name in self.calls and is_column(text, name)]
        self.order = list(plain)
        found = {
            name: self.calls[name] if name in plain else self._composed(text)
            for name, text in given
        }
        # All aggregates as they are would be read as no step at all.
        self.sound &= len(found) == len(given) and plain != list(self.calls)
        return found

    def _composed(self, text: str) -> exp.Expr:
        made = self.over(text)
        self.sound &= any(node in self.calls.values() for node in made.find_all(exp.Anonymous))
        return made

    def over(self, text: str) -> exp.Expr:
        """Return an expression over results as one over aggregates."""
        return expression(text).transform(self._written)

    def _written(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        name = node.parts[0].name
        if name in self.calls and len(node.parts) == 1:
            if name not in self.order:
                self.order.append(name)
                self.sound &= default_name(self.calls[name]) == name
            return self.calls[name].copy()
        if name in self.plan.keys:
            closed = isinstance(node.parent, exp.Paren) or name not in self.inlined
            self.sound &= closed and name not in self.plan.partition and len(node.parts) == 1
            return self.inlined.get(name, node).copy()
        self.sound &= name in ("window", "wid", "kind")
        return node
