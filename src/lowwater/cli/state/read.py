"""The contents of a checkpoint, read from its files, without the query and without Spark."""

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

from lowwater.control.watermark import Watermarks
from lowwater.engine.entry import Entry, ShardAccount
from lowwater.engine.log import FolderLog
from lowwater.errors import SpecError, StateError
from lowwater.ticks import END
from lowwater.windows.axis import Axis
from lowwater.windows.sliding import Sliding

_NAME = "lowwater.json"
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")
_LISTED = 20
"""Up to this number open windows are listed; of more, the first and the last."""


@dataclass(frozen=True)
class Scale:
    """How ticks of an attribute are printed: as times, or as numbers of `per_unit` ticks each."""

    column: str
    per_unit: int | None

    @classmethod
    def of(cls, text: str) -> Scale:
        """Return the scale of an attribute from its name and type.

        >>> Scale.of("ts timestamp[us, tz=UTC]"), Scale.of("price decimal128(10, 2)")
        (Scale(column='ts', per_unit=None), Scale(column='price', per_unit=100))
        """
        column, _, kind = text.partition(" ")
        if not kind.startswith(_NUMBERS):
            return cls(column, None)
        digits = re.search(r"decimal\d+\(\d+, (\d+)\)", kind)
        return cls(column, 10 ** int(digits[1]) if digits else 1 if "int" in kind else 1_000_000)

    def value(self, tick: int | None) -> Any:
        """Return the value of a tick; None for one without end."""
        if tick is None or abs(tick) >= END:
            return None
        if self.per_unit is None:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=tick)
        return tick if self.per_unit == 1 else tick / self.per_unit


@dataclass(frozen=True)
class CheckpointContents:
    """A checkpoint on disk."""

    root: Path
    query: dict[str, Any]
    version: int
    newest: Entry | None
    entries: list[Entry]
    begun: bool
    """Whether the next epoch had begun and did not end; a resumed query runs it again."""

    @classmethod
    def at(cls, root: Path, decisions: int) -> CheckpointContents:
        """Return the checkpoint in a folder, with the entries of its last decisions."""
        if not root.is_dir():
            raise SpecError(f"no folder {str(root)!r} exists; name the folder of a checkpoint")
        if not (root / _NAME).is_file():
            raise SpecError(
                f"{str(root)!r} is not a checkpoint of Lowwater: it has no {_NAME}; name "
                f"the folder that checkpoint= has named"
            )
        try:
            saved = json.loads((root / _NAME).read_bytes())
            log = FolderLog(str(root / "control"))
            newest = log.newest()
            last = -1 if newest is None else newest.epoch
            numbers = range(max(0, last - decisions + 1), last + 1)
            entries = [e for e in (log.read(n) for n in numbers) if e is not None]
            begun = log.opened(last + 1) is not None
            return cls(root, saved["query"], saved["version"], newest, entries, begun)
        except (ValueError, KeyError, TypeError) as problem:
            raise StateError(
                f"the checkpoint {str(root)!r} cannot be read ({problem!r}): it is damaged, or of "
                f"another version of Lowwater; read it with the version that wrote it"
            ) from problem

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the query, by name."""
        return {n: fields for n, fields in self.query.items() if re.fullmatch(r"input( \d+)?", n)}

    @cached_property
    def operators(self) -> dict[str, Any]:
        """The operators of the query, by name."""
        others = {*self.inputs, "outputs", "shards"}
        return {n: fields for n, fields in self.query.items() if n not in others}

    @cached_property
    def ports(self) -> list[tuple[int, int]]:
        """The ports of all operators, in the order of a log entry."""
        parts = [*self.inputs.values(), *self.operators.values()]
        return sorted({(r[0], r[1]) for fields in parts for r in fields.get("routes", ())})

    @property
    def last(self) -> int:
        """The operator whose results leave the query."""
        return int(self.query["outputs"][0][1])

    def scale(self, operator: int) -> Scale:
        """Return how times at an operator are printed."""
        fields = list(self.operators.values())[operator]
        return Scale.of(fields.get("over") or next(iter(self.inputs.values()))["over"])

    def window(self, operator: int) -> str | None:
        """Return the windows of an operator in words, sliding ones by range and slide."""
        written: str | None = list(self.operators.values())[operator].get("window")
        spec = _sliding(written or "")
        if spec is None or self.scale(operator).per_unit is not None:
            return written
        say = Axis("time", pa.timestamp("us", "UTC")).say
        return f"range {say(spec.range)}, slide {say(spec.slide)}"

    def watermark(self, operator: int) -> int | None:
        """Return the watermark at an operator, in ticks."""
        if self.newest is None or not self.newest.standing.ports:
            return None
        ports = zip(self.ports, self.newest.standing.ports, strict=False)
        lows = [marks.low for (number, _), marks in ports if number == operator]
        known = [low for low in lows if low is not None]
        return min(known) if known and len(known) == len(lows) else None

    def open_windows(self, operator: int) -> dict[str, Any] | None:
        """Return the windows that have begun and are not closed; None unless they slide."""
        spec = _sliding(list(self.operators.values())[operator].get("window", ""))
        inputs = () if self.newest is None else self.newest.standing.inputs
        newest = max((i.newest for i in inputs if i.newest is not None), default=None)
        if spec is None or newest is None or not sum(s.cells for s in self.shards(operator)):
            return None
        watermark, scale = self.watermark(operator), self.scale(operator)
        last = int(spec.last(newest))
        first = last if watermark is None else int(spec.first(watermark))
        bounds = [
            [scale.value(int(spec.start(wid))), scale.value(int(spec.end(wid)))]
            for wid in range(first, last + 1)
        ]
        listed = bounds if len(bounds) <= _LISTED else [bounds[0], bounds[-1]]
        return {"count": len(bounds), "windows": listed}

    def shards(self, operator: int) -> list[ShardAccount]:
        """Return cells, bytes and total rows of each shard of an operator."""
        return [] if self.newest is None else self.newest.accounts.of(operator)

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk, by part."""
        parts = {name: self.root / name for name in ("control", "state", "source", "spark")}
        files = {name: [p for p in at.rglob("*") if p.is_file()] for name, at in parts.items()}
        return {name: sum(p.stat().st_size for p in paths) for name, paths in files.items()}


