"""Families of generated streams: each draws its parameters, then its rows, from a seed.

Tuning uses the seeds 0 to 19; every other seed is held out. Delays are in seconds.
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


# -- parts ----------------------------------------------------------------------------------------


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
) -> ArenaStream:
    """Return the stream of rows at `times` that arrive after `delay`."""
    ts = ((BEGIN + times) * SECOND).astype(np.int64)
    arrived = ts + (np.maximum(delay, 0.0) * SECOND).astype(np.int64)
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
        range=slide * slides,
        slide=slide,
        epoch=round(epoch * SECOND),
    )


def _plain(random: Random, rate: tuple[float, float] = (10, 100)) -> tuple[Floats, float, float]:
    """Return (times, length of windows, length of epochs) of a stream of an even rate."""
    range = log_uniform(random, 5, 30)
    times = poisson(random, log_uniform(random, *rate), round(range * 400))
    return times, range, range * random.uniform(0.05, 0.2)


# -- steady ---------------------------------------------------------------------------------------


@family("steady")
def exponential(random: Random) -> ArenaStream:
    """Every row takes an exponential time."""
    times, range, epoch = _plain(random)
    late = random.exponential(log_uniform(random, 0.05, 2) * range, len(times))
    return drawn(random, times, late, range=range, epoch=epoch)


@family("steady")
def exponential_sliding(random: Random) -> ArenaStream:
    """Every row takes an exponential time; windows slide."""
    times, range, epoch = _plain(random)
    late = random.exponential(log_uniform(random, 0.05, 1) * range, len(times))
    return drawn(random, times, late, range=range, epoch=epoch, slides=int(random.integers(2, 7)))


@family("steady")
def in_order(random: Random) -> ArenaStream:
    """No row is late."""
    times, range, epoch = _plain(random)
    return drawn(random, times, np.full(len(times), 0.2), range=range, epoch=epoch)


@family("steady")
def lognormal(random: Random) -> ArenaStream:
    """Every row takes a lognormal time."""
    times, range, epoch = _plain(random)
    middle, sigma = log_uniform(random, 0.02, 0.5) * range, random.uniform(0.5, 1.5)
    late = middle * random.lognormal(0.0, sigma, len(times))
    return drawn(random, times, late, range=range, epoch=epoch)


@family("steady")
def pareto(random: Random) -> ArenaStream:
    """Some rows take a time with a heavy tail."""
    times, range, epoch = _plain(random)
    late = (
        random.pareto(random.uniform(1.2, 2.2), len(times)) * log_uniform(random, 0.02, 0.2) * range
    )
    late *= random.uniform(size=len(times)) < random.uniform(0.2, 0.9)
    return drawn(random, times, np.minimum(late, 60 * range), range=range, epoch=epoch)


@family("steady")
def bimodal(random: Random) -> ArenaStream:
    """Most rows take a short time, a few a time that is a hundred times as long."""
    times, range, epoch = _plain(random)
    short = random.exponential(0.2 * range, len(times))
    slow = random.uniform(size=len(times)) < random.choice([0.005, 0.02, 0.08])
    late = np.where(slow, log_uniform(random, 3, 15) * range * random.uniform(0.7, 1.3), short)
    return drawn(random, times, late, range=range, epoch=epoch)


@family("steady")
def low_rate(random: Random) -> ArenaStream:
    """A few rows in a window."""
    range = log_uniform(random, 5, 60)
    times = poisson(random, log_uniform(random, 0.5, 5) / range, round(range * 1500))
    late = random.exponential(log_uniform(random, 0.05, 1) * range, len(times))
    return drawn(random, times, late, range=range, epoch=range * random.uniform(0.05, 0.2))


@family("steady")
def batches(random: Random) -> ArenaStream:
    """Some devices collect their rows and upload them together now and then."""
    range, devices = 60.0, 40
    times = poisson(random, log_uniform(random, 5, 30), round(range * 150))
    device = random.integers(0, devices, len(times))
    every = log_uniform(random, 2, 8) * range
    slow = random.uniform(size=devices) < random.uniform(0.1, 0.3)
    phase = random.uniform(0, every, devices) * random.choice([0.0, 1.0])
    uploaded = (np.floor((times + phase[device]) / every) + 1) * every - phase[device]
    late = np.where(slow[device], uploaded - times, random.exponential(0.5, len(times)))
    return drawn(random, times, late, range=range, epoch=5.0, key=device)


@family("steady")
def outages(random: Random) -> ArenaStream:
    """A source now and then cannot send for a while, and sends all afterwards."""
    times, range, epoch = _plain(random)
    sources = 10
    source = random.integers(0, sources, len(times))
    length, between = log_uniform(random, 0.3, 3) * range, log_uniform(random, 8, 40) * range
    late = random.exponential(0.02 * range, len(times))
    for one in np.arange(sources):
        starts = np.cumsum(random.exponential(between, 2_000))
        before = np.searchsorted(starts, times) - 1
        since = times - starts[np.maximum(before, 0)]
        out = (source == one) & (before >= 0) & (since < length)
        late = np.where(out, late + length - since, late)
    return drawn(random, times, late, range=range, epoch=epoch, key=source)


@family("steady")
def large_values_late(random: Random) -> ArenaStream:
    """Rows with large values take longer."""
    times, range, epoch = _plain(random)
    value = random.lognormal(2.0, 1.0, len(times))
    late = random.exponential(0.1 * range, len(times)) * (value / np.median(value)) ** 1.5
    return drawn(random, times, late, range=range, epoch=epoch, value=value)


@family("steady")
def late_groups(random: Random) -> ArenaStream:
    """Some groups are always later than others."""
    times, range, epoch = _plain(random)
    groups = 30
    key = keys(random, len(times), groups, random.choice([0.0, 1.1]))
    scale = np.exp(random.normal(-2.0, 1.2, groups)) * range
    late = random.exponential(1.0, len(times)) * scale[key]
    return drawn(random, times, late, range=range, epoch=epoch, key=key)


@family("steady")
def phones(random: Random) -> ArenaStream:
    """Each row waits for a connection: half are prompt, half take about a window."""
    times, range, epoch = _plain(random, (20, 60))
    slow = random.uniform(size=len(times)) < random.uniform(0.3, 0.6)
    late = np.where(slow, random.gamma(4.0, 0.2 * range, len(times)), 0.0)
    return drawn(random, times, late, range=range, epoch=epoch)


# -- changing -------------------------------------------------------------------------------------


def _steps(random: Random, times: Floats, levels: Floats, length: float) -> Floats:
    """Return for each time a level that holds for about `length` seconds each time."""
    ends = np.cumsum(random.uniform(0.5, 1.5, 4_000) * length)
    chosen = random.choice(levels, size=len(ends))
    return np.asarray(chosen[np.searchsorted(ends, times)])


@family("changing")
def regimes(random: Random) -> ArenaStream:
    """Delays are short or long for a hundred windows at a time."""
    times, range, epoch = _plain(random)
    levels = range * np.array([log_uniform(random, 0.01, 0.1), log_uniform(random, 0.5, 4)])
    scale = _steps(random, times, levels, random.uniform(40, 100) * range)
    late = random.exponential(1.0, len(times)) * scale
    return drawn(random, times, late, range=range, epoch=epoch)


@family("changing")
def storms(random: Random) -> ArenaStream:
    """Now and then delays are long for some windows."""
    times, range, epoch = _plain(random)
    calm, storm = 0.05 * range, log_uniform(random, 1, 6) * range
    scale = _steps(random, times, np.array([calm] * 4 + [storm]), random.uniform(10, 30) * range)
    late = random.exponential(1.0, len(times)) * scale
    return drawn(random, times, late, range=range, epoch=epoch)


@family("changing")
def daily(random: Random) -> ArenaStream:
    """Rate and delays rise and fall together, five times."""
    range = log_uniform(random, 5, 30)
    seconds = round(range * 600)
    wave = 0.5 - 0.5 * np.cos(np.arange(seconds) / seconds * 2 * np.pi * 5)
    times = poisson(random, log_uniform(random, 20, 80) * (0.1 + wave), seconds)
    scale = range * 0.03 * np.exp(wave[times.astype(int)] * np.log(log_uniform(random, 10, 80)))
    late = random.exponential(1.0, len(times)) * scale
    return drawn(random, times, late, range=range, epoch=range * random.uniform(0.05, 0.2))


@family("changing")
def drift(random: Random) -> ArenaStream:
    """Delays grow slowly to many times of what they were."""
    times, range, epoch = _plain(random)
    growth = np.log(log_uniform(random, 10, 50)) * times / times[-1]
    late = random.exponential(1.0, len(times)) * 0.05 * range * np.exp(growth)
    return drawn(random, times, late, range=range, epoch=epoch)


@family("changing")
def one_change(random: Random) -> ArenaStream:
    """Once, delays become much longer or much shorter."""
    times, range, epoch = _plain(random)
    levels = range * np.array([0.05, log_uniform(random, 0.5, 4)])
    after = times > random.uniform(0.35, 0.65) * times[-1]
    becomes_longer = bool(random.integers(2))
    scale = levels[(after == becomes_longer).astype(int)]
    late = random.exponential(1.0, len(times)) * scale
    return drawn(random, times, late, range=range, epoch=epoch)


@family("changing")
def silences(random: Random) -> ArenaStream:
    """All sources are silent now and then; afterwards the first rows are old."""
    times, range, epoch = _plain(random)
    on, off = log_uniform(random, 5, 20) * range, log_uniform(random, 1, 8) * range
    phase = np.mod(times, on + off)
    times, phase = times[phase < on], phase[phase < on]
    calm = random.exponential(0.1 * range, len(times))
    stuck = (phase > on - 0.5 * range) & (
        random.uniform(size=len(times)) < random.uniform(0.1, 0.6)
    )
    late = np.where(stuck, on + off - phase + calm, calm)
    return drawn(random, times, late, range=range, epoch=epoch)


@family("changing")
def clock_steps(random: Random) -> ArenaStream:
    """The clock of one source is set back and forth; its rows have the times of its clock."""
    times, range, epoch = _plain(random)
    key = keys(random, len(times), 8, 0.0)
    levels = np.array([0.0, 0.0, -log_uniform(random, 0.5, 4) * range])
    off = np.where(key == 0, _steps(random, times, levels, 40 * range), 0.0)
    late = random.exponential(0.1 * range, len(times))
    return drawn(random, times + off, late - off, range=range, epoch=epoch, key=key)
