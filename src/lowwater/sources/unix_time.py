"""Columns of numbers that are times: seconds, milliseconds, … since 1970-01-01 UTC."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import SpecError
from lowwater.schema import is_number
from lowwater.windows.axis import LIMIT

TIMESTAMP = pa.timestamp("us", "UTC")
UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1e-3}
"""{unit: number of microseconds}."""


def with_timestamps(schema: pa.Schema, units: Mapping[str, str]) -> pa.Schema:
    """Return `schema` with a timestamp for each column of `units`, which must be a number.

    >>> with_timestamps(pa.schema([("ts", pa.int64())]), {"ts": "ms"}).field("ts").type
    TimestampType(timestamp[us, tz=UTC])
    """
    for name, unit in units.items():
        kind, at = schema.field(name).type, schema.get_field_index(name)
        if not is_number(kind):
            raise SpecError(
                f"column {name!r} has type {kind}, and only numbers have a unit; leave out :{unit}"
            )
        schema = schema.set(at, pa.field(name, TIMESTAMP))
    return schema


def to_timestamps(table: pa.Table, units: Mapping[str, str]) -> pa.Table:
    """Return `table` with a timestamp instead of each number in the columns of `units`.

    >>> rows = to_timestamps(pa.table({"ts": [1_500, None]}), {"ts": "ms"})
    >>> rows["ts"].cast(pa.int64()).to_pylist()
    [1500000, None]
    """
    for name, unit in units.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, pa.field(name, TIMESTAMP), _timestamps(table[name], unit))
    return table


def _timestamps(column: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """Return numbers as timestamps; a number beyond the times of an axis becomes NULL."""
    numbers = column.cast(pa.float64(), safe=False)
    scaled = pc.round(pc.multiply(numbers, float(UNITS[unit])))
    known = pc.less(pc.abs(scaled), float(LIMIT))
    if not pa.types.is_integer(column.type):
        return pc.if_else(known, scaled, None).cast(pa.int64()).cast(TIMESTAMP)
    exact = pc.if_else(known, column.cast(pa.int64(), safe=False), None)
    return exact.cast(pa.timestamp(unit, "UTC")).cast(TIMESTAMP, safe=False)
