"""What is submitted to a cluster: paths are relative, as people write them."""

from __future__ import annotations

from pathlib import Path

import lowwater as lw


def query(folder):
    files = lw.files(folder, files_per_epoch=1)
    stream = lw.stream(files, time="ts", watermark=lw.slack("2 seconds"))
    windows = stream.with_columns(twice="value * 2").window(range="9 seconds", slide="2 seconds")
    return windows.group_by("key").agg(n=lw.count(), total=lw.sum("twice"), top=lw.max("name"))


if __name__ == "__main__":
    spark = lw.spark_session()
    query("stream").run(sink=lw.to_parquet("results"), checkpoint="checkpoint")
    Path("master").write_text(spark.sparkContext.master)
