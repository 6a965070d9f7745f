"""The reader of JSON lines: each line is a row, read or malformed.

Arrow reads the lines, many at once if all of them are objects that fit the schema, otherwise fewer.
What Arrow returns for a line does not depend on the lines around it. Python looks at the lines that
Arrow refuses: it names the reason, or writes the line in a form that Arrow reads.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from lowwater.sources.lines import (
    NOT_UTF8,
    SMALLEST_BLOCK,
    Lines,
    block_size,
    is_utf8,
    lines_joined,
    with_faults,
    with_newlines,
)
from lowwater.sources.text_values import fit_table, misfit
from lowwater.ticks import instant
from lowwater.windows.axis import read_times

_CHUNK_LINES = 1024
"""The number of lines that are read together after Arrow has refused the whole file."""
_USUAL_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?")
_WHOLE = re.compile(r"-?\d+")
_LARGEST_FLOAT = float(np.finfo(np.float32).max) * (1 + 2.0**-25)
"""The first number that is rounded to infinity in a column of type float."""
_SPACES = b" \t"
_OPEN, _CLOSE, _NEWLINE = b"{}\n"
_KINDS = {dict: "object", list: "array", str: "text", bool: "boolean", type(None): "null"}


class _Number(str):
    """A number of a JSON line, as it is written there."""

    __slots__ = ()


class _Object(dict[str, Any]):
    """An object of a JSON line; `twice` are the names that it contains twice."""

    twice: frozenset[str] = frozenset()
    changed = False
    """Whether a value was written in another form, so that Arrow can read it."""
    reason: str | None = None
    """The reason why the row is malformed, if a value does not fit."""

    def replace(self, name: str, value: str | None, reason: str | None = None) -> None:
        """Write another value; `reason` is given if the old value does not fit."""
        self[name], self.changed, self.reason = value, True, self.reason or reason


def read_json(data: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of JSON lines as a table of `schema`, with hidden columns of faults."""
    parsed = pa.schema([(f.name, _parsed_type(f.type)) for f in schema])
    data = with_newlines(data)
    whole = _read_whole(data, parsed)
    reasons: dict[int, str] = {}
    lines: Lines | None = None
    if whole is None:
        lines = Lines.of(data, blank=True)
        whole, reasons = _read_chunks(lines, parsed, schema)
    table, misfits = fit_table(whole, schema, null=None)
    reasons = misfits | reasons
    if not reasons:
        return table
    lines = lines or Lines.of(data, blank=True)
    return with_faults(table, {row: (lines.text(row), why) for row, why in reasons.items()})


