"""Prints the steps after a window as SELECT and HAVING of the window's query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from lowwater.cql.names import STARTS, column, default_name, same, spark_text
from lowwater.cql.print.join import expression
from lowwater.expressions.evaluate import normal
from lowwater.expressions.steps import Select, Step, Where, is_column
from lowwater.operators.window.plan import SECOND, WindowPlan
from lowwater.windows.axis import WindowTime
from lowwater.windows.sliding import Sliding

Expressions = Mapping[str, exp.Expr]


class ResultClauses(NamedTuple):
    """The clauses for the steps after a window: the items of SELECT except keys, and HAVING.

    `rest` lists the steps that do not fit into these clauses. If the query groups a join by its two
    times instead of windows, `times` maps the names of the times in results to their columns.
    """

    items: Expressions
    having: exp.Expr | None
    rest: tuple[Step, ...]
    times: Mapping[str, str]


def result_clauses(
    plan: WindowPlan, steps: Sequence[Step], calls: Expressions, inlined: Expressions
) -> ResultClauses:
    """Return clauses for the first steps of `steps`: at most one filter and then one selection.

    `calls` maps names to calls of aggregates, `inlined` maps computed columns to expressions.
    """
    rest = list(steps)
    where = rest.pop(0) if rest and isinstance(rest[0], Where) else None
    times = times_named(plan, rest[0]) if rest else {}
    chosen = rest.pop(0) if rest and _is_of_results(rest[0], plan, times) else None
    text = _Text(plan, calls, inlined, times)
    items = dict(calls) if chosen is None else text.items(chosen)
    having = text.over(where.condition) if isinstance(where, Where) else None
    fits = text.sound and (where is not None or chosen is not None)
    if not fits or text.order != list(calls):
        return ResultClauses(calls, None, tuple(steps), {})
    return ResultClauses(items, having, tuple(rest), times if chosen is not None else {})


def _is_of_results(step: Step, plan: WindowPlan, times: Mapping[str, str]) -> bool:
    """Return whether `step` selects first the window columns, `times` and keys, and `kind` last."""
    if not isinstance(step, Select):
        return False
    first = (*always_of(plan), *times, *keys_of(plan))
    leading = (*step.columns[: len(first)], step.columns[-1])
    return len(step.columns) > len(first) and all(
        name == always and (always in times or is_column(text, always))
        for (name, text), always in zip(leading, (*first, "kind"), strict=True)
    )


class _Text:
    """A printer of expressions over results.

    `sound` is whether parsing the text builds the same steps again. `order` lists the aggregates
    in the order of the text: items of SELECT, then HAVING.
    """

    def __init__(
        self, plan: WindowPlan, calls: Expressions, inlined: Expressions, times: Mapping[str, str]
    ) -> None:
        self.plan, self.calls, self.inlined, self.times = plan, calls, inlined, times
        self.keys, self.always = keys_of(plan), (*always_of(plan), "kind")
        known = list(plan.aggregates.values())
        self.sound = all(known.index(a) == i for i, a in enumerate(known))
        self.order = list(calls)

    def items(self, step: Step) -> dict[str, exp.Expr]:
        """Return {name: expression} of the columns of `step` after the keys and before `kind`."""
        assert isinstance(step, Select)  # noqa: S101
        given = step.columns[len(self.always) - 1 + len(self.times) + len(self.keys) : -1]
        plain = [name for name, text in given if name in self.calls and is_column(text, name)]
        self.order = list(plain)
        items = {n: self.calls[n] if n in plain else self._composed(text) for n, text in given}
        # Parsing a SELECT of all aggregates in order builds no step.
        changed = bool(self.times) or plain != list(self.calls)
        self.sound &= len(items) == len(given) and changed
        return items

    def _composed(self, text: str) -> exp.Expr:
        node = self.over(text)
        self.sound &= any(call in self.calls.values() for call in node.find_all(exp.Anonymous))
        return node

    def over(self, text: str) -> exp.Expr:
        """Return the expression `text` with columns of results replaced by aggregate calls."""
        return expression(text).transform(self._source_of)

    def _source_of(self, node: exp.Expr) -> exp.Expr:
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


def keys_of(plan: WindowPlan) -> tuple[str, ...]:
    """Return the keys of `plan`, without the key `window_2` that windows on two times add."""
    return plan.keys if plan.second is None else plan.keys[1:]


def always_of(plan: WindowPlan) -> tuple[str, ...]:
    """Return the columns that precede the keys in results of `plan`."""
    return ("window", "wid") if plan.second is None else ("window", "wid", SECOND)


def times_named(plan: WindowPlan, step: Step) -> Mapping[str, str]:
    """Return {name in `step`: column} for the two times that the query groups by.

    `GROUP BY a.ts, b.ts` is built as windows of one tick and a step that selects `window`, `wid`,
    `window_2`, the times, keys, aggregates and `kind`. For other windows or steps, return {}.
    """
    if plan.second is None or plan.flush is not None or not isinstance(step, Select):
        return {}
    axes = (plan.axis, plan.second)
    of_windows = any(isinstance(axis, WindowTime) for axis in axes)
    if plan.spec != Sliding(range=1) or plan.partition or of_windows:
        return {}
    given = step.columns[len(always_of(plan)) :][: len(STARTS)]
    if [normal(text) for _, text in given] != [normal(spark_text(start)) for start in STARTS]:
        return {}
    return {name: axis.column for (name, _), axis in zip(given, axes, strict=True)}
