"""Sources of the command line: texts like `NAME=PATH,time=ts,arrival=col,format=csv`."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lowwater as lw
from lowwater.cli.policy_text import watermark_of
from lowwater.cli.run.recordings import in_epochs, recording_of
from lowwater.cli.run.source_args import OPTIONS, SourceArgs, multiline_of, time_column, time_of
from lowwater.errors import SpecError
from lowwater.schema import parse_schema, plain
from lowwater.sources.formats import ENDINGS, Format
from lowwater.sources.infer_schema import infer_schema
from lowwater.sources.source import BlockSource
from lowwater.sources.stdin import StdinSource
from lowwater.watermarks.policy import WatermarkPolicy

FORMATS: tuple[Format, ...] = ("parquet", "csv", "json")
_MOST_ROWS = 250_000
"""The largest number of rows in an epoch of a folder or of standard input."""
_FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class ReadOptions:
    """The options for reading sources.

    `epoch_rows` is the largest number of rows in an epoch; with `follow`, folders are watched for
    new files. `arrival` is the column of arrival of files that name none, `epoch` the length of an
    epoch of a recording.
    """

    epoch_rows: int | None = None
    follow: bool = False
    arrival: str | None = None
    epoch: str | None = None

    def source(self, named: SourceArgs) -> BlockSource:
        """Return the source that `named` describes."""
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
        if path.is_dir():
            return self._folder(named, path, form, schema)
        recording = recording_of(named, path, form, schema, self.arrival)
        return replace(recording, max_rows_per_epoch=self.epoch_rows)

    def _folder(
        self, named: SourceArgs, path: Path, form: Format, schema: pa.Schema
    ) -> BlockSource:
        _refuse_units(named, schema, "a folder")
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
            multiline=multiline_of(named),
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
        if multiline_of(named):
            problem = "is for csv, but standard input is read as JSON lines"
            raise SpecError(f"{source}: multiline= {problem}; remove it")
        first = b"" if "schema" in options else _first_lines(sys.stdin.fileno())
        schema = _stdin_schema(named, first)
        _refuse_units(named, schema, "standard input")
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


def _refuse_units(named: SourceArgs, schema: pa.Schema, what: str) -> None:
    """Raise SpecError if the time has a unit: only a file's numbers become timestamps."""
    given = named.options.get("time")
    unit = None if given is None else time_column("time", given, schema)[1]
    if unit is not None:
        raise SpecError(
            f"source {named.name!r}: time={given} makes timestamps of the numbers of a file, but "
            f"{named.path!r} is {what}; leave out :{unit} and write windows in {unit}"
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
        if column is not None:
            time_column(f"source {named.name!r}: {option}", column, schema)
    return schema


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
    sources: Sequence[str], watermark: str | None, read_options: ReadOptions, *, needed: bool = True
) -> dict[str, lw.Stream]:
    """Return {name: stream} of the sources that the texts `sources` describe.

    `needed` is whether each of them needs a watermark policy.
    """
    named = [SourceArgs.of(text) for text in sources]
    if not named:
        raise SpecError("a run needs a source; give --source NAME=PATH, as in s=readings.parquet")
    names = [one.name for one in named]
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise SpecError(f"source {twice[0]!r} is given twice; give each source its own name")
    if sum(one.path == "-" for one in named) > 1:
        raise SpecError("two sources read standard input; only one can: name a file for the other")
    policies = {one.name: _policy(one, watermark, needed=needed) for one in named}
    read = {one.name: read_options.source(one) for one in named}
    times = {one.name: time_of(one, read[one.name].schema) for one in named}
    if read_options.epoch_rows is None:
        read = in_epochs(read, times, read_options.epoch)
    elif read_options.epoch is not None:
        raise SpecError("--epoch and --epoch-rows both set the length of epochs; give one of them")
    return {name: _stream(read[name], times[name], policies[name]) for name in read}


def _policy(named: SourceArgs, watermark: str | None, *, needed: bool) -> WatermarkPolicy | None:
    """Return the policy of a source; its own option `watermark=` overrides the argument."""
    text = named.options.get("watermark", watermark)
    if text is None and not needed:
        return None
    if text is None:
        problem = f"source {named.name!r} has no watermark policy, so no window could close"
        raise SpecError(f"{problem}; give one, as in --watermark 'slack 10 seconds'")
    return watermark_of(text)


def _stream(source: BlockSource, time: str, policy: WatermarkPolicy | None) -> lw.Stream:
    stream = lw.stream(source, time=time, watermark=policy)
    # Bind the policy now: a later error would point at the text of the query.
    if policy is not None:
        policy.bind(stream.axis(stream.time), stream.schema)
    return stream
