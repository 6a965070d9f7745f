"""Families of streams with long periods: days, weeks, batches."""

from __future__ import annotations

import numpy as np

from experiments.arena.families.family import (
    Random,
    drawn,
    family,
    log_uniform,
    poisson,
    upload_delays,
)
from experiments.arena.stream import ArenaStream


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
def daily_lateness(random: Random) -> ArenaStream:
    """Delays rise and fall, five times; the rate does not."""
    range = log_uniform(random, 5, 30)
    seconds = round(range * 600)
    times = poisson(random, log_uniform(random, 10, 60), seconds)
    wave = 0.5 - 0.5 * np.cos(times / seconds * 2 * np.pi * 5)
    scale = range * 0.03 * np.exp(wave * np.log(log_uniform(random, 10, 80)))
    late = random.exponential(1.0, len(times)) * scale
    return drawn(random, times, late, range=range, epoch=range * random.uniform(0.05, 0.2))


@family("changing")
def long_batches(random: Random) -> ArenaStream:
    """Some devices upload their rows at the same moment, after many windows."""
    range, devices = 20.0, 60
    times = poisson(random, log_uniform(random, 5, 30), round(range * 900))
    device = random.integers(0, devices, len(times))
    slow = device < random.uniform(0.06, 0.25) * devices
    late = np.where(
        slow,
        upload_delays(times, random.uniform(12, 30) * range, 0.0),
        random.exponential(0.1 * range, len(times)),
    )
    return drawn(
        random, times, late, range=range, epoch=range * random.uniform(0.1, 0.2), key=device
    )


@family("changing")
def weekly(random: Random) -> ArenaStream:
    """Half a year of windows of 6 hours; some rows come in one batch at the end of their week."""
    hour = 3_600.0
    hourly = random.poisson(log_uniform(random, 5, 30), 24 * 7 * 26)
    times = np.sort(np.repeat(np.arange(len(hourly)), hourly) + random.uniform(size=hourly.sum()))
    slow = random.uniform(size=len(times)) < random.uniform(0.05, 0.2)
    prompt = random.exponential(log_uniform(random, 0.2, 2), len(times))
    late = np.where(slow, upload_delays(times, 7 * 24.0, 0.0), prompt)
    return drawn(random, times * hour, late * hour, range=6 * hour, epoch=hour)
