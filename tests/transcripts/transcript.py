"""A transcript: a query, the rows that arrive epoch by epoch, and what the query emits, as text.

    # Blank lines and lines like this one are for the reader.
    stream cars: t bigint, road string
    time: t
    watermark: lw.slack(5)
    query: SELECT road, count(*) AS n FROM cars [RANGE 10] GROUP BY road
    order in an epoch: any

    epoch
        > 1 A               # a row that arrives, its values in the order of the columns
        > 17 A
        watermark 10        # the watermark after the epoch
    epoch
        > 26 A
        [0, 10) road=A n=1  # a result
        watermark 20
    epoch
        > 3 A
        [10, 20) road=A n=1
        late t=3 road=A by 23 missed [0, 10)
    end
        [20, 30) road=A n=1

A query over several streams has a block `stream`, `time`, `watermark` for each, and its rows are
written `> cars: 1 A`. `-` is NULL, and `00:01:30` a timestamp 90 seconds after 1970 began. Settings
of the run are written as Python: `early:`, `estimate:`, `shed:`, `clock:`. Text after a space and
`# ` is a comment. `order in an epoch: any` claims that the rows of an epoch may arrive in any
order; `matters` makes no claim.

`python -m tests.transcripts.transcript FILE` prints a file with the output that Lowwater emits.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import lowwater as lw
from lowwater.testing import EpochOutput, Feed, Row, feed, play

FOLDER = Path(__file__).parent
SETTINGS = ("early", "estimate", "shed", "clock")
_EARLY = ("completeness", "expected_accuracy", "low", "high", "settled")
_MISSED = ("late_degree", "missed", "admitted")


@dataclass
class Epoch:
    """The rows of an epoch by stream, as texts, and the lines that the file expects after it."""

    rows: list[tuple[str, list[str]]] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)


@dataclass
class Transcript:
    """A file, read."""

    streams: dict[str, dict[str, str]]
    settings: dict[str, str]
    epochs: list[Epoch]
    header: list[str]

    @classmethod
    def read(cls, path: Path) -> Transcript:
        """Read a file; a line that is not understood raises ValueError with its number."""
        read = cls({}, {}, [], [])
        for number, written in enumerate(path.read_text("utf-8").splitlines(), 1):
            line = re.split(r"(?:^|\s)#(?:\s|$)", written)[0].strip()
            if not read.epochs and line not in ("epoch", "end"):
                read.header.append(written)
            if line and not read.take(line):
                raise ValueError(f"{path.name}, line {number}: cannot read {written!r}")
        return read

    def take(self, line: str) -> bool:
        """Take a line of the file; return whether it was understood."""
        if line in ("epoch", "end"):
            self.epochs.append(Epoch())
        elif self.epochs and line.startswith(">"):
            stream, values = re.fullmatch(r">\s*(?:(\w+):\s)?(.*)", line).groups()
            self.epochs[-1].rows.append((stream or next(iter(self.streams)), values.split()))
        elif self.epochs:
            self.epochs[-1].expected.append(" ".join(line.split()))
        elif not (found := re.fullmatch(r"(stream )?([\w ]+): (.*)", line)):
            return False
        else:
            stream, name, value = found.groups()
            if stream:
                self.streams[name] = {"schema": value}
            elif name in ("time", "watermark"):
                list(self.streams.values())[-1][name] = value
            else:
                self.settings[name] = value
        return True

    @property
    def any_order(self) -> bool:
        """Whether the rows of an epoch may arrive in any order."""
        return {"any": True, "matters": False}[self.settings["order in an epoch"]]

    def build(self, *, backwards: bool = False) -> tuple[lw.Query, Mapping[Feed, list[pa.Table]]]:
        """Return the query and the epochs of its feeds, each epoch reversed if `backwards`."""
        feeds = {name: feed(given["schema"]) for name, given in self.streams.items()}
        streams = {
            name: lw.stream(feeds[name], time=given["time"], watermark=_python(given["watermark"]))
            for name, given in self.streams.items()
        }
        *given, _end = self.epochs
        step = -1 if backwards else 1
        epochs = {
            feeds[name]: [
                _table(feeds[name].schema, [v for n, v in epoch.rows if n == name][::step])
                for epoch in given
            ]
            for name in feeds
        }
        return lw.sql(self.settings["query"], **streams), epochs

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the run."""
        return {n: _python(self.settings[n]) for n in SETTINGS if n in self.settings}

    def play(self, *, backwards: bool = False, shards: int = 1) -> list[list[str]]:
        """Run the transcript on the local host; return the lines of each epoch."""
        query, epochs = self.build(backwards=backwards)
        return [lines(o) for o in play(query, epochs, shards=shards, **self.options)]

    def check(self, *, backwards: bool = False, shards: int = 1) -> None:
        """Raise AssertionError if an epoch emits other lines than the file expects."""
        emitted = self.play(backwards=backwards, shards=shards)
        assert len(emitted) == len(self.epochs)
        for number, (epoch, output) in enumerate(zip(self.epochs, emitted, strict=True)):
            more, less = Counter(output), Counter(epoch.expected)
            assert more == less, (
                f"epoch {number} emits {[*(more - less)]} in place of {[*(less - more)]}"
            )

    def text(self) -> str:
        """Return the file with the lines that Lowwater emits in place of those expected."""
        parts = ["\n".join(self.header).rstrip(), ""]
        several = len(self.streams) > 1
        for number, (epoch, output) in enumerate(zip(self.epochs, self.play(), strict=True)):
            parts.append("epoch" if number < len(self.epochs) - 1 else "end")
            named = ((f"{name}: " if several else "") + " ".join(v) for name, v in epoch.rows)
            parts += [f"    > {row}" for row in named]
            parts += [f"    {line}" for line in output]
        return "\n".join(parts) + "\n"


