"""What a run came to, in one sentence or as JSON."""

from __future__ import annotations

import shlex
from typing import Any

from lowwater.cli.run.asking import Asked
from lowwater.cli.run.running import Ended
from lowwater.sinks.text import jsonable

_ACCOUNTS = ("late", "outside", "malformed", "shed", "sidelined")


def in_words(asked: Asked, ended: Ended, command: list[str]) -> str:
    """Say what a run came to, and how to go on if it was stopped."""
    status = ended.status
    lost = [f"{status[a]:,} {a}" for a in _ACCOUNTS if status[a]]
    partly = [f"{status['partly_late']:,} partly late"] if status["partly_late"] else []
    rows = f"{status['in']:,} row{'' if status['in'] == 1 else 's'}"
    more = " more" if asked.resumed else ""
    # What was early before a run went on is counted, too, and nobody knows how much that was.
    known = status.prods.get("early") and not asked.resumed
    early = f", {status.prods['early']:,} of them early" if known else ""
    told = f"{rows}{_in_brackets(lost + partly)}, {ended.written['sink']:,}{more} results{early}"
    if not asked.shown:
        told += f" in {asked.targets['sink'].place}"
    said = f"{told}; {status.epoch + 1} epochs, {ended.seconds:.1f} s."
    return f"{said}\n{_how_to_go_on(asked, ended, command)}" if ended.interrupted else said


def _in_brackets(parts: list[str]) -> str:
    return f" ({', '.join(parts)})" if parts else ""


def _how_to_go_on(asked: Asked, ended: Ended, command: list[str]) -> str:
    stopped = f"Stopped after epoch {ended.status.epoch}."
    if asked.checkpoint is not None:
        return f"{stopped} To go on, run the same again: lowwater {shlex.join(command)}"
    if asked.host == "local":
        return f"{stopped} To be able to go on, run on Spark with --checkpoint FOLDER."
    return f"{stopped} To be able to go on, give --checkpoint FOLDER."


def as_object(asked: Asked, ended: Ended) -> dict[str, Any]:
    """Return what a run came to, for another program."""
    status = ended.status
    found = {
        "epochs": status.epoch + 1,
        "seconds": round(ended.seconds, 3),
        "interrupted": ended.interrupted,
        "ended": status.ended,
        "counts": dict(status.counts),
        "balanced": status.balanced,
        "written": ended.written,
        "low_water_mark": status.lwm,
        "newest": status.newest,
        "state": {"cells": status.cells, "bytes": status.state_bytes},
        "prods": dict(status.prods),
        "accuracy": {
            name: {"count": a.count, "recent": a.recent, "mean": a.mean, "worst": a.worst}
            for name, a in status.accuracy.items()
        },
        "sinks": {name: str(target) for name, target in asked.targets.items()},
        "checkpoint": None if asked.checkpoint is None else str(asked.checkpoint),
    }
    answer: dict[str, Any] = jsonable(found)
    return answer
