"""Spark SQL expressions over Arrow tables: parsed by sqlglot, evaluated by DuckDB.

Spark evaluates the expressions of a DataFrame. DuckDB evaluates expressions on rows that Lowwater
reads itself, because these rows do not pass through the JVM. An expression is a deterministic
function of one row: a row that is read again has the same value.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.expressions.duckdb import in_duckdb

if TYPE_CHECKING:
    import duckdb
    from sqlglot import exp

LOCKED: Mapping[str, str | bool | int] = {
    "threads": 1,  # so that rows keep their order
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "allow_persistent_secrets": False,
    "temp_directory": "",
}
"""The settings of DuckDB's connections: no files, no extensions, no network, no spilling to disk.

An expression cannot name a function that needs these. The settings hold even if a check fails.
"""
_ROWS = "__rows"
_JVM_CALL = re.compile(
    r"\b(java_method|reflect|try_reflect|identifier)\b`?\s*(?:\(|--|/\*)", re.IGNORECASE
)
"""A call of a function that runs any method of the JVM, or that takes the name of a function."""
_QUERY_WORD = re.compile(r"\b(select|table)\b|\(\s*(from)\b", re.IGNORECASE)
"""A word that begins a query, in a text that sqlglot cannot parse."""
_LOCAL = threading.local()
_CHANGING = {
    "CurrentDate", "CurrentDatetime", "CurrentTime", "CurrentTimestamp", "CurrentTimestampLTZ",
    "CurrentUser", "Localtime", "Localtimestamp", "Rand", "Randn", "Randstr", "Uniform", "Uuid",
    "Zipf",
}  # fmt: skip
"""Functions that are not deterministic: they may return another value if a row is read again."""


@dataclass(frozen=True)
class Expression:
    """A checked expression: its text, the columns that it reads, and its SQL for DuckDB."""

    text: str
    reads: tuple[str, ...]
    sql: str
    is_column: bool
    """Whether the expression is only a column."""

    @classmethod
    def over(cls, text: str, schema: pa.Schema) -> Expression:
        """Return expression `text` for tables of `schema`; raise SpecError if it does not fit."""
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
        columns = tuple(dict.fromkeys(reads))

        def type_of(sql: str) -> pa.DataType:
            return types_of(schema, [cls(text, columns, sql, is_column)])[0]

        return cls(text, columns, in_duckdb(text, tree, type_of), is_column)


def check_expression(text: Any, word: str) -> None:
    """Raise SpecError unless `text` is an expression of one row; `word` begins the error text.

    A text that sqlglot cannot parse is accepted, because Spark may be able to parse it.
    """
    if not isinstance(text, str) or not text.strip():
        raise SpecError(f"{word}{text!r}: give a Spark SQL expression as text, like 'speed > 0'")
    _refuse_jvm_calls(text)
    try:
        tree = _read(text)
    except SpecError as problem:
        if found := _QUERY_WORD.search(text):
            if problem.__cause__ is None:  # sqlglot can parse it, but it is more than an expression
                raise
            raise SpecError(
                f"{word}{text!r} contains {found.group().strip('( ').upper()}, but an expression "
                f"reads one row and no table; join the other stream"
            ) from None
        return
    _refuse_other_rows(text, tree)


def column_text(name: str) -> str:
    """Return the Spark SQL text for column `name`: in backticks if it is not a plain word.

    >>> column_text("speed"), column_text("seg-id"), column_text("order")
    ('speed', '`seg-id`', '`order`')
    """
    if name.isascii() and name.isidentifier() and name.upper() not in _words():
        return name
    return "`" + name.replace("`", "``") + "`"


@cache
def _words() -> frozenset[str]:
    """Return the keywords of Spark SQL, and ORDER, which is a keyword only before BY."""
    from sqlglot.dialects.spark import Spark

    return frozenset(keyword.split()[0] for keyword in Spark.tokenizer_class.KEYWORDS)


@cache
def normal(text: str) -> str:
    """Return the normal form of expression `text`: uniform spaces, keywords and quotes.

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
    printed = tree.sql("spark", comments=False)
    if _parses_as(printed, tree):
        return printed
    for name in names:
        name.set("quoted", column_text(name.name) != name.name)
    return tree.sql("spark", comments=False)


def _parses_as(text: str, tree: exp.Expr) -> bool:
    try:
        return _read(text) == tree
    except SpecError:
        return False


