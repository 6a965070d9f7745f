"""Rows of a DataFrame that nobody needs: columns are not computed for them (DROP 3.4).

Spark evaluates the steps over a DataFrame, before ingest sees a row and sheds it. So where windows
may be left out, the stream that Spark is given ends before the steps; they are added to every
micro-batch, with what is left out by then. Rows that ingest will shed come to it uncomputed.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import TimestampType

from lowwater.control import Dropped, Stretches
from lowwater.control.intervals import common
from lowwater.kernels import Dataflow, WindowPlan
from lowwater.kernels.dataflow import Input
from lowwater.kernels.skipping import skipped
from lowwater.sources import Where
from lowwater.sources.expressions import column_text
from lowwater.spark.dataframes import DataFrameSource

NEWEST = 64
"""So many stretches, the newest, are told to Spark; rows of older ones are few."""


def can_be_spared(source: DataFrameSource, flow: Dataflow, number: int) -> bool:
    """Say whether rows can be judged before the steps: by a time that no step makes."""
    start = flow.inputs[number]
    plain = start.mark_when is None and start.mark_since is None and start.prods is None
    if not source.steps or not plain or start.before:
        return False
    told = [start.axis.column, *([start.source] if start.source is not None else [])]
    kind = {field.name: field.dataType for field in source.base.schema}.get(start.axis.column)
    return (
        isinstance(kind, TimestampType)
        and all(_is_kept(source, name) for name in told)
        and not any(isinstance(o.plan, WindowPlan) and o.plan.spec.has_gaps for o in flow.operators)
    )


def _is_kept(source: DataFrameSource, name: str) -> bool:
    made = (dict(step.columns) for step in source.steps if not isinstance(step, Where))
    text = column_text(name)
    return name in source.base.columns and all(m.get(name, text) == text for m in made)


def spared(
    batch: DataFrame, source: DataFrameSource, flow: Dataflow, number: int, dropped: Dropped
) -> DataFrame:
    """Return rows of a DataFrame after its steps, those that reach nothing uncomputed."""
    start = flow.inputs[number]
    unread = _unread(flow, start, dropped)
    kept = {start.axis.column, start.source}
    return source.computed(batch, _lies_in(unread, start.axis.column), kept)


def _unread(flow: Dataflow, start: Input, dropped: Dropped) -> Stretches:
    """Return the times whose rows need not go on, wherever they would go."""
    rows = skipped(flow, dropped).rows
    routes: list[Stretches] = [rows[flow.numbers[r.operator, r.port]] for r in start.routes]
    found: Stretches = reduce(common, routes) if routes else ()
    return found[-NEWEST:]


def _lies_in(stretches: Stretches, time: str) -> Column | None:
    at = sql.unix_micros(sql.col(column_text(time)))
    found = [(at >= start) & (at < end) for start, end in stretches]
    return sql.coalesce(reduce(Column.__or__, found), sql.lit(False)) if found else None
