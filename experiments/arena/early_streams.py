"""Streams on which early answers are hard to time: silences, stalls, uploads, pauses of the host.

Each draws its parameters from a seed, as the families of the arena do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from experiments.arena.families import FAMILIES, TUNING_SEEDS
from experiments.arena.families.family import BEGIN, Random, drawn, log_uniform, poisson
from experiments.arena.stream import ArenaStream, Floats
from lowwater.ticks import TICKS_PER_SECOND as SECOND

SECONDS = 1_200.0
BORROWED = ("low-rate", "silences", "batches", "outages", "clock-steps")
"""The families of the arena that are also judged here."""


@dataclass(frozen=True, eq=False)
class AskStream:
    """A stream, and the spans of system time in which the host does not run."""

    stream: ArenaStream
    pauses: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Shape:
    """The arrival of rows at event times, and the pauses of the host, in seconds."""

    times: Floats
    delay: Floats
    pauses: tuple[tuple[float, float], ...] = ()


def _times(random: Random) -> Floats:
    return poisson(random, log_uniform(random, 5, 40), round(SECONDS))


def silence(random: Random) -> Shape:
    """No rows exist now and then."""
    times, on, off = _times(random), random.uniform(30, 70), random.uniform(15, 40)
    times = times[np.mod(times, on + off) < on]
    return Shape(times, random.exponential(0.2, len(times)))


def stall(random: Random) -> Shape:
    """Rows do not arrive for a time, and then arrive together."""
    times, on, off = _times(random), random.uniform(40, 90), random.uniform(10, 50)
    phase = np.mod(times, on + off)
    return Shape(times, np.maximum(on + off - phase, 0) * (phase >= on))


def uploads(random: Random) -> Shape:
    """All rows arrive in uploads."""
    times, every = _times(random), log_uniform(random, 6, 25)
    return Shape(times, every - np.mod(times, every))


def pause(random: Random) -> Shape:
    """The host does not run for a time: an epoch is long, or the query is restarted."""
    times, starts = _times(random), np.arange(100.0, SECONDS, random.uniform(120, 250))
    ends = starts + log_uniform(random, 20, 90)
    pauses = tuple(zip(starts.tolist(), ends.tolist(), strict=True))
    return Shape(times, random.exponential(0.2, len(times)), pauses)


def bursts(random: Random) -> Shape:
    """The rate changes by a factor of ten or more."""
    length, low = random.uniform(20, 80), log_uniform(random, 0.5, 4)
    factor = log_uniform(random, 10, 40)
    rate = np.where(np.mod(np.arange(round(SECONDS)), 2 * length) < length, low, low * factor)
    times = poisson(random, rate, round(SECONDS))
    return Shape(times, random.exponential(0.5, len(times)))


def disorder(random: Random) -> Shape:
    """Few rows, late by up to some windows, with silences."""
    times, off = poisson(random, log_uniform(random, 0.3, 2), round(SECONDS)), 40.0
    times = times[np.mod(times, 150.0) >= off]
    return Shape(times, random.exponential(log_uniform(random, 1, 15), len(times)))


SHAPES: dict[str, Callable[[Random], Shape]] = {
    draw.__name__: draw for draw in (silence, stall, uploads, pause, bursts, disorder)
}


def ask_stream(name: str, seed: int, slides: int) -> AskStream:
    """Return the stream of `seed`, with tumbling windows or with `slides` slides in a window."""
    if name in FAMILIES:
        return AskStream(FAMILIES[name].stream(seed))
    random = np.random.default_rng([seed, slides, *name.encode()])
    shape, slide = SHAPES[name](random), log_uniform(random, 6, 15)
    epoch = slide * random.uniform(0.05, 0.25)
    made = drawn(random, shape.times, shape.delay, range=slide * slides, epoch=epoch, slides=slides)
    split = "tuning" if seed in TUNING_SEEDS else "held out"
    kind = "tumbling" if slides == 1 else "sliding"
    named = replace(made, name=f"{name}, {kind}", split=split, change="changing")  # type: ignore[arg-type]
    pauses = tuple(_system(one) for one in shape.pauses)
    return AskStream(named, pauses)


def _system(span: tuple[float, float]) -> tuple[int, int]:
    """Return a span of seconds of the stream in ticks of the system clock."""
    start, end = (round((BEGIN + at) * SECOND) for at in span)
    return start, end