def _watermark_record(watermarks: Watermarks, scale: Scale) -> dict[str, Any]:
    """Return the watermarks of a port: overall, by source, and complete intervals beyond them."""
    record = {"watermark": scale.value(watermarks.low)}
    if watermarks.low is not None and watermarks.low >= END:
        record["watermark"] = "end of stream"
    if watermarks.sources:
        record["sources"] = {str(s): scale.value(m) for s, m in watermarks.sources.items()}
    if watermarks.ranges:
        record["intervals"] = [[scale.value(a), scale.value(b)] for a, b in watermarks.ranges]
    return record


def _sliding(written: str) -> Sliding | None:
    """Return a sliding or tumbling window from its text in the checkpoint; None for others."""
    try:
        call = ast.parse(written, mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "Sliding":
        return None
    named = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
    return Sliding(**named)


def state_record(held: CheckpointContents) -> dict[str, Any]:
    """Return the contents of a checkpoint, by subject."""
    newest = held.newest
    epoch = -1 if newest is None else newest.epoch
    last = held.last
    return {
        "checkpoint": str(held.root),
        "version": held.version,
        "epoch": epoch if epoch >= 0 else None,
        "ended": newest is not None and newest.ended,
        "begun": epoch + 1 if held.begun else None,
        "watermark": held.scale(last).value(held.watermark(last)),
        "inputs": _inputs(held),
        "operators": [_operator(held, number) for number in range(len(held.operators))],
        "retuned": {} if newest is None else {n: vars(t) for n, t in newest.overrides.items()},
        "bytes_on_disk": held.sizes(),
        "decisions": [_decision(held, entry) for entry in reversed(held.entries)],
    }


def _inputs(held: CheckpointContents) -> list[dict[str, Any]]:
    standing = () if held.newest is None else held.newest.standing.inputs
    rows = () if held.newest is None else held.newest.accounts.inputs
    records = []
    for number, (name, fields) in enumerate(held.inputs.items()):
        scale = Scale.of(fields["over"])
        known = standing[number] if number < len(standing) else None
        records.append(
            {
                "name": name,
                "time": scale.column,
                "policy": fields["progress"][0].lower(),
                "rows": rows[number] if number < len(rows) else 0,
                "newest": None if known is None else scale.value(known.newest),
                "watermark": None if known is None else scale.value(known.marks.low),
                "ended": known is not None and known.ended,
            }
        )
    return records


def _operator(held: CheckpointContents, number: int) -> dict[str, Any]:
    name, fields = list(held.operators.items())[number]
    shards = held.shards(number)
    totals = {} if held.newest is None else held.newest.accounts.operators
    return {
        "name": name,
        "window": held.window(number),
        "group_by": fields.get("group by", []),
        "aggregates": fields.get("aggregates", {}),
        "watermark": held.scale(number).value(held.watermark(number)),
        "counts": totals.get(number, {}),
        "open": held.open_windows(number),
        "cells": sum(shard.cells for shard in shards),
        "bytes": sum(shard.bytes for shard in shards),
        "shards": len(shards) or held.query["shards"],
    }


def _decision(held: CheckpointContents, entry: Entry) -> dict[str, Any]:
    ports = {}
    for port, control in entry.control.items():
        operator, which = held.ports[port]
        name = list(held.operators)[operator] + (f" port {which + 1}" if which else "")
        scale = held.scale(operator)
        ports[name] = _watermark_record(control.marks, scale)
        if control.prods:
            ports[name]["prods"] = [
                {"upto": scale.value(p.upto), "where": dict(p.where)} for p in control.prods
            ]
    changed = {n: t.value for n, t in entry.overrides.items() if t.epoch == entry.epoch}
    return {"epoch": entry.epoch, "control": ports, **({"retuned": changed} if changed else {})}
