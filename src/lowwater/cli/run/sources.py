"""Sources of the command line: texts like `NAME=PATH,time=ts,arrival=col,format=csv`."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lowwater as lw
from lowwater.cli.policy_text import watermark_of
from lowwater.errors import SpecError, unknown_name
from lowwater.schema import parse_schema, plain
from lowwater.sources.formats import ENDINGS, Format, row_count
from lowwater.sources.infer_schema import infer_schema
from lowwater.sources.source import BlockSource
from lowwater.sources.stdin import StdinSource

FORMATS: tuple[Format, ...] = ("parquet", "csv", "json")
OPTIONS = ("time", "arrival", "format", "schema", "speed", "multiline", "watermark")
USUAL_TIMES = ("ts", "time", "timestamp", "event_time")
_FEWEST_ROWS, _MOST_ROWS, _EPOCHS = 1_000, 250_000, 20
"""A file is read in about `_EPOCHS` epochs of `_FEWEST_ROWS` to `_MOST_ROWS` rows."""
_FIRST_BYTES = 1 << 16


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


@dataclass(frozen=True)
class ReadOptions:
    """The options for reading sources: rows per epoch, and whether to wait for new files."""

    epoch_rows: int | None = None
    follow: bool = False

    def stream(self, named: SourceArgs, watermark: str | None) -> lw.Stream:
        """Return the stream of a source; its own option `watermark=` overrides the argument."""
        text = named.options.get("watermark", watermark)
        if text is None:
            problem = f"source {named.name!r} has no watermark policy, so no window could close"
            raise SpecError(f"{problem}; give one, as in --watermark 'slack 10 seconds'")
        policy = watermark_of(text)
        source = self._source(named)
        stream = lw.stream(source, time=time_of(named, source.schema), watermark=policy)
        # Bind the policy now: a later error would point at the text of the query.
        policy.bind(stream.axis(stream.time), stream.schema)
        return stream

    def _source(self, named: SourceArgs) -> BlockSource:
        if named.path == "-":
            return self._stdin(named)
        path = Path(named.path)
        if not path.exists():
            problem = f"no file or folder {str(path)!r} exists; name one, or - for standard input"
            if stray := re.search(r",\s*(\w+)=[^,/]*$", named.path):
                problem = f"{stray[1]!r} is not an option; options are: {', '.join(OPTIONS)}"
            raise SpecError(f"source {named.name!r}: {problem}")
        form = source_format(named, path)
        schema = source_schema(named, path, form)
        if path.is_file():
            return lw.replay(
                path,
                arrival=named.options.get("arrival"),
                speed=_speed(named),
                max_rows_per_epoch=self.epoch_rows or _rows_per_epoch(path, form),
                format=form,
                schema=schema,
                multiline=_multiline(named),
            )
        if "arrival" in named.options or "speed" in named.options:
            raise SpecError(
                f"source {named.name!r}: arrival= and speed= replay one file, but {str(path)!r} is "
                f"a folder, whose files are read in the order of their names; remove them, or name "
                f"a file"
            )
        rows = self.epoch_rows or _MOST_ROWS
        source = lw.files(
            path,
            format=form,
            schema=schema,
            max_rows_per_epoch=rows,
            multiline=_multiline(named),
        )
        return source if self.follow else source.bounded()

    def _stdin(self, named: SourceArgs) -> StdinSource:
        options, source = named.options, f"source {named.name!r}"
        form = options.get("format", "json")
        if form != "json":
            problem = f"standard input is read as JSON lines, not as {form}"
            raise SpecError(f"{source}: {problem}; remove format=, or name a file")
        for option in sorted({"arrival", "speed"} & options.keys()):
            problem = "replays a file, but rows of standard input are read as they arrive"
            raise SpecError(f"{source}: {option}= {problem}; remove it")
        if _multiline(named):
            problem = "is for csv, but standard input is read as JSON lines"
            raise SpecError(f"{source}: multiline= {problem}; remove it")
        first = b"" if "schema" in options else _first_lines(sys.stdin.fileno())
        schema = _stdin_schema(named, first)
        limit, at = self.epoch_rows or _MOST_ROWS, sys.stdin.fileno()
        return StdinSource("", schema, max_rows_per_epoch=limit, descriptor=at, first=first)


def files_of(path: Path, form: Format) -> list[Path]:
    """Return the files to read: `path` itself, or all files of the format `form` in the folder."""
    if path.is_file():
        return [path]
    visible = (p for p in sorted(path.iterdir()) if p.name[0] not in "._")
    return [p for p in visible if p.name.lower().endswith(ENDINGS[form])]


def _format_of(path: Path) -> Format | None:
    """Return the format of the file `path`; for a folder, of its first file with a known ending."""
    names = [path.name] if path.is_file() else sorted(p.name for p in path.iterdir())
    formats = ((n, f) for n in names if n[0] not in "._" for f in FORMATS)
    return next((form for name, form in formats if name.lower().endswith(ENDINGS[form])), None)


def _columns_of(path: Path, form: Format) -> pa.Schema:
    """Return the schema of the file or the files at `path`."""
    paths = files_of(path, form)
    if not paths:
        raise SpecError(f"{str(path)!r} holds no {form} file; name another folder or format=")
    if form != "parquet":
        return infer_schema(paths, form)
    for one in paths:
        try:
            return plain(pq.read_schema(one))
        except (pa.ArrowInvalid, OSError):
            continue
    remedy = "name another file, or give format=csv or format=json"
    raise SpecError(f"{str(paths[0])!r} is not a Parquet file; {remedy}")


def time_of(named: SourceArgs, schema: pa.Schema) -> str:
    """Return the column of event time: `time=`, else a usual name, else the only timestamp."""
    if "time" in named.options:
        return named.options["time"]
    times = [f.name for f in schema if pa.types.is_timestamp(f.type)]
    usual = [name for name in USUAL_TIMES if name in schema.names]
    if len(times) == 1 or usual:
        return (usual or times)[0]
    raise SpecError(
        f"source {named.name!r}: which column is its time? Name it, as in time={schema.names[0]}; "
        f"it has: {', '.join(schema.names)}"
    )


def source_format(named: SourceArgs, path: Path) -> Format:
    """Return the format of a source, from its option `format=` or else from its files' names."""
    name = named.options.get("format") or _format_of(path)
    for form in FORMATS:
        if name == form:
            return form
    hidden = f"the ending of {str(path)!r} does not show its format"
    problem = hidden if name is None else f"format={name} is unknown"
    raise SpecError(f"source {named.name!r}: {problem}; give its format: {', '.join(FORMATS)}")


