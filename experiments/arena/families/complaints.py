"""Families after streams on which users saw a quality target missed, or met far too slowly."""

from __future__ import annotations

import numpy as np

from experiments.arena.families.family import (
    Random,
    drawn,
    family,
    log_uniform,
    outage_delays,
    plain,
    poisson,
    upload_delays,
)
from experiments.arena.stream import ArenaStream


@family("steady")
def uploads(random: Random) -> ArenaStream:
    """Of many devices, 15 % upload their rows every 5 minutes, each at its own time."""
    times = poisson(random, 20.0, 90 * 60)
    devices = int(random.integers(40, 400))
    device = random.integers(0, devices, len(times))
    phase = random.uniform(0, 300, devices)
    slow = device < 0.15 * devices
    prompt = random.exponential(0.5, len(times))
    late = np.where(slow, upload_delays(times, 300.0, phase[device]), prompt)
    return drawn(random, times, late, range=60.0, epoch=5.0, key=device)


@family("steady")
def late_matches(random: Random) -> ArenaStream:
    """A filter passes some rows, and these are the late ones."""
    times, range, epoch = plain(random)
    matches = random.uniform(size=len(times)) < random.uniform(0.1, 0.5)
    slow = random.exponential(log_uniform(random, 0.2, 2) * range, len(times))
    late = np.where(matches, slow, random.exponential(0.01 * range, len(times)))
    return drawn(random, times, late, range=range, epoch=epoch, matches=matches)


@family("steady")
def dropouts(random: Random) -> ArenaStream:
    """Sources drop out for 4 seconds now and then, and send their rows afterwards."""
    range = 10.0
    times = poisson(random, log_uniform(random, 10, 100), 4_000)
    source = random.integers(0, int(random.integers(5, 20)), len(times))
    late = random.exponential(0.1, len(times))
    late += outage_delays(random, times, source, 4.0, log_uniform(random, 15, 60))
    return drawn(random, times, late, range=range, epoch=1.0, key=source)


@family("steady")
def slow_exponential(random: Random) -> ArenaStream:
    """Ten rows a second, in windows of 10 seconds; every row takes an exponential time."""
    times = poisson(random, 10.0, 4_000)
    late = random.exponential(log_uniform(random, 0.3, 3), len(times))
    return drawn(random, times, late, range=10.0, epoch=1.0)


@family("steady")
def slow_pareto(random: Random) -> ArenaStream:
    """Ten rows a second, in windows of 10 seconds; every row takes a time with a heavy tail."""
    times = poisson(random, 10.0, 4_000)
    late = log_uniform(random, 0.1, 0.6) * random.pareto(random.uniform(1.1, 1.8), len(times))
    return drawn(random, times, np.minimum(late, 600.0), range=10.0, epoch=1.0)
