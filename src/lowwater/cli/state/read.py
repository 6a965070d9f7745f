"""Reads the contents of a checkpoint from its files, without the query and without Spark."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lowwater.control.context import InputProgress
from lowwater.control.watermark import Watermarks
from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.entry import Entry, ShardAccount
from lowwater.errors import SpecError, StateError
from lowwater.ticks import END, instant, spoken
from lowwater.windows.sliding import Sliding

_NAME = "lowwater.json"
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")
_LISTED = 20
"""The largest number of open windows to list; if there are more, the first and last are listed."""


@dataclass(frozen=True)
class Scale:
    """The unit of a time column; `per_unit` is the number of ticks in 1, or None for timestamps."""

    column: str
    per_unit: int | None

    @classmethod
    def of(cls, text: str) -> Scale:
        """Return the scale of a column from `text`, its name and type in the checkpoint.

        >>> Scale.of("ts timestamp[us, tz=UTC]"), Scale.of("price decimal128(10, 2)")
        (Scale(column='ts', per_unit=None), Scale(column='price', per_unit=100))
        """
        column, _, kind = text.partition(" ")
        if not kind.startswith(_NUMBERS):
            return cls(column, None)
        digits = re.search(r"decimal\d+\(\d+, (\d+)\)", kind)
        return cls(column, 10 ** int(digits[1]) if digits else 1 if "int" in kind else 1_000_000)

    def value(self, tick: int | None) -> Any:
        """Return `tick` as a column value; None if `tick` is None, or a stream's begin or end."""
        if tick is None or abs(tick) >= END:
            return None
        if self.per_unit is None:
            return instant(tick)
        return tick if self.per_unit == 1 else tick / self.per_unit


