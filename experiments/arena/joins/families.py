"""Families of pairs of streams to join; each draws its parameters from a seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from experiments.arena.families.family import Random, log_uniform
from lowwater.ticks import TICKS_PER_SECOND as SECOND

Ticks = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Change = Literal["steady", "changing"]
Drawn = tuple["JoinStream", "JoinStream"]
SPAN = 1_200.0
"""The length of the streams in seconds."""
KEYS = 8
"""The number of keys that rows of both streams have."""
OUTAGE = 4.0
"""How long a source drops out, in seconds."""
EPOCH = SECOND
"""The time of arrival between two epochs, in ticks."""


@dataclass(frozen=True, eq=False)
class JoinStream:
    """One of two streams: event times, arrivals and keys of its rows, in order of arrival."""

    ts: Ticks
    arrived: Ticks
    key: Ticks

    @classmethod
    def of(cls, at: Floats, delay: Floats, key: Ticks) -> JoinStream:
        """Return the stream of rows at `at`, which arrive `delay` later, both in seconds."""
        arrived = at + np.maximum(delay, 0.0)
        order = np.argsort(arrived, kind="stable")
        ts, came = (np.asarray(column[order] * SECOND, np.int64) for column in (at, arrived))
        return cls(ts, came, key[order])


@dataclass(frozen=True)
class JoinFamily:
    """A family of pairs of streams, with the time of arrival between two epochs, in ticks."""

    name: str
    change: Change
    draw: Callable[[Random], Drawn]
    epoch: int = EPOCH

    def streams(self, seed: int) -> Drawn:
        """Return the streams of `seed`."""
        return self.draw(np.random.default_rng([seed, zlib.crc32(self.name.encode())]))


FAMILIES: dict[str, JoinFamily] = {}
"""All families by name."""


def family(change: Change, epoch: int = EPOCH) -> Callable[[Callable[[Random], Drawn]], JoinFamily]:
    """Register the decorated function as a family."""

    def register(draw: Callable[[Random], Drawn]) -> JoinFamily:
        found = JoinFamily(draw.__name__.replace("_", "-"), change, draw, epoch)
        FAMILIES[found.name] = found
        return found

    return register


def rows(random: Random, rate: float | None = None, span: float = SPAN) -> tuple[Floats, Ticks]:
    """Return times and keys of rows."""
    n = random.poisson(span * (rate or log_uniform(random, 5, 20)))
    return np.sort(random.uniform(0, span, n)), random.integers(0, KEYS, n)


def drawn(
    random: Random, mean: float, *, rate: float | None = None, span: float = SPAN
) -> JoinStream:
    """Return a stream with exponential delays of `mean` seconds."""
    at, key = rows(random, rate, span)
    return JoinStream.of(at, random.exponential(1.0, len(at)) * mean, key)


@family("steady")
def one_late(random: Random) -> Drawn:
    """One stream is in order, the other one late."""
    return drawn(random, 0.0), drawn(random, log_uniform(random, 1, 8))


@family("steady")
def both_late(random: Random) -> Drawn:
    """Both streams are late, in different ways."""
    return drawn(random, log_uniform(random, 0.5, 4)), drawn(random, log_uniform(random, 2, 8))


@family("steady")
def matches_late(random: Random) -> Drawn:
    """The rows that match are the late ones."""
    mine, (at, key) = drawn(random, 0.2), rows(random)
    key = np.where(random.random(len(at)) < 0.5, key, KEYS + key)  # noqa: PLR2004
    delay = np.where(key < KEYS, random.exponential(log_uniform(random, 2, 6), len(at)), 0.0)
    return mine, JoinStream.of(at, delay, key)


@family("steady")
def tails(random: Random) -> Drawn:
    """Delays have a heavy tail."""
    mine, (at, key) = drawn(random, 0.5), rows(random)
    return mine, JoinStream.of(at, 0.3 * random.pareto(random.uniform(1.2, 2), len(at)), key)


@family("steady")
def low_rates(random: Random) -> Drawn:
    """Each key has a row every few seconds."""
    rate = KEYS * log_uniform(random, 0.2, 0.6)
    return drawn(random, 2.0, rate=rate), drawn(random, log_uniform(random, 2, 8), rate=rate)


@family("steady", epoch=3 * EPOCH)
def sparse(random: Random) -> Drawn:
    """A row every few seconds, and a pair every minute or so, for hours."""
    rate, span = log_uniform(random, 0.2, 0.6), 18 * SPAN
    mine = drawn(random, 2.0, rate=rate, span=span)
    return mine, drawn(random, log_uniform(random, 2, 8), rate=rate, span=span)


@family("changing")
def outages(random: Random) -> Drawn:
    """Sources drop out for 4 s, again and again, and then deliver at once."""
    mine, (at, key) = drawn(random, 0.0), rows(random)
    period, source = random.uniform(20, 60), random.integers(0, 4, len(at))
    into = (at + source * period / 4) % period
    return mine, JoinStream.of(at, np.maximum(OUTAGE - into, 0.0), key)


@family("changing")
def uploads(random: Random) -> Drawn:
    """Some devices upload their rows in batches."""
    mine, (at, key) = drawn(random, 0.1), rows(random)
    period = random.uniform(15, 60)
    batched = random.random(len(at)) < random.uniform(0.05, 0.2)
    return mine, JoinStream.of(at, np.where(batched, period - at % period, 0.0), key)


@family("changing")
def drift(random: Random) -> Drawn:
    """One stream falls behind the other, and its delays grow."""
    mine, (at, key) = drawn(random, 0.5), rows(random)
    behind = log_uniform(random, 2, 10) * at / SPAN
    late = random.exponential(1.0, len(at)) * (0.2 + log_uniform(random, 2, 6) * at / SPAN)
    return mine, JoinStream.of(at, behind + late, key)


@family("changing")
def regimes(random: Random) -> Drawn:
    """Delays of one stream are short or long for minutes."""
    mine, (at, key) = drawn(random, 0.5), rows(random)
    long = (at // random.uniform(100, 250)).astype(np.int64) % 2 == 1
    return mine, JoinStream.of(at, random.exponential(np.where(long, 6.0, 0.3)), key)
