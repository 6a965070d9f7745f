"""`lowwater state`: what a checkpoint holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lowwater.cli.state.reading import Held


def state(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The checkpoint of a query.")],
    *,
    decisions: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many of the last decisions to show.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Say it as JSON.")] = False,
) -> None:
    """Show what a checkpoint holds: epoch, low-water mark, open windows, sizes, last decisions.

    The files are only read: a query may go on meanwhile.
    """
    from lowwater.cli.state.reading import Held
    from lowwater.cli.state.telling import in_words
    from lowwater.sinks.text import jsonable

    found = as_object(Held.at(folder, decisions))
    if as_json:
        print(json.dumps(jsonable(found)))
    else:
        in_words(found)


def as_object(held: Held) -> dict[str, Any]:
    """Return all that is told."""
    newest = held.newest
    epoch = -1 if newest is None else newest.epoch
    last = held.last
    return {
        "checkpoint": str(held.root),
        "version": held.version,
        "epoch": epoch if epoch >= 0 else None,
        "ended": newest is not None and newest.ended,
        "begun": epoch + 1 if held.begun else None,
        "low_water_mark": held.scale(last).value(held.mark(last)),
        "inputs": _inputs(held),
        "operators": [_operator(held, number) for number in range(len(held.operators))],
        "retuned": {} if newest is None else {n: vars(t) for n, t in newest.tuned.items()},
        "bytes_on_disk": held.sizes(),
        "decisions": [_decision(held, entry) for entry in reversed(held.entries)],
    }


def _inputs(held: Held) -> list[dict[str, Any]]:
    from lowwater.cli.state.reading import Scale

    standing = () if held.newest is None else held.newest.standing.inputs
    rows = [] if held.newest is None else held.newest.totals.get("inputs", [])
    found = []
    for number, (name, told) in enumerate(held.inputs.items()):
        scale = Scale.of(told["over"])
        known = standing[number] if number < len(standing) else None
        found.append(
            {
                "name": name,
                "time": scale.column,
                "progress": told["progress"][0].lower(),
                "rows": rows[number] if number < len(rows) else 0,
                "newest": None if known is None else scale.value(known.newest),
                "mark": None if known is None else scale.value(known.marks.low),
                "ended": known is not None and known.ended,
            }
        )
    return found


def _operator(held: Held, number: int) -> dict[str, Any]:
    name, told = list(held.operators.items())[number]
    shards = held.shards(number)
    totals = {} if held.newest is None else held.newest.totals.get("operators", {})
    return {
        "name": name,
        "window": held.window(number),
        "group_by": told.get("group by", []),
        "aggregates": told.get("aggregates", {}),
        "mark": held.scale(number).value(held.mark(number)),
        "counts": totals.get(str(number), {}),
        "open": held.open_windows(number),
        "cells": sum(cells for cells, _, _ in shards.values()),
        "bytes": sum(size for _, size, _ in shards.values()),
        "shards": len(shards) or held.query["shards"],
    }


def _decision(held: Held, entry: Any) -> dict[str, Any]:
    from lowwater.cli.state.reading import told_marks

    ports = {}
    for port, control in entry.control.items():
        operator, which = held.ports[port]
        name = list(held.operators)[operator] + (f" port {which + 1}" if which else "")
        scale = held.scale(operator)
        ports[name] = told_marks(control.marks, scale)
        if control.prods:
            ports[name]["prods"] = [
                {"upto": scale.value(p.upto), "where": dict(p.where)} for p in control.prods
            ]
    changed = {n: t.value for n, t in entry.tuned.items() if t.epoch == entry.epoch}
    return {"epoch": entry.epoch, "told": ports, **({"retuned": changed} if changed else {})}
