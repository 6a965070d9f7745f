"""Names in a text: streams, columns, and what a column is called when nobody named it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from lowwater.cql.dialect import normal_form
from lowwater.cql.mistakes import meant, mistake, told_at
from lowwater.errors import CqlError
from lowwater.query import Stream
from lowwater.sources.expressions import column_text

_IN_FRONT = ("table", "db", "catalog")
"""What stands in front of a name, from right to left."""


@dataclass(frozen=True)
class Scope:
    """A stream, and what a text may call its columns.

    `known` are the names that may stand in front of a column, in lower case, each with its own
    columns and what they are called in the stream: joins rename some.
    """

    text: str
    stream: Stream
    known: Mapping[str, Mapping[str, str]]
    is_closed: bool = False
    """Whether a column without a stream in front is one of the result, whose it ever was."""

    @classmethod
    def of(cls, text: str, stream: Stream, name: str) -> Scope:
        """Return a stream that has one name, or none."""
        columns = {column: column for column in stream.schema.names}
        return cls(text, stream, {name.lower(): columns} if name else {})

    def closed(self) -> Scope:
        """Return what a query in FROM without a name of its own gives."""
        return replace(self, is_closed=True)

    def column(self, node: exp.Column) -> str | None:
        """Return the column that a node names; None if it is a field of one."""
        first, *fields = self.path(node)
        return None if fields else first

    def path(self, node: exp.Column) -> list[str]:
        """Return a column and the fields that follow it, without the stream in front."""
        first, *fields = [part.name for part in node.parts]
        if fields and first.lower() in self.known:
            owned = self.known[first.lower()]
            return [self._owned(fields[0], owned, node), *fields[1:]]
        if fields and find(first, self.stream.schema.names) is None:
            hint = meant(first, self.known)
            raise mistake(f"{first!r} is no stream here", self.text, node, hint)
        return [self._unowned(first, node), *fields]

    def _owned(self, name: str, columns: Mapping[str, str], node: exp.Column) -> str:
        found = find(name, columns)
        if found is None:
            raise self._unknown(name, list(columns), node)
        return columns[found]

    def _unowned(self, name: str, node: exp.Column) -> str:
        owners = self.owners(name)
        if len(set(owners.values())) > 1:
            choice = " or ".join(f"{owner}.{name}" for owner in owners)
            raise mistake(f"{name!r} may be of either", self.text, node, f"write {choice}")
        names = self.stream.schema.names
        found = next(iter(owners.values()), None) or find(name, names)
        if found is None:
            raise self._unknown(name, names, node)
        return found

    def owners(self, name: str) -> dict[str, str]:
        """Return who has a column of a name, and what it is called in the stream."""
        if self.is_closed:
            return {}
        held = {owner: find(name, columns) for owner, columns in self.known.items()}
        return {owner: self.known[owner][c] for owner, c in held.items() if c is not None}

    def _unknown(self, name: str, names: Sequence[str], node: exp.Column) -> CqlError:
        hint = meant(name, names, otherwise=f"it has: {', '.join(names)}")
        return mistake(f"{name!r} is no column of the stream", self.text, node, hint)

    def bare(self, node: exp.Expr) -> exp.Expr:
        """Return an expression whose columns are known and named without their stream."""

        def strip(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column):
                return part
            path = self.path(part)
            # What stands there already stays as it is written, so that a step keeps its text.
            if path == [name.name for name in part.parts]:
                return part
            *before, last = map(identifier, path)
            return exp.Column(this=last, **dict(zip(_IN_FRONT, reversed(before), strict=False)))

        return node.transform(strip)

    def where(self, condition: exp.Expr) -> Scope:
        """Return the stream with only the rows for which a condition is true."""
        text = spark_text(self.bare(condition))
        with told_at(self.text, condition):
            return replace(self, stream=self.stream.where(text))


def find(name: str, names: Iterable[str]) -> str | None:
    """Return the name as it is written where it is known: whatever its case, if need be."""
    known = list(names)
    if name in known:
        return name
    return next((other for other in known if other.lower() == name.lower()), None)


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
