"""A family of generated streams, and the parts that families are made of.

A family draws its parameters, then its rows, from a seed. Tuning uses the seeds 0 to 19; every
other seed is held out. Delays are in seconds.

A family is *changing* if the law of its delays or of its rate stays different for ten windows or
longer at a time, and *steady* otherwise. So recurring batches are steady if there is one at least
every ten windows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from experiments.arena.stream import ArenaStream, Change, Floats
from lowwater.ticks import TICKS_PER_SECOND as SECOND

TUNING_SEEDS = range(20)
BEGIN = 1_700_000_000
"""The second at which all generated streams begin."""
Random = np.random.Generator


@dataclass(frozen=True)
class Family:
    """A family of streams, and a function that draws one of them."""

    name: str
    change: Change
    draw: Callable[[Random], ArenaStream]

    def stream(self, seed: int) -> ArenaStream:
        """Return the stream of `seed`."""
        random = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        drawn = self.draw(random)
        split = "tuning" if seed in TUNING_SEEDS else "held out"
        values = {**vars(drawn), "name": self.name, "split": split, "change": self.change}
        return ArenaStream(**{k: values[k] for k in ArenaStream.__dataclass_fields__})


FAMILIES: dict[str, Family] = {}
"""All families by name."""


def family(change: Change) -> Callable[[Callable[[Random], ArenaStream]], Family]:
    """Register the decorated function as a family of this name."""

    def register(draw: Callable[[Random], ArenaStream]) -> Family:
        found = Family(draw.__name__.replace("_", "-"), change, draw)
        FAMILIES[found.name] = found
        return found

    return register


def log_uniform(random: Random, low: float, high: float) -> float:
    """Return a number between `low` and `high`, whose logarithm is uniform."""
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def poisson(random: Random, rate: Floats | float, seconds: int) -> Floats:
    """Return the sorted times of a Poisson process with `rate` rows in each second."""
    counts = random.poisson(rate, seconds)
    return np.sort(np.repeat(np.arange(seconds), counts) + random.uniform(size=counts.sum()))


def keys(random: Random, rows: int, groups: int, zipf: float) -> np.ndarray:
    """Return a group for each row; group g is as frequent as (g + 1) to the power of -`zipf`."""
    weight = 1.0 / np.arange(1, groups + 1) ** zipf
    return random.choice(groups, size=rows, p=weight / weight.sum())


def drawn(
    random: Random,
    times: Floats,
    delay: Floats,
    *,
    range: float,
    epoch: float,
    slides: int = 1,
    key: np.ndarray | None = None,
    value: Floats | None = None,
    matches: np.ndarray | None = None,
) -> ArenaStream:
    """Return the stream of rows at `times` that arrive after `delay`."""
    ts = ((BEGIN + times) * SECOND).astype(np.int64)
    arrived = ts + (delay * SECOND).astype(np.int64)
    groups = keys(random, len(ts), int(random.integers(5, 60)), random.choice([0.0, 1.1]))
    values = random.lognormal(2.0, random.uniform(0.2, 1.0), len(ts))
    slide = max(round(range * SECOND / slides), 1)
    return ArenaStream.of(
        ts,
        arrived,
        name="",
        split="tuning",
        change="steady",
        key=groups if key is None else key,
        value=values if value is None else value,
        matches=np.ones(len(ts), bool) if matches is None else matches,
        range=slide * slides,
        slide=slide,
        epoch=round(epoch * SECOND),
    )


def plain(random: Random, rate: tuple[float, float] = (10, 100)) -> tuple[Floats, float, float]:
    """Return (times, length of windows, length of epochs) of a stream of an even rate."""
    range = log_uniform(random, 5, 30)
    times = poisson(random, log_uniform(random, *rate), round(range * 400))
    return times, range, range * random.uniform(0.05, 0.2)


def steps(random: Random, times: Floats, levels: Floats, length: float) -> Floats:
    """Return for each time a level that holds for about `length` seconds each time."""
    ends = np.cumsum(random.uniform(0.5, 1.5, 4_000) * length)
    chosen = random.choice(levels, size=len(ends))
    return np.asarray(chosen[np.searchsorted(ends, times)])


def outage_delays(
    random: Random, times: Floats, source: np.ndarray, length: float, between: float
) -> Floats:
    """Return the delays of rows whose sources cannot send for `length` seconds now and then."""
    late = np.zeros(len(times))
    for one in np.unique(source):
        starts = np.cumsum(random.exponential(between, 2_000))
        before = np.searchsorted(starts, times) - 1
        since = times - starts[np.maximum(before, 0)]
        out = (source == one) & (before >= 0) & (since < length)
        late = np.where(out, length - since, late)
    return late


def upload_delays(times: Floats, every: float, phase: Floats | float) -> Floats:
    """Return the delays of rows that wait for the next upload, one every `every` seconds."""
    return (np.floor((times + phase) / every) + 1) * every - phase - times
