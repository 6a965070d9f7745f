"""The parts of the arena: slacks of windows and of joins, told quality, early answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from experiments.arena.early_report import early_arena
from experiments.arena.early_streams import BORROWED, SHAPES
from experiments.arena.families import FAMILIES
from experiments.arena.joins.chain import CHAINS, chain_arena
from experiments.arena.joins.families import FAMILIES as JOINED
from experiments.arena.joins.report import join_arena
from experiments.arena.report import arena, failures
from experiments.arena.selection import Selection
from experiments.arena.told import told_arena
from experiments.arena.value_report import fails, value_arena
from lowwater import SpecError


def _windows(chosen: Selection, console: Console, folder: Path) -> int:
    return failures(arena(chosen, console, folder))


def _joins(chosen: Selection, console: Console, folder: Path) -> int:
    del folder
    failed = 0
    if chosen.drawn(JOINED):
        failed += sum(bool(one.fails) for one in join_arena(chosen, console))
    if chosen.drawn(CHAINS):
        failed += sum(one.fails for one in chain_arena(chosen, console))
    return failed


def _times(chosen: Selection, console: Console, folder: Path) -> int:
    del folder
    return sum(one.fails for one in early_arena(chosen, console))


def _values(chosen: Selection, console: Console, folder: Path) -> int:
    del folder
    return sum(bool(fails(one)) for one in value_arena(chosen, console))


def _told(chosen: Selection, console: Console, folder: Path) -> int:
    del folder
    return sum(one.fails for one in told_arena(chosen, console))


PARTS: dict[str, Callable[[Selection, Console, Path], int]] = {
    "windows": _windows,
    "told": _told,
    "joins": _joins,
    "times": _times,
    "values": _values,
}
"""Each part returns the number of verdicts that fail."""


def run_parts(parts: Sequence[str], chosen: Selection, console: Console, folder: Path) -> int:
    """Run these parts of the arena, or all; return the number of verdicts that fail."""
    known = {
        *FAMILIES,
        *JOINED,
        *CHAINS,
        *SHAPES,
        *BORROWED,
        *(one.name for one in chosen.recordings),
    }
    for what, names, of in (("part", parts, PARTS), ("stream", chosen.names, known)):
        for name in names:
            if name not in of:
                raise SpecError(f"--{what} {name} is unknown; write one of {', '.join(sorted(of))}")
    return sum(PARTS[part](chosen, console, folder) for part in parts or PARTS)
