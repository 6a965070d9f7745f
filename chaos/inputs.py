"""Input files in csv, json and Parquet, good and bad; the harness knows which rows are good.

Nothing here uses Lowwater's readers: the text of a line, or the bytes of a file, is made together
with the answer to what it contains.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyarrow.parquet as pq

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("key", pa.int64()),
        ("value", pa.int64()),
        ("note", pa.string()),
    ]
)
ENDINGS = {"csv": "csv", "json": "jsonl", "parquet": "parquet"}
FILES = 5
ROWS = 16
_FAR_FIRST = 0.25
"""The share of streams whose very first row is too far in the future."""
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
"""The folder of a file system in memory, if the machine has one."""

Row = tuple[datetime, int, int]
"""The time, the key and the value of a good row."""


@dataclass(frozen=True)
class Line:
    """A line of a text file, or a row of a Parquet file; `row` is None if the line is malformed."""

    text: bytes
    row: Row | None


@dataclass(frozen=True)
class InputFile:
    """The content of a file; `lines` is None if the whole file cannot be read."""

    content: bytes
    lines: tuple[Line, ...] | None


def time_text(at: datetime) -> str:
    """Return a time as it is written in text files."""
    return at.isoformat().replace("+00:00", "Z")


def line_of(form: str, row: Row, note: str = "plain") -> Line:
    """Return a good line."""
    at, key, value = row
    if form == "json":
        named = {"ts": time_text(at), "key": key, "value": value, "note": note}
        return Line(json.dumps(named, ensure_ascii=False).encode(), row)
    quoted = '"' + note.replace('"', '""') + '"' if '"' in note or "," in note else note
    return Line(f"{time_text(at)},{key},{value},{quoted}".encode(), row)


def bad_lines(form: str, row: Row) -> list[Line]:
    """Return lines that a reader may get wrong: malformed ones, and a good one that looks odd."""
    at, key, value = time_text(row[0]), row[1], row[2]
    odd = line_of(form, row, 'one\u2028line, "quoted"')
    if form == "json":
        large = f'{{"ts": "{at}", "key": {key}, "value": {2**63 + value}, "note": "x"}}'
        half = f'{{"ts": "{at}", "key": {key}, "value": 1.5, "note": "x"}}'
        cut = f'{{"ts": "{at}", "key": {key}, "val'
        byte = f'{{"ts": "{at}", "key": {key}, "value": {value}, "note": "x'.encode() + b'\xff"}'
        return [odd, *(Line(t, None) for t in (large.encode(), half.encode(), cut.encode(), byte))]
    texts = (
        f"{at},{key},{value},x,y",
        f'{at},{key},{value},"open',
        f"{at},{key},1.5,x",
        f"{at},{key}",
    )
    return [
        odd,
        *(Line(text.encode(), None) for text in texts),
        Line(f"{at},{key},{value},".encode() + b"\xff", None),
    ]


def text_file(form: str, lines: Sequence[Line]) -> bytes:
    """Return the content of a csv or json file."""
    header = [b"ts,key,value,note"] if form == "csv" else []
    return b"\n".join([*header, *(line.text for line in lines), b""])


def parquet_file(lines: Sequence[Line]) -> bytes:
    """Return the content of a Parquet file; the value of a malformed row is not a number."""
    rows = [line.row for line in lines]
    good = next(row for row in rows if row is not None)
    columns = [
        pa.array([(row or good)[0] for row in rows], SCHEMA.field("ts").type),
        pa.array([(row or good)[1] for row in rows], pa.int64()),
        pa.array([str(row[2]) if row else "fast" for row in rows], pa.string()),
        pa.array(["plain"] * len(rows), pa.string()),
    ]
    if None not in rows:
        columns[2] = columns[2].cast(pa.int64())
    out = io.BytesIO()
    pq.write_table(pa.table(columns, names=SCHEMA.names), out)
    return out.getvalue()


def file_of(form: str, lines: Sequence[Line]) -> InputFile:
    """Return a file with these lines."""
    content = parquet_file(lines) if form == "parquet" else text_file(form, lines)
    return InputFile(content, tuple(lines))


def rows_of(chosen: random.Random, number: int) -> list[Row]:
    """Return the good rows of the file `number`: five seconds of a stream that is out of order."""
    rows = []
    for _ in range(ROWS):
        seconds = number * 5 + chosen.uniform(0, 5) - chosen.choice((0, 0, 0, 1, 2, 12))
        at = START + timedelta(microseconds=int(seconds * 1e6))
        rows.append((at, chosen.randrange(3), chosen.randrange(1_000)))
    return rows


def good_file(form: str, chosen: random.Random, number: int) -> InputFile:
    """Return a file of good rows."""
    return file_of(form, [line_of(form, row) for row in rows_of(chosen, number)])


def mixed_file(form: str, chosen: random.Random, number: int) -> InputFile:
    """Return a file with good rows and, between them, lines that a reader may get wrong."""
    rows = rows_of(chosen, number)
    lines = [line_of(form, row) for row in rows]
    bad = bad_lines(form, rows[0]) if form != "parquet" else [Line(b"", None)]
    for line in chosen.sample(bad, chosen.randint(1, len(bad))):
        lines.insert(chosen.randrange(len(lines) + 1), line)
    return file_of(form, lines)


def future_file(form: str, chosen: random.Random, number: int, far: datetime) -> InputFile:
    """Return a file whose first row has the time `far`, too far ahead to be admitted."""
    rows = rows_of(chosen, number)
    first = line_of(form, (far, 0, 1))
    lines = [line_of(form, row) for row in rows]
    content = file_of(form, [first, *lines]).content
    return InputFile(content, (Line(first.text, None), *lines))


def corrupt_file(form: str, chosen: random.Random, number: int) -> tuple[str, InputFile]:
    """Return the ending and the content of a file that cannot be read."""
    whole = good_file(form, chosen, number).content
    if form == "csv":
        packed = gzip.compress(whole)
        return "csv.gz", InputFile(packed[: chosen.randrange(1, len(packed) - 1)], None)
    damaged = (b"", whole[: chosen.randrange(1, len(whole) - 1)], b"PAR1 is not enough PAR1")
    return ENDINGS[form], InputFile(chosen.choice(damaged), None)


@dataclass
class Inputs:
    """A folder of input files, and all contents that a file of a name has had, by size."""

    form: str
    chosen: random.Random
    folder: Path = field(default_factory=lambda: Path(mkdtemp(prefix="chaos-", dir=_MEMORY)))
    contents: dict[tuple[str, int], InputFile] = field(default_factory=dict)
    undo: list[Callable[[], object]] = field(default_factory=list)
    """Functions that undo the newest damage."""
    arrived: int = 0

    def fill(self, far: datetime) -> None:
        """Write the files that exist before the query starts; the first row may be at `far`."""
        for number in range(FILES):
            file = good_file(self.form, self.chosen, number)
            if number == 0 and self.chosen.random() < _FAR_FIRST:
                file = future_file(self.form, self.chosen, number, far)
            self.put(f"{number + 1:04d}.{self.ending}", file)

    @property
    def ending(self) -> str:
        """The ending of the names of files."""
        return ENDINGS[self.form]

    def put(self, name: str, file: InputFile) -> None:
        """Write a file under a hidden name, and rename it."""
        hidden = self.folder / f".{name}"
        hidden.write_bytes(file.content)
        hidden.rename(self.folder / name)
        self.contents[name, len(file.content)] = file

    def new_name(self, ending: str | None = None, *, older: bool) -> str:
        """Return a name that sorts before, or after, the last of the first files."""
        self.arrived += 1
        before = self.chosen.randint(1, FILES) if older else FILES + 1
        return f"{before:04d}-{self.arrived:04d}.{ending or self.ending}"

    def names(self) -> list[str]:
        """Return the sorted names of all files."""
        return sorted(p.name for p in self.folder.iterdir() if p.name[0] != ".")

    def remove(self, name: str) -> None:
        """Remove a file; it is kept aside, with its time of modification, to be restored."""
        kept, here = self.folder / f".kept-{name}", self.folder / name
        here.rename(kept)
        self.undo.append(lambda: shutil.move(kept, here))

    def change(self, name: str) -> None:
        """Write other rows into a file."""
        self.remove(name)
        sizes = {size for known, size in self.contents if known == name}
        while True:
            file = good_file(self.form, self.chosen, self.chosen.randrange(FILES))
            if len(file.content) not in sizes:
                break
        self.put(name, file)

    def close(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder)
