"""Rows of a DataFrame that will be shed: columns are not computed for them (DROP 3.4).

Spark evaluates the steps over a DataFrame, before ingest sees a row and sheds it. So where windows
may be dropped, the stream that Spark is given ends before the steps; they are added to every
micro-batch, with the windows dropped by then. Rows that ingest will shed come to it uncomputed.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import TimestampType

from lowwater.control.drop import DropPlan
from lowwater.dataflow.graph import Dataflow, Input
from lowwater.dataflow.route import skipped
from lowwater.expressions.evaluate import column_text
from lowwater.expressions.steps import Where
from lowwater.intervals import Intervals, intersection
from lowwater.spark.dataframe_source import DataFrameSource

NEWEST = 64
"""The number of intervals, the newest, that Spark filters by; rows of older ones are few."""


def can_be_spared(source: DataFrameSource, flow: Dataflow, number: int) -> bool:
    """Return whether rows can be judged before the steps: by a time that no step makes."""
    start = flow.inputs[number]
    plain = start.mark_when is None and start.mark_since is None and start.prods is None
    if not source.steps or not plain or start.before:
        return False
    told = [start.axis.column, *([start.source] if start.source is not None else [])]
    kind = {field.name: field.dataType for field in source.base.schema}.get(start.axis.column)
    return (
        isinstance(kind, TimestampType)
        and all(_is_kept(source, name) for name in told)
        and not any(o.plan.has_gaps for o in flow.operators)
    )


def _is_kept(source: DataFrameSource, name: str) -> bool:
    made = (dict(step.columns) for step in source.steps if not isinstance(step, Where))
    text = column_text(name)
    return name in source.base.columns and all(m.get(name, text) == text for m in made)


def spared(
    batch: DataFrame, source: DataFrameSource, flow: Dataflow, number: int, dropped: DropPlan
) -> DataFrame:
    """Return rows of a DataFrame after its steps, those that reach nothing uncomputed."""
    start = flow.inputs[number]
    unread = _unread(flow, start, dropped)
    kept = {start.axis.column, start.source}
    return source.computed(batch, _lies_in(unread, start.axis.column), kept)


def _unread(flow: Dataflow, start: Input, dropped: DropPlan) -> Intervals:
    """Return the times whose rows need not go on, wherever they would go."""
    rows = skipped(flow, dropped).rows
    routes: list[Intervals] = [rows[flow.numbers[r.operator, r.port]] for r in start.routes]
    found: Intervals = reduce(intersection, routes) if routes else ()
    return found[-NEWEST:]


def _lies_in(stretches: Intervals, time: str) -> Column | None:
    at = sql.unix_micros(sql.col(column_text(time)))
    found = [(at >= start) & (at < end) for start, end in stretches]
    return sql.coalesce(reduce(Column.__or__, found), sql.lit(False)) if found else None
