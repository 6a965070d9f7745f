"""Names in a text: streams, columns, and what a column is called when nobody named it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from lowwater.cql.dialect import normal_form
from lowwater.cql.mistakes import meant, mistake
from lowwater.query import Stream
from lowwater.sources.expressions import column_text

_IN_FRONT = ("table", "db", "catalog")
"""What stands in front of a name, from right to left."""


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
        first, *fields = self._path(node)
        return None if fields else first

    def _path(self, node: exp.Column) -> list[str]:
        """Return a column and the fields that follow it, without the stream in front."""
        path = [part.name for part in node.parts]
        if len(path) > 1 and path[0].lower() in self.known_as:
            path.pop(0)
        elif len(path) > 1 and path[0].lower() not in self._columns:
            hint = meant(path[0], self.known_as)
            raise mistake(f"{path[0]!r} is no stream here", self.text, node, hint)
        return [self._column(path[0], node), *path[1:]]

    def _column(self, name: str, node: exp.Column) -> str:
        names = self.stream.schema.names
        if name in names:
            return name
        found = self._columns.get(name.lower())
        if found is None:
            hint = meant(name, names, otherwise=f"it has: {', '.join(names)}")
            raise mistake(f"{name!r} is no column of the stream", self.text, node, hint)
        return found

    def bare(self, node: exp.Expr) -> exp.Expr:
        """Return an expression whose columns are known and named without their stream."""

        def strip(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column):
                return part
            *before, last = map(identifier, self._path(part))
            return exp.Column(this=last, **dict(zip(_IN_FRONT, reversed(before), strict=False)))

        return node.transform(strip)


def identifier(name: str) -> exp.Identifier:
    """Return a name as it must be written: in back quotes if it is a word of the language.

    >>> identifier("seg-id").sql("spark"), identifier("speed").sql("spark")
    ('`seg-id`', 'speed')
    """
    return exp.Identifier(this=name, quoted=column_text(name) != name)


def column(name: str) -> exp.Column:
    """Return a column by its name."""
    return exp.Column(this=identifier(name))


def same(node: exp.Expr, other: exp.Expr) -> bool:
    """Say whether two expressions are written alike, apart from quotes."""
    return _spelt(node) == _spelt(other)


def spark_text(node: exp.Expr) -> str:
    """Return an expression as Spark reads it."""
    return node.sql("spark", comments=False)


def default_name(node: exp.Expr) -> str:
    """Return what a column is called when nobody named it: its own text."""
    return node.name if isinstance(node, exp.Column) else normal_form(node)


def _spelt(node: exp.Expr) -> str:
    return node.sql("spark", comments=False, identify=True)
