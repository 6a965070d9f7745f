"""Disordered streams for the tests on Spark."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa

SCHEMA = "ts timestamp, key bigint, name string, value double, amount decimal(12, 2), flag boolean"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""How a JVM is started that lives so briefly that compiling well does not pay."""


def disordered(rows, *, seconds, late_by, seed=7):
    """Rows over some seconds, in the order in which they arrive, each late by up to `late_by`."""
    random = np.random.default_rng(seed)
    ticks = np.sort(random.integers(0, seconds * 1_000_000, rows))
    arrival = ticks + random.integers(0, max(int(late_by * 1_000_000), 1), rows)
    ticks = ticks[np.argsort(arrival, kind="stable")]
    cents = random.integers(-5_000, 5_000, rows)
    return pa.table(
        {
            "ts": pa.array(ticks, pa.timestamp("us", "UTC")),
            "key": pa.array(random.integers(0, 7, rows), mask=random.random(rows) < 0.02),
            "name": pa.array([f"n{i}" for i in random.integers(0, 30, rows)]),
            "value": pa.array(random.normal(size=rows), mask=random.random(rows) < 0.05),
            "amount": pa.array([Decimal(int(c)).scaleb(-2) for c in cents], pa.decimal128(12, 2)),
            "flag": pa.array(random.random(rows) < 0.05),
        }
    )


def cut(table, pieces):
    """A table cut into pieces of about equal size."""
    bounds = np.linspace(0, len(table), pieces + 1).astype(int)
    return [table.slice(a, b - a) for a, b in pairwise(bounds)]


def ordered_rows(table):
    """Rows in an order that does not depend on how they came out."""
    return sorted(map(repr, table.to_pylist()))
