"""The translation of Spark SQL expressions into DuckDB's SQL, with the same results.

sqlglot translates names and syntax. This module rewrites or refuses functions that return another
value or type in DuckDB. A test compares every allowed function with Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.schema import is_number

if TYPE_CHECKING:
    from sqlglot import exp

TypeOf: TypeAlias = Callable[[str], pa.DataType]
"""A function that returns the type of an expression in DuckDB's SQL."""

SAME = frozenset({
    "Abs", "And", "Case", "Cast", "Ceil", "Coalesce", "Concat", "ConcatWs", "Contains",
    "DateDiff", "Day", "DayOfMonth", "DayOfWeek", "DayOfYear", "Exp", "Extract",
    "Floor", "Greatest", "Hour", "If", "Initcap", "Least", "Left", "Length", "Ln", "Log", "Lower",
    "Minute", "Month", "Nullif", "Or", "Pad", "Pow", "Quarter", "RegexpExtract", "RegexpLike",
    "RegexpReplace", "Repeat", "Replace", "Reverse", "Right", "Round", "Second", "Sign", "Sqrt",
    "StartsWith", "StrPosition", "Substring", "TimeStrToTime", "TimeToStr",
    "TimestampTrunc", "Trim", "TryCast", "TsOrDsAdd", "TsOrDsToDate", "UnixMicros", "Upper",
    "WeekOfYear", "Year",
})  # fmt: skip
"""Functions with the same results in Spark and DuckDB, some of them only after `_rewritten`."""
_RESULTS = {
    "Ceil": "bigint", "DateDiff": "int", "Day": "int", "DayOfMonth": "int", "DayOfWeek": "int",
    "DayOfYear": "int", "Extract": "int", "Floor": "bigint", "Hour": "int", "Length": "int",
    "Minute": "int", "Month": "int", "Quarter": "int", "Second": "int", "Sign": "double",
    "StrPosition": "int", "TsOrDsAdd": "date", "WeekOfYear": "int", "Year": "int",
}  # fmt: skip
"""Spark's result type of each function whose result has another type in DuckDB."""
_LONGEST_INT, _LONGEST_BIGINT, _MOST_DIGITS = 2**31 - 1, 2**63 - 1, 38


def in_duckdb(text: str, tree: exp.Expr, type_of: TypeOf) -> str:
    """Return `tree` in DuckDB's SQL; raise SpecError if results would differ from Spark's."""
    from sqlglot import exp

    for node in tree.find_all(exp.Func):
        if type(node).__name__ not in SAME:
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            raise _refusal(text, f"{name.lower()}() is not known to mean the same there")
    root = exp.Paren(this=tree.copy())
    # Deepest first, because the rewriting of a node depends on the types of its operands.
    for node in reversed(list(root.this.walk(bfs=False))):
        new = _rewritten(text, node, type_of)
        if new is not node:
            node.replace(new)
    return _printed(text, root.this)


def _rewritten(text: str, node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Return a node whose result in DuckDB equals the result of `node` in Spark."""
    from sqlglot import exp

    def inside(part: exp.Expr) -> pa.DataType:
        return type_of(_printed(text, part))

    if isinstance(node, exp.Literal):
        return _typed(node)
    if isinstance(node, exp.Cast):
        return _cast(text, node, inside(node.this))
    if isinstance(node, exp.Concat | exp.ConcatWs | exp.DPipe):
        for part in node.expressions or (node.this, node.expression):
            _check_text(text, inside(part))
    if isinstance(node, exp.Div):
        types = [inside(part) for part in (node.this, node.expression)]
        if any(map(pa.types.is_decimal, types)) and not any(map(pa.types.is_floating, types)):
            raise _refusal(text, "decimals are divided another way; cast one of them to double")
    kind = _RESULTS.get(type(node).__name__)
    if kind is None or node.args.get("decimals") is not None:
        return node
    value = node.copy()
    if isinstance(node, exp.DayOfWeek):  # Spark numbers weekdays from 1
        value = exp.Paren(this=exp.Add(this=value, expression=exp.Literal.number(1)))
    return exp.TryCast(this=value, to=exp.DataType.build(kind))


def _typed(node: exp.Literal) -> exp.Expr:
    """Return the literal `node`; a number in arithmetic is cast to the type that Spark gives it."""
    from sqlglot import exp

    arithmetic = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
    if node.is_string or not isinstance(node.parent, arithmetic):
        return node
    kind = _literal_type(node.name)
    return node if kind is None else exp.Cast(this=node.copy(), to=exp.DataType.build(kind))


def _literal_type(number: str) -> str | None:
    """Return the type that Spark gives a number in SQL; None for a number with too many digits.

    >>> [_literal_type(n) for n in ("7", "3000000000", "1.60", "1e3")]
    ['int', 'bigint', 'decimal(3, 2)', 'double']
    """
    if number.isdigit():
        if int(number) <= _LONGEST_BIGINT:
            return "int" if int(number) <= _LONGEST_INT else "bigint"
        return None
    if "e" in number.lower():
        return "double"
    _, digits, exponent = Decimal(number).as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale)
    return f"decimal({precision}, {scale})" if precision <= _MOST_DIGITS else None


def _cast(text: str, node: exp.Cast, before: pa.DataType) -> exp.Expr:
    """Return a cast with the result that `node` has in Spark; raise SpecError if impossible."""
    from sqlglot import exp

    fraction = is_number(before) and not pa.types.is_integer(before)
    if node.to.is_type(*exp.DataType.TEXT_TYPES):
        _check_text(text, before)
    elif is_number(before) != node.to.is_type(*exp.DataType.NUMERIC_TYPES) and (
        pa.types.is_temporal(before) or node.to.is_type(*exp.DataType.TEMPORAL_TYPES)
    ):
        raise _refusal(text, "a time as a number, or a number as a time, has another value there")
    elif fraction and node.to.is_type(*exp.DataType.INTEGER_TYPES):
        cut = node.copy()
        cut.set("this", exp.Anonymous(this="trunc", expressions=[node.this.copy()]))
        return cut
    return node


def _check_text(text: str, before: pa.DataType) -> None:
    """Raise SpecError if DuckDB prints values of type `before` differently from Spark."""
    if pa.types.is_floating(before) or pa.types.is_timestamp(before) or pa.types.is_nested(before):
        remedy = "take round() and a decimal, or date_format()"
        raise _refusal(text, f"a {before} is printed in another way; {remedy}")


def _printed(text: str, tree: exp.Expr) -> str:
    from sqlglot.errors import ErrorLevel, UnsupportedError

    try:
        return tree.sql("duckdb", identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as problem:
        raise _refusal(text, str(problem)) from None


def _refusal(text: str, reason: str) -> SpecError:
    return SpecError(
        f"{text!r} does not carry over from Spark to DuckDB, which evaluates it here: {reason}. "
        f"Write another expression, or read the rows as a DataFrame, where Spark evaluates it"
    )
