"""Needs beside the best fixed knobs in hindsight: slack × lead × share of windows dropped.

Lowwater itself plays all of them, on the simulated machine of `experiments.arena.live`. Each window
that holds a row is given up if it was dropped, if its first answer came later than `fresh` or with
a larger error than the need names, or if its final came later than `exact`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from typing import Any

import numpy as np

import lowwater as lw
from experiments.arena.families import FAMILIES
from experiments.arena.live import Answers, Prices, live, moments, truth
from experiments.arena.stream import ArenaStream
from lowwater.needs.statement import Need
from lowwater.query.options import RunOptions

WINDOWS = 70
"""The windows of a stream."""
WARM_UP = 20
"""The windows that are not judged."""
ERROR, SHARE = 0.05, 0.95
GIVES = ("exact", "windows", "right")
"""A dropped window counts as much as a wrong one, so windows give before `right`."""
FRESH, EXACT = 1.0, 6.0
"""The promises of the need, in windows."""
SLACKS = (0.0, 0.25, 0.5, 0.75, 1.5, 5.0)
"""The fixed slacks, in windows."""
LEADS = (None, 0.0, 0.2)
"""The fixed leads of early results, in slides; None for runs without early results."""
DROPS = (0.15, 0.35, 0.6)
"""The fixed shares of windows dropped, where the machine is too slow."""


@dataclass(frozen=True)
class NeedStream:
    """A stream, the machine that it runs on, and whether work can exceed the machine."""

    name: str
    stream: ArenaStream
    prices: Prices
    loaded: bool = False

    @property
    def need(self) -> Need:
        """The need that is judged."""
        fresh, exact = (timedelta(microseconds=int(n * self.stream.range)) for n in (FRESH, EXACT))
        return lw.need(fresh=fresh, error=ERROR, share=SHARE, exact=exact, gives=GIVES)


@dataclass(frozen=True)
class Loss:
    """The shares of windows given up, by cause, and in all."""

    dropped: float
    late: float
    wrong: float
    inexact: float
    all: float
    in_time: float

    @classmethod
    def of(cls, case: NeedStream, answers: Answers) -> Loss:
        """Return the losses of a run."""
        stream = case.stream
        right = truth(stream)
        ends = np.array(sorted(right))[WARM_UP:]
        began = moments(stream, ends)
        last = int(stream.arrived[-1])
        judged = (began >= 0) & (began + int(EXACT * stream.range) <= last)
        flags = [
            _given_up(stream, answers, end, moment, right[end])
            for end, moment in zip(ends[judged].tolist(), began[judged].tolist(), strict=True)
        ]
        table = np.array(flags, bool).reshape(-1, 4)
        dropped, late, wrong, inexact = table.mean(axis=0).tolist()
        kept = table[~table[:, 0]]
        in_time = float(1 - kept[:, 1].mean()) if len(kept) else 1.0
        return cls(dropped, late, wrong, inexact, float(table.any(axis=1).mean()), in_time)


def _given_up(
    stream: ArenaStream, answers: Answers, end: int, moment: int, right: float
) -> tuple[bool, bool, bool, bool]:
    """Return whether a window was dropped, answered late, answered wrong, and final late."""
    first, final = answers.first(end), answers.finals.get(end)
    if first is None and end in answers.dropped:
        return True, False, False, False
    late = first is None or first[0] > moment + int(FRESH * stream.range)
    wrong = first is not None and abs(first[1] - right) > ERROR * abs(right)
    inexact = final is None or final[0] > moment + int(EXACT * stream.range)
    return False, late, wrong, inexact


def by_need(case: NeedStream) -> Answers:
    """Return the answers of a run by the need."""
    return live(case.stream, RunOptions(need=case.need), prices=case.prices)


def grid(case: NeedStream) -> Iterator[tuple[tuple[Any, ...], Answers]]:
    """Yield the knobs and the answers of each run with fixed knobs."""
    drops = (0.0, *DROPS) if case.loaded else (0.0,)
    for slack, lead, share in product(SLACKS, LEADS, drops):
        span = timedelta(microseconds=int(slack * case.stream.range))
        early = None if lead is None else lw.early_before(lead)
        shed = lw.shed(share=share, max_gap=4) if share else None
        options = RunOptions(early=early, shed=shed)
        answers = live(case.stream, options, watermark=lw.slack(span), prices=case.prices)
        yield (slack, lead, share), answers


@dataclass(frozen=True)
class NeedVerdict:
    """What the need gave up on a stream, and what the best fixed knobs did."""

    stream: str
    seed: int
    need: Loss
    best: Loss
    knobs: tuple[Any, ...]

    @property
    def more(self) -> float:
        """The windows that the need gave up beyond the best knobs, as a share of all."""
        return self.need.all - self.best.all


def judge(case: NeedStream, seed: int) -> NeedVerdict:
    """Return the verdict on a need over a stream."""
    tried = [(Loss.of(case, answers), knobs) for knobs, answers in grid(case)]
    best, knobs = min(tried, key=lambda one: one[0].all)
    return NeedVerdict(case.name, seed, Loss.of(case, by_need(case)), best, knobs)


# -- the streams ----------------------------------------------------------------------------------


def cases(seed: int) -> Iterator[NeedStream]:
    """Yield the eight streams of a seed: five on a fast machine, three on one that is too slow."""
    for name in ("in-order", "exponential", "pareto", "regimes", "silences"):
        stream = cut(FAMILIES[name].stream(seed))
        yield NeedStream(name, stream, Prices(epoch=stream.epoch // 10))
    base = cut(FAMILIES["exponential"].stream(seed))
    for name, profile in PROFILES.items():
        yield NeedStream(name, *overloaded(base, profile, seed), loaded=True)


def cut(stream: ArenaStream, windows: int = WINDOWS) -> ArenaStream:
    """Return the first windows of a stream."""
    chosen = stream.arrived < stream.arrived[0] + windows * stream.slide + stream.range
    columns = {n: getattr(stream, n)[chosen] for n in ("ts", "arrived", "key", "value")}
    return replace(stream, **columns)


Profile = Callable[[np.ndarray], np.ndarray]
"""Returns the load at places of a stream from 0 to 1."""
PROFILES: dict[str, Profile] = {
    "steady-overload": lambda at: np.full(len(at), 1.4),
    "square-wave": lambda at: np.where((at * 6).astype(int) % 2 == 1, 2.5, 0.4),
    "ramp": lambda at: 0.3 + 1.9 * np.minimum(at, 1 - at) * 2,
}


def overloaded(stream: ArenaStream, profile: Profile, seed: int) -> tuple[ArenaStream, Prices]:
    """Return a stream with the arrivals of a profile, and a machine that it loads so."""
    at = (stream.ts - stream.ts.min()) / (np.ptp(stream.ts) + 1)
    load = profile(at)
    kept = np.random.default_rng(seed).random(len(at)) < load / load.max()
    rate = len(at) / np.ptp(stream.arrived)
    columns = {n: getattr(stream, n)[kept] for n in ("ts", "arrived", "key", "value")}
    row = 0.9 * load.max() / rate
    prices = Prices(epoch=stream.epoch // 10, row=row, shed=row / 50)
    return replace(stream, **columns), prices


def report(seeds: Sequence[int], names: Sequence[str] = ()) -> Iterable[str]:
    """Yield a line for each stream, or for those in `names`, and the mean."""
    verdicts = []
    for seed in seeds:
        for case in (one for one in cases(seed) if not names or one.name in names):
            verdicts.append(judge(case, seed))
            yield line(verdicts[-1])
    more = np.array([one.more for one in verdicts])
    yield f"more than the best knobs: mean {more.mean():+.2%}, worst {more.max():+.2%}"


def line(one: NeedVerdict) -> str:
    """Return a verdict as text."""
    n, b = one.need, one.best
    return (
        f"{one.stream:16} {one.seed:4}  need {n.all:7.2%} (dropped {n.dropped:.2%}, late "
        f"{n.late:.2%}, wrong {n.wrong:.2%}, inexact {n.inexact:.2%})  best {b.all:7.2%} at "
        f"{one.knobs}  in time {n.in_time:.2%}"
    )