def source_schema(named: SourceArgs, path: Path, form: Format) -> pa.Schema:
    """Return the schema of a source; raise SpecError if it lacks the `time` or `arrival` column."""
    text = named.options.get("schema")
    schema = _columns_of(path, form) if text is None else parse_schema(text)
    for option in ("time", "arrival"):
        column = named.options.get(option)
        if column is not None and column not in schema.names:
            raise unknown_name(f"source {named.name!r}: {option}: column", column, schema.names)
    return schema


def _speed(named: SourceArgs) -> float | None:
    text = named.options.get("speed")
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        problem = f"source {named.name!r}: speed={text!r} is not a number"
        raise SpecError(f"{problem}; write speed=10 for ten times as fast") from None


def _multiline(named: SourceArgs) -> bool:
    text = named.options.get("multiline", "false")
    if text not in ("true", "false"):
        problem = f"source {named.name!r}: multiline={text!r} is unknown"
        raise SpecError(f"{problem}; write multiline=true or multiline=false")
    return text == "true"


def _rows_per_epoch(path: Path, form: Format) -> int:
    """Return the number of rows per epoch that splits the file into about `_EPOCHS` epochs."""
    return min(_MOST_ROWS, max(_FEWEST_ROWS, row_count(path, form) // _EPOCHS + 1))


def _first_lines(descriptor: int) -> bytes:
    """Wait for the first lines of standard input and return them, to infer the columns."""
    lines = b""
    while b"\n" not in lines and (chunk := os.read(descriptor, _FIRST_BYTES)):
        lines += chunk
    return lines


def _stdin_schema(named: SourceArgs, first: bytes) -> pa.Schema:
    if "schema" in named.options:
        return parse_schema(named.options["schema"])
    lines = first[: first.rfind(b"\n") + 1] or first
    if not lines.strip():
        raise SpecError(
            f"source {named.name!r}: standard input ended before its first line, so its columns "
            f"are unknown; name them: schema=ts timestamp, speed double"
        )
    with tempfile.TemporaryDirectory(prefix="lowwater-") as folder:
        path = Path(folder, "lines.jsonl")
        path.write_bytes(lines)
        return infer_schema([path], "json")


def streams_of(
    sources: Sequence[str], watermark: str | None, read_options: ReadOptions
) -> dict[str, lw.Stream]:
    """Return {name: stream} of the sources that the texts `sources` describe."""
    named = [SourceArgs.of(text) for text in sources]
    if not named:
        raise SpecError("a run needs a source; give --source NAME=PATH, as in s=readings.parquet")
    names = [one.name for one in named]
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise SpecError(f"source {twice[0]!r} is given twice; give each source its own name")
    if sum(one.path == "-" for one in named) > 1:
        raise SpecError("two sources read standard input; only one can: name a file for the other")
    return {one.name: read_options.stream(one, watermark) for one in named}
