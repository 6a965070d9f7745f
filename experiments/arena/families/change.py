"""Families of changing streams."""

from __future__ import annotations

import numpy as np

from experiments.arena.families.family import (
    Random,
    drawn,
    family,
    keys,
    log_uniform,
    outage_delays,
    plain,
    poisson,
    steps,
)
from experiments.arena.stream import ArenaStream


@family("changing")
def regimes(random: Random) -> ArenaStream:
    """Delays are short or long for a hundred windows at a time."""
    times, range, epoch = plain(random)
    levels = range * np.array([log_uniform(random, 0.01, 0.1), log_uniform(random, 0.5, 4)])
    scale = steps(random, times, levels, random.uniform(40, 100) * range)
    late = random.exponential(1.0, len(times)) * scale
    return drawn(random, times, late, range=range, epoch=epoch)


@family("changing")
def storms(random: Random) -> ArenaStream:
    """Now and then delays are long for some windows."""
    times, range, epoch = plain(random)
    calm, storm = 0.05 * range, log_uniform(random, 1, 6) * range
    scale = steps(random, times, np.array([calm] * 4 + [storm]), random.uniform(10, 30) * range)
    late = random.exponential(1.0, len(times)) * scale
    return drawn(random, times, late, range=range, epoch=epoch)


@family("changing")
def drift(random: Random) -> ArenaStream:
    """Delays grow slowly to many times of what they were."""
    times, range, epoch = plain(random)
    growth = np.log(log_uniform(random, 10, 50)) * times / times[-1]
    late = random.exponential(1.0, len(times)) * 0.05 * range * np.exp(growth)
    return drawn(random, times, late, range=range, epoch=epoch)


@family("changing")
def one_change(random: Random) -> ArenaStream:
    """Once, delays become much longer or much shorter."""
    times, range, epoch = plain(random)
    levels = range * np.array([0.05, log_uniform(random, 0.5, 4)])
    after = times > random.uniform(0.35, 0.65) * times[-1]
    becomes_longer = bool(random.integers(2))
    scale = levels[(after == becomes_longer).astype(int)]
    late = random.exponential(1.0, len(times)) * scale
    return drawn(random, times, late, range=range, epoch=epoch)


@family("changing")
def silences(random: Random) -> ArenaStream:
    """All sources are silent now and then; afterwards the first rows are old."""
    times, range, epoch = plain(random)
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
    times, range, epoch = plain(random)
    key = keys(random, len(times), 8, 0.0)
    levels = np.array([0.0, 0.0, -log_uniform(random, 0.5, 4) * range])
    off = np.where(key == 0, steps(random, times, levels, 40 * range), 0.0)
    late = random.exponential(0.1 * range, len(times))
    return drawn(random, times + off, late - off, range=range, epoch=epoch, key=key)


@family("changing")
def heavy_storms(random: Random) -> ArenaStream:
    """Now and then delays have a heavy tail for some windows."""
    times, range, epoch = plain(random)
    calm, storm = 0.02 * range, log_uniform(random, 0.5, 3) * range
    scale = steps(random, times, np.array([calm] * 3 + [storm]), random.uniform(15, 50) * range)
    late = scale * random.pareto(random.uniform(1.4, 2.5), len(times))
    return drawn(random, times, np.minimum(late, 60 * range), range=range, epoch=epoch)


@family("changing")
def partial_outages(random: Random) -> ArenaStream:
    """Some sources cannot send for many windows at a time, a few times; then they send all."""
    times, range, epoch = plain(random)
    source = random.integers(0, 10, len(times))
    some = np.where(source < random.integers(2, 7), 0, 1)
    length, between = log_uniform(random, 3, 10) * range, random.uniform(25, 60) * range
    late = random.exponential(0.05 * range, len(times))
    late += np.where(some == 0, outage_delays(random, times, some, length, between), 0.0)
    return drawn(random, times, late, range=range, epoch=epoch, key=source)


@family("changing")
def overload(random: Random) -> ArenaStream:
    """Rates have bursts, and rows wait in the queue of a server before they arrive."""
    range = log_uniform(random, 5, 30)
    seconds = round(range * 400)
    rate, burst = log_uniform(random, 20, 80), random.uniform(1.2, 3)
    levels = steps(random, np.arange(float(seconds)), np.array([1.0] * 4 + [burst]), 12 * range)
    times = poisson(random, rate * levels, seconds)
    served = np.arange(1, len(times) + 1) / (rate * random.uniform(1.05, 1.4))
    done = served + np.maximum.accumulate(times - served)
    waits = random.uniform(size=len(times)) < random.uniform(0.3, 1.0)
    late = np.where(waits, done - times, 0.0) + random.exponential(0.05 * range, len(times))
    return drawn(random, times, late, range=range, epoch=range * random.uniform(0.05, 0.2))


@family("changing")
def late_values(random: Random) -> ArenaStream:
    """Rows with large values take longer, in one of two states that last many windows."""
    times, range, epoch = plain(random)
    value = random.lognormal(2.0, 1.0, len(times))
    power = steps(random, times, np.array([0.0, 1.5]), random.uniform(30, 90) * range)
    late = random.exponential(0.1 * range, len(times)) * (value / np.median(value)) ** power
    return drawn(random, times, late, range=range, epoch=epoch, value=value)


@family("changing")
def drifting_clocks(random: Random) -> ArenaStream:
    """The clocks of sources fall behind, each at its own pace, until they are set right again."""
    times, range, epoch = plain(random)
    sources = 10
    key = random.integers(0, sources, len(times))
    drift = -np.abs(random.normal(0.0, log_uniform(random, 0.003, 0.03), sources))
    between, phase = random.uniform(60, 130) * range, random.uniform(size=sources)
    off = drift[key] * np.mod(times + phase[key] * between, between)
    late = random.exponential(0.05 * range, len(times))
    return drawn(random, times + off, late - off, range=range, epoch=epoch, key=key)
