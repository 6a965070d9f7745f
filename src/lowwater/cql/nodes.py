"""The nodes that CQL adds to the syntax tree of Spark SQL, and the functions that print them.

A length, as in `RANGE 5 minutes`, is a number of rows, a duration, a plain number, or UNBOUNDED.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar

from sqlglot import exp

from lowwater.windows.axis import Axis
from lowwater.windows.landmark import unbounded
from lowwater.windows.row_windows import rows

CLAUSES = {
    "RANGE": "range", "RATTR": "rattr", "SLIDE": "slide", "SATTR": "sattr", "GAP": "gap",
    "WATTR": "wattr", "WA": "wattr", "PATTR": "pattr", "ORIGIN": "origin",
    "ALLOWED": "allowed_lateness",
}  # fmt: skip
"""Maps the first word of each clause of a window to an argument of `StreamWindow`."""
PHRASES = {"ALLOWED": "ALLOWED LATENESS"}
"""Maps the first word of a clause to the whole clause, if the clause has several words."""
ROW_NUM = "row-num"
"""The papers' word for arrival order. A column of the stream with this name takes precedence."""


class Length(exp.Expression):
    """A length; its `kind` is time (`300 seconds`), rows (`10 rows`), number (`5`) or unbounded."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class RowNumber(exp.Expression):
    """`row-num`: the number of a row in the order of arrival."""

    arg_types: ClassVar[dict[str, bool]] = {}


class RankOf(exp.Expression):
    """`rank(ts)`: the number of a row in the order of the column `ts`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class StreamWindow(exp.Expression):
    """`[RANGE … SLIDE … WATTR …]`: the window of a stream."""

    arg_types: ClassVar[dict[str, bool]] = dict.fromkeys(CLAUSES.values(), False)


class WindowedStream(exp.Expression):
    """`stream [RANGE …]`: a stream and its window."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "window": True}


class EarlyItem(exp.Expression):
    """An item of SELECT, followed by a window (OOP's syntax); `parse` moves the window to FROM."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "window": True}


class KeepClause(exp.Expression):
    """`stream KEEP 3 seconds SLIDE 1 second`: a stream whose rows a join keeps for 3 seconds."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "keep": True, "slide": False}


class StreamUnion(exp.Expression):
    """`a UNION b AS c`: several streams as one."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "alias": False}


def _window_text(printer: Any, node: StreamWindow) -> str:
    clauses = []
    for word, name in CLAUSES.items():
        value = node.args.get(name)
        if word == "WA" or not value:
            continue
        values = value if isinstance(value, list) else [value]
        clauses.append(f"{PHRASES.get(word, word)} {', '.join(printer.sql(v) for v in values)}")
    return f"[{' '.join(clauses)}]"


def _keep_text(printer: Any, node: KeepClause) -> str:
    slide = f" SLIDE {printer.sql(node, 'slide')}" if node.args.get("slide") else ""
    return f"{printer.sql(node, 'this')} KEEP {printer.sql(node, 'keep')}{slide}"


def _union_text(printer: Any, node: StreamUnion) -> str:
    alias = f" AS {printer.sql(node, 'alias')}" if node.args.get("alias") else ""
    return " UNION ".join(printer.sql(member) for member in node.expressions) + alias


SPELLING: dict[type[exp.Expr], Callable[..., str]] = {
    Length: lambda _, e: str(e.args["this"]),
    RowNumber: lambda *_: ROW_NUM,
    RankOf: lambda printer, e: f"rank({printer.sql(e, 'this')})",
    StreamWindow: _window_text,
    WindowedStream: lambda printer, e: f"{printer.sql(e, 'this')} {printer.sql(e, 'window')}",
    KeepClause: _keep_text,
    StreamUnion: _union_text,
}
"""The functions that print the nodes, by node type."""
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
"""Maps each unit that a text may contain, in the singular, to the unit that is printed."""


def unit_of(word: str) -> str | None:
    """Return the unit that `word` names, in the singular; None if `word` names no unit.

    >>> unit_of("mins"), unit_of("Second"), unit_of("WATTR")
    ('minute', 'second', None)
    """
    lower = word.lower()
    return UNITS.get(lower) or UNITS.get(lower.removesuffix("s"))


def length(terms: Sequence[tuple[str, str | None]]) -> Length | None:
    """Return the length of the (number, unit) pairs in `terms`; None if they form no length."""
    units = [unit for _, unit in terms]
    if units == [None]:
        return Length(this=terms[0][0], kind="number")
    if None in units or ("row" in units and len(units) > 1):
        return None
    text = " ".join(f"{n} {unit}{'' if Decimal(n) == 1 else 's'}" for n, unit in terms)
    return Length(this=text, kind="rows" if units == ["row"] else "time")


def value_of(node: Length) -> Any:
    """Return the length `node` as an argument of `stream.window(...)`."""
    kind, text = node.args["kind"], str(node.this)
    if kind == "unbounded":
        return unbounded
    if kind == "time":
        return text
    number = number_of(text.split(maxsplit=1)[0])
    return rows(number) if kind == "rows" else number  # type: ignore[arg-type]  # rows() checks it


def span_of(axis: Axis, span: int) -> timedelta | int | Decimal:
    """Return `span` ticks of the window attribute `axis` as a value for `stream.window(range=...)`.

    >>> import pyarrow as pa
    >>> span_of(Axis("n", pa.int32()), 1), span_of(Axis("x", pa.decimal128(9, 2)), 1)
    (1, Decimal('0.01'))
    """
    if axis.kind == "time":
        return timedelta(microseconds=span)
    return span if axis.per_unit == 1 else Decimal(span) / axis.per_unit


def number_of(text: str) -> int | Decimal:
    """Return the number in `text`: an int if the number is whole, else a Decimal."""
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else exact
