"""Drops pushed down into Spark: no column is computed for rows that ingest will shed (DROP 3.4).

Spark evaluates the steps on a DataFrame before ingest sheds rows. With `shed=`, the streaming query
therefore omits the steps. Every micro-batch adds the steps again, with a condition that skips the
rows of the windows dropped so far.
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
"""The number of newest dropped intervals in the condition; older intervals rarely have rows."""


def can_be_spared(source: DataFrameSource, flow: Dataflow, number: int) -> bool:
    """Return whether Spark can determine, before the steps, which rows ingest will shed."""
    start = flow.inputs[number]
    plain = start.mark_when is None and start.mark_since is None and start.prods is None
    if not source.steps or not plain or start.before:
        return False
    needed = [start.axis.column, *([start.source] if start.source is not None else [])]
    kind = {field.name: field.dataType for field in source.base.schema}.get(start.axis.column)
    return (
        isinstance(kind, TimestampType)
        and all(_is_kept(source, name) for name in needed)
        and not any(o.plan.has_gaps for o in flow.operators)
    )


def _is_kept(source: DataFrameSource, name: str) -> bool:
    computed = (dict(step.columns) for step in source.steps if not isinstance(step, Where))
    text = column_text(name)
    return name in source.base.columns and all(m.get(name, text) == text for m in computed)


def spared(
    batch: DataFrame, source: DataFrameSource, flow: Dataflow, number: int, dropped: DropPlan
) -> DataFrame:
    """Return `batch` after the steps of `source`, which skip the rows that no operator needs."""
    start = flow.inputs[number]
    shed = _lies_in(_unread(flow, start, dropped), start.axis.column)
    return source.computed(batch, shed, {start.axis.column, start.source})


def _unread(flow: Dataflow, start: Input, dropped: DropPlan) -> Intervals:
    """Return the intervals of time whose rows no operator on the input's routes needs."""
    rows = skipped(flow, dropped).rows
    routes: list[Intervals] = [rows[flow.numbers[r.operator, r.port]] for r in start.routes]
    return reduce(intersection, routes)[-NEWEST:] if routes else ()


def _lies_in(intervals: Intervals, time: str) -> Column | None:
    at = sql.unix_micros(sql.col(column_text(time)))
    within = [(at >= start) & (at < end) for start, end in intervals]
    return sql.coalesce(reduce(Column.__or__, within), sql.lit(False)) if within else None
