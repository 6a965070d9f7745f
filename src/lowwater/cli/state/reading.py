"""What a checkpoint holds, read off its files, without the query and without Spark."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from lowwater.control import Entry, FolderLog, Marks
from lowwater.errors import SpecError, StateError
from lowwater.windows import FOREVER, Axis, Sliding

_NAME = "lowwater.json"
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")
_LISTED = 20
"""So many open windows are listed; of more, the first and the last."""


@dataclass(frozen=True)
class Scale:
    """How ticks of an attribute are written: as times, or as numbers of so many ticks each."""

    column: str
    per_unit: int | None

    @classmethod
    def of(cls, told: str) -> Scale:
        """Read what a checkpoint says of an attribute.

        >>> Scale.of("ts timestamp[us, tz=UTC]"), Scale.of("price decimal128(10, 2)")
        (Scale(column='ts', per_unit=None), Scale(column='price', per_unit=100))
        """
        column, _, kind = told.partition(" ")
        if not kind.startswith(_NUMBERS):
            return cls(column, None)
        digits = re.search(r"decimal\d+\(\d+, (\d+)\)", kind)
        return cls(column, 10 ** int(digits[1]) if digits else 1 if "int" in kind else 1_000_000)

    def value(self, tick: int | None) -> Any:
        """Return the value that a tick is."""
        if tick is None or abs(tick) >= FOREVER:
            return None
        if self.per_unit is None:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=tick)
        return tick if self.per_unit == 1 else tick / self.per_unit


@dataclass(frozen=True)
class Held:
    """A checkpoint as it is on disk."""

    root: Path
    query: dict[str, Any]
    version: int
    newest: Entry | None
    entries: list[Entry]
    begun: bool
    """Whether the next epoch had begun and did not end: it will be run again."""

    @classmethod
    def at(cls, root: Path, decisions: int) -> Held:
        """Read a checkpoint and its newest entries."""
        if not root.is_dir():
            raise SpecError(f"there is no folder {str(root)!r}")
        if not (root / _NAME).is_file():
            raise SpecError(f"{str(root)!r} is no checkpoint of Lowwater: it has no {_NAME}")
        try:
            kept = json.loads((root / _NAME).read_bytes())
            log = FolderLog(str(root / "control"))
            newest = log.newest()
            last = -1 if newest is None else newest.epoch
            numbers = range(max(0, last - decisions + 1), last + 1)
            entries = [e for e in (log.read(n) for n in numbers) if e is not None]
            begun = log.opened(last + 1) is not None
            return cls(root, kept["query"], kept["version"], newest, entries, begun)
        except (ValueError, KeyError, TypeError) as problem:
            raise StateError(
                f"the checkpoint {str(root)!r} cannot be read: {problem!r}; it may be damaged, or "
                f"of another version"
            ) from problem

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the query, by their names."""
        return {n: told for n, told in self.query.items() if re.fullmatch(r"input( \d+)?", n)}

    @cached_property
    def operators(self) -> dict[str, Any]:
        """The operators of the query, by their names."""
        others = {*self.inputs, "outputs", "shards"}
        return {n: told for n, told in self.query.items() if n not in others}

    @cached_property
    def ports(self) -> list[tuple[int, int]]:
        """The ports of all operators, in the order in which a log entry has them."""
        found = [*self.inputs.values(), *self.operators.values()]
        return sorted({(r[0], r[1]) for told in found for r in told.get("routes", ())})

    @property
    def last(self) -> int:
        """The operator whose results leave the query."""
        return int(self.query["outputs"][0][1])

    def scale(self, operator: int) -> Scale:
        """Return how positions at an operator are written."""
        told = list(self.operators.values())[operator]
        return Scale.of(told.get("over") or next(iter(self.inputs.values()))["over"])

    def window(self, operator: int) -> str | None:
        """Return the windows of an operator in words, where they lie on a grid of time."""
        told: str | None = list(self.operators.values())[operator].get("window")
        spec = _sliding(told or "")
        if spec is None or self.scale(operator).per_unit is not None:
            return told
        say = Axis("time", pa.timestamp("us", "UTC")).say
        return f"range {say(spec.range)}, slide {say(spec.slide)}"

    def mark(self, operator: int) -> int | None:
        """Return the low-water mark at an operator, in ticks."""
        if self.newest is None or not self.newest.standing.ports:
            return None
        found = zip(self.ports, self.newest.standing.ports, strict=False)
        lows = [marks.low for (number, _), marks in found if number == operator]
        known = [low for low in lows if low is not None]
        return min(known) if known and len(known) == len(lows) else None

    def open_windows(self, operator: int) -> dict[str, Any] | None:
        """Return the windows that have begun and are not closed, where they lie on a grid."""
        spec = _sliding(list(self.operators.values())[operator].get("window", ""))
        newest = self._newest()
        if spec is None or newest is None or self._cells(operator) == 0:
            return None
        mark, scale = self.mark(operator), self.scale(operator)
        last = int(spec.last(newest))
        first = last if mark is None else int(spec.first(mark))
        bounds = [
            [scale.value(int(spec.start(wid))), scale.value(int(spec.end(wid)))]
            for wid in range(first, last + 1)
        ]
        listed = bounds if len(bounds) <= _LISTED else [bounds[0], bounds[-1]]
        return {"count": len(bounds), "windows": listed}

    def _newest(self) -> int | None:
        if self.newest is None:
            return None
        times = [i.newest for i in self.newest.standing.inputs]
        return max((t for t in times if t is not None), default=None)

    def _cells(self, operator: int) -> int:
        return sum(cells for cells, _, _ in self.shards(operator).values())

    def shards(self, operator: int) -> dict[str, Any]:
        """Return the shards of an operator: open partials, their bytes, rows there have been."""
        kept = {} if self.newest is None else self.newest.totals.get("shards", {})
        return {p: told for p, told in kept.items() if p.split("/")[0] == str(operator)}

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk, by part."""
        parts = ("control", "state", "source", "spark")
        return {part: _size(self.root / part) for part in parts}


def told_marks(marks: Marks, scale: Scale) -> dict[str, Any]:
    """Return what operators were told of the progress of their rows."""
    told = {"mark": scale.value(marks.low)}
    if marks.low is not None and marks.low >= FOREVER:
        told["mark"] = "end of stream"
    if marks.sources:
        told["sources"] = {str(s): scale.value(m) for s, m in marks.sources.items()}
    if marks.ranges:
        told["stretches"] = [[scale.value(a), scale.value(b)] for a, b in marks.ranges]
    return told


def _sliding(told: str) -> Sliding | None:
    """Return a sliding or tumbling window from how it was written down."""
    try:
        call = ast.parse(told, mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "Sliding":
        return None
    named = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
    return Sliding(**named)


def _size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
