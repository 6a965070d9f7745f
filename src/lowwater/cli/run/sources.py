"""Sources as the command line names them: NAME=PATH[,time=ts][,arrival=col][,format=csv]."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq

import lowwater as lw
from lowwater.cli.sentences import progress_of
from lowwater.errors import SpecError, unknown_name
from lowwater.schemas import parse_schema, plain
from lowwater.sources import Piped, infer_schema
from lowwater.sources.formats import ENDINGS, Format, row_count

OPTIONS = ("time", "arrival", "format", "schema", "speed", "progress")
USUAL_TIMES = ("ts", "time", "timestamp", "event_time")
_FEWEST_ROWS, _MOST_ROWS, _EPOCHS = 1_000, 250_000, 20
"""A file is read in about so many epochs, none of them smaller or larger than these."""
_FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class Named:
    """A source: its name in the query, where its rows are, and what was said about them."""

    name: str
    path: str
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Named:
        """Read NAME=PATH and the options behind it.

        >>> Named.of("s=a,b.csv,time=ts,schema=ts timestamp, n int")
        Named(name='s', path='a,b.csv', options={'time': 'ts', 'schema': 'ts timestamp, n int'})
        """
        name, equals, rest = text.partition("=")
        if not equals or not name.strip().isidentifier() or not rest:
            raise SpecError(
                f"source {text!r} should be NAME=PATH, as in traffic=readings.parquet,time=ts; "
                f"the path - is standard input"
            )
        path, *said = re.split(rf",\s*(?=(?:{'|'.join(OPTIONS)})\s*=)", rest)
        options = {}
        for one in said:
            option, _, value = one.partition("=")
            options[option.strip()] = value.strip()
        return cls(name.strip(), path.strip(), options)


@dataclass(frozen=True)
class Reading:
    """How sources are read: how large epochs are, whether folders grow."""

    epoch_rows: int | None = None
    follow: bool = False

    def stream(self, named: Named, progress: str | None) -> lw.Stream:
        """Return a source as a stream."""
        said = named.options.get("progress", progress)
        if said is None:
            raise SpecError(
                f"nothing says how the time of {named.name!r} goes on: give --progress, as in "
                f"--progress 'slack 10 seconds'"
            )
        policy = progress_of(said)
        source = self._source(named)
        stream = lw.stream(source, time=time_of(named, source.schema), progress=policy)
        # Otherwise the text of the query would be blamed for what is wrong with its source.
        policy.bind(stream.axis(stream.time), stream.schema)
        return stream

    def _source(self, named: Named) -> Any:
        if named.path == "-":
            return self._piped(named)
        path = Path(named.path)
        if not path.exists():
            stray = re.search(r",\s*(\w+)=[^,/]*$", named.path)
            options = f"{stray[1]!r} is no option; these are: {', '.join(OPTIONS)}" if stray else ""
            raise SpecError(f"source {named.name!r}: {options or f'there is no {str(path)!r}'}")
        form = _format(named, path)
        schema = _schema(named, path, form)
        if path.is_file():
            return lw.replay(
                path,
                arrival=named.options.get("arrival"),
                speed=_speed(named),
                max_rows_per_epoch=self.epoch_rows or _share(path, form),
                format=form,
                schema=schema,
            )
        if "arrival" in named.options or "speed" in named.options:
            raise SpecError(
                f"source {named.name!r}: a folder is read file by file, in the order of names; "
                f"arrival and speed are for a single file"
            )
        rows = self.epoch_rows or _MOST_ROWS
        source = lw.files(path, format=form, schema=schema, max_rows_per_epoch=rows)
        return source if self.follow else source.bounded()

    def _piped(self, named: Named) -> Piped:
        if named.options.get("format", "json") != "json":
            raise SpecError(f"source {named.name!r}: standard input is read as JSON lines")
        for option in ("arrival", "speed"):
            if option in named.options:
                raise SpecError(
                    f"source {named.name!r}: {option} is for a file; rows of standard input come "
                    f"when they come"
                )
        begun = b"" if "schema" in named.options else _first_lines(sys.stdin.fileno())
        schema = _piped_schema(named, begun)
        return Piped(schema, sys.stdin.fileno(), begun, self.epoch_rows or _MOST_ROWS)


def files_of(path: Path, form: Format) -> list[Path]:
    """Return the files of a format at a path, which is one of them or their folder."""
    if path.is_file():
        return [path]
    seen = (p for p in sorted(path.iterdir()) if p.name[0] not in "._")
    return [p for p in seen if p.name.endswith(ENDINGS[form])]


def format_of(path: Path) -> Format | None:
    """Tell a format by the ending of a file, or of the first one in a folder."""
    names = [path.name] if path.is_file() else sorted(p.name for p in path.iterdir())
    for name in names:
        for form, endings in ENDINGS.items():
            if name.endswith(endings) and name[0] not in "._" and form != "arrow":
                return form
    return None


def columns_of(path: Path, form: Format) -> pa.Schema:
    """Return the columns of the files at a path."""
    found = files_of(path, form)
    if not found:
        raise SpecError(f"{str(path)!r} holds no {form} file")
    if form != "parquet":
        return infer_schema(found, form)
    try:
        return plain(pq.read_schema(found[0]))
    except pa.ArrowInvalid as problem:
        raise SpecError(f"{str(found[0])!r} is no Parquet file") from problem


def time_of(named: Named, schema: pa.Schema) -> str:
    """Return the column that is the time: as it was said, or the one that looks like it."""
    if "time" in named.options:
        return named.options["time"]
    times = [f.name for f in schema if pa.types.is_timestamp(f.type)]
    usual = [name for name in USUAL_TIMES if name in schema.names]
    if len(times) == 1 or usual:
        return (usual or times)[0]
    raise SpecError(
        f"source {named.name!r}: which column is its time? Say it, as in time={schema.names[0]}; "
        f"there are: {', '.join(schema.names)}"
    )


def _format(named: Named, path: Path) -> Format:
    said = named.options.get("format") or format_of(path)
    known = [f for f in get_args(Format) if f != "arrow"]
    if said not in known:
        told = (
            "the ending does not tell the format of" if said is None else f"{said!r} is no format:"
        )
        raise SpecError(
            f"source {named.name!r}: {told} {str(path)!r}; say format= {', '.join(known)}"
        )
    found: Format = said  # type: ignore[assignment]
    return found


def _schema(named: Named, path: Path, form: Format) -> pa.Schema:
    said = named.options.get("schema")
    schema = columns_of(path, form) if said is None else parse_schema(said)
    for option in ("time", "arrival"):
        column = named.options.get(option)
        if column is not None and column not in schema.names:
            raise unknown_name(f"source {named.name!r}: {option}: column", column, schema.names)
    return schema


def _speed(named: Named) -> float | None:
    said = named.options.get("speed")
    if said is None:
        return None
    try:
        return float(said)
    except ValueError:
        raise SpecError(f"source {named.name!r}: speed={said!r} is no number") from None


def _share(path: Path, form: Format) -> int:
    """Return how many rows an epoch takes, so that a file is read in some twenty."""
    return min(_MOST_ROWS, max(_FEWEST_ROWS, row_count(path, form) // _EPOCHS + 1))


def _first_lines(descriptor: int) -> bytes:
    """Wait for the first lines, by which columns are known."""
    begun = b""
    while b"\n" not in begun:
        chunk = os.read(descriptor, _FIRST_BYTES)
        if not chunk:
            break
        begun += chunk
    return begun


def _piped_schema(named: Named, begun: bytes) -> pa.Schema:
    if "schema" in named.options:
        return parse_schema(named.options["schema"])
    lines = begun[: begun.rfind(b"\n") + 1] or begun
    if not lines.strip():
        raise SpecError(
            f"source {named.name!r}: standard input ended before its first line; say which columns "
            f"there are: schema=ts timestamp, speed double"
        )
    with tempfile.TemporaryDirectory(prefix="lowwater-") as folder:
        path = Path(folder, "lines.jsonl")
        path.write_bytes(lines)
        return infer_schema([path], "json")


def streams_of(
    sources: Sequence[str], progress: str | None, reading: Reading
) -> dict[str, lw.Stream]:
    """Return the streams that a query may name."""
    named = [Named.of(text) for text in sources]
    if not named:
        raise SpecError("a run needs a source: --source NAME=PATH, as in traffic=readings.parquet")
    names = [one.name for one in named]
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise SpecError(f"source {twice[0]!r} is given twice; each needs a name of its own")
    if sum(one.path == "-" for one in named) > 1:
        raise SpecError("only one source can be standard input")
    return {one.name: reading.stream(one, progress) for one in named}
