"""Spark SQL expressions over Arrow tables: read by sqlglot, evaluated by DuckDB.

Where rows are a DataFrame, Spark evaluates expressions. Where Lowwater reads the rows itself, they
are evaluated here, so that raw rows need not pass through the JVM. An expression is a function of
one row: the same row gives the same value, whenever it is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.expressions.duckdb import in_duckdb

if TYPE_CHECKING:
    import duckdb
    from sqlglot import exp

_ROWS = "__rows"
_LOCAL = threading.local()
_CHANGING = {
    "CurrentDate", "CurrentDatetime", "CurrentTime", "CurrentTimestamp", "CurrentTimestampLTZ",
    "CurrentUser", "Localtime", "Localtimestamp", "Rand", "Randn", "Randstr", "Uniform", "Uuid",
    "Zipf",
}  # fmt: skip
"""What gives another value when a row is read again."""


@dataclass(frozen=True)
class Expression:
    """An expression made ready to run: the columns it reads, and what DuckDB is asked."""

    text: str
    reads: tuple[str, ...]
    sql: str
    is_column: bool
    """Whether it is nothing but the column that it reads."""

    @classmethod
    def over(cls, text: str, schema: pa.Schema) -> Expression:
        """Make an expression ready for tables of a schema, or say why it does not carry over."""
        from sqlglot import exp

        tree = parsed(text)
        by_name = {name.lower(): name for name in reversed(schema.names)}
        reads = []
        for column in tree.find_all(exp.Column):
            name = column.parts[0].name
            if name.lower() not in by_name:
                raise unknown_name("column", name, schema.names)
            reads.append(by_name[name.lower()])
        is_column = isinstance(tree, exp.Column) and len(tree.parts) == 1
        seen = tuple(dict.fromkeys(reads))

        def type_of(sql: str) -> pa.DataType:
            return types_of(schema, [cls(text, seen, sql, is_column)])[0]

        return cls(text, seen, in_duckdb(text, tree, type_of), is_column)


def checked(text: Any, word: str) -> str:
    """Return an expression as it was written, or say why it is none of a single row.

    One that sqlglot cannot read is passed: Spark may know it.
    """
    if not isinstance(text, str) or not text.strip():
        raise SpecError(f"{word}{text!r}: give a Spark SQL expression as text, like 'speed > 0'")
    try:
        tree = _read(text)
    except SpecError:
        return text
    _refuse_other_rows(text, tree)
    return text


def column_text(name: str) -> str:
    """Return the text that names a column: in back quotes if it is not a plain word.

    >>> column_text("speed"), column_text("seg-id"), column_text("order")
    ('speed', '`seg-id`', '`order`')
    """
    if name.isascii() and name.isidentifier() and name.upper() not in _words():
        return name
    return "`" + name.replace("`", "``") + "`"


@cache
def _words() -> frozenset[str]:
    """Return the words of the language: ORDER too, which is one only before BY."""
    from sqlglot.dialects.spark import Spark

    return frozenset(keyword.split()[0] for keyword in Spark.tokenizer_class.KEYWORDS)


@cache
def normal(text: str) -> str:
    """Return an expression the way it is printed, whatever its spaces, case and quotes were.

    >>> normal("speed>0 and Lane is not null")
    'speed > 0 AND NOT Lane IS NULL'
    >>> normal("`speed` > `seg-id`"), normal("`window`.end"), normal("`from`")
    ('speed > `seg-id`', 'window.end', '`from`')
    """
    from sqlglot import exp

    try:
        tree = _read(text)
    except SpecError:
        return text.strip()
    names = list(tree.find_all(exp.Identifier))
    for name in names:
        name.set("quoted", not (name.name.isascii() and name.name.isidentifier()))
    said = tree.sql("spark", comments=False)
    if _reads_as(said, tree):
        return said
    for name in names:
        name.set("quoted", column_text(name.name) != name.name)
    return tree.sql("spark", comments=False)


def _reads_as(text: str, tree: exp.Expr) -> bool:
    try:
        return _read(text) == tree
    except SpecError:
        return False


def parsed(text: str) -> exp.Expr:
    """Read an expression of one row."""
    tree = _read(text)
    _refuse_other_rows(text, tree)
    return tree


def _read(text: str) -> exp.Expr:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    try:
        found = sqlglot.parse(f"SELECT {text}", read="spark")
    except ParseError as problem:
        reason = problem.errors[0]["description"] if problem.errors else str(problem)
        raise SpecError(f"{text!r} is no Spark SQL expression: {reason}") from problem
    except TokenError as problem:
        raise SpecError(f"{text!r} is no Spark SQL expression: {problem}") from problem
    (select,) = found if len(found) == 1 else (None,)
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        raise SpecError(f"{text!r} is not one Spark SQL expression")
    if any(value for name, value in select.args.items() if name not in ("expressions", "kind")):
        raise SpecError(f"{text!r} is more than a Spark SQL expression")
    tree: exp.Expr = select.expressions[0]
    return tree


def _refuse_other_rows(text: str, tree: exp.Expr) -> None:
    from sqlglot import exp

    for node in tree.walk():
        name = type(node).__name__
        if isinstance(node, exp.AggFunc | exp.Window):
            raise SpecError(f"{text!r} is about many rows; aggregates go into .agg(...)")
        if isinstance(node, exp.Query):
            raise SpecError(f"{text!r} holds a query; an expression is about one row")
        if isinstance(node, exp.UDTF | exp.Explode):
            raise SpecError(f"{text!r} makes several rows of one, which an expression cannot")
        if name in _CHANGING:
            raise SpecError(
                f"{text!r} is not the same when a row is read again, after a crash for example; "
                f"write it into the data where they are made"
            )


def evaluate(table: pa.Table, expressions: Sequence[Expression]) -> list[pa.ChunkedArray]:
    """Return the values of expressions, row by row, in the order of the table."""
    reads = {name: None for e in expressions for name in e.reads}
    seen = table.select(list(reads) or table.column_names[:1])
    asked = ", ".join(f"{e.sql} AS __{i}" for i, e in enumerate(expressions))
    database = _database()
    database.register(_ROWS, seen)
    try:
        return list(database.sql(f"SELECT {asked} FROM {_ROWS}").to_arrow_table().columns)  # noqa: S608
    finally:
        database.unregister(_ROWS)


def types_of(schema: pa.Schema, expressions: Sequence[Expression]) -> list[pa.DataType]:
    """Return the types of expressions, found by running them on no rows."""
    import duckdb

    try:
        return [column.type for column in evaluate(schema.empty_table(), expressions)]
    except duckdb.Error as problem:
        texts = ", ".join(repr(e.text) for e in expressions)
        reason = str(problem).splitlines()[0]
        raise SpecError(f"{texts} does not carry over from Spark to DuckDB: {reason}") from problem


def _database() -> duckdb.DuckDBPyConnection:
    """Return this thread's database; one thread each keeps rows in order and cores to Spark."""
    import duckdb

    if not hasattr(_LOCAL, "database"):
        _LOCAL.database = duckdb.connect(config={"threads": 1})
        _LOCAL.database.execute("SET TimeZone = 'UTC'")
    database: duckdb.DuckDBPyConnection = _LOCAL.database
    return database
