"""Two streams like those of QDJ: positions from a stadium, late and out of step (QDJ 6.2.2).

The recordings themselves are not part of this project, so streams are drawn that have what the
thesis reports: how many tuples in how many seconds, about 70 % of them in order, late ones
late by 40 ms or less for the most part, and two clocks that are within 50 ms of each other most of
the time. Everything else was chosen here so that the rule of the thesis fares about as it
did there. Times are uniform. Three in ten rows take a detour, whose length is a gamma number
(shape 3, 20 ms on average); one in 500 is late by 60 ms more on average. How many take it and how
long it is varies from second to second, both by autoregressive numbers with a memory of 3 s; and
each stream is delayed as a whole by one with a memory of 1 s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.reference.qdj import Floats, Pair
from lowwater.ticks import TICKS_PER_SECOND as SECOND

GRID = 10
"""How often a second what varies is drawn; between, it is a line."""


@dataclass(frozen=True, kw_only=True)
class Game:
    """The parameters of a game: rows of both streams, seconds, and how disorder varies."""

    name: str
    rows: tuple[int, int]
    seconds: float
    seed: int
    detour: float = 20.0
    """Mean length of a detour in ms."""
    odds: float = -0.75
    """Log odds of a detour, on average."""
    odds_vary: float = 0.4
    detour_varies: float = 0.25
    apart: float = 16.0
    """Deviation of the delay of a whole stream, in ms."""
    worse: tuple[tuple[float, float, float], ...] = ()
    """Stretches (from, to, factor), in seconds, in which detours are longer by a factor."""

    def shortened(self, seconds: float) -> Game:
        """Return the same game, over sooner."""
        a, b = (round(n * seconds / self.seconds) for n in self.rows)
        return Game(**{**vars(self), "rows": (a, b), "seconds": seconds})


SOCCER_16 = Game(name="Soccer-16min", rows=(328_597, 324_006), seconds=987.5, seed=1)
SOCCER_23 = Game(
    name="Soccer-23min", rows=(342_690, 429_100), seconds=1_436.9, seed=2, detour_varies=0.3
)


def generate(game: Game) -> Pair:
    """Draw the rows of a game, in order of arrival."""
    random = np.random.default_rng(game.seed)
    sides = [_stream(random, rows, game) for rows in game.rows]
    ts = np.concatenate([t for t, _ in sides])
    arrived = np.concatenate([a for _, a in sides])
    whose = np.repeat(np.array([0, 1], np.int8), game.rows)
    order = np.argsort(arrived, kind="stable")
    return Pair(ts[order].astype(np.int64), whose[order])


def _stream(random: np.random.Generator, rows: int, game: Game) -> tuple[Floats, Floats]:
    ts = np.sort(random.uniform(0.1, game.seconds, rows)) * SECOND

    def varies(memory: float) -> Floats:
        return _varying(random, game.seconds, memory, ts)

    odds = game.odds + game.odds_vary * varies(3.0)
    length = game.detour * np.exp(game.detour_varies * varies(3.0)) * _worse(game, ts)
    apart = game.apart * varies(1.0)
    detour = random.uniform(size=rows) < 1 / (1 + np.exp(-odds))
    late = np.where(detour, random.gamma(3.0, length / 3.0, rows), 0.0)
    late += np.where(random.uniform(size=rows) < 1 / 500, random.exponential(60.0, rows), 0.0)
    return ts, ts + (apart + late) * SECOND / 1_000


def _worse(game: Game, ts: Floats) -> Floats:
    factor = np.ones(len(ts))
    for since, until, times in game.worse:
        factor[(ts >= since * SECOND) & (ts < until * SECOND)] *= times
    return factor


def _varying(random: np.random.Generator, seconds: float, memory: float, at: Floats) -> Floats:
    """Return autoregressive numbers of deviation 1 at times."""
    steps = int(seconds * GRID) + 2
    keep = np.exp(-1 / (memory * GRID))
    news = random.normal(size=steps) * np.sqrt(1 - keep**2)
    drawn = np.empty(steps)
    last = random.normal()
    for step in range(steps):
        drawn[step] = last = keep * last + news[step]
    grid = np.arange(steps) * SECOND / GRID
    return np.asarray(np.interp(at, grid, drawn))
