"""The reader of csv files: each line after the header is a row, read or malformed.

Arrow parses the lines whose quotes are as in RFC 4180: a quoted field is quoted as a whole, and a
quote inside it is doubled. A regular expression parses the other lines one by one. So a quote
inside an unquoted field is part of the text, and a quote that is not closed makes only its own line
malformed. With `multiline`, a quoted field may contain line ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import csv

from lowwater.sources.bad_file import BadFileError
from lowwater.sources.lines import (
    NOT_UTF8,
    Lines,
    block_size,
    is_utf8,
    lines_joined,
    with_faults,
    with_newlines,
)
from lowwater.sources.text_values import fit_table

_QUOTE, _COMMA, _NEWLINE = 34, 44, 10
_FIELD = re.compile(r'"([^"]*(?:""[^"]*)*)"(?=,|\Z)|((?:[^,"][^,]*)?)(?=,|\Z)')
_CLOSED = re.compile(r'"[^"]*(?:""[^"]*)*"')
_RECORD = re.compile(
    rb'(?:"[^"]*(?:""[^"]*)*"|[^,"\n][^,\n]*|)(?:,(?:"[^"]*(?:""[^"]*)*"|[^,"\n][^,\n]*|))*(?=\n)'
)
Fields = list[str | None]
"""The fields of a line; None for an empty field without quotes."""


@dataclass(frozen=True)
class CsvFile:
    """The content of a csv file, with its header; `body` are the bytes after the header."""

    path: str
    header: tuple[str, ...]
    body: bytes
    multiline: bool = False

    @classmethod
    def of(cls, path: str, data: bytes, *, multiline: bool) -> CsvFile | None:
        """Return the file with the bytes `data`; None if it has no header."""
        body = data.lstrip(b"\r\n")
        if not body:
            return None
        if multiline:
            body = with_newlines(body)  # a line end inside a field is LF, however it is read
        end = min((at for at in (body.find(b"\n"), body.find(b"\r")) if at >= 0), default=len(body))
        line = body[:end]
        fields = split_fields(line.decode()) if is_utf8(line) else NOT_UTF8
        if isinstance(fields, str):
            raise BadFileError(path, f"its header cannot be read: {fields}")
        return cls(path, tuple(f or "" for f in fields), body[end:], multiline)

    def records(self) -> Lines:
        """Return the records of the file, one for each row."""
        lines = Lines.of(self.body)
        return _multiline_records(lines) if self.multiline else lines


def split_fields(line: str) -> Fields | str:
    """Return the fields of a line; if the line cannot be split, the reason.

    >>> split_fields('1,"a, b",,""')
    ['1', 'a, b', None, '']
    >>> split_fields('1,"a')
    'a quote is not closed'
    """
    fields: Fields = []
    at = 0
    while True:
        match = _FIELD.match(line, at)
        if match is None:
            closed = _CLOSED.match(line, at)
            return "text follows a closing quote" if closed else "a quote is not closed"
        quoted, bare = match.groups()
        fields.append((bare or None) if quoted is None else quoted.replace('""', '"'))
        at = match.end() + 1
        if at > len(line):
            return fields


def read_csv(path: str, data: bytes, schema: pa.Schema, *, multiline: bool = False) -> pa.Table:
    """Return the rows of a csv file as a table of `schema`, with hidden columns of faults."""
    file = CsvFile.of(path, data, multiline=multiline)
    if file is None:
        return schema.empty_table()
    places = _places(file, schema)
    whole = _read_whole(file, schema, places)
    reasons: dict[int, str] = {}
    if whole is None:
        whole, reasons = _read_lines(file, schema, places)
    table, misfits = fit_table(whole, schema)
    reasons = misfits | reasons
    if not reasons:
        return table
    records = file.records()
    return with_faults(table, {row: (records.text(row), why) for row, why in reasons.items()})


def _places(file: CsvFile, schema: pa.Schema) -> list[int | None]:
    """Return the place of each column of `schema` in the header; None if the header lacks it."""
    for name in schema.names:
        if file.header.count(name) > 1:
            raise BadFileError(file.path, f"its header names the column {name!r} twice")
    return [file.header.index(n) if n in file.header else None for n in schema.names]


def _read_whole(file: CsvFile, schema: pa.Schema, places: Sequence[int | None]) -> pa.Table | None:
    """Return all rows as text; None if a line needs a look of its own."""
    if not is_utf8(file.body):
        return None
    quoted = b'"' in file.body
    if quoted and not _quotes_are_regular(file.body):
        return None
    table = _parse(file.body, len(file.header), schema, places, multiline=file.multiline)
    if table is None or (quoted and not file.multiline and len(table) != len(Lines.of(file.body))):
        return None
    return table


def _quotes_are_regular(data: bytes) -> bool:
    """Return whether all quotes of `data` open, close or double as in RFC 4180."""
    padded = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    at = np.flatnonzero(padded == _QUOTE)
    if len(at) % 2:
        return False
    before, after = padded[at[::2] - 1], padded[at[1::2] + 1]
    border = np.zeros(256, bool)
    border[[_COMMA, _NEWLINE, 13, _QUOTE]] = True
    return bool(border[before].all() and border[after].all())


def _parse(
    data: bytes,
    width: int,
    schema: pa.Schema,
    places: Sequence[int | None],
    *,
    multiline: bool = False,
) -> pa.Table | None:
    """Return `data` as a table of text; None if a line has another number of fields."""
    refused: list[int] = []

    def refuse(row: csv.InvalidRow) -> str:
        refused.append(row.actual_columns)
        return "skip"

    names = [str(number) for number in range(width)]
    used = [str(place) for place in places if place is not None]
    reading = csv.ReadOptions(column_names=names, block_size=block_size(data))
    parsing = csv.ParseOptions(newlines_in_values=multiline, invalid_row_handler=refuse)
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=used or names[:1],
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        check_utf8=False,
    )
    if not data.strip(b"\r\n"):
        return _text_table({}, schema, 0)
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=reading,
        parse_options=parsing,
        convert_options=converting,
    )
    if refused:
        return None
    named = zip(schema.names, places, strict=True)
    columns = {name: table.column(str(place)) for name, place in named if place is not None}
    return _text_table(columns, schema, len(table))


def _text_table(columns: dict[str, pa.ChunkedArray], schema: pa.Schema, rows: int) -> pa.Table:
    """Return a table of text with the columns of `schema`; a missing column is NULL."""
    missing = pa.chunked_array([pa.nulls(rows, pa.string())])
    return pa.table({name: columns.get(name, missing) for name in schema.names})


def _read_lines(
    file: CsvFile, schema: pa.Schema, places: Sequence[int | None]
) -> tuple[pa.Table, dict[int, str]]:
    """Return all rows as text, and {row: reason} of the lines that cannot be split."""
    records, width = file.records(), len(file.header)
    simple = np.zeros(len(records), bool) if file.multiline else _simple_lines(records, width)
    parsed = _parse(lines_joined(records, simple), width, schema, places)
    if parsed is None or len(parsed) != simple.sum():
        simple[:] = False
        parsed = _text_table({}, schema, 0)
    single: list[Fields] = []
    reasons: dict[int, str] = {}
    for row in np.flatnonzero(~simple).tolist():
        fields = _fields_of(records.line(row), width)
        if isinstance(fields, str):
            reasons[row] = fields
            fields = [None] * width
        single.append(fields)
    columns = {
        name: pa.chunked_array([pa.array([fields[place] for fields in single], pa.string())])
        for name, place in zip(schema.names, places, strict=True)
        if place is not None
    }
    order = np.argsort(np.concatenate([np.flatnonzero(simple), np.flatnonzero(~simple)]))
    both = pa.concat_tables([parsed, _text_table(columns, schema, len(single))])
    return both.take(pa.array(order)), reasons


def _fields_of(line: bytes, width: int) -> Fields | str:
    """Return the fields of a line; if it is malformed, the reason."""
    if not is_utf8(line):
        return NOT_UTF8
    fields = split_fields(line.decode())
    if isinstance(fields, list) and len(fields) != width:
        return f"the line has {_fields(len(fields))}, but the header has {width}"
    return fields


def _fields(count: int) -> str:
    return f"{count} field{'' if count == 1 else 's'}"


def _simple_lines(lines: Lines, width: int) -> np.ndarray:
    """Return a mask of the lines in UTF-8 with regular quotes and `width` fields."""
    data = lines.codes
    quotes, commas = np.flatnonzero(data == _QUOTE), np.flatnonzero(data == _COMMA)
    first = np.searchsorted(quotes, lines.starts)
    count = np.searchsorted(quotes, lines.ends) - first
    simple = ~lines.not_utf8() & (count % 2 == 0)
    if len(quotes):
        line = np.searchsorted(lines.ends, quotes)
        opens = (np.arange(len(quotes)) - first[line]) % 2 == 0
        before = np.where(quotes == lines.starts[line], _COMMA, data[quotes - 1])
        beside = np.where(opens, before, data[quotes + 1])
        simple[line[~np.isin(beside, [_COMMA, _NEWLINE, _QUOTE])]] = False
    line = np.searchsorted(lines.ends, commas)
    quoted = (np.searchsorted(quotes, commas) - first[line]) % 2 == 1
    fields = np.bincount(line[~quoted], minlength=len(lines)) + 1
    return np.asarray(simple & (fields == width))


def _multiline_records(lines: Lines) -> Lines:
    """Return the records of lines whose quoted fields may contain line ends.

    A record is the longest sequence of whole lines that its quotes join. A line that begins no
    such record, because a quote stays open or text follows a closing quote, is a record alone.
    """
    starts, ends = [], []
    end = -1
    for start, stop in zip(lines.starts.tolist(), lines.ends.tolist(), strict=True):
        if start < end:
            continue
        match = _RECORD.match(lines.data, start) if b'"' in lines.data[start:stop] else None
        end = stop if match is None else max(match.end(), stop)
        starts.append(start)
        ends.append(end)
    return Lines(lines.data, np.array(starts, np.int64), np.array(ends, np.int64))
