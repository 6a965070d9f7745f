from __future__ import annotations

from pathlib import Path

import pytest

import lowwater as lw
from tests.spark.streams import SHORT_LIVED

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # One session for all but those that are killed, each of which has its own process.
            alone = item.path.stem == "test_recovery"
            item.add_marker(pytest.mark.xdist_group(item.name if alone else "session"))


@pytest.fixture
def ways(monkeypatch):
    """Which way each micro-batch went: its files read by ingest, or its rows by Spark."""
    from lowwater.spark.epochs import SparkEpochs

    taken, original = [], SparkEpochs.take_batch

    def note(self, batch, rows, files):
        taken.append("blocks" if rows is None else "rows")
        return original(self, batch, rows, files)

    monkeypatch.setattr(SparkEpochs, "take_batch", note)
    return taken


@pytest.fixture(scope="session")
def spark():
    session = lw.spark_session(
        spark_driver_memory="3g",
        spark_sql_shuffle_partitions="2",
        spark_driver_extraJavaOptions=SHORT_LIVED,
    )
    yield session
    session.stop()
