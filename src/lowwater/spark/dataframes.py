"""Streaming DataFrames as sources."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from lowwater.errors import SpecError
from lowwater.kernels.rows import KEPT
from lowwater.sources import Step, Where, WithColumns


@dataclass(frozen=True)
class DataFrameSource:
    """A streaming DataFrame and its schema in Arrow.

    Rows that a filter drops stay in the DataFrame, marked in a column of ours, until ingest has
    seen how far they show the stream to be; nothing is computed for them.
    """

    frame: DataFrame
    schema: pa.Schema

    @property
    def full_schema(self) -> pa.Schema:
        """The columns with that of ours."""
        return to_arrow_schema(self.frame.schema, timezone="UTC")

    def transformed(self, step: Step) -> DataFrameSource:
        """Return the DataFrame after a step, which Spark evaluates."""
        try:
            return _source(self._after(step))
        except PySparkException as problem:
            reason = str(problem).splitlines()[0]
            raise SpecError(f"{step}: Spark refuses it: {reason}") from problem

    def _after(self, step: Step) -> DataFrame:
        frame, filtered = self.frame, KEPT in self.frame.columns
        if isinstance(step, Where):
            true = sql.coalesce(sql.expr(step.condition), sql.lit(False))
            kept = sql.when(sql.col(KEPT), true).otherwise(False) if filtered else true
            return frame.withColumn(KEPT, kept)
        made = {name: sql.expr(text) for name, text in step.columns}
        if filtered:
            made = {name: sql.when(sql.col(KEPT), column) for name, column in made.items()}
        if isinstance(step, WithColumns):
            return frame.withColumns(made)
        named = [column.alias(name) for name, column in made.items()]
        return frame.select(*named, *([KEPT] if filtered else []))


def from_dataframe(frame: DataFrame) -> DataFrameSource:
    """Make a source of a streaming DataFrame."""
    if not frame.isStreaming:
        raise SpecError(
            "the DataFrame is not streaming; read it with spark.readStream instead of spark.read"
        )
    return _source(frame)


def _source(frame: DataFrame) -> DataFrameSource:
    full = to_arrow_schema(frame.schema, timezone="UTC")
    return DataFrameSource(frame, pa.schema([f for f in full if f.name != KEPT]))
