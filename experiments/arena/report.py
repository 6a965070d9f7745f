"""The table of the arena: each stream by itself, then tuning and held-out streams apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from experiments.arena.families import FAMILIES
from experiments.arena.recordings import RECORDINGS
from experiments.arena.rules import RULES
from experiments.arena.stream import ArenaStream
from experiments.arena.verdict import (
    CHANGING,
    STEADY,
    TARGETS,
    Verdict,
    judge_all,
    mean_ratio,
)
from experiments.streams.recordings import AbsentError


def streams(seeds: Sequence[int], console: Console) -> Iterator[ArenaStream]:
    """Yield the streams of all families and seeds, and all recordings that are present."""
    for seed in seeds:
        for family in FAMILIES.values():
            yield family.stream(seed)
    for recording in RECORDINGS:
        try:
            yield recording.load()
        except AbsentError as absent:
            console.print(f"{recording.name}: {absent}", style="dim")


def arena(seeds: Sequence[int], console: Console) -> list[Verdict]:
    """Run all rules over all streams, print the tables, and return the verdicts."""
    verdicts = []
    for stream in streams(seeds, console):
        with console.status(stream.name):
            verdicts.extend(judge_all([stream], RULES))
    console.print(by_stream(verdicts))
    console.print(in_the_mean(verdicts))
    return verdicts


def by_stream(verdicts: Sequence[Verdict]) -> Table:
    """Return a line for each stream and rule."""
    table = _table("stream", "split", "", "rule")
    for target in TARGETS:
        table.add_column(f"kept, {target:g}", justify="right")
        table.add_column("wait ÷ best", justify="right")
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


def _figures(one: Verdict) -> tuple[str, str]:
    """Return completeness by target, in brackets where it is not judged, and the ratio of waits."""
    kept = f"{one.kept:.3f}" if one.judged else f"({one.kept:.3f})"
    return kept, f"{one.ratio:.2f}"


def in_the_mean(verdicts: Sequence[Verdict]) -> Table:
    """Return a line for each split, change, rule and target: means, and what fails."""
    table = _table("split", "", "rule", "target")
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


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def failures(verdicts: Iterable[Verdict]) -> int:
    """Return the number of verdicts with a failure."""
    return sum(bool(one.fails) for one in verdicts)
