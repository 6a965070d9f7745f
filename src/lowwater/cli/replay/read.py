"""Reads recordings: the rows of files in the order of their arrival."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import time_ns

import numpy as np
import pyarrow as pa

from lowwater.cli.run.source_args import SourceArgs, multiline_of, time_column, time_of
from lowwater.cli.run.sources import files_of, source_format, source_schema
from lowwater.errors import HostError, SpecError
from lowwater.sources.arrival_clock import ArrivalClock, Ticks
from lowwater.sources.bad_file import BadFileError
from lowwater.sources.formats import Format, read_rows
from lowwater.sources.lines import split_faults
from lowwater.sources.unix_time import to_timestamps, with_timestamps
from lowwater.watermarks.policy import CLOCK_AHEAD
from lowwater.windows.axis import Axis


@dataclass(frozen=True, eq=False)
class Recording:
    """The rows of a stream in the order of arrival, its time column and its arrival clock.

    A malformed row has NULL for values that cannot be read.
    """

    name: str
    table: pa.Table
    time: str
    clock: ArrivalClock

    @cached_property
    def arrived(self) -> Ticks:
        """The arrival of each row."""
        return self.clock.read(self.table)

    @cached_property
    def axis(self) -> Axis:
        """The event times."""
        return Axis(self.time, self.table.schema.field(self.time).type)

    @cached_property
    def ticks(self) -> tuple[Ticks, np.ndarray]:
        """The event time of each row in ticks, and a mask of the rows that a query would admit.

        As in a query, a time more than a day ahead of this machine's clock is malformed.
        """
        ticks, valid = self.axis.to_ticks(self.table.column(self.time))
        if self.axis.kind == "time":
            valid &= ticks <= time_ns() // 1_000 + CLOCK_AHEAD
        return ticks, valid

    @property
    def counts_numbers(self) -> bool:
        """Whether the arrival clock is a number that is not a time."""
        return self.clock.progress and self.axis.kind == "number"


def read_recording(named: SourceArgs, arrival: str | None = None) -> Recording:
    """Return the recording that `named` describes: a file, or all files of a folder.

    `arrival` is the column of arrival if the source names none.
    """
    path = Path(named.path)
    if not path.exists():
        raise SpecError(f"no file or folder {str(path)!r} exists; name an existing one")
    for option in sorted({"speed", "watermark"} & named.options.keys()):
        raise SpecError(f"source {named.name!r}: {option}= is for lowwater run; leave it out")
    form = source_format(named, path)
    stored = source_schema(named, path, form)
    given = {"arrival": arrival, **named.options}
    columns = {
        option: time_column(f"source {named.name!r}: {option}", text, stored)
        for option in ("time", "arrival")
        if (text := given.get(option)) is not None
    }
    units = {column: unit for column, unit in columns.values() if unit is not None}
    with_timestamps(stored, units)
    table = to_timestamps(_rows(named, path, form, stored), units)
    time = time_of(named, table.schema)
    clock = ArrivalClock(time, progress=True)
    if "arrival" in columns:
        clock = ArrivalClock(columns["arrival"][0])
    return Recording(named.name, table.take(pa.array(clock.order(table))), time, clock)


def _rows(named: SourceArgs, path: Path, form: Format, schema: pa.Schema) -> pa.Table:
    """Return the rows of all files; values that cannot be read are NULL."""
    tables = []
    for file in files_of(path, form):
        try:
            rows = read_rows(file, form, schema, multiline=multiline_of(named))
        except BadFileError as problem:
            raise HostError(f"{problem}; name another file") from problem
        tables.append(split_faults(rows)[0])
    return pa.concat_tables(tables)
