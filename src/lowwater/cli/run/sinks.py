"""Sinks of the command line: texts like `parquet:out`, `csv:out`, `json:-` and `table`."""

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
from lowwater.sinks.console import as_table
from lowwater.sinks.files import csv_lines, json_lines
from lowwater.sinks.postgres_address import may_hold_password
from lowwater.sinks.sink import Existing, History, Sink

TABLE, POSTGRES = "table", "postgres"
OUTPUTS = ("sink", "late", "malformed", "dropped", "bad_files")
"""The settings that name sinks, in the order of the fields of `Outputs`."""
_FOLDERS = {"parquet": lw.to_parquet, "csv": lw.to_csv, "json": lw.to_json}
_WIDEST = 10_000


@dataclass
class StdoutSink(Sink):
    """A sink that prints rows to `out` as CSV or JSON lines, for another program to read."""

    form: str
    out: TextIO
    epochs: int = field(default=0, init=False)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        is_csv = self.form == "csv"
        text = csv_lines(rows, header=self.epochs == 0) if is_csv else json_lines(rows)
        self.epochs += 1
        self.out.write(text.decode())
        self.out.flush()


@dataclass
class TableSink(Sink):
    """A sink that prints the rows of each epoch as a table of full width."""

    out: TextIO

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        title = f"epoch {epoch}: {len(rows):,} row{'' if len(rows) == 1 else 's'}"
        console = Console(file=io.StringIO(), width=_WIDEST, highlight=False)
        with console.capture() as drawn:
            console.print(as_table(rows, title=title))
        # Write the text here, not by rich: rich would end the thread when the reader has closed
        # the pipe, as if the run had ended.
        self.out.write(drawn.get())
        self.out.flush()


@dataclass
class CountSink(Sink):
    """A sink that writes to the sink `of` and adds the number of rows to `rows[name]`."""

    of: Sink
    name: str
    rows: dict[str, int]

    @property
    def places(self) -> tuple[str, ...]:  # noqa: D102
        return self.of.places

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: D102
        self.of.prepare(schema, key)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.write_epoch(epoch, rows, "")

    def write_epoch(self, epoch: int, rows: pa.Table, tag: str) -> None:  # noqa: D102
        self.of.write_epoch(epoch, rows, tag)
        self.rows[self.name] += len(rows)

    def take_over(self, history: History) -> None:  # noqa: D102
        self.of.take_over(history)

    def ahead(self, history: History) -> int | None:  # noqa: D102
        return self.of.ahead(history)

    def truncate(self, history: History) -> None:  # noqa: D102
        self.of.truncate(history)


@dataclass(frozen=True)
class Target:
    """The destination of rows: a format, and a folder, standard output, or a database table."""

    form: str
    path: Path | None = None
    address: str = field(default="", repr=False)
    table: str = ""

    @classmethod
    def of(cls, text: str, option: str) -> Target:
        """Return the target for `text`: FORMAT:PATH, postgres:ADDRESS,table=NAME, or table."""
        form, _, path = text.partition(":")
        if form == TABLE and not path:
            return cls(TABLE)
        if form == POSTGRES:
            address, _, table = path.rpartition(",table=")
            if not address or not table:
                raise SpecError(
                    f"{option} postgres:… should be postgres:ADDRESS,table=NAME, as in "
                    f"postgres:postgresql://me@host/db,table=speeds"
                )
            return cls(POSTGRES, None, address, table)
        if form not in _FOLDERS or not path:
            shown = repr(f"{form}:…" if may_hold_password(text) else text)
            raise SpecError(
                f"{option} {shown} should be parquet:FOLDER, csv:FOLDER or json:FOLDER, csv:- or "
                f"json:- for standard output, postgres:ADDRESS,table=NAME, or table"
            )
        if path == "-" and form == "parquet":
            problem = "Parquet cannot go to standard output; name a folder"
            raise SpecError(f"{option} {text!r}: {problem}")
        return cls(form, None if path == "-" else Path(path))

    @property
    def printed(self) -> bool:
        """Whether rows go to standard output."""
        return self.path is None and self.form != POSTGRES

    @property
    def place(self) -> str:
        """The destination in words, without a database's address, which may hold a password."""
        if self.form == POSTGRES:
            return f"the table {self.table} of PostgreSQL"
        return "standard output" if self.path is None else str(self.path)

    def __str__(self) -> str:
        if self.form == POSTGRES:
            return f"{self.form}:{self.table}"
        return f"{self.form}:{'-' if self.path is None else self.path}"

    def sink(self, out: TextIO, existing: Existing | None = None) -> Sink:
        """Return the sink that writes to this target; `out` is standard output."""
        if self.form == TABLE:
            return TableSink(out)
        if self.form == POSTGRES:
            return lw.to_postgres(self.address, table=self.table, existing=existing)
        if self.path is None:
            return StdoutSink(self.form, out)
        return _FOLDERS[self.form](self.path, existing=existing)

    def check(self, option: str, *, allowed: bool) -> None:
        """Raise SpecError if the folder is not writable, or holds results of another run."""
        if self.path is None:
            return
        check_folder(option, self.path)
        if not allowed and any(self.path.absolute().glob("epoch-*")):
            raise SpecError(
                f"{option}: {str(self.path)!r} holds results of an earlier run; name another "
                f"folder, resume that run with its --checkpoint, or give --existing append or "
                f"--existing overwrite"
            )


def check_folder(option: str, folder: Path) -> None:
    """Raise SpecError if `folder`, the value of `option`, is not writable."""
    try:
        _try_to_write(folder.absolute())
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        text = f"{option}: {str(folder)!r} cannot be written to ({reason}); name another folder"
        raise SpecError(text) from problem


def _try_to_write(folder: Path) -> None:
    """Raise OSError if `folder` is not writable; remove the folders that this test created."""
    new = [p for p in (folder, *folder.parents) if not p.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    finally:
        for path in new:
            with suppress(OSError):
                path.rmdir()


def option(name: str) -> str:
    """Return the command-line option for the output `name`."""
    return f"--{name.replace('_', '-')}"


def targets_of(given: dict[str, str | None]) -> dict[str, Target]:
    """Return {output: target}; raise SpecError if two outputs have the same target."""
    targets = {n: Target.of(text, option(n)) for n, text in given.items() if text is not None}
    places = [(t.path, t.address, t.table) for t in targets.values()]
    for target, place in zip(targets.values(), places, strict=True):
        if places.count(place) > 1:
            where = repr(target.place) if target.path else target.place
            same = [option(n) for n, p in zip(targets, places, strict=True) if p == place]
            raise SpecError(f"{' and '.join(same)} would mix in {where}; name another place")
    return targets
