"""Sinks as the command line names them: parquet:out, csv:out, json:-, table."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import pyarrow as pa
from rich.console import Console

import lowwater as lw
from lowwater.errors import SpecError
from lowwater.sinks import Sink
from lowwater.sinks.console import as_table
from lowwater.sinks.text import csv_lines, json_lines

TABLE, POSTGRES = "table", "postgres"
OUTPUTS = ("sink", "late", "malformed", "left_out")
"""The outputs of a run by their settings, in the order of `Outputs`."""
_FOLDERS = {"parquet": lw.parquet, "csv": lw.csv, "json": lw.json}
_WIDEST = 10_000


@dataclass
class Printed(Sink):
    """Rows on standard output, as text that another program reads."""

    form: str
    out: TextIO
    epochs: int = field(default=0, init=False)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        first = self.epochs == 0
        self.epochs += 1
        text = csv_lines(rows, header=first) if self.form == "csv" else json_lines(rows)
        self.out.write(text.decode())
        self.out.flush()


@dataclass
class Tables(Sink):
    """Rows as tables of text, none of them cut, for where no terminal is."""

    out: TextIO

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        title = f"epoch {epoch}: {len(rows):,} row{'' if len(rows) == 1 else 's'}"
        console = Console(file=io.StringIO(), width=_WIDEST, highlight=False)
        with console.capture() as drawn:
            console.print(as_table(rows, title=title))
        # Written here: a console whose reader is gone would end the thread, and the run seem over.
        self.out.write(drawn.get())
        self.out.flush()


@dataclass
class Counted(Sink):
    """Counts the rows of another sink, under a name."""

    of: Sink
    name: str
    rows: dict[str, int]

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: D102
        self.of.prepare(schema, key)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.of.write(epoch, rows)
        self.rows[self.name] += len(rows)


@dataclass(frozen=True)
class Target:
    """Where rows go: a format, and a folder, standard output, or a table of a database."""

    form: str
    path: Path | None = None
    address: str = ""
    table: str = ""

    @classmethod
    def of(cls, text: str, option: str) -> Target:
        """Read FORMAT:PATH, or postgres:DSN,table=NAME."""
        form, _, path = text.partition(":")
        if form == TABLE and not path:
            return cls(TABLE)
        if form == POSTGRES:
            address, _, table = path.rpartition(",table=")
            if not address or not table:
                raise SpecError(
                    f"{option} should be postgres:ADDRESS,table=NAME, as in "
                    f"postgres:postgresql://me@host/db,table=speeds"
                )
            return cls(POSTGRES, None, address, table)
        if form not in _FOLDERS or not path:
            raise SpecError(
                f"{option} {text!r} should be parquet:FOLDER, csv:FOLDER or json:FOLDER, csv:- or "
                f"json:- for standard output, postgres:ADDRESS,table=NAME, or table"
            )
        if path == "-" and form == "parquet":
            raise SpecError(f"{option} {text!r}: Parquet is not for standard output; name a folder")
        return cls(form, None if path == "-" else Path(path))

    @property
    def printed(self) -> bool:
        """Whether rows go to standard output."""
        return self.path is None and self.form != POSTGRES

    @property
    def place(self) -> str:
        """Where rows go, in words; an address may hold a password, and is left out."""
        if self.form == POSTGRES:
            return f"the table {self.table} of PostgreSQL"
        return "standard output" if self.path is None else str(self.path)

    def __str__(self) -> str:
        if self.form == POSTGRES:
            return f"{self.form}:{self.table}"
        return f"{self.form}:{'-' if self.path is None else self.path}"

    def sink(self, out: TextIO) -> Sink:
        """Return the sink; `out` is standard output."""
        if self.form == TABLE:
            return Tables(out)
        if self.form == POSTGRES:
            return lw.postgres(self.address, table=self.table)
        if self.path is None:
            return Printed(self.form, out)
        return _FOLDERS[self.form](self.path)

    def check(self, option: str, *, resumed: bool) -> None:
        """Refuse a folder that cannot be written to, or that holds rows of another run."""
        if self.path is None:
            return
        check_folder(option, self.path)
        if not resumed and any(self.path.absolute().glob("epoch-*")):
            raise SpecError(
                f"{option}: {str(self.path)!r} holds results of an earlier run; name another "
                f"folder, or go on with the checkpoint of that run"
            )


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder that cannot be written to."""
    try:
        _try_to_write(folder.absolute())
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise SpecError(
            f"{option}: {str(folder)!r} cannot be written to ({reason}); name another folder"
        ) from problem


def _try_to_write(folder: Path) -> None:
    """Raise what a sink would raise later; leave nothing behind."""
    made = [p for p in (folder, *folder.parents) if not p.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    finally:
        for path in made:
            with suppress(OSError):
                path.rmdir()


def option(name: str) -> str:
    """Return the option of an output."""
    return f"--{name.replace('_', '-')}"


def targets_of(said: dict[str, str | None]) -> dict[str, Target]:
    """Return where each output goes that goes anywhere; no two to the same place."""
    found = {n: Target.of(text, option(n)) for n, text in said.items() if text is not None}
    places = [(t.path, t.address, t.table) for t in found.values()]
    for target, place in zip(found.values(), places, strict=True):
        if places.count(place) > 1:
            where = repr(target.place) if target.path else target.place
            same = [option(n) for n, p in zip(found, places, strict=True) if p == place]
            raise SpecError(f"{' and '.join(same)} would mix in {where}; name another place")
    return found
