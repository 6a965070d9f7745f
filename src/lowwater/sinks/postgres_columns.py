"""The columns of a PostgreSQL table for rows of any schema.

PostgreSQL cuts names after 63 bytes, reserves some, and refuses a name twice. Columns of Arrow may
have any name, and fields of structs become columns, which may collide with others. So a column
keeps its name if PostgreSQL allows it, and otherwise gets the nearest free name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

LONGEST_NAME = 63
"""The most bytes of a name in PostgreSQL (NAMEDATALEN - 1); it cuts longer names silently."""
_SYSTEM = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
"""Names that every table of PostgreSQL uses for its own columns."""
_DIGEST = 8


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table for rows of `schema`: for each, its name, and where its values are.

    `key` are the columns that identify a row. Rows without a key also have `epoch` and `place`, the
    index of the row in the epoch. With a key, `place` is only staged. `write` has the number of the
    write that stored the row.
    """

    places: tuple[tuple[int, int | None], ...]
    """For each column, the number of its field, and the number of the field inside a struct."""
    fields: tuple[pa.Field, ...]
    """For each column, its name in the table and its type."""
    key: tuple[str, ...]
    epoch: str
    place: str
    write: str

    @classmethod
    def of(cls, schema: pa.Schema, key: Sequence[str]) -> TableColumns:
        """Return the columns for `schema`, whose columns `key` identify a row."""
        places = [
            (at, inner)
            for at, field in enumerate(schema)
            for inner in (range(len(field.type)) if pa.types.is_struct(field.type) else [None])
        ]
        names: dict[tuple[int, int | None], str] = {}
        # Columns of the rows keep their names before fields of structs, whose names are composed.
        for at, inner in sorted(places, key=lambda place: place[1] is not None):
            field = schema.field(at)
            wanted = field.name if inner is None else f"{field.name}_{field.type[inner].name}"
            names[at, inner] = free_name(wanted, names.values())
        kinds = [
            schema.field(a).type if i is None else schema.field(a).type[i].type for a, i in places
        ]
        fields = [pa.field(names[p], kind) for p, kind in zip(places, kinds, strict=True)]
        numbers = [schema.get_field_index(name) for name in key]
        keys = [names[p] for number in numbers for p in places if p[0] == number]
        epoch = free_name("epoch", names.values())
        place = free_name("place", [*names.values(), epoch])
        write = free_name("lowwater_write", names.values())
        return cls(tuple(places), tuple(fields), tuple(keys), epoch, place, write)

    @property
    def names(self) -> list[str]:
        """The names of the columns that come from the rows."""
        return [field.name for field in self.fields]

    @property
    def labelled(self) -> bool:
        """Whether the rows have the column `kind`, which labels early results."""
        return any(f.name == "kind" and pa.types.is_string(f.type) for f in self.fields)

    def of_rows(self, rows: pa.Table) -> pa.Table:
        """Return `rows` with the fields of structs as columns, under the names of the table."""
        parts = {
            at: rows.column(at).combine_chunks().flatten()
            for at, inner in self.places
            if inner == 0 and len(rows)
        }
        columns = [
            rows.column(at)
            if inner is None
            else parts[at][inner]
            if at in parts
            else pa.array([], field.type)
            for (at, inner), field in zip(self.places, self.fields, strict=True)
        ]
        return pa.table(columns, schema=pa.schema(self.fields))


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Return `wanted`, or the nearest name that PostgreSQL allows and that is not in `taken`.

    >>> free_name("a b", []), free_name("a", ["a", "a_2"]), free_name("xmin", [])
    ('a b', 'a_3', 'xmin_')
    >>> free_name("x" * 70, [])
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_c71bd109'
    """
    name = wanted.replace("\0", "_").encode("utf-8", "replace").decode() or "_"
    if name in _SYSTEM:
        name += "_"
    if len(name.encode()) > LONGEST_NAME:
        digest = hashlib.sha256(wanted.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
        name = _cut(name, f"_{digest}")
    if name not in taken:
        return name
    number = 2
    while (numbered := _cut(name, f"_{number}")) in taken:
        number += 1
    return numbered


def _cut(name: str, ending: str) -> str:
    """Return `name` with `ending`, with as many characters of `name` as PostgreSQL allows."""
    return name.encode()[: LONGEST_NAME - len(ending)].decode("utf-8", "ignore") + ending
