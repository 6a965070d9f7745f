"""Families of steady streams."""

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
    upload_delays,
)
from experiments.arena.stream import ArenaStream


@family("steady")
def exponential(random: Random) -> ArenaStream:
    """Every row takes an exponential time."""
    times, range, epoch = plain(random)
    late = random.exponential(log_uniform(random, 0.05, 2) * range, len(times))
    return drawn(random, times, late, range=range, epoch=epoch)


@family("steady")
def exponential_sliding(random: Random) -> ArenaStream:
    """Every row takes an exponential time; windows slide."""
    times, range, epoch = plain(random)
    late = random.exponential(log_uniform(random, 0.05, 1) * range, len(times))
    return drawn(random, times, late, range=range, epoch=epoch, slides=int(random.integers(2, 7)))


@family("steady")
def in_order(random: Random) -> ArenaStream:
    """No row is late."""
    times, range, epoch = plain(random)
    return drawn(random, times, np.full(len(times), 0.2), range=range, epoch=epoch)


@family("steady")
def lognormal(random: Random) -> ArenaStream:
    """Every row takes a lognormal time."""
    times, range, epoch = plain(random)
    middle, sigma = log_uniform(random, 0.02, 0.5) * range, random.uniform(0.5, 1.5)
    late = middle * random.lognormal(0.0, sigma, len(times))
    return drawn(random, times, late, range=range, epoch=epoch)


@family("steady")
def pareto(random: Random) -> ArenaStream:
    """Some rows take a time with a heavy tail."""
    times, range, epoch = plain(random)
    late = (
        random.pareto(random.uniform(1.2, 2.2), len(times)) * log_uniform(random, 0.02, 0.2) * range
    )
    late *= random.uniform(size=len(times)) < random.uniform(0.2, 0.9)
    return drawn(random, times, np.minimum(late, 60 * range), range=range, epoch=epoch)


@family("steady")
def bimodal(random: Random) -> ArenaStream:
    """Most rows take a short time, a few a time that is a hundred times as long."""
    times, range, epoch = plain(random)
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
    uploaded = upload_delays(times, every, phase[device])
    late = np.where(slow[device], uploaded, random.exponential(0.5, len(times)))
    return drawn(random, times, late, range=range, epoch=5.0, key=device)


@family("steady")
def outages(random: Random) -> ArenaStream:
    """A source now and then cannot send for a while, and sends all afterwards."""
    times, range, epoch = plain(random)
    sources = 10
    source = random.integers(0, sources, len(times))
    length, between = log_uniform(random, 0.3, 3) * range, log_uniform(random, 8, 40) * range
    late = random.exponential(0.02 * range, len(times))
    late += outage_delays(random, times, source, length, between)
    return drawn(random, times, late, range=range, epoch=epoch, key=source)


@family("steady")
def large_values_late(random: Random) -> ArenaStream:
    """Rows with large values take longer."""
    times, range, epoch = plain(random)
    value = random.lognormal(2.0, 1.0, len(times))
    late = random.exponential(0.1 * range, len(times)) * (value / np.median(value)) ** 1.5
    return drawn(random, times, late, range=range, epoch=epoch, value=value)


@family("steady")
def late_groups(random: Random) -> ArenaStream:
    """Some groups are always later than others."""
    times, range, epoch = plain(random)
    groups = 30
    key = keys(random, len(times), groups, random.choice([0.0, 1.1]))
    scale = np.exp(random.normal(-2.0, 1.2, groups)) * range
    late = random.exponential(1.0, len(times)) * scale[key]
    return drawn(random, times, late, range=range, epoch=epoch, key=key)


@family("steady")
def phones(random: Random) -> ArenaStream:
    """Each row waits for a connection: half are prompt, half take about a window."""
    times, range, epoch = plain(random, (20, 60))
    slow = random.uniform(size=len(times)) < random.uniform(0.3, 0.6)
    late = np.where(slow, random.gamma(4.0, 0.2 * range, len(times)), 0.0)
    return drawn(random, times, late, range=range, epoch=epoch)


@family("steady")
def equal_groups(random: Random) -> ArenaStream:
    """Few groups of equal size; one or two of them are slow."""
    times, range, epoch = plain(random)
    groups = 12
    key = keys(random, len(times), groups, 0.0)
    scale = np.full(groups, 0.03 * range)
    scale[: random.integers(1, 3)] = log_uniform(random, 0.3, 2) * range
    late = random.exponential(1.0, len(times)) * scale[key]
    return drawn(random, times, late, range=range, epoch=epoch, key=key)


@family("steady")
def zipf_groups(random: Random) -> ArenaStream:
    """Many groups of very unequal size; small groups are slower, or large ones are."""
    times, range, epoch = plain(random)
    groups = 300
    key = keys(random, len(times), groups, 1.2)
    rank = np.arange(1, groups + 1) / groups
    slow = rank if random.integers(2) else 1 - rank
    late = random.exponential(1.0, len(times)) * (0.02 + 0.6 * slow[key]) * range
    return drawn(random, times, late, range=range, epoch=epoch, key=key)


@family("steady")
def one_outlier(random: Random) -> ArenaStream:
    """Every row takes an exponential time; the clock of one row is 936 days behind.

    The window of this row is the first one, so it belongs to the warm-up.
    """
    times, range, epoch = plain(random)
    late = random.exponential(log_uniform(random, 0.05, 2) * range, len(times))
    wrong = np.zeros(len(times))
    wrong[int(random.uniform(0.2, 0.8) * len(times))] = 936 * 86_400.0
    return drawn(random, times - wrong, late + wrong, range=range, epoch=epoch)
