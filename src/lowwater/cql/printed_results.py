"""Steps after a window that are the SELECT and the HAVING of its query, back to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from lowwater.cql.names import column, default_name, same
from lowwater.cql.pairs import STARTS
from lowwater.cql.printed_joins import expression
from lowwater.cql.printed_pairs import always_of, keys_of, times_named
from lowwater.kernels import WindowPlan
from lowwater.sources import Select, Step, Where
from lowwater.sources.steps import is_column


class Folded(NamedTuple):
    """What SELECT gives beside keys, by name, HAVING, and the steps that are left.

    `times` are the times of a join by name, if they are grouped by instead of windows.
    """

    items: Mapping[str, exp.Expr]
    having: exp.Expr | None
    rest: tuple[Step, ...]
    times: Mapping[str, str]


def folded(
    plan: WindowPlan,
    steps: Sequence[Step],
    calls: Mapping[str, exp.Expr],
    inlined: Mapping[str, exp.Expr],
) -> Folded:
    """Take those steps into a query that its text would make; `calls` are the aggregates."""
    rest = list(steps)
    where = rest.pop(0) if rest and isinstance(rest[0], Where) else None
    times = times_named(plan, rest[0]) if rest else {}
    chosen = rest.pop(0) if rest and _is_of_results(rest[0], plan, times) else None
    text = _Text(plan, calls, inlined, times)
    items = dict(calls) if chosen is None else text.items(chosen)
    having = text.over(where.condition) if isinstance(where, Where) else None
    fits = text.sound and (where is not None or chosen is not None)
    if not fits or text.order != list(calls):
        return Folded(calls, None, tuple(steps), {})
    return Folded(items, having, tuple(rest), times if chosen is not None else {})


def _is_of_results(step: Step, plan: WindowPlan, times: Mapping[str, str]) -> bool:
    """Say whether a step keeps what results always have, in its place; times stand before keys."""
    if not isinstance(step, Select):
        return False
    first = (*always_of(plan), *times, *keys_of(plan))
    kept = (*step.columns[: len(first)], step.columns[-1])
    return len(step.columns) > len(first) and all(
        name == always and (always in times or is_column(text, always))
        for (name, text), always in zip(kept, (*first, "kind"), strict=True)
    )


class _Text:
    """Expressions over results as they are written. `sound` if they would be read as they were.

    `order` are the aggregates in the order in which a text names them: first those that are items.
    """

    def __init__(
        self,
        plan: WindowPlan,
        calls: Mapping[str, exp.Expr],
        inlined: Mapping[str, exp.Expr],
        times: Mapping[str, str],
    ) -> None:
        self.plan, self.calls, self.inlined, self.times = plan, calls, inlined, times
        self.keys, self.always = keys_of(plan), (*always_of(plan), "kind")
        known = list(plan.aggregates.values())
        self.sound = all(known.index(a) == i for i, a in enumerate(known))
        self.order = list(calls)

    def items(self, step: Step) -> dict[str, exp.Expr]:
        """Return the items of SELECT that are no keys."""
        assert isinstance(step, Select)  # noqa: S101
        given = step.columns[len(self.always) - 1 + len(self.times) + len(self.keys) : -1]
        plain = [name for name, text in given if name in self.calls and is_column(text, name)]
        self.order = list(plain)
        found = {
            name: self.calls[name] if name in plain else self._composed(text)
            for name, text in given
        }
        # All aggregates as they are would be read as no step at all.
        changed = bool(self.times) or plain != list(self.calls)
        self.sound &= len(found) == len(given) and changed
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
        if name in self.keys:
            closed = isinstance(node.parent, exp.Paren) or name not in self.inlined
            self.sound &= closed and name not in self.plan.partition and len(node.parts) == 1
            return self.inlined.get(name, node).copy()
        self.sound &= name in self.always
        for time, start in zip(self.times.values(), STARTS, strict=False):
            if same(node, start):
                return column(time)
        return node
