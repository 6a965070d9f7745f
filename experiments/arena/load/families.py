"""Families of streams with a changing load; each draws its parameters from a seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.arena.families.family import Random, log_uniform
from experiments.arena.load.machine import LoadStream
from lowwater.ticks import TICKS_PER_SECOND as SECOND

LENGTH = 40
"""The length of a stream in bounds on latency."""
MORE = 0.02
"""The share of results by which a shedder may be over the bound more often than the planner."""
Rates = np.ndarray
"""The load of rows in each tenth of a bound."""


@dataclass(frozen=True)
class LoadFamily:
    """A family of streams.

    - `draw`: The function that draws a stream.
    - `calm`: Whether the load stays below 0.8.
    - `most_over`: The share of results that may be over the bound, beyond the planner's.
    """

    name: str
    draw: Callable[[Random], LoadStream]
    calm: bool = False
    most_over: float | None = None

    def stream(self, seed: int) -> LoadStream:
        """Return the stream of `seed`."""
        random = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        return replace(self.draw(random), name=self.name)


FAMILIES: dict[str, LoadFamily] = {}
"""All families by name."""


def family(
    *, calm: bool = False, most_over: float | None = None
) -> Callable[[Callable[[Random], LoadStream]], LoadFamily]:
    """Register the decorated function as a family; `most_over` is the target for results."""

    def register(draw: Callable[[Random], LoadStream]) -> LoadFamily:
        found = LoadFamily(draw.__name__.replace("_", "-"), draw, calm, most_over)
        FAMILIES[found.name] = found
        return found

    return register


def drawn(random: Random, load: Rates, **given: object) -> LoadStream:
    """Return a stream with a load, by tenth of a bound, on a machine that is drawn."""
    latency = round(log_uniform(random, 1, 30) * SECOND)
    each = latency / 10
    row = latency / log_uniform(random, 500, 3_000)
    counts = random.poisson(np.maximum(load, 0) * each / row)
    starts = np.repeat(np.arange(len(load)) * each, counts)
    ts = (starts + random.uniform(size=len(starts)) * each).astype(np.int64)
    slack = round(random.choice([0.0, 0.3, 0.9, 2.0]) * latency)
    late = np.minimum(random.exponential(0.1 * slack + 1, len(ts)), slack).astype(np.int64)
    order = np.argsort(ts + late, kind="stable")
    stream = LoadStream(
        "",
        (ts + late)[order],
        ts[order],
        round(log_uniform(random, 0.02, 0.5) * latency),
        slack,
        latency,
        random.uniform(0.005, 0.05) * latency,
        row,
        0.02 * row,
        uneven=random.choice([0.0, 0.03]),
    )
    return replace(stream, **given)  # type: ignore[arg-type]


def even(load: float, length: int = LENGTH) -> Rates:
    """Return an even load."""
    return np.full(10 * length, load)


def pulses(base: float, high: float, starts: Sequence[float], length: float) -> Rates:
    """Return a load that is `high` for `length` bounds from each start on, otherwise `base`."""
    load, at = even(base), np.arange(10 * LENGTH) / 10
    for start in starts:
        load[(at >= start) & (at < start + length)] = high
    return load


@family(calm=True)
def steady(random: Random) -> LoadStream:
    """An even load that the machine can process."""
    return drawn(random, even(random.uniform(0.2, 0.6)), uneven=0.0)


@family(calm=True)
def calm_square(random: Random) -> LoadStream:
    """Short bursts that take the machine a part of the bound, and idle times between them."""
    length = random.uniform(0.1, 0.4)
    high = random.uniform(0.2, 0.55) / length
    starts = np.arange(2, LENGTH, random.uniform(1.2, 3)).tolist()
    return drawn(random, pulses(0.0, high, starts, length), uneven=0.0)


@family(calm=True)
def warm_up(random: Random) -> LoadStream:
    """A start whose first epochs are slow."""
    stream = drawn(random, even(random.uniform(0.2, 0.6)), uneven=0.0)
    times = np.array([1.0, 0.5, 0.2]) * log_uniform(random, 0.3, 4) * stream.latency
    return replace(stream, warm_up=tuple(times.tolist()))


@family(calm=True)
def naps(random: Random) -> LoadStream:
    """Pauses of the machine that are shorter than the bound."""
    stream = drawn(random, even(random.uniform(0.2, 0.5)), uneven=0.0)
    starts = np.arange(5, LENGTH, random.uniform(5, 9)) * stream.latency
    length = random.uniform(0.2, 0.8) * stream.latency
    return replace(stream, pauses=tuple((int(at), int(at + length)) for at in starts))


@family(most_over=MORE)
def ramp(random: Random) -> LoadStream:
    """A load that grows slowly to up to 5 times of what it was."""
    base = random.uniform(0.3, 0.9)
    top = base * random.uniform(2, 5)
    load = np.concatenate([even(base, 7), np.linspace(base, top, 250), even(top, 8)])
    return drawn(random, load)


@family(most_over=MORE)
def step(random: Random) -> LoadStream:
    """A load that grows to up to 5 times of what it was, and falls again."""
    base = random.uniform(0.3, 0.9)
    return drawn(random, pulses(base, base * random.uniform(2, 5), [8, 26], 9))


@family(most_over=MORE)
def square(random: Random) -> LoadStream:
    """Intervals of overload and of calm, a few bounds each."""
    length = random.uniform(1, 6)
    starts = np.arange(4, LENGTH, 2 * length).tolist()
    return drawn(random, pulses(random.uniform(0.1, 0.6), random.uniform(1.2, 3), starts, length))


@family(most_over=MORE)
def overload(random: Random) -> LoadStream:
    """A load that is too high from the start to the end."""
    return drawn(random, even(random.uniform(1.2, 4)))


@family(most_over=MORE)
def spikes(random: Random) -> LoadStream:
    """A load that is for a short while 20 times as high."""
    base = random.uniform(0.2, 0.6)
    starts = np.sort(random.uniform(5, LENGTH - 5, 3)).tolist()
    return drawn(random, pulses(base, 20 * base, starts, random.uniform(0.2, 1.5)))


@family()
def stall(random: Random) -> LoadStream:
    """A source that does not deliver for a while, and then delivers all at once."""
    stream = drawn(random, even(random.uniform(0.2, 0.6)))
    begin = int(random.uniform(8, 15) * stream.latency)
    end = begin + int(random.uniform(1, 12) * stream.latency)
    arrived = np.where((stream.arrived > begin) & (stream.arrived < end), end, stream.arrived)
    return replace(stream, arrived=arrived)


@family()
def sleep(random: Random) -> LoadStream:
    """A machine that sleeps for a while, although rows arrive."""
    stream = drawn(random, even(random.uniform(0.2, 0.6)))
    begin = int(random.uniform(8, 15) * stream.latency)
    end = begin + int(random.uniform(2, 12) * stream.latency)
    return replace(stream, pauses=((begin, end),))


@family()
def restart(random: Random) -> LoadStream:
    """A run that ends and starts again later, with slow first epochs."""
    stream = drawn(random, even(random.uniform(0.2, 0.6)))
    begin = int(random.uniform(8, 15) * stream.latency)
    end = begin + int(random.uniform(2, 12) * stream.latency)
    times = np.array([1.0, 0.5, 0.2]) * log_uniform(random, 0.3, 2) * stream.latency
    return replace(stream, pauses=((begin, end),), starts=(0, end), warm_up=tuple(times.tolist()))


@family(calm=True)
def silence(random: Random) -> LoadStream:
    """A source without rows for a while."""
    begin = random.integers(60, 150)
    load = even(random.uniform(0.2, 0.6))
    load[begin : begin + random.integers(20, 200)] = 0
    return drawn(random, load, uneven=0.0)
