"""A query that is killed again and again: run as a process of its own by the recovery tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lowwater as lw
from tests.spark.streams import SCHEMA, SHORT_LIVED, cut, disordered

EPOCHS = 90


def pinned(folder, checkpoint):
    """Slack is chosen by what is remembered of late rows; windows are left out by coins."""
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.quality(0.98))
    query = (
        stream.window(range="9 seconds", slide="2 seconds")
        .group_by("key")
        .agg(n=lw.count(), total=lw.sum("value"), top=lw.max("name"))
    )
    epochs = {feed: cut(disordered(6_000, seconds=180, late_by=20), EPOCHS)}
    return query.run(
        epochs=epochs,
        host="spark",
        checkpoint=checkpoint,
        shed=lw.shed(share=0.3, max_gap=6),
        dropped=lw.to_parquet(folder / "shed"),
        sink=lw.to_parquet(folder / "results"),
        late=lw.to_parquet(folder / "late"),
        malformed=lw.to_parquet(folder / "malformed"),
    )


def sidelined(folder, checkpoint):
    """The clock goes on faster than the stream, so rows are put aside and worked off."""
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack("2 seconds")).where("value > 0")
    query = stream.window(range="4 seconds", slide="2 seconds").group_by("key")
    return query.agg(n=lw.count(), total=lw.sum("value"), top=lw.max("name")).run(
        epochs={feed: cut(disordered(2_000, seconds=60, late_by=15), 20)},
        host="spark",
        checkpoint=checkpoint,
        sink=lw.to_parquet(folder / "results"),
        late=lw.to_parquet(folder / "late"),
        malformed=lw.to_parquet(folder / "malformed"),
        clock=lw.VirtualClock(per_epoch="3500 milliseconds"),
        early=lw.early_every("2 seconds"),
        sideline=True,
    )


def driven(folder, checkpoint):
    """Ranks, held rows and row numbers: state that windows over positions do not have."""
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack("2 seconds"))
    window = {"range": lw.rows(12), "slide": lw.rows(5), "on": lw.rank("ts")}
    query = stream.window(**window, partition_by="key").agg(n=lw.count(), total=lw.sum("value"))
    return query.run(
        epochs={feed: cut(disordered(4_000, seconds=120, late_by=20), 40)},
        host="spark",
        checkpoint=checkpoint,
        sink=lw.to_parquet(folder / "results"),
        late=lw.to_parquet(folder / "late"),
        malformed=lw.to_parquet(folder / "malformed"),
    )


def joined(folder, checkpoint):
    """Two folders of files, joined under a target, then windows, early results of both levels."""
    left, right = (
        lw.stream(
            lw.files(folder / name, files_per_epoch=1),
            time="ts",
            watermark=lw.quality(0.9),
        )
        for name in ("left", "right")
    )
    pairs = left.join(right, on="key", band=("-1 second", "1 second"), how="full")
    query = pairs.window(range="5 seconds").group_by("key")
    return query.agg(n=lw.count(), total=lw.sum("value"), top=lw.max("name_other")).run(
        early=[lw.early_every("2 seconds"), lw.early_before(0.5)],
        clock=lw.VirtualClock(per_epoch="3 seconds"),
        checkpoint=checkpoint,
        sink=lw.to_parquet(folder / "results"),
        late=lw.to_parquet(folder / "late"),
        malformed=lw.to_parquet(folder / "malformed"),
    )


def unpinned(folder, checkpoint):
    spark = lw.spark_session()
    frame = spark.readStream.schema("ts timestamp, key bigint, value double")
    frame = frame.option("maxFilesPerTrigger", 2).parquet(str(folder / "stream"))
    stream = lw.stream(frame.where("true"), time="ts", watermark=lw.slack("5 seconds"))
    query = stream.window(range="9 seconds", slide="2 seconds").group_by("key")
    return query.agg(n=lw.count(), total=lw.sum("value")).run(
        checkpoint=checkpoint,
        sink=lw.to_parquet(folder / "results"),
        late=lw.to_parquet(folder / "late"),
        malformed=lw.to_parquet(folder / "malformed"),
    )


def main(mode, folder, checkpoint):
    lw.spark_session(spark_driver_memory="1g", spark_driver_extraJavaOptions=SHORT_LIVED)
    print("ready", flush=True)  # noqa: T201
    every = (pinned, driven, joined, sidelined, unpinned)
    modes = {one.__name__: one for one in every}
    outcome = modes[mode](Path(folder), checkpoint)
    status = outcome.status
    counts = {**status.counts, "operators": dict(status.operators), "prods": dict(status.prods)}
    counts["accuracy"] = repr(status.accuracy)
    counts["quality"] = repr(status.quality)
    Path(folder, "counts.json").write_text(json.dumps(counts, default=dict))


if __name__ == "__main__":
    main(*sys.argv[1:])
