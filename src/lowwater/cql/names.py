"""Names in a text: streams, columns, and what a column is called when nobody named it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from lowwater.cql.dialect import Cql, normal_form
from lowwater.cql.mistakes import meant, mistake
from lowwater.query import Stream


@dataclass(frozen=True)
class Scope:
    """A stream, and what a text may call it in front of a column."""

    text: str
    stream: Stream
    known_as: frozenset[str]

    @cached_property
    def _columns(self) -> dict[str, str]:
        return {name.lower(): name for name in reversed(self.stream.schema.names)}

    def column(self, node: exp.Column) -> str | None:
        """Return the column that a node names; None if it is a field of one."""
        if node.table and node.table.lower() in self._columns:
            return None
        if node.table and node.table.lower() not in self.known_as:
            raise mistake(
                f"{node.table!r} is no stream here", self.text, node, meant(node.table, self.known_as)
            )
        if node.name in self.stream.schema.names:
            return node.name
        found = self._columns.get(node.name.lower())
        if found is None:
            names = self.stream.schema.names
            hint = meant(node.name, names, otherwise=f"it has: {', '.join(names)}")
            raise mistake(f"{node.name!r} is no column of the stream", self.text, node, hint)
        return found

    def bare(self, node: exp.Expression) -> exp.Expression:
        """Return an expression whose columns are known and named without their stream."""

        def strip(part: exp.Expression) -> exp.Expression:
            name = self.column(part) if isinstance(part, exp.Column) else None
            return part if name is None else column(name)

        return node.transform(strip)


def identifier(name: str) -> exp.Identifier:
    """Return a name as it must be written: in back quotes if it is a word of the language.

    >>> identifier("seg-id").sql(dialect=Cql), identifier("speed").sql(dialect=Cql)
    ('`seg-id`', 'speed')
    """
    is_word = name.isascii() and name.isidentifier()
    return exp.Identifier(
        this=name, quoted=not is_word or name.upper() in Cql.tokenizer_class.KEYWORDS
    )


def column(name: str) -> exp.Column:
    """Return a column by its name."""
    return exp.Column(this=identifier(name))


def same(node: exp.Expression, other: exp.Expression) -> bool:
    """Say whether two expressions are written alike, apart from quotes."""
    return _spelt(node) == _spelt(other)


def spark_text(node: exp.Expression) -> str:
    """Return an expression as Spark reads it."""
    return node.sql("spark", comments=False)


def default_name(node: exp.Expression) -> str:
    """Return what a column is called when nobody named it: its own text."""
    return node.name if isinstance(node, exp.Column) else normal_form(node)


def twice(names: Iterable[str]) -> str | None:
    """Return the first name that stands twice."""
    seen: set[str] = set()
    return next((n for n in names if n in seen or seen.add(n)), None)  # type: ignore[func-returns-value]


def _spelt(node: exp.Expression) -> str:
    return node.sql("spark", comments=False, identify=True)
