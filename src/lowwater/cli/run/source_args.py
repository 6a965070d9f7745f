"""A source as text of the command line: `NAME=PATH,time=ts,arrival=col,format=csv`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.sources.unix_time import UNITS

OPTIONS = ("time", "arrival", "format", "schema", "speed", "multiline", "watermark")
USUAL_TIMES = ("ts", "time", "timestamp", "event_time")


@dataclass(frozen=True)
class SourceArgs:
    """A source: its name in the query, its path, and its options."""

    name: str
    path: str
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> SourceArgs:
        """Return the source that `text` describes: NAME=PATH, and options after commas.

        >>> SourceArgs.of("s=a,b.csv,time=ts,schema=ts timestamp, n int").options
        {'time': 'ts', 'schema': 'ts timestamp, n int'}
        """
        name, equals, rest = text.partition("=")
        if not equals or not name.strip().isidentifier() or not rest:
            raise SpecError(
                f"--source {text!r} should be NAME=PATH, as in traffic=readings.parquet,time=ts; "
                f"the path - is standard input"
            )
        path, *clauses = re.split(rf",\s*(?=(?:{'|'.join(OPTIONS)})\s*=)", rest)
        options = {o.strip(): v.strip() for o, _, v in (c.partition("=") for c in clauses)}
        return cls(name.strip(), path.strip(), options)


def time_column(option: str, text: str, schema: pa.Schema) -> tuple[str, str | None]:
    """Return (column, unit) of the text `column` or `column:unit`; the unit is that of a number.

    >>> time_column("time", "sent:ms", pa.schema([("sent", pa.int64())]))
    ('sent', 'ms')
    """
    if text in schema.names:
        return text, None
    column, _, unit = text.rpartition(":")
    if column not in schema.names:
        raise unknown_name(f"{option}: column", column or text, schema.names)
    if unit not in UNITS:
        raise SpecError(f"{option}={text}: the unit {unit!r} is unknown; write {', '.join(UNITS)}")
    return column, unit


def time_of(named: SourceArgs, schema: pa.Schema) -> str:
    """Return the column of event time: `time=`, else a usual name, else the only timestamp."""
    if "time" in named.options:
        return time_column(f"source {named.name!r}: time", named.options["time"], schema)[0]
    times = [f.name for f in schema if pa.types.is_timestamp(f.type)]
    usual = [name for name in USUAL_TIMES if name in schema.names]
    if len(times) == 1 or usual:
        return (usual or times)[0]
    raise SpecError(
        f"source {named.name!r}: which column is its time? Name it, as in time={schema.names[0]}; "
        f"it has: {', '.join(schema.names)}"
    )


def speed_of(named: SourceArgs) -> float | None:
    """Return the factor `speed=` of a replay; None for a replay without pauses."""
    text = named.options.get("speed")
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        problem = f"source {named.name!r}: speed={text!r} is not a number"
        raise SpecError(f"{problem}; write speed=10 for ten times as fast") from None


def multiline_of(named: SourceArgs) -> bool:
    """Return whether quoted fields of csv may contain line ends."""
    text = named.options.get("multiline", "false")
    if text not in ("true", "false"):
        problem = f"source {named.name!r}: multiline={text!r} is unknown"
        raise SpecError(f"{problem}; write multiline=true or multiline=false")
    return text == "true"
