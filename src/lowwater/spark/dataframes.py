"""Streaming DataFrames as sources."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from lowwater.errors import SpecError


@dataclass(frozen=True)
class DataFrameSource:
    """A streaming DataFrame and its schema in Arrow."""

    frame: DataFrame
    schema: pa.Schema


def from_dataframe(frame: DataFrame) -> DataFrameSource:
    """Make a source of a streaming DataFrame."""
    if not frame.isStreaming:
        raise SpecError(
            "the DataFrame is not streaming; read it with spark.readStream instead of spark.read"
        )
    return DataFrameSource(frame, to_arrow_schema(frame.schema, timezone="UTC"))
