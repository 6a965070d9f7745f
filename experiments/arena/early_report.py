"""The table of early answers in time: by stream, lead and policy, tuning and held-out apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import lowwater as lw
from experiments.arena.early_asks import AskSimulation
from experiments.arena.early_streams import BORROWED, SHAPES, AskStream, ask_stream
from experiments.arena.recordings import Recording
from experiments.arena.selection import Selection
from experiments.arena.stream import ArenaStream
from experiments.streams.recordings import AbsentError
from lowwater.early.policies import ProdPolicy

LEADS = (0.1, 0.5, 0.9)
"""The leads that are requested, in slides."""
IN_TIME = 0.99
"""The least share of windows with an answer in time."""
SLACK = 0.5
"""The slack of all streams, in ranges."""
POLICY = "early_before"
MOST_TICKS = 30_000
"""The number of epochs after which a recording is cut."""
PROCESSES = 2
Source: TypeAlias = tuple[int, str, int] | Recording
"""Seed, name and slides of a generated stream, or a recording."""


@dataclass(frozen=True)
class AskVerdict:
    """A policy on a stream: the windows with a row at their lead, and those answered in time.

    Attributes
    ----------
    near
        The windows with a result at most an epoch before or after the lead, on the clock.
    prods
        The prods by window that holds a row.
    unlawful
        The prods for a window before its beginning, or after its final.
    """

    stream: str
    split: str
    policy: str
    lead: float
    windows: int
    in_time: int
    near: int
    prods: float
    unlawful: int

    @property
    def share(self) -> float:
        """The share of windows that are answered in time; 1 without windows."""
        return self.in_time / self.windows if self.windows else 1.0

    @property
    def fails(self) -> bool:
        """Whether the policy under test misses the target or breaks a law."""
        return self.policy == POLICY and (self.share < IN_TIME or self.unlawful > 0)


def policies(stream: ArenaStream, lead: float) -> dict[str, ProdPolicy]:
    """Return the policy under test, and the dumb one with as many prods, or with many more."""
    slide, epoch = (timedelta(microseconds=span) for span in (stream.slide, stream.epoch))
    return {
        POLICY: lw.early_before(lead),
        "early_every slide": lw.early_every(slide),
        "early_every epoch": lw.early_every(epoch),
    }


def judge_asks(one: AskStream) -> list[AskVerdict]:
    """Return the verdicts on all policies and leads on a stream."""
    sim = AskSimulation(one.stream, round(SLACK * one.stream.range), one.pauses)
    return [
        _verdict(sim, name, lead, policy)
        for lead in LEADS
        for name, policy in policies(one.stream, lead).items()
    ]


def _verdict(sim: AskSimulation, name: str, lead: float, policy: ProdPolicy) -> AskVerdict:
    asks, before = sim.run(policy), int(lead * sim.stream.slide)
    judged = sim.judged(before)
    in_time, near = (
        int((mask & judged).sum()) for mask in (sim.in_time(asks, before), sim.near(asks, before))
    )
    prods = len(asks.prods) / len(sim.ends)
    stream, unlawful = sim.stream, sim.unlawful(asks)
    windows = int(judged.sum())
    return AskVerdict(
        stream.name, stream.split, name, lead, windows, in_time, near, prods, unlawful
    )


def early_arena(chosen: Selection, console: Console) -> list[AskVerdict]:
    """Judge when early answers are requested, print the tables, and return the verdicts."""
    verdicts: list[AskVerdict] = []
    sources = list(_sources(chosen))
    with console.status("early answers"), ProcessPoolExecutor(PROCESSES) as pool:
        for found in pool.map(_verdicts, sources):
            if isinstance(found, str):
                console.print(found, style="dim")
            else:
                verdicts.extend(found)
    console.print(by_stream(verdicts))
    console.print(in_all(verdicts))
    return verdicts


def _sources(chosen: Selection) -> Iterator[Source]:
    yield from ((seed, name, slides) for seed, name in chosen.drawn(SHAPES) for slides in (1, 3))
    yield from ((seed, name, 1) for seed, name in chosen.drawn(BORROWED))
    yield from chosen.recordings


def _verdicts(source: Source) -> list[AskVerdict] | str:
    """Return the verdicts on a stream, or why it is absent."""
    if not isinstance(source, Recording):
        seed, name, slides = source
        return judge_asks(ask_stream(name, seed, slides))
    try:
        return judge_asks(AskStream(shortened(source.load())))
    except AbsentError as absent:
        return f"{source.name}: {absent}"


def shortened(stream: ArenaStream) -> ArenaStream:
    """Return the stream up to `MOST_TICKS` epochs after its first row."""
    mine = stream.arrived < stream.arrived[0] + MOST_TICKS * stream.epoch
    columns = {name: getattr(stream, name)[mine] for name in ("ts", "arrived", "key", "value")}
    return replace(stream, **columns)


def by_stream(verdicts: Sequence[AskVerdict]) -> Table:
    """Return a line for each stream and lead: the shares in time of all policies."""
    names = list(dict.fromkeys(one.policy for one in verdicts))
    table = _table("stream", "split", "lead", "windows", *names)
    for name in ("on the clock", "prods by window", "fails"):
        table.add_column(name, justify="right")

    def line(one: AskVerdict) -> tuple[Any, ...]:
        return one.split, one.stream, one.lead

    for (split, stream, lead), same in groupby(verdicts, line):
        mine = {one.policy: one for one in same}
        ours = mine[POLICY]
        shares = (f"{mine[name].share:.4f}" for name in names)
        prods = " ".join(f"{mine[name].prods:.2f}" for name in names)
        near = f"{ours.near / ours.windows:.3f}" if ours.windows else ""
        fails = "fails" * ours.fails
        table.add_row(stream, split, f"{lead:g}", str(ours.windows), *shares, near, prods, fails)
    return table


def in_all(verdicts: Iterable[AskVerdict]) -> Table:
    """Return a line for each split, lead and policy: the share over all windows, and the least."""
    table = _table("split", "lead", "policy")
    for name in ("windows", "in time", "least", "prods by window", "unlawful"):
        table.add_column(name, justify="right")

    def group(one: AskVerdict) -> tuple[Any, ...]:
        return one.split, one.lead, one.policy

    for (split, lead, policy), same in groupby(sorted(verdicts, key=group), group):
        mine = list(same)
        windows = sum(one.windows for one in mine)
        share = sum(one.in_time for one in mine) / max(windows, 1)
        least, prods = min(one.share for one in mine), np.mean([one.prods for one in mine])
        unlawful = sum(one.unlawful for one in mine)
        figures = (f"{share:.4f}", f"{least:.4f}", f"{prods:.2f}", str(unlawful))
        table.add_row(split, f"{lead:g}", policy, str(windows), *figures)
    return table


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True)
    return table
