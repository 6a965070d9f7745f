"""The table of the arena: each stream by itself, then tuning and held-out streams apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from experiments.arena.plots import draw
from experiments.arena.rules import BASELINES, RULES
from experiments.arena.selection import Selection, Source, name_of, stream_of
from experiments.arena.verdict import (
    CHANGING,
    STEADY,
    TARGETS,
    Verdict,
    judge_all,
    mean_ratio,
)
from experiments.streams.recordings import AbsentError
from lowwater.cli.replay.length import short

PROCESSES = 2
"""The number of streams that are judged at the same time."""


def arena(chosen: Selection, console: Console, folder: Path | None = None) -> list[Verdict]:
    """Run all rules over the chosen streams, print the tables, and return the verdicts.

    `folder` receives the verdicts as JSON, and pictures.
    """
    verdicts: list[Verdict] = []
    sources = chosen.sources
    with console.status("arena") as status, ProcessPoolExecutor(PROCESSES) as pool:
        for source, found in zip(sources, pool.map(_verdicts, sources), strict=True):
            status.update(name_of(source))
            if isinstance(found, str):
                console.print(f"{name_of(source)}: {found}", style="dim")
            else:
                verdicts.extend(found)
    console.print(by_stream([one for one in verdicts if one.rule in RULES]))
    console.print(in_the_mean(verdicts))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "arena.json").write_text(json.dumps([asdict(one) for one in verdicts]), "utf-8")
        _draw(verdicts, chosen.seeds[0], folder, console)
    return verdicts


def _draw(verdicts: Sequence[Verdict], seed: int, folder: Path, console: Console) -> None:
    """Write the pictures, if matplotlib is there."""
    try:
        paths = draw(verdicts, next(iter(RULES)), seed, folder)
    except ModuleNotFoundError:
        console.print("no pictures: pip install 'lowwater[demo]'", style="dim")
    else:
        console.print("pictures: " + ", ".join(map(str, paths)), soft_wrap=True)


def _verdicts(source: Source) -> list[Verdict] | str:
    """Return the verdicts on a stream, or why it is absent."""
    try:
        return judge_all([stream_of(source)], RULES | BASELINES)
    except AbsentError as absent:
        return str(absent)


def by_stream(verdicts: Sequence[Verdict]) -> Table:
    """Return a line for each stream and rule."""
    table = empty_table("stream", "split", "", "rule")
    for target in TARGETS:
        table.add_column(f"kept, {target:g}", justify="right")
        table.add_column("wait", justify="right")
        table.add_column("÷ best", justify="right")
    table.add_column("fails")

    def line(one: Verdict) -> tuple[Any, ...]:
        return one.split, one.stream, one.change, one.rule

    for (split, stream, change, rule), same in groupby(verdicts, line):
        mine = list(same)
        for at in range(0, len(mine), len(TARGETS)):
            part = mine[at : at + len(TARGETS)]
            figures = [text for one in part for text in _figures(one)]
            fails = ", ".join(f"{one.target:g}: {word}" for one in part for word in one.fails)
            table.add_row(stream, split, change, rule, *figures, fails)
    return table


def _figures(one: Verdict) -> tuple[str, str, str]:
    """Return completeness by target, in brackets if it is not judged, the mean wait, its ratio."""
    kept = f"{one.kept:.3f}" if one.judged else f"({one.kept:.3f})"
    return kept, short(one.wait), f"{one.ratio:.2f}"


def in_the_mean(verdicts: Sequence[Verdict]) -> Table:
    """Return a line for each split, change, rule and target: means, and what fails."""
    table = empty_table("split", "", "rule", "target")
    for name in ("wait ÷ best", "at most", "short", "slow", "streams"):
        table.add_column(name, justify="right")

    def group(one: Verdict) -> tuple[Any, ...]:
        return one.split, one.change, one.rule, one.target

    for (split, change, rule, target), same in groupby(sorted(verdicts, key=group), group):
        mine = list(same)
        most = STEADY if change == "steady" else CHANGING
        counts = [sum(word in one.fails for one in mine) for word in ("short", "slow")]
        figures = (f"{mean_ratio(mine):.3f}", f"{most:g}", *map(str, (*counts, len(mine))))
        table.add_row(split, change, rule, f"{target:g}", *figures)
    return table


def empty_table(*names: str) -> Table:
    """Return a table without lines, in the style of the arena."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def failures(verdicts: Iterable[Verdict]) -> int:
    """Return the number of failures of the rules whose verdicts count."""
    return sum(bool(one.fails) for one in verdicts if one.rule in RULES)