@dataclass(frozen=True)
class CheckpointContents:
    """A checkpoint on disk. Until the first epoch ends, `newest` is an empty entry of epoch -1.

    `begun` is whether the next epoch has begun but not ended; a resumed query runs it again, with
    malformed rows only if they are `set_aside`.
    """

    root: Path
    query: dict[str, Any]
    version: int
    newest: Entry
    entries: list[Entry]
    begun: bool
    set_aside: bool = False

    @classmethod
    def at(cls, root: Path, decisions: int) -> CheckpointContents:
        """Return the checkpoint in the folder `root`, with its last `decisions` log entries."""
        if not root.is_dir():
            raise SpecError(f"no folder {str(root)!r} exists; name the folder of a checkpoint")
        if not (root / _NAME).is_file():
            raise SpecError(
                f"{str(root)!r} is not a checkpoint of Lowwater: it has no {_NAME}; name the "
                f"folder that the query has as checkpoint="
            )
        try:
            checkpoint = Checkpoint.at(str(root))
            stored = checkpoint.stored()
            assert stored is not None  # noqa: S101
            log = checkpoint.log(stored.id)
            newest = log.newest() or Entry(-1)
            numbers = range(max(0, newest.epoch - decisions + 1), newest.epoch + 1)
            entries = [e for e in map(log.read, numbers) if e is not None]
            begun, described = log.opened() is not None, stored.fingerprint
            query, version = described["query"], described["version"]
            return cls(root, query, version, newest, entries, begun, log.set_aside)
        except (ValueError, KeyError, TypeError) as problem:
            raise StateError(
                f"the checkpoint {str(root)!r} cannot be read ({problem!r}): it is damaged, or of "
                f"another version of Lowwater; read it with the version that wrote it"
            ) from problem

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the query as {name: fields}."""
        return {n: fields for n, fields in self.query.items() if re.fullmatch(r"input( \d+)?", n)}

    @cached_property
    def operators(self) -> list[tuple[str, dict[str, Any]]]:
        """The operators of the query as (name, fields)."""
        others = {*self.inputs, "outputs", "shards"}
        return [(n, fields) for n, fields in self.query.items() if n not in others]

    @cached_property
    def ports(self) -> list[tuple[int, int]]:
        """The (operator, port) pairs of all ports, in the order in which log entries list them."""
        parts = [*self.inputs.values(), *(fields for _, fields in self.operators)]
        return sorted({(r[0], r[1]) for fields in parts for r in fields.get("routes", ())})

    @property
    def last(self) -> int:
        """The number of the operator that emits the results of the query."""
        return int(self.query["outputs"][0][1])

    def scale(self, operator: int) -> Scale:
        """Return the scale of the times at `operator`."""
        _, fields = self.operators[operator]
        return Scale.of(fields.get("over") or next(iter(self.inputs.values()))["over"])

    def window(self, operator: int) -> str | None:
        """Return the windows of `operator` as text; None if it has none."""
        written: str | None = self.operators[operator][1].get("window")
        spec = _sliding(written or "")
        if spec is None or self.scale(operator).per_unit is not None:
            return written
        return f"range {spoken(spec.range)}, slide {spoken(spec.slide)}"

    def watermark(self, operator: int) -> int | None:
        """Return the watermark at `operator` in ticks; None if one of its ports has none."""
        ports = zip(self.ports, self.newest.standing.ports, strict=False)
        lows = [marks.low for (number, _), marks in ports if number == operator]
        known = [low for low in lows if low is not None]
        return min(known) if known and len(known) == len(lows) else None

    def open_windows(self, operator: int) -> dict[str, Any] | None:
        """Return the open windows of `operator`, from the watermark to the newest row.

        The result is None unless the windows are sliding or tumbling and have rows in state.
        """
        spec = _sliding(self.operators[operator][1].get("window", ""))
        inputs = self.newest.standing.inputs
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
        """Return the cells, bytes and rows of each shard of `operator`."""
        return self.newest.accounts.of(operator)

    def sizes(self) -> dict[str, int]:
        """Return {folder: bytes on disk} of the folders in the checkpoint."""
        parts = {name: self.root / name for name in ("control", "state", "source", "spark")}
        files = {name: [p for p in at.rglob("*") if p.is_file()] for name, at in parts.items()}
        return {name: sum(p.stat().st_size for p in paths) for name, paths in files.items()}


def _watermark_record(watermarks: Watermarks, scale: Scale) -> dict[str, Any]:
    """Return a record of the watermark, the watermark of each source, and complete intervals."""
    record = {"watermark": scale.value(watermarks.low)}
    if watermarks.low is not None and watermarks.low >= END:
        record["watermark"] = "end of stream"
    if watermarks.sources:
        record["sources"] = {str(s): scale.value(m) for s, m in watermarks.sources.items()}
    if watermarks.ranges:
        record["intervals"] = [[scale.value(a), scale.value(b)] for a, b in watermarks.ranges]
    return record


def _sliding(written: str) -> Sliding | None:
    """Return the sliding or tumbling window with the text `written`; None for other windows."""
    try:
        call = ast.parse(written, mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "Sliding":
        return None
    named = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
    return Sliding(**named)


def state_record(checkpoint: CheckpointContents) -> dict[str, Any]:
    """Return the contents of `checkpoint` as {subject: value}."""
    newest, last = checkpoint.newest, checkpoint.last
    return {
        "checkpoint": str(checkpoint.root),
        "version": checkpoint.version,
        "epoch": newest.epoch if newest.epoch >= 0 else None,
        "ended": newest.ended,
        "begun": newest.epoch + 1 if checkpoint.begun else None,
        "set_aside": checkpoint.set_aside,
        "watermark": checkpoint.scale(last).value(checkpoint.watermark(last)),
        "inputs": _inputs(checkpoint),
        "operators": [_operator(checkpoint, number) for number in range(len(checkpoint.operators))],
        "retuned": {n: vars(override) for n, override in newest.overrides.items()},
        "bytes_on_disk": checkpoint.sizes(),
        "decisions": [_decision(checkpoint, entry) for entry in reversed(checkpoint.entries)],
    }


def _inputs(checkpoint: CheckpointContents) -> list[dict[str, Any]]:
    newest, inputs = checkpoint.newest, checkpoint.inputs.items()
    records = []
    for (name, fields), progress, rows, bad_files in zip_longest(
        inputs, newest.standing.inputs, newest.accounts.inputs, newest.accounts.bad_files
    ):
        scale, reached = Scale.of(fields["over"]), progress or InputProgress()
        records.append(
            {
                "name": name,
                "time": scale.column,
                "policy": fields["progress"][0].lower(),
                "rows": rows or 0,
                "bad_files": bad_files or 0,
                "newest": scale.value(reached.newest),
                "watermark": scale.value(reached.marks.low),
                "ended": reached.ended,
            }
        )
    return records


def _operator(checkpoint: CheckpointContents, number: int) -> dict[str, Any]:
    name, fields = checkpoint.operators[number]
    shards = checkpoint.shards(number)
    return {
        "name": name,
        "window": checkpoint.window(number),
        "group_by": fields.get("group by", []),
        "aggregates": fields.get("aggregates", {}),
        "watermark": checkpoint.scale(number).value(checkpoint.watermark(number)),
        "counts": checkpoint.newest.accounts.operators.get(number, {}),
        "open": checkpoint.open_windows(number),
        "cells": sum(shard.cells for shard in shards),
        "bytes": sum(shard.bytes for shard in shards),
        "shards": len(shards) or checkpoint.query["shards"],
    }


def _decision(checkpoint: CheckpointContents, entry: Entry) -> dict[str, Any]:
    ports = {}
    for port, control in entry.control.items():
        operator, which = checkpoint.ports[port]
        name = checkpoint.operators[operator][0] + (f" port {which + 1}" if which else "")
        scale = checkpoint.scale(operator)
        ports[name] = _watermark_record(control.marks, scale)
        if control.prods:
            ports[name]["prods"] = [
                {"upto": scale.value(p.upto), "where": dict(p.where)} for p in control.prods
            ]
    changed = {n: t.value for n, t in entry.overrides.items() if t.epoch == entry.epoch}
    return {"epoch": entry.epoch, "control": ports, **({"retuned": changed} if changed else {})}
