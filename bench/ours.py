"""The Lowwater sides: the same windows on the same stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lowwater as lw
from bench.native import arrivals

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bench.cases import Case


def run(
    spark: SparkSession, case: Case, folder: Path, out: Path, checkpoint: Path
) -> Mapping[str, Any]:
    """Run the query of `case` over all files in `folder` and return its final status."""
    source = (
        lw.files(str(folder), format="parquet", files_per_epoch=1)
        if case.fused
        else arrivals(spark, folder)
    )
    stream = lw.stream(source, time="ts", progress=lw.slack("10 seconds"))
    windows = stream.window(range=case.range, slide=case.slide)
    if case.keyed:
        query = windows.group_by("key").agg(
            n=lw.count(), total=lw.sum("value"), top=lw.max("value")
        )
    else:
        query = windows.agg(n=lw.count(), total=lw.sum("value"))
    outcome = query.run(sink=lw.parquet(str(out)), checkpoint=str(checkpoint))
    status: Mapping[str, Any] = outcome.status
    return status
