"""Streaming DataFrames as sources."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from lowwater.errors import SpecError
from lowwater.expressions.steps import Step, Where, WithColumns
from lowwater.operators.batch import KEPT

_WITH_STATE = ("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit")
SPARED = "__spared"
"""The column that marks rows for which Spark computes no columns, because ingest sheds them."""


@dataclass(frozen=True)
class DataFrameSource:
    """A streaming DataFrame and its Arrow schema.

    Rows that a filter drops stay in the DataFrame, because ingest measures progress over all rows.
    They have False in column `KEPT`, and later steps compute NULL. `frame` is `base` after `steps`.
    """

    frame: DataFrame
    schema: pa.Schema
    base: DataFrame
    steps: tuple[Step, ...] = ()

    @property
    def full_schema(self) -> pa.Schema:
        """The Arrow schema of `frame`, including the column `KEPT` if a step is a filter."""
        return to_arrow_schema(self.frame.schema, timezone="UTC")

    def transformed(self, step: Step) -> DataFrameSource:
        """Return the source after `step`; raise SpecError if Spark cannot evaluate the step."""
        try:
            return _source(_after(self.frame, step), self.base, (*self.steps, step))
        except PySparkException as problem:
            reason = str(problem).splitlines()[0]
            raise SpecError(f"{step}: Spark refuses it: {reason}") from problem

    def computed(
        self, rows: DataFrame, spared: Column | None, shown: Collection[str | None]
    ) -> DataFrame:
        """Return `rows`, which are rows of `base`, after the steps.

        For a `spared` row, only the columns in `shown` are computed, and filters keep the row.
        """
        if spared is None:
            return reduce(_after, self.steps, rows)
        rows = rows.withColumn(SPARED, spared)
        for step in self.steps:
            rows = _after(rows, step, shown)
        return rows.drop(SPARED)


def _after(frame: DataFrame, step: Step, shown: Collection[str | None] = ()) -> DataFrame:
    """Return `frame` after `step`; a filter marks rows in the column `KEPT`, and drops none."""
    ours = [name for name in (KEPT, SPARED) if name in frame.columns]
    if isinstance(step, Where):
        true = sql.coalesce(sql.expr(step.condition), sql.lit(False))
        kept = sql.when(sql.col(KEPT), true).otherwise(False) if KEPT in ours else true
        kept = sql.when(sql.col(SPARED), True).otherwise(kept) if SPARED in ours else kept
        return frame.withColumn(KEPT, kept)
    columns = {name: sql.expr(text) for name, text in step.columns}
    needed = [sql.col(KEPT)] * (KEPT in ours) + [~sql.col(SPARED)] * (SPARED in ours)
    if needed:
        wanted = reduce(Column.__and__, needed)
        columns = {n: c if n in shown else sql.when(wanted, c) for n, c in columns.items()}
    if isinstance(step, WithColumns):
        return frame.withColumns(columns)
    return frame.select(*(column.alias(name) for name, column in columns.items()), *ours)


def from_dataframe(frame: DataFrame) -> DataFrameSource:
    """Return the source of `frame`; raise SpecError unless `frame` is streaming."""
    if not frame.isStreaming:
        raise SpecError(
            "the DataFrame is not streaming; read it with spark.readStream instead of spark.read"
        )
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    for step in _steps_with_state(plan):
        raise SpecError(
            f"the DataFrame has a step with state in Spark, {step}, and a checkpoint of Lowwater "
            f"does not hold Spark's state; make the step in Lowwater (distinct, window, join), or "
            f"write its rows to a table or a topic and read them from there"
        )
    return _source(frame, frame)


def _steps_with_state(plan: Any) -> Iterator[str]:
    """Yield the names of the steps of Spark's logical `plan` that keep state between batches."""
    children = [plan.children().apply(i) for i in range(plan.children().size())]
    name = str(plan.getClass().getSimpleName())
    if plan.isStreaming() and (
        name in _WITH_STATE
        or "WithState" in name
        or (name == "Join" and all(child.isStreaming() for child in children))
    ):
        yield name
    for child in children:
        yield from _steps_with_state(child)


def _source(frame: DataFrame, base: DataFrame, steps: tuple[Step, ...] = ()) -> DataFrameSource:
    full = to_arrow_schema(frame.schema, timezone="UTC")
    return DataFrameSource(frame, pa.schema([f for f in full if f.name != KEPT]), base, steps)
