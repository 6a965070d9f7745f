"""The conversion of Spark's DDL ("ts timestamp, segment int") to Arrow schemas."""

from __future__ import annotations

import re

import pyarrow as pa

from lowwater.errors import SpecError

_SIMPLE = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "byte": pa.int8(), "smallint": pa.int16(),
    "short": pa.int16(), "int": pa.int32(), "integer": pa.int32(), "bigint": pa.int64(),
    "long": pa.int64(), "float": pa.float32(), "real": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "varchar": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    "decimal": pa.decimal128(10, 0),
}  # fmt: skip
_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
_MOST_DIGITS = 38
_FIELD = re.compile(r"\s*(?:`([^`]+)`|([\w$-]+))\s*:?\s+(.+?)\s*", re.DOTALL)
_DECIMAL = re.compile(r"(?:decimal|numeric|dec)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.DOTALL)


def parse_schema(text: str) -> pa.Schema:
    """Return the schema that `text` in Spark's DDL describes.

    >>> parse_schema("ts timestamp, price decimal(10, 2)").field("price").type
    Decimal128Type(decimal128(10, 2))
    """
    fields = [_field(part, text) for part in _split(text)]
    names = [f.name for f in fields]
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise SpecError(f"schema={text!r} names the column {twice[0]!r} twice; rename one of them")
    return pa.schema(fields)


def schema_of(given: str | pa.Schema) -> pa.Schema:
    """Return `given`, text in Spark's DDL or an Arrow schema, as a schema in Spark's types."""
    return parse_schema(given) if isinstance(given, str) else plain(given)


def plain(schema: pa.Schema) -> pa.Schema:
    """Return `schema` in Spark's types: without dictionaries, views and unsigned numbers.

    >>> plain(pa.schema([("a", pa.dictionary(pa.int8(), pa.string())), ("n", pa.uint64())])).types
    [DataType(string), Decimal128Type(decimal128(20, 0))]
    """
    return pa.schema([pa.field(f.name, plain_type(f.type), f.nullable) for f in schema])


def plain_type(t: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark would use for values of type `t`."""
    if pa.types.is_dictionary(t):
        return plain_type(t.value_type)
    if pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return pa.binary()
    return _SIGNED.get(t, t)


def is_number(t: pa.DataType) -> bool:
    """Return whether type `t` is an integer, a float or a decimal."""
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def parse_type(text: str) -> pa.DataType:
    """Return the type that `text` in Spark's DDL describes.

    >>> parse_type("array<int>")
    ListType(list<item: int32>)
    """
    name = text.strip().lower()
    if name in _SIMPLE:
        return _SIMPLE[name]
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2] or 0)
        if not 1 <= precision <= _MOST_DIGITS or scale > precision:
            raise SpecError(
                f"type {text!r} is not valid: a decimal has 1 to {_MOST_DIGITS} digits, and at "
                f"most as many after the point"
            )
        return pa.decimal128(precision, scale)
    if match := _NESTED.fullmatch(text.strip()):
        inner = _split(match[2])
        if match[1] == "array" and len(inner) == 1:
            return pa.list_(parse_type(inner[0]))
        if match[1] == "map" and len(inner) == 2:  # noqa: PLR2004
            return pa.map_(parse_type(inner[0]), parse_type(inner[1]))
        if match[1] == "struct":
            return pa.struct([_field(re.sub(r":", " ", part, count=1), text) for part in inner])
    raise SpecError(f"type {text!r} is unknown; use Spark's names: {', '.join(_SIMPLE)}")


def _field(part: str, whole: str) -> pa.Field:
    match = _FIELD.fullmatch(part)
    if match is None:
        raise SpecError(
            f"schema={whole!r}: {part.strip()!r} should be a name and a type, like 'x int'"
        )
    kind, count = re.subn(r"(?i)\s+not\s+null$", "", match[3])
    return pa.field(match[1] or match[2], parse_type(kind), nullable=not count)


def _split(text: str) -> list[str]:
    """Return the parts of `text`, split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
