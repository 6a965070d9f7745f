from __future__ import annotations

from pathlib import Path

import pytest

import lowwater as lw

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark():
    session = lw.session(spark_driver_memory="3g", spark_sql_shuffle_partitions="2")
    yield session
    session.stop()
