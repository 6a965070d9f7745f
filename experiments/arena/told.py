"""Whether the reported quality is true: that of settled windows, booked as a run books them.

At several moments of a stream the book has the rows of each settled window, and those that missed
it. The truth is known at the end of the stream: rows may still come for a window that
counted as settled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.arena.report import PROCESSES, empty_table
from experiments.arena.rules import LibraryRule
from experiments.arena.selection import Selection, Source, name_of, stream_of
from experiments.arena.simulate import Course, EpochNews, Simulation
from experiments.arena.stream import Change, Split
from experiments.arena.verdict import TARGETS, WARM_UP
from experiments.streams.recordings import AbsentError
from lowwater.watermarks.adaptive.quality_book import QualityBook
from lowwater.watermarks.adaptive.told_quality import ToldQuality, told_quality
from lowwater.watermarks.adaptive.window_slack import RuleMemory, WindowSlack, WindowSlackMemory

ROWS = 1_000
"""The number of rows over which told and true quality are compared."""
MOST, LEAST = 0.01, -0.02
"""The bounds of told minus true quality."""
MOMENTS = 12
"""The number of moments at which a stream is asked."""


@dataclass(frozen=True)
class ToldVerdict:
    """Told and true quality under one target on one stream, at all moments.

    Attributes
    ----------
    highest, lowest
        The extremes of told minus true quality over 1,000 rows of settled windows; NaN without any.
    kept
        The share of moments at which the lower bound of the last windows was below the truth.
    compared
        The number of intervals of 1,000 rows.
    """

    stream: str
    split: Split
    change: Change
    target: float
    highest: float
    lowest: float
    kept: float
    compared: int

    @property
    def fails(self) -> bool:
        """Whether told and true quality differ too much."""
        return self.highest > MOST or self.lowest < LEAST


class WatchedRule(LibraryRule):
    """The rule of `lw.quality`; its memory is kept after some epochs."""

    def __init__(self, target: float, sim: Simulation, moments: Sequence[int]) -> None:
        super().__init__(target, sim.stream)
        self.moments, self.epoch = set(moments), 0
        self.kept: dict[int, RuleMemory] = {}

    def step(self, news: EpochNews) -> float:
        """Return the slack after an epoch."""
        slack = super().step(news)
        if self.epoch in self.moments:
            self.kept[self.epoch] = RuleMemory(self.memory, round(slack))
        self.epoch += 1
        return slack


def judge_told(source: Source) -> list[ToldVerdict] | str:
    """Return the verdicts on a stream, or why it is absent."""
    try:
        sim = Simulation(stream_of(source))
    except AbsentError as absent:
        return f"{name_of(source)}: {absent}"
    epochs = len(sim.stream.cuts)
    moments = [epochs * (n + 1) // MOMENTS - 1 for n in range(MOMENTS)]
    return [_judged(sim, target, moments) for target in TARGETS]


def _judged(sim: Simulation, target: float, moments: Sequence[int]) -> ToldVerdict:
    stream, found = sim.stream, sim.incidences
    rule = WatchedRule(target, sim, moments)
    course = sim.run(rule)
    one = WindowSlack(0, 0, "", (0,), target, stream.range, stream.slide)
    in_time = np.bincount(found.window, found.count * ~course.late, len(found.ends))
    lost = found.rows - in_time
    first = found.ends[min(WARM_UP, len(found.ends) // 10)]
    differences, kept = list[float](), list[bool]()
    for moment, book in _books(sim, course, moments):
        if moment not in rule.kept:
            continue
        memory = WindowSlackMemory(rule.kept[moment], book=book)
        told = told_quality(one, memory, ended=False)
        differences += _differences(told, found.ends, in_time, lost, int(first))
        upto = bisect_left(found.ends.tolist(), told.spans[-1].end + 1) if told.spans else 0
        since = max(0, upto - 500)
        rows = found.rows[since:upto].sum()
        if told.at_least is not None and rows:
            kept.append(told.at_least <= in_time[since:upto].sum() / rows + MOST)
    worst = (max(differences), min(differences)) if differences else (np.nan, np.nan)
    about = stream.name, stream.split, stream.change, target
    return ToldVerdict(*about, *worst, float(np.mean(kept)) if kept else 1.0, len(differences))


def _books(
    sim: Simulation, course: Course, moments: Sequence[int]
) -> Iterator[tuple[int, QualityBook]]:
    """Yield the book after each moment: rows are booked when windows close, or when they miss."""
    found, ends = sim.incidences, sim.incidences.ends
    cuts = sim.stream.cuts
    closing = np.searchsorted(cuts, (course.wait + ends).astype(np.int64))
    closed: dict[int, dict[int, int]] = {}
    had = np.bincount(found.window, found.count * ~course.late, len(ends)).astype(int)
    for epoch, end, rows in zip(closing.tolist(), ends.tolist(), had.tolist(), strict=True):
        closed.setdefault(epoch, {})[end] = rows
    missed: dict[int, dict[int, int]] = {}
    late = course.late
    places = zip(
        found.epoch[late].tolist(),
        ends[found.window[late]].tolist(),
        found.count[late].tolist(),
        strict=True,
    )
    for epoch, end, rows in places:
        missed.setdefault(epoch, {})[end] = rows
    book, last = QualityBook(), -1
    for moment in moments:
        for epoch in range(last + 1, moment + 1):
            some = closed.get(epoch, {}), missed.get(epoch, {})
            newest = int(sim.stream.newest[epoch])
            book = book.plus(*some, round(course.slack[epoch]), newest)
        last = moment
        yield moment, book


def _differences(
    told: ToldQuality, ends: np.ndarray, in_time: np.ndarray, lost: np.ndarray, first: int
) -> list[float]:
    """Return told minus true quality over intervals of settled windows with 1,000 rows."""
    found, said, true, rows, since = list[float](), 0.0, 0.0, 0.0, 0
    for span in told.spans:
        upto = int(np.searchsorted(ends, span.end, side="right"))
        mine = slice(since, upto)
        since = upto
        due = (in_time[mine] + lost[mine]).sum()
        if not span.settled or span.quality is None or span.end < first or not due:
            continue
        said, true, rows = said + span.quality * due, true + in_time[mine].sum(), rows + due
        if rows >= ROWS:
            found.append(float((said - true) / rows))
            said = true = rows = 0.0
    return found


def told_arena(chosen: Selection, console: Console) -> list[ToldVerdict]:
    """Judge the told quality of the chosen streams, print the tables, and return the verdicts."""
    verdicts: list[ToldVerdict] = []
    with ProcessPoolExecutor(PROCESSES) as pool:
        for found in pool.map(judge_told, chosen.sources):
            if isinstance(found, str):
                console.print(found, style="dim")
            else:
                verdicts.extend(found)
    console.print(told_table(verdicts))
    return verdicts


def told_table(verdicts: Sequence[ToldVerdict]) -> Table:
    """Return a line for each split and target, and one for each stream that fails."""
    table = empty_table("told − true quality", "target", "stream")
    for name in ("highest", "lowest", "bound kept", "compared"):
        table.add_column(name, justify="right")
    table.add_column("fails")

    def group(one: ToldVerdict) -> tuple[str, float]:
        return one.split, one.target

    for (split, target), same in groupby(sorted(verdicts, key=group), group):
        mine = [one for one in same if one.compared]
        for one in [None, *(v for v in mine if v.fails)]:
            some = mine if one is None else [one]
            high = max((v.highest for v in some), default=np.nan)
            low = min((v.lowest for v in some), default=np.nan)
            kept = np.mean([v.kept for v in some]) if some else np.nan
            figures = (
                f"{high:+.4f}",
                f"{low:+.4f}",
                f"{kept:.3f}",
                f"{sum(v.compared for v in some):,}",
            )
            name = f"all {len(mine)}" if one is None else one.stream
            table.add_row(split, f"{target:g}", name, *figures, "" if one is None else "fails")
    return table
