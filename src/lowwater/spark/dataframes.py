"""Streaming DataFrames as sources."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from lowwater.errors import SpecError
from lowwater.sources import Step, Where, WithColumns


@dataclass(frozen=True)
class DataFrameSource:
    """A streaming DataFrame and its schema in Arrow."""

    frame: DataFrame
    schema: pa.Schema

    def transformed(self, step: Step) -> DataFrameSource:
        """Return the DataFrame after a step, which Spark evaluates."""
        try:
            return from_dataframe(_after(self.frame, step))
        except PySparkException as problem:
            reason = str(problem).splitlines()[0]
            raise SpecError(f"{step}: Spark refuses it: {reason}") from problem


def from_dataframe(frame: DataFrame) -> DataFrameSource:
    """Make a source of a streaming DataFrame."""
    if not frame.isStreaming:
        raise SpecError(
            "the DataFrame is not streaming; read it with spark.readStream instead of spark.read"
        )
    return DataFrameSource(frame, to_arrow_schema(frame.schema, timezone="UTC"))


def _after(frame: DataFrame, step: Step) -> DataFrame:
    if isinstance(step, Where):
        return frame.where(step.condition)
    columns = {name: sql.expr(text) for name, text in step.columns}
    if isinstance(step, WithColumns):
        return frame.withColumns(columns)
    return frame.select([column.alias(name) for name, column in columns.items()])
