"""What a line of csv or json means, by a look at one line after the other."""

from __future__ import annotations

import json
import math
import re

WHOLE = re.compile(r"-?\d+|0[xX][0-9a-fA-F]+")
NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-?(?i:inf|infinity|nan)")
MALFORMED = "malformed"


def lines_of(data):
    """Return the lines of a file; LF, CR and CRLF end a line, and empty lines do not count."""
    return [line for line in re.split(rb"\r\n|\r|\n", data) if line]


def fields_of(line):
    """Return (value, quoted) of each field of a line, one character at a time; None if it fails."""
    fields, at = [], 0
    while True:
        value, quoted = "", line[at : at + 1] == '"'
        if quoted:
            at += 1
            while True:
                if at >= len(line):
                    return None
                if line[at] != '"':
                    value, at = value + line[at], at + 1
                elif line[at + 1 : at + 2] == '"':
                    value, at = value + '"', at + 2
                else:
                    at += 1
                    break
            if line[at : at + 1] not in ("", ","):
                return None
        else:
            while at < len(line) and line[at] != ",":
                value, at = value + line[at], at + 1
        fields.append((value, quoted))
        if at >= len(line):
            return fields
        at += 1


def csv_value(text, quoted, kind):
    """Return the value of a field; raise ValueError if it does not fit."""
    if kind == "string":
        return None if text == "" and not quoted else text
    if text == "":
        return None
    text = text.strip(" \t\n\r\x0b\x0c")
    if re.match(r"\+[0-9.iInN]", text):
        text = text[1:]
    if kind == "bigint":
        if not WHOLE.fullmatch(text) or not text.isascii():
            raise ValueError(text)
        if text[:2] in ("0x", "0X"):
            if len(text) > 18:
                raise ValueError(text)
            value = int(text, 16)
            return value - 2**64 if value >= 2**63 else value
        return in_range(int(text))
    if not NUMBER.fullmatch(text) or not text.isascii():
        raise ValueError(text)
    value = float(text)
    if math.isinf(value) and "n" not in text.lower():
        raise ValueError(text)
    return value


def in_range(value):
    if not -(2**63) <= value < 2**63:
        raise ValueError(value)
    return value


def csv_row(line, kinds):
    """Return the values of a line, or MALFORMED."""
    try:
        fields = fields_of(line.decode())
        if fields is None or len(fields) != len(kinds):
            return MALFORMED
        return [csv_value(*field, kind) for field, kind in zip(fields, kinds, strict=True)]
    except ValueError:
        return MALFORMED


class Number(str):
    __slots__ = ()


def json_row(line, kinds):
    """Return the values of a JSON line by name, or MALFORMED."""
    top = []

    def pairs(items):
        top[:] = items
        return dict(items)

    try:
        value = json.loads(
            line.decode(),
            parse_int=Number,
            parse_float=Number,
            parse_constant=Number,
            object_pairs_hook=pairs,
        )
        if not isinstance(value, dict):
            return MALFORMED
        names = [name for name, _ in top]
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is not text
        if any(names.count(name) > 1 for name in kinds):
            return MALFORMED
        for name in value.keys() - kinds.keys():
            check_numbers(value[name])
        return [json_value(value.get(name), kind) for name, kind in kinds.items()]
    except ValueError:
        return MALFORMED


def json_value(value, kind):
    """Return a value of parsed JSON in the type of a column; raise ValueError if it fails."""
    if value is None:
        return None
    if kind == "string":
        if type(value) is str:
            return value
        return str(value) if isinstance(value, Number) else json_text(value)
    if not isinstance(value, Number):
        raise ValueError(value)  # noqa: TRY004
    if kind == "double":
        check_numbers(value)
        return float(value)
    if not re.fullmatch(r"-?\d+", value):
        raise ValueError(value)
    return in_range(int(value))


def check_numbers(value):
    """Raise ValueError if a number in `value` is beyond the range of double."""
    if isinstance(value, Number):
        if math.isinf(float(value)) and "Inf" not in value:
            raise ValueError(value)
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            check_numbers(one)


def json_text(value):
    if isinstance(value, dict):
        items = (f"{json.dumps(k, ensure_ascii=False)}:{json_text(v)}" for k, v in value.items())
        return "{" + ",".join(items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, Number):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
