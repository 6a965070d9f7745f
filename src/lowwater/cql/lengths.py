"""Lengths in text: a number of rows, a duration, a plain number, or no bound."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from lowwater.cql.nodes import Length
from lowwater.windows import Axis, rows, unbounded

UNITS = {
    "us": "microsecond", "microsecond": "microsecond",
    "ms": "millisecond", "millisecond": "millisecond", "msec": "millisecond",
    "s": "second", "sec": "second", "second": "second",
    "min": "minute", "minute": "minute",
    "h": "hour", "hour": "hour",
    "d": "day", "day": "day",
    "week": "week",
    "row": "row", "tuple": "row",
}  # fmt: skip
"""Units as they may be written, in the singular, and as they are printed."""


def unit_of(word: str) -> str | None:
    """Return the unit that a word stands for.

    >>> unit_of("mins"), unit_of("Second"), unit_of("WATTR")
    ('minute', 'second', None)
    """
    lower = word.lower()
    return UNITS.get(lower) or UNITS.get(lower.removesuffix("s"))


def length(terms: Sequence[tuple[str, str | None]]) -> Length | None:
    """Make a length of numbers with their units; None if they do not go together."""
    units = [unit for _, unit in terms]
    if units == [None]:
        return Length(this=terms[0][0], kind="number")
    if None in units or ("row" in units and len(units) > 1):
        return None
    said = " ".join(f"{n} {unit}{'' if Decimal(n) == 1 else 's'}" for n, unit in terms)
    return Length(this=said, kind="rows" if units == ["row"] else "time")


def endless() -> Length:
    """Return the length of a window that reaches back to the beginning."""
    return Length(this="UNBOUNDED", kind="unbounded")


def value_of(node: Length) -> Any:
    """Return a length as `stream.window(...)` takes it."""
    kind, said = node.args["kind"], str(node.this)
    if kind == "unbounded":
        return unbounded
    if kind == "time":
        return said
    number = number_of(said.split(maxsplit=1)[0])
    return rows(number) if kind == "rows" else number  # type: ignore[arg-type]  # rows() checks it


def span_of(axis: Axis, span: int) -> timedelta | int | Decimal:
    """Return so many ticks of an attribute as `stream.window(range=...)` takes them.

    >>> import pyarrow as pa
    >>> span_of(Axis("n", pa.int32()), 1), span_of(Axis("x", pa.decimal128(9, 2)), 1)
    (1, Decimal('0.01'))
    """
    if axis.kind == "time":
        return timedelta(microseconds=span)
    return span if axis.per_unit == 1 else Decimal(span) / axis.per_unit


def number_of(text: str) -> int | Decimal:
    """Return a number as it was written: whole, or with the digits it has."""
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else exact
