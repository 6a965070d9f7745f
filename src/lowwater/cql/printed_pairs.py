"""Windows on both times of a join, back to text: as groups by the times where they are of one tick.

What a text makes of `GROUP BY a.ts, b.ts` are windows of one tick and, after them, the columns
`window, wid, window_2, the times, keys, aggregates, kind`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowwater.cql.names import spark_text
from lowwater.cql.pairs import STARTS
from lowwater.kernels import WindowPlan
from lowwater.kernels.plan import SECOND
from lowwater.sources import Select, Step
from lowwater.sources.expressions import normal
from lowwater.windows import Sliding, WindowTime

_BEFORE = 3
"""Columns before the times: window, wid, window_2."""


def keys_of(plan: WindowPlan) -> tuple[str, ...]:
    """Return what results are grouped by beside windows."""
    return plan.keys if plan.second is None else plan.keys[1:]


def always_of(plan: WindowPlan) -> tuple[str, ...]:
    """Return the columns that stand before keys in results."""
    return ("window", "wid") if plan.second is None else ("window", "wid", SECOND)


def times_named(plan: WindowPlan, step: Step) -> Mapping[str, str]:
    """Return what a step after windows of one tick calls the times, with their columns.

    Nothing if it does not name them, or if the windows are others.
    """
    if plan.second is None or plan.smooth is not None or not isinstance(step, Select):
        return {}
    axes = (plan.axis, plan.second)
    if (
        plan.spec != Sliding(range=1)
        or plan.partition
        or any(isinstance(a, WindowTime) for a in axes)
    ):
        return {}
    given = step.columns[_BEFORE : _BEFORE + len(STARTS)]
    if [normal(text) for _, text in given] != [normal(spark_text(start)) for start in STARTS]:
        return {}
    return {name: axis.column for (name, _), axis in zip(given, axes, strict=True)}
