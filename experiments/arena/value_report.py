"""The tables of early values: each stream by itself, then what is pooled over streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import groupby

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.arena.report import PROCESSES, empty_table
from experiments.arena.selection import Selection, Source, name_of, stream_of
from experiments.arena.value_verdict import (
    LEADS,
    ValueVerdict,
    after_changes,
    deciles,
    fifths,
    judge_values,
    mean,
)
from experiments.streams.recordings import AbsentError

ERROR_MEAN, ERROR_ANY = 1.0, 1.1
"""The largest ratios of errors to the better of raw and completed values."""
COVERED, DECILE, AFTER = 0.88, 0.85, 0.80
"""The least coverage of 90 % intervals: on a stream, in a decile of sizes, after a change."""
PINBALL_MEAN, PINBALL_ANY, WIDTH, SETTLED = 1.0, 1.1, 3.0, 0.05


def value_arena(chosen: Selection, console: Console) -> list[ValueVerdict]:
    """Judge early values on the chosen streams, print the tables, and return the verdicts."""
    sources = chosen.sources
    verdicts: list[ValueVerdict] = []
    with ProcessPoolExecutor(PROCESSES) as pool:
        found_in = pool.map(partial(_verdicts, leads=chosen.leads or LEADS), sources)
        for source, found in zip(sources, found_in, strict=True):
            if isinstance(found, str):
                console.print(f"{name_of(source)}: {found}", style="dim")
            else:
                verdicts.extend(found)
    console.print(by_stream(verdicts))
    for split, mine in groupby(sorted(verdicts, key=lambda v: v.split), lambda v: v.split):
        console.print(pooled(split, list(mine)))
    return verdicts


def _verdicts(source: Source, leads: Sequence[float]) -> list[ValueVerdict] | str:
    try:
        return judge_values(stream_of(source), leads)
    except AbsentError as absent:
        return str(absent)


def by_stream(verdicts: Iterable[ValueVerdict]) -> Table:
    """Return a line for each stream, lead and aggregate."""
    table = empty_table("stream", "split", "lead", "aggregate")
    names = ("windows", "error", "raw", "completed", "÷ better", "covered", "pinball ÷ plain")
    for name in (*names, "width ÷ Poisson"):
        table.add_column(name, justify="right")
    table.add_column("fails")
    for one in verdicts:
        errors = (f"{v:.4f}" for v in (one.error, one.raw, one.completed))
        ratios = (f"{v:.2f}" for v in (one.ratio, one.covered, one.pinball))
        width = "" if np.isnan(one.width) else f"{one.width:.1f}"
        windows = f"{one.windows}" if one.judged else f"({one.windows})"
        about = (one.stream, one.split, f"{one.lead:g}", one.aggregate, windows)
        table.add_row(*about, *errors, *ratios, width, ", ".join(fails(one)))
    return table


def fails(one: ValueVerdict) -> list[str]:
    """Return which targets a stream misses, in a word each."""
    missed = {
        "error": one.ratio > ERROR_ANY,
        "coverage": one.covered < COVERED,
        "pinball": one.pinball > PINBALL_ANY,
        "width": one.width > WIDTH,
    }
    return [name for name, is_missed in missed.items() if is_missed and one.judged]


def pooled(split: str, verdicts: Sequence[ValueVerdict]) -> Table:
    """Return a line for each aggregate: means and worst cases over the streams of a split."""
    table = empty_table("split", "aggregate")
    names = ("÷ better, mean", "most", "covered, least", "pinball, mean", "most", "least decile")
    for name in (*names, "after changes", "changes", "settled: said - seen"):
        table.add_column(name, justify="right")
    judged = sorted((v for v in verdicts if v.judged), key=lambda v: v.aggregate)
    for name, same in groupby(judged, lambda v: v.aggregate):
        mine = list(same)
        after, changes = after_changes(mine)
        worst = max((told - seen for told, seen, n in fifths(mine) if n), key=abs, default=np.nan)
        figures = (
            mean(v.ratio for v in mine),
            max(v.ratio for v in mine),
            min(v.covered for v in mine),
            mean(v.pinball for v in mine),
            max(v.pinball for v in mine),
            min((part[1] for part in deciles(mine)), default=np.nan),
            after,
        )
        table.add_row(split, name, *(f"{v:.3f}" for v in figures), str(changes), f"{worst:+.3f}")
    return table
