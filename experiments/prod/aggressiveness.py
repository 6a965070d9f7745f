"""How accurate early results are, by how long before a window's end they are asked for (PROD 4.4).

The stream is that of the paper's generator: after a row at t the next is at t with probability
0.95, else at t + 1 s; rows arrive when they happen. Aggressiveness is the share of the slide by
which a prod is ahead of the window's end. A run of the paper is one stream of 2,000 s; here there
are several, and figures are means over them, with the least and the most of a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import lowwater as lw
from experiments.harness.contract import Check, Value
from experiments.harness.plot import BLUE, GREEN, GREY, ORANGE
from experiments.harness.shares import percent
from experiments.streams.prods import ESTIMATES, Answers, Ask, Estimate, Play, Rows
from lowwater.aggregates.aggregate import Aggregate
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DENSITY = 0.95
RATE = 1 / (1 - DENSITY)  # rows per second
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
FEW_SHARES = (0.1, 0.5)
FUNCTIONS = ("avg", "max", "sum", "count")
COLOURS = {"avg": BLUE, "max": GREEN, "sum": ORANGE, "count": GREY}
NO_WORSE = 0.2
"""By how many points the mean accuracy of complete avg and max may be below that of raw ones."""
Values = Callable[[np.random.Generator, int], np.ndarray]
"""Draws the values of a given number of rows."""


def generate(seed: int, seconds: int, values: Mapping[str, Values]) -> Rows:
    """Return a stream of the paper's generator, with columns of values."""
    random = np.random.default_rng(seed)
    counts = random.geometric(1 - DENSITY, seconds)
    ts = np.repeat(np.arange(seconds), counts) * SECOND
    return Rows.of(ts, ts, **{name: draw(random, len(ts)) for name, draw in values.items()})


def aggregates(columns: Sequence[str]) -> dict[str, Aggregate]:
    """Return the paper's four functions of each column, named like `avg_x`."""
    found: dict[str, Aggregate] = {}
    for c in columns:
        found |= {f"avg_{c}": lw.avg(c), f"max_{c}": lw.max(c), f"sum_{c}": lw.sum(c)}
        found[f"count_{c}"] = lw.count()
    return found


@dataclass(frozen=True)
class Cell:
    """The accuracy of one aggregate under one aggressiveness, in percent: a figure per stream."""

    means: Sequence[float]
    worsts: Sequence[float]
    """Of full windows."""
    worsts_of_all: Sequence[float]
    """Also of windows that the stream's beginning cuts."""

    @property
    def mean(self) -> float:
        """The mean over all streams."""
        return float(np.mean(self.means))

    @property
    def worst(self) -> float:
        """The worst of a stream, on average."""
        return float(np.mean(self.worsts))


@dataclass(frozen=True)
class Accuracies:
    """Accuracies by estimate, aggressiveness and aggregate."""

    cells: Mapping[tuple[Estimate, float, str], Cell]
    gains: Mapping[float, float]
    """By how many percent of a final's latency early results came sooner."""
    plays: Mapping[float, Sequence[Answers]]
    """The raw answers of each stream."""

    @property
    def shares(self) -> list[float]:
        """The degrees of aggressiveness, from the least on."""
        return list(self.gains)

    def mean(self, estimate: Estimate, share: float, name: str) -> float:
        """Return a mean accuracy."""
        return self.cells[estimate, share, name].mean

    def worst(self, estimate: Estimate, share: float, name: str) -> float:
        """Return a worst accuracy."""
        return self.cells[estimate, share, name].worst

    def rows(self, column: str, what: str, **more: Value) -> list[dict[str, Value]]:
        """Return a table of all estimates and shares; `what` is mean or worst."""
        return [
            {
                **more,
                "": estimate,
                "aggressiveness %": round(100 * share),
                **{
                    f"{f} %": percent(getattr(self, what)(estimate, share, f"{f}_{column}"))
                    for f in FUNCTIONS
                },
                "latency gain %": gain,
            }
            for estimate in ESTIMATES
            for share, gain in self.gains.items()
        ]


def measure(
    ask: Ask,
    values: Mapping[str, Values],
    *,
    seeds: Sequence[int],
    seconds: int,
    shares: Sequence[float] = SHARES,
) -> Accuracies:
    """Ask for every window of every stream, under each aggressiveness and estimate."""
    found: dict[tuple[Estimate, float], list[Answers]] = {}
    for seed in seeds:
        stream = generate(seed, seconds, values)
        for share in shares:
            play, asks = Play.asked(stream, ask, round(share * ask.slide))
            for estimate in ESTIMATES:
                found.setdefault((estimate, share), []).append(play.run(asks, estimate))
    cells = {
        (estimate, share, name): _cell(answers, name)
        for (estimate, share), answers in found.items()
        for name in ask.aggregates
    }
    plays = {share: found["raw", share] for share in shares}
    return Accuracies(cells, {s: _gain(answers) for s, answers in plays.items()}, plays)


def _cell(answers: Sequence[Answers], name: str) -> Cell:
    full = [a.accuracy(name) for a in answers]
    whole = [a.accuracy(name, full=False) for a in answers]
    means, worsts = ([float(f(x)) for x in full] for f in (np.mean, np.min))
    return Cell(means, worsts, [float(x.min()) for x in whole])


def _gain(answers: Sequence[Answers]) -> float:
    early, final = (
        np.concatenate([a.latencies(early=e) for a in answers]).mean() for e in (True, False)
    )
    return float(100 * (final - early) / final)


def no_worse(found: Accuracies, columns: Sequence[str]) -> Check:
    """Return whether complete avg and max are as accurate as raw ones, up to `NO_WORSE` points."""
    names = [f"{f}_{c}" for f in ("avg", "max") for c in columns]
    worse = max(
        found.mean("raw", s, n) - found.mean("complete", s, n) for s in found.shares for n in names
    )
    return Check(
        f"complete avg and max are as accurate as raw ones, within {NO_WORSE:g} points",
        worse <= NO_WORSE,
        f"worse by {worse:.3g} points at most",
    )


def linear(found: Accuracies, column: str, within: float) -> Check:
    """Return whether raw sum and count lose in proportion to aggressiveness, up to some points."""
    at = np.array(found.shares)
    off = 0.0
    for f in ("sum", "count"):
        lost = np.array([100 - found.mean("raw", s, f"{f}_{column}") for s in found.shares])
        slope = lost @ at / (at @ at)
        off = max(off, float(np.abs(lost - slope * at).max()))
    return Check(
        f"raw sum and count degrade linearly (within {within:g} points of a line)",
        off <= within,
        f"{off:.2f} points off at most",
    )


def curves(ax: Axes, found: Accuracies, column: str, what: str) -> None:
    """Draw accuracy over aggressiveness: raw dotted, complete solid."""
    at = [100 * s for s in found.shares]
    for f, colour in COLOURS.items():
        name, big = f"{f}_{column}", f == "count"  # counts lie on sums: wider, and below
        raw, complete = (
            [getattr(found, what)(e, s, name) for s in found.shares] for e in ("raw", "complete")
        )
        style: dict[str, Any] = {
            "color": colour,
            "lw": 4.0 if big else 1.6,
            "alpha": 0.5 if big else 1.0,
        }
        order = 2 if big else 3
        ax.plot(at, complete, "-", marker="o", ms=4, label=f, zorder=order, **style)
        if f in {"sum", "count"}:
            ax.plot(at, raw, ":", marker="s", ms=4, label=f"{f}, raw", zorder=order, **style)
    ax.set_xticks(at)
