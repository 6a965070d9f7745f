"""The times of a stream, read from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from lowwater.cli.profile.measuring import Profile, profile_of
from lowwater.cli.run.sources import Named, columns_of, files_of, format_of, time_of
from lowwater.errors import SpecError, unknown_name
from lowwater.sources.formats import ENDINGS, Format, read_table
from lowwater.windows import Axis


def measured(path: Path, time: str | None, arrival: str | None, form: str | None) -> Profile:
    """Measure the stream that the files at a path are."""
    if not path.exists():
        raise SpecError(f"there is no {str(path)!r}")
    found = _format(path, form)
    schema = columns_of(path, found)
    options = {} if time is None else {"time": time}
    time = time_of(Named(path.name, str(path), options), schema)
    for column in (time, arrival):
        if column is not None and column not in schema.names:
            raise unknown_name("column", column, schema.names)
    wanted = dict.fromkeys(c for c in (time, arrival) if c is not None)
    narrow = pa.schema([schema.field(c) for c in wanted])
    table = pa.concat_tables([read_table(p, found, narrow) for p in files_of(path, found)])
    axis = Axis(time, schema.field(time).type)
    came = None if arrival is None else _ticks(table, Axis(arrival, schema.field(arrival).type))
    per_unit = 1 if axis.kind == "time" else axis.per_unit
    return profile_of(_ticks(table, axis), came, timed=axis.kind == "time", per_unit=per_unit)


def _ticks(table: pa.Table, axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    return axis.to_ticks(table.column(axis.column))


def _format(path: Path, said: str | None) -> Format:
    found = said or format_of(path)
    if found not in ENDINGS or found == "arrow":
        told = f"{said!r} is none" if said else f"the ending of {str(path)!r} does not tell it"
        raise SpecError(f"--format: {told}; it is parquet, csv or json")
    return found
