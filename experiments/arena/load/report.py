"""The table of the arena of load: each family and seed by itself, then each family in the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table

from experiments.arena.load.families import FAMILIES, LoadFamily
from experiments.arena.load.machine import LoadCourse, play
from experiments.arena.load.planner import Planner
from experiments.arena.load.shedders import FollowingShedder, LibraryShedder

CALM = 0.8
"""Nothing may be dropped below this load."""


@dataclass(frozen=True)
class LoadVerdict:
    """The shedders on one stream: the library's, two planners, and one that follows the load.

    `load` is the largest load over an interval as long as the bound, `busy` the one in which pauses
    count as work.
    """

    family: LoadFamily
    seed: int
    load: float
    busy: float
    library: LoadCourse
    planner: LoadCourse
    unforeseeing: LoadCourse
    follower: LoadCourse

    @property
    def courses(self) -> tuple[LoadCourse, ...]:
        """The courses in the order of the table."""
        return self.library, self.planner, self.unforeseeing, self.follower

    @property
    def unforeseen(self) -> bool:
        """Whether results are late that only a planner who foresees could have in time."""
        most = self.family.most_over
        return most is not None and (
            self.planner.over + most < self.library.over <= self.unforeseeing.over + most
        )

    @property
    def fails(self) -> list[str]:
        """What does not hold, in words."""
        calm = (self.family.calm and self.load < CALM) or self.busy < CALM
        most = self.family.most_over
        planned = max(self.planner.over, self.unforeseeing.over)
        over = most is not None and self.library.over > planned + most
        dropped = calm and bool(self.library.dropped.any())
        return ["drops"] * dropped + ["over"] * over


def judge(family: LoadFamily, seed: int) -> LoadVerdict:
    """Return the verdict on the stream of a family and a seed."""
    stream = family.stream(seed)
    return LoadVerdict(
        family,
        seed,
        stream.load(),
        stream.busy(),
        play(stream, LibraryShedder(stream)),
        Planner(stream).course(),
        Planner(stream, foresees=False).course(),
        play(stream, FollowingShedder(stream)),
    )


def load_arena(seeds: Sequence[int], console: Console) -> list[LoadVerdict]:
    """Judge all families, print the tables, and return the verdicts."""
    verdicts = []
    for family in FAMILIES.values():
        for seed in seeds:
            with console.status(f"{family.name} {seed}"):
                verdicts.append(judge(family, seed))
    console.print(by_stream(verdicts))
    console.print(by_family(verdicts))
    return verdicts


def by_stream(verdicts: Sequence[LoadVerdict]) -> Table:
    """Return a line for each stream."""
    table = _table("family", "seed", "load", "with pauses")
    for one in verdicts:
        figures = (f"{v:.3f}" for c in one.courses for v in _of(c))
        fails = ", ".join([*one.fails, *["(unforeseen)"] * one.unforeseen])
        loads = f"{one.load:.2f}", f"{one.busy:.2f}"
        table.add_row(one.family.name, str(one.seed), *loads, *figures, fails)
    return table


def by_family(verdicts: Sequence[LoadVerdict]) -> Table:
    """Return a line for each family, with means over its streams."""
    table = _table("family", "streams", "")
    for name, same in groupby(verdicts, lambda one: one.family.name):
        mine = list(same)
        courses = [v.courses for v in mine]
        figures = [f"{sum(part) / len(mine):.3f}" for part in zip(*map(_all, courses), strict=True)]
        fails = sum(bool(v.fails) for v in mine)
        table.add_row(name, str(len(mine)), "", *figures, f"{fails or ''}")
    return table


def _of(course: LoadCourse) -> tuple[float, float]:
    return course.over, course.lost


def _all(courses: Sequence[LoadCourse]) -> list[float]:
    return [value for course in courses for value in _of(course)]


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True)
    for shedder in ("lowwater", "planner", "unforeseeing", "follower"):
        table.add_column(f"{shedder}\nover", justify="right")
        table.add_column(f"{shedder}\ndropped", justify="right")
    table.add_column("fails")
    return table