def _parsed_type(t: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow reads values of type `t`.

    Arrow reads no dates, and does not check the precision of decimals.
    """
    if pa.types.is_decimal(t):
        return pa.decimal128(38, t.scale)
    return pa.string() if pa.types.is_date(t) else t


def _read_whole(data: bytes, schema: pa.Schema) -> pa.Table | None:
    """Return the rows of `data`, one object per line; None if a line needs a look of its own.

    Each line begins with a brace and ends with one, and Arrow finds as many objects as lines: so
    each line is one object. A block that begins with `null` would end the process inside Arrow.
    """
    if data[:1] == b"\n" or data[-2:] == b"\n\n":
        data = data.strip(b"\n")
    if not data:
        return schema.empty_table()
    rows = _count_braced(data)
    if rows is None or b"\0" in data or not is_utf8(data):
        return None
    table = _by_arrow(data, schema)
    if not isinstance(table, pa.Table) or len(table) != rows or _has_infinity(table):
        return None
    return table


def _count_braced(data: bytes) -> int | None:
    """Return the number of lines; None if a line does not begin and end with a brace."""
    codes = np.frombuffer(data, np.uint8)
    last = len(codes) - 1 - (data[-1:] == b"\n")
    if codes[0] != _OPEN or codes[last] != _CLOSE:
        return None
    rows = 1
    for start in range(0, last, SMALLEST_BLOCK):  # a block fits the cache
        ends = start + np.flatnonzero(codes[start : min(start + SMALLEST_BLOCK, last)] == _NEWLINE)
        if (codes[ends - 1] != _CLOSE).any() or (codes[ends + 1] != _OPEN).any():
            return None
        rows += len(ends)
    return rows


def _by_arrow(data: bytes, schema: pa.Schema) -> pa.Table | str:
    """Return the rows that Arrow reads from `data`; if it refuses a row, the reason."""
    parsing = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = arrow_json.ReadOptions(block_size=block_size(data))
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data), read_options=reading, parse_options=parsing
        )
    except pa.ArrowInvalid as problem:
        text = str(problem).removeprefix("JSON parse error: ")
        return re.sub(r"\.?( in row \d+)?$", "", text)
    return table.select(schema.names)


def _has_infinity(table: pa.Table) -> bool:
    """Return whether a number of `table` is infinite: it may be a number that is out of range."""
    floats = (table.column(f.name) for f in table.schema if pa.types.is_floating(f.type))
    return any(pc.any(pc.is_inf(column)).as_py() for column in floats)


def _read_chunks(
    lines: Lines, parsed: pa.Schema, schema: pa.Schema
) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows of all lines, and {row: reason} of the malformed ones."""
    tables = [parsed.empty_table()]
    reasons: dict[int, str] = {}
    for start in range(0, len(lines), _CHUNK_LINES):
        end = min(start + _CHUNK_LINES, len(lines))
        mask = np.zeros(len(lines), bool)
        mask[start:end] = True
        table = _read_whole(lines_joined(lines, mask), parsed)
        if table is None:
            each = [lines.line(row) for row in range(start, end)]
            table, wrong = _read_each(each, parsed, schema)
            reasons |= {start + row: reason for row, reason in wrong.items()}
        tables.append(table)
    return pa.concat_tables(tables), reasons


def _read_each(
    lines: Sequence[bytes], parsed: pa.Schema, schema: pa.Schema
) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows of some lines, and {row: reason} of the malformed ones."""
    objects = [_object(line) for line in lines]
    for field in schema:
        _check_column(objects, field)
    texts = [_text(*pair) for pair in zip(lines, objects, strict=True)]
    sound = [row for row, text in enumerate(texts) if isinstance(text, bytes)]
    reasons = {row: text for row, text in enumerate(texts) if isinstance(text, str)}
    for row, one in enumerate(objects):
        if isinstance(one, _Object) and one.reason is not None:
            reasons[row] = one.reason
    pieces = []
    at = 0
    for rows in _pieces([text for text in texts if isinstance(text, bytes)], parsed):
        piece = rows
        if isinstance(piece, str):
            reasons[sound[at]] = reasons.get(sound[at]) or f"the line cannot be read: {piece}"
            piece = _nulls(1, parsed)
        pieces.append(piece)
        at += len(piece)
    faulty = [row for row, text in enumerate(texts) if isinstance(text, str)]
    both = pa.concat_tables([*pieces, _nulls(len(faulty), parsed)])
    return both.take(pa.array(np.argsort(np.array(sound + faulty, np.int64)))), reasons


def _nulls(rows: int, schema: pa.Schema) -> pa.Table:
    return pa.table([pa.nulls(rows, f.type) for f in schema], schema=schema)


def _pieces(texts: Sequence[bytes], schema: pa.Schema) -> list[pa.Table | str]:
    """Return the rows of lines as tables in order; a line that Arrow refuses is a reason."""
    if not texts:
        return []
    table = _by_arrow(b"\n" + b"\n".join(texts), schema)
    if isinstance(table, pa.Table) and len(table) == len(texts):
        return [table]
    if len(texts) == 1:
        return [table if isinstance(table, str) else "it has several objects"]
    half = len(texts) // 2
    return [*_pieces(texts[:half], schema), *_pieces(texts[half:], schema)]


def _object(line: bytes) -> _Object | bytes | str:
    """Return the object of a line; if it has none, the reason; bytes are for Arrow to judge."""
    if not is_utf8(line):
        return NOT_UTF8
    try:
        value = json.loads(
            line.decode(),
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_Number,
            object_pairs_hook=_of_pairs,
        )
    except (json.JSONDecodeError, RecursionError) as problem:
        # Arrow also reads Inf and -NaN, and deeper nesting.
        unusual = b"Inf" in line or b"NaN" in line
        doubtful = unusual or isinstance(problem, RecursionError)
        text = line.strip(_SPACES)
        if doubtful and b"\0" not in text and text[:1] == b"{" and text[-1:] == b"}":
            return text
        why = problem.msg if isinstance(problem, json.JSONDecodeError) else "it is nested too deep"
        at = f" at character {problem.pos + 1}" if isinstance(problem, json.JSONDecodeError) else ""
        return f"the line is not JSON: {why[:1].lower()}{why[1:]}{at}"
    if isinstance(value, _Object):
        return value
    kind = "number" if isinstance(value, _Number) else _KINDS[type(value)]
    return f"the line is not a JSON object, but {_article(kind)}"


def _article(kind: str) -> str:
    return kind if kind in ("text", "null") else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _of_pairs(pairs: list[tuple[str, Any]]) -> _Object:
    value = _Object(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        value.twice = frozenset(name for name in value if names.count(name) > 1)
    return value


def _check_column(objects: list[_Object | bytes | str], field: pa.Field) -> None:
    """Check a column of all objects: replace an object by a reason, or a value by what fits."""
    times: list[int] = []
    for row, one in enumerate(objects):
        if not isinstance(one, _Object) or field.name not in one:
            continue
        value = one[field.name]
        if field.name in one.twice:
            objects[row] = f"the line names the column {field.name!r} twice"
        elif value is None:
            continue
        elif pa.types.is_string(field.type) and (type(value) is not str):
            one.replace(field.name, _json_text(value, ascii=False))
        elif not _may_fit(value, field.type):
            one.replace(field.name, None, misfit(field.name, _shown(value), field.type))
        elif pa.types.is_timestamp(field.type) and _USUAL_TIME.fullmatch(value) is None:
            times.append(row)
    if times:
        _read_times(objects, field, times)


def _may_fit(value: Any, t: pa.DataType) -> bool:  # noqa: PLR0911  # one return per type
    """Return whether a value of the parsed JSON may fit a column of type `t`."""
    if pa.types.is_nested(t):
        return isinstance(value, list | _Object)
    if pa.types.is_boolean(t):
        return isinstance(value, bool)
    if pa.types.is_integer(t):
        if not isinstance(value, _Number) or not _WHOLE.fullmatch(value):
            return False
        limit = 1 << (t.bit_width - 1)
        return len(value) <= 20 and -limit <= int(value) < limit  # noqa: PLR2004
    if pa.types.is_floating(t):
        return isinstance(value, _Number) and not _overflows(value, t)
    if pa.types.is_decimal(t):
        return isinstance(value, str)
    return type(value) is str  # dates, times, binary


def _overflows(number: _Number, t: pa.DataType) -> bool:
    """Return whether a number is beyond the range of the type `t`, double or float."""
    if number.endswith(("y", "N")):  # Infinity, NaN
        return False
    return not abs(float(number)) < (_LARGEST_FLOAT if pa.types.is_float32(t) else math.inf)


def _read_times(objects: list[_Object | bytes | str], field: pa.Field, rows: list[int]) -> None:
    """Write the times of some objects in the form that Arrow reads."""
    texts = [objects[row][field.name] for row in rows]
    # Half of a surrogate pair is a character in JSON, but not in UTF-8.
    sound = [text.encode("utf-8", "replace").decode() for text in texts]
    ticks, valid = read_times(pa.array(sound, pa.string()))
    for row, text, tick, ok in zip(rows, texts, ticks.tolist(), valid.tolist(), strict=True):
        one = objects[row]
        assert isinstance(one, _Object)  # noqa: S101
        if ok:
            one.replace(field.name, instant(tick).isoformat())
        else:
            one.replace(field.name, None, misfit(field.name, text, field.type))


def _text(line: bytes, value: _Object | bytes | str) -> bytes | str:
    """Return a line for Arrow, or the reason why the line is malformed."""
    if not isinstance(value, _Object):
        return value
    return _json_text(value).encode("ascii") if value.changed else line.strip(_SPACES)


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, str) else _json_text(value)


def _json_text(value: Any, *, ascii: bool = True) -> str:
    """Return a parsed value as JSON text, with numbers as they were written."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        names = (json.dumps(name, ensure_ascii=ascii) for name in value)
        texts = (_json_text(one, ascii=ascii) for one in value.values())
        return f"{{{','.join(f'{n}:{t}' for n, t in zip(names, texts, strict=True))}}}"
    if isinstance(value, list):
        return f"[{','.join(_json_text(one, ascii=ascii) for one in value)}]"
    return json.dumps(value, ensure_ascii=ascii)
