"""Sampling rows instead of dropping windows (`kind="sampled"`).

The rate is a power of two, fixed for a slot of row times before the slot begins. Panes lie inside
slots, so all rows of a pane have one rate, and a sum over its rows, by the inverse of the rate, is
unbiased (Horvitz and Thompson). A share between two powers of two is met by slots of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, log2

import numpy as np

from lowwater.control.drop import DropPlan, SampledRows
from lowwater.shedding.drop_geometry import Slots
from lowwater.shedding.fair import Weighted

POWERS = 6
"""At least one row in 2^`POWERS` is read."""
LEAST = 2.0**-POWERS
"""The smallest share of rows that is read."""
GOLDEN = (5**0.5 - 1) / 2
"""The step of a sequence that spreads evenly over [0, 1)."""
_EPOCHS, _SEEDS = 40, (1 << 20) - 1
_BITS = np.uint64(64 - POWERS)


def power(keep: float, slot: int, seed: int) -> int:
    """Return the power of a slot, so that the slots together read the share `keep` of the rows.

    >>> [power(0.75, slot, 0) for slot in range(4)]
    [0, 1, 0, 1]
    """
    least = min(POWERS, max(0, ceil(-log2(max(keep, LEAST)))))
    lower = 2.0**-least
    more = keep > lower and (slot * GOLDEN + seed * GOLDEN**2) % 1 < (keep - lower) / lower
    return least - 1 if more else least


def sampled_ahead(
    slots: Slots, first: int, until: int, share: float, seed: int
) -> Iterator[SampledRows]:
    """Yield the times to sample in the slots [first, until), if `share` of the rows is skipped."""
    for slot in range(first, until):
        chosen = power(1 - share, slot, seed)
        if chosen:
            yield SampledRows(slots.start(slot), slots.start(slot + 1), chosen)


def joined(samples: Iterable[SampledRows]) -> tuple[SampledRows, ...]:
    """Return `samples` in order; neighbours of one power are merged."""
    merged: list[SampledRows] = []
    for one in sorted(samples, key=lambda one: one.start):
        if merged and merged[-1].end == one.start and merged[-1].power == one.power:
            merged[-1] = SampledRows(merged[-1].start, one.end, one.power)
        else:
            merged.append(one)
    return tuple(merged)


def begun_samples(samples: Sequence[SampledRows], needed: int, start: int) -> Iterator[SampledRows]:
    """Yield the parts of `samples` before `start` that end after `needed`."""
    for one in samples:
        if one.end > needed and one.start < start:
            yield SampledRows(one.start, min(one.end, start), one.power)


def skipped_rows(plan: DropPlan, ticks: np.ndarray, seq: int) -> np.ndarray:
    """Return a mask of the rows of a batch that are not read.

    `seq` is the place of the batch in the epoch. A row is chosen by a hash of its place.
    """
    if not len(ticks):
        return np.zeros(0, bool)
    powers = powers_of([(s.start, s.end, s.power) for s in plan.samples], ticks)
    if not powers.any():
        return np.zeros(len(ticks), bool)
    rows = np.arange(len(ticks), dtype=np.uint64)
    hashed = _mixed(rows ^ _mixed(np.array([seq], np.int64).view(np.uint64) ^ _salt(plan.salt)))
    return np.asarray((hashed >> _BITS) >= (np.uint64(1 << POWERS) >> powers))


def next_salt(before: int, seed: int) -> int:
    """Return the salt of the next epoch: the seed, and a number that differs in each epoch.

    >>> next_salt(next_salt(0, 3), 3) - (3 << 40)
    2
    """
    return (seed & _SEEDS) << _EPOCHS | (before + 1) & ((1 << _EPOCHS) - 1)


def powers_of(samples: Sequence[tuple[int, int, int]], at: np.ndarray) -> np.ndarray:
    """Return the power in force at each place, given (start, end, power) in order.

    >>> powers_of([(0, 5, 1), (8, 9, 3)], np.array([-1, 0, 5, 8])).tolist()
    [0, 1, 0, 3]
    """
    starts, ends, powers = np.array([(-1, -1, 0), *samples], np.int64).T
    place = np.maximum(np.searchsorted(starts[1:], at, "right"), 0)
    return np.where(at < ends[place], powers[place], 0).astype(np.uint64)


def weighted(samples: Sequence[SampledRows]) -> Weighted:
    """Return the intervals of `samples`, each with the share of its rows that is skipped."""
    return tuple((1 - 2.0**-one.power, ((one.start, one.end),)) for one in samples)


def _salt(salt: int) -> np.ndarray:
    return _mixed(np.array([salt], np.int64).view(np.uint64))


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Return a hash of each number (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
