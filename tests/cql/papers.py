"""Queries of the papers: each file has its text, its normal form, and rows in and out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import lowwater as lw

FOLDER = Path(__file__).parent
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

    def streams(self) -> tuple[dict[str, lw.Stream], dict[str, Any]]:
        """The streams that the query names, and their feeds."""
        made, feeds = {}, {}
        for title, schema in self.parts.items():
            if title.startswith("stream "):
                _, name, _, time = title.split()
                feed = feeds[name] = lw.feed(schema)
                wide = 1_000 if pa.types.is_integer(feed.schema.field(time).type) else "1 hour"
                made[name] = lw.stream(feed, time=time, watermark=lw.slack(wide))
        return made, feeds

    def run(self, *, row_by_row: bool = False) -> list[list[Any]]:
        """Run the query, small if there is such a form, and return what came out.

        All rows come in one epoch, or each of a stream in one of its own.
        """
        streams, feeds = self.streams()
        query = lw.sql(self.parts.get("small", self.query), **streams)
        epochs = {feed: self._epochs(name, feed, row_by_row) for name, feed in feeds.items()}
        return sorted(map(_told, query.run(epochs=epochs).results.to_pylist()))

    def _epochs(self, name: str, feed: Any, row_by_row: bool) -> list[Any]:
        given = self.parts.get(f"rows {name}") or self.parts["rows"]
        rows = [_typed(json.loads(line), feed.schema) for line in given.splitlines()]
        return [[row] for row in rows] if row_by_row else [rows]

    @property
    def results(self) -> list[list[Any]]:
        """What must come out: of windows start, end, keys, aggregates; else all columns.

        Of windows on both times of a join, start and end of either.
        """
        return [json.loads(line) for line in self.parts["results"].splitlines()]


def _typed(row: list[Any], schema: pa.Schema) -> tuple[Any, ...]:
    return tuple(
        datetime.fromisoformat(f"{_DAY} {value}+00:00") if pa.types.is_timestamp(t) else value
        for value, t in zip(row, schema.types, strict=True)
    )


def _told(row: dict[str, Any]) -> list[Any]:
    values = dict(row)
    windows = [values.pop(name, {}) for name in ("window", "window_2")]
    values.pop("wid", None), values.pop("kind", None)
    bounds = [bound for window in windows for bound in window.values()]
    return [_clock(value) for value in (*bounds, *values.values())]


def _clock(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    places = "milliseconds" if value.microsecond else "seconds"
    if value.microsecond % 1_000:
        places = "microseconds"
    return value.astimezone(UTC).time().isoformat(places)


FIXTURES = {path.stem: Fixture.read(path) for path in sorted(FOLDER.glob("*.cql"))}
