"""The pages whose code needs Spark; a broker is played by files of its messages."""

from __future__ import annotations

import json
import runpy
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming import DataStreamReader

import lowwater as lw
from examples.flights.flights import record
from tests.docs.pages import PAGES, ROOT, blocks, needs_spark, prepare, run_page

WITH_SPARK = [p for p in PAGES if blocks(p) and needs_spark(p)]
MESSAGES = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int"
)


class Broker:
    """Stands in for a reader or writer of Kafka: takes its options, and reads or writes files."""

    def __init__(self, spark, frame=None):
        self.spark, self.frame, self.options = spark, frame, {}

    def option(self, name, value):
        self.options[name] = value
        return self

    def load(self):
        assert self.options["kafka.bootstrap.servers"]
        return self.spark.readStream.schema(MESSAGES).parquet("messages")

    def save(self):
        assert self.options["topic"]
        assert {"key", "value"} <= set(self.frame.columns)
        self.frame.write.mode("append").parquet(str(Path("sent").resolve()))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder to work in, for Spark too, which was started in another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("json", "parquet"):
        original = getattr(DataStreamReader, name)
        monkeypatch.setattr(
            DataStreamReader,
            name,
            lambda self, path, do=original: do(self, str(Path(path).resolve())),
        )


@pytest.fixture
def broker(spark, monkeypatch):
    """A broker that has the readings, on two partitions, and a message that is none."""
    for kind, of in ((DataStreamReader, None), (DataFrameWriter, "_df")):
        original = kind.format
        monkeypatch.setattr(
            kind,
            "format",
            lambda self, source, original=original, of=of: (
                Broker(spark, of and getattr(self, of))
                if source == "kafka"
                else original(self, source)
            ),
        )


def write_messages():
    lines = [
        line for f in sorted(Path("readings").iterdir()) for line in f.read_text().splitlines()
    ]
    values = [line.encode() for line in lines] + [b"no reading"]
    segments = [json.loads(line)["segment"] for line in lines] + [0]
    columns = {"value": values, "partition": pa.array([s % 2 for s in segments], pa.int32())}
    Path("messages").mkdir()
    pq.write_table(pa.table(columns), "messages/0.parquet")


@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs_as_it_is_printed(page, broker, tmp_path):
    if page.name == "README.md":
        (tmp_path / "lowwater-demo").mkdir()
        record(date(2013, 6, 23), 2).save(tmp_path / "lowwater-demo")
    else:
        prepare(tmp_path)
        write_messages()
    run_page(page)


def test_silent_sensors_are_the_same_on_spark(spark):
    example = runpy.run_path(str(ROOT / "examples" / "silent_sensors.py"))
    idle = lw.per_source("sensor", lw.slack("5 seconds", idle_timeout="40 seconds"))
    (here, steps), (there, on_spark) = (example["closed"](idle, h) for h in ("local", "spark"))
    assert on_spark == steps
    assert len(steps) == 8
    assert there.status.counts == here.status.counts
