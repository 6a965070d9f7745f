"""Queries of the papers: each file has its text, its normal form, and rows in and out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import lowwater as lw

FOLDER = Path(__file__).parent / "cql"
_DAY = "2024-05-01"


@dataclass(frozen=True)
class Fixture:
    """A query of a paper. `small` is the query with smaller numbers, for rows checked by hand."""

    name: str
    parts: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Fixture:
        """Read a file: a line of prose, then parts that begin with `--- title`."""
        _, *parts = path.read_text().split("\n--- ")
        titled = (part.split("\n", 1) for part in parts)
        return cls(path.stem, {title: text.strip() for title, text in titled})

    @property
    def query(self) -> str:
        return self.parts["query"]

    @property
    def normal(self) -> str:
        return self.parts["normal form"]

    @property
    def refused(self) -> str | None:
        """Why the query cannot be built yet."""
        return self.parts.get("refused")

    def streams(self) -> tuple[dict[str, lw.Stream], Any]:
        """The streams that the query names, and the feed of the only one."""
        made, feed = {}, None
        for title, schema in self.parts.items():
            if title.startswith("stream "):
                _, name, _, time = title.split()
                feed = lw.feed(schema)
                wide = 1_000 if pa.types.is_integer(feed.schema.field(time).type) else "1 hour"
                made[name] = lw.stream(feed, time=time, progress=lw.slack(wide))
        return made, feed

    def run(self) -> list[list[Any]]:
        """Run the query, small if there is such a form, and return what came out."""
        streams, feed = self.streams()
        query = lw.sql(self.parts.get("small", self.query), **streams)
        rows = [json.loads(line) for line in self.parts["rows"].splitlines()]
        found = query.run(epochs={feed: [[_typed(row, feed.schema) for row in rows]]})
        return sorted(map(_told, found.results.to_pylist()))

    @property
    def results(self) -> list[list[Any]]:
        """What must come out: start and end of the window, keys, aggregates."""
        return [json.loads(line) for line in self.parts["results"].splitlines()]


def _typed(row: list[Any], schema: pa.Schema) -> tuple[Any, ...]:
    return tuple(
        datetime.fromisoformat(f"{_DAY} {value}+00:00") if pa.types.is_timestamp(t) else value
        for value, t in zip(row, schema.types, strict=True)
    )


def _told(row: dict[str, Any]) -> list[Any]:
    window, *values = (value for name, value in row.items() if name not in ("wid", "kind"))
    return [_clock(window["start"]), _clock(window["end"]), *values]


def _clock(value: Any) -> Any:
    return value.astimezone(UTC).strftime("%H:%M:%S") if isinstance(value, datetime) else value


FIXTURES = {path.stem: Fixture.read(path) for path in sorted(FOLDER.glob("*.cql"))}