def parsed(text: str) -> exp.Expr:
    """Return the syntax tree of `text`; raise SpecError unless it is an expression of one row."""
    _refuse_jvm_calls(text)
    tree = _read(text)
    _refuse_other_rows(text, tree)
    return tree


def _read(text: str) -> exp.Expr:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    try:
        statements = sqlglot.parse(f"SELECT {text}", read="spark")
    except (ParseError, TokenError) as problem:
        errors = getattr(problem, "errors", None)
        reason = errors[0]["description"] if errors else str(problem)
        raise SpecError(f"{text!r} is not a Spark SQL expression: {reason}") from problem
    (select,) = statements if len(statements) == 1 else (None,)
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        raise SpecError(f"{text!r} is not one Spark SQL expression; write one, like 'speed > 0'")
    if any(value for name, value in select.args.items() if name not in ("expressions", "kind")):
        raise SpecError(f"{text!r} is more than an expression; write no FROM, WHERE or GROUP BY")
    tree: exp.Expr = select.expressions[0]
    return tree


def _refuse_jvm_calls(text: str) -> None:
    """Raise SpecError if `text` calls a function that can run any method of the JVM.

    The check reads the characters, not the syntax tree. So it does not depend on sqlglot and Spark
    agreeing on comments, quotes and strings. It also refuses such a call inside a string.
    """
    found = _JVM_CALL.search(text)
    if found is None:
        return
    name = found[1].lower()
    reason = "can run any Java method in Spark's process"
    if name == "identifier":
        reason = "takes the name of any function, even of one that runs Java methods"
    raise SpecError(
        f"{text!r} calls {name}(), which {reason}; name a function of Spark SQL, or compute the "
        f"column where the rows are produced"
    )


def _refuse_other_rows(text: str, tree: exp.Expr) -> None:
    from sqlglot import exp

    for node in tree.walk():
        name = type(node).__name__
        if isinstance(node, exp.AggFunc | exp.Window):
            raise SpecError(
                f"{text!r} computes over many rows, but an expression reads one; put aggregates "
                f"into .agg(...)"
            )
        if isinstance(node, exp.Query):
            raise SpecError(
                f"{text!r} holds a query, but an expression reads one row; join the other stream"
            )
        if isinstance(node, exp.UDTF | exp.Explode):
            raise SpecError(
                f"{text!r} makes several rows of one, but an expression returns one value; do it "
                f"where the rows are produced"
            )
        if name in _CHANGING:
            raise SpecError(
                f"{text!r} has another value when a row is read again, for example after a crash; "
                f"compute it where the rows are produced, as a column of the data"
            )


def evaluate(table: pa.Table, expressions: Sequence[Expression]) -> list[pa.ChunkedArray]:
    """Return the values of each expression, in the order of the rows of `table`."""
    reads = dict.fromkeys(name for e in expressions for name in e.reads)
    read = table.select(list(reads) or table.column_names[:1])
    selected = ", ".join(f"{e.sql} AS __{i}" for i, e in enumerate(expressions))
    database = _database()
    database.register(_ROWS, read)
    try:
        return list(database.sql(f"SELECT {selected} FROM {_ROWS}").to_arrow_table().columns)  # noqa: S608
    finally:
        database.unregister(_ROWS)


def types_of(schema: pa.Schema, expressions: Sequence[Expression]) -> list[pa.DataType]:
    """Return the types of `expressions`, by evaluating them on a table without rows."""
    import duckdb

    try:
        return [column.type for column in evaluate(schema.empty_table(), expressions)]
    except duckdb.Error as problem:
        texts = ", ".join(repr(e.text) for e in expressions)
        reason = str(problem).splitlines()[0]
        raise SpecError(
            f"{texts} does not carry over from Spark to DuckDB: {reason}. Correct it, or read the "
            f"rows as a DataFrame, where Spark evaluates it"
        ) from problem


def _database() -> duckdb.DuckDBPyConnection:
    """Return this thread's DuckDB connection, which can read only the rows registered with it."""
    import duckdb

    if not hasattr(_LOCAL, "database"):
        database = duckdb.connect(config=dict(LOCKED))
        database.execute("SET TimeZone = 'UTC'")
        database.execute("SET lock_configuration = true")
        _LOCAL.database = database
    opened: duckdb.DuckDBPyConnection = _LOCAL.database
    return opened