def lines(output: EpochOutput) -> list[str]:
    """Return the outputs of an epoch as lines."""
    found = rows_as_lines(output.results, output.late)
    found += [f"malformed {_values(r, ('reason',))}" for r in output.malformed]
    found += [f"dropped {_window(r['window'])}" for r in output.dropped]
    if output.watermark is not None:
        found.append(f"watermark {_text(output.watermark)}")
    return found


def rows_as_lines(results: Iterable[Row], late: Iterable[Row]) -> list[str]:
    """Return results and late rows as lines."""
    return [*map(_result, results), *map(_late, late)]


def _result(row: Row) -> str:
    kind = row.get("kind", "final")
    parts = [_window(row["window"])] if "window" in row else []
    parts += [_values(row, ("window", "wid", "kind", *_EARLY))]
    return " ".join([*parts, *([] if kind == "final" else [kind])])


def _late(row: Row) -> str:
    if "operator" in row:  # ports with different columns: each has a struct, one of them is set
        name, row = next((n, v) for n, v in row.items() if n != "operator" and v is not None)
        return _late(row).replace("late", f"late at {name}:", 1)
    missed = f"by {row['late_degree']}" if "late_degree" in row else ""
    if row.get("missed"):
        missed += f" missed {_window(row['missed'])}"
    admitted = " admitted" if row.get("admitted") else ""
    return f"late {_values(row, _MISSED)} {missed}{admitted}".strip()


def _window(window: Row) -> str:
    return f"[{_text(window['start'])}, {_text(window['end'])})"


def _values(row: Row, hidden: Iterable[str]) -> str:
    return " ".join(f"{name}={_text(v)}" for name, v in row.items() if name not in hidden)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%H:%M:%S}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(schema: pa.Schema, rows: list[list[str]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[] for _ in schema]
    arrays = [_array(v, column.type) for v, column in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _array(values: Iterable[str], kind: pa.DataType) -> pa.Array:
    day = "1970-01-01T{}Z" if pa.types.is_timestamp(kind) else "{}"
    texts = [None if value == "-" else day.format(value) for value in values]
    return pa.array(texts, pa.string()).cast(kind)


def _python(text: str) -> Any:
    return eval(text, {"lw": lw})  # noqa: S307  # files of this folder


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(Transcript.read(Path(name)).text(), end="")  # noqa: T201
