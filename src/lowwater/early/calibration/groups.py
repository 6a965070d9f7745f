"""What is known of the groups of an operator before a window: their sizes and their lateness.

Groups share `SLOTS` slots by a hash, so the memory does not grow with them. A slot holds the mean
number of rows of its windows, how its missing rows compare with the missing rows that the
completeness lets expect, and the usual size of each aggregate. Slots with little or no past borrow
from all slots together. From size and lateness follows the *class* of a group: groups of a class
share what is learned about their errors. A group without a past is a *stranger*; strangers have
classes of their own.

With a completeness c and n arrived rows, n·κ·(1 − c)/c rows are missing, where κ is the learned
lateness of the slot. If the windows of a group are of about the same size S, S tells more than n;
both are combined as in a Gamma-Poisson model with a spread `SPREAD` of the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from lowwater.control.completeness import Floats, Ticks
from lowwater.learners.whole_numbers import Counts, WholeNumbers, counts_of

SLOTS = 256
SIZES = (3.0, 12.0, 48.0, 200.0, 1_000.0, 5_000.0)
"""The borders between sizes of groups, in rows per window."""
LATENESS = (0.5, 2.0)
"""The borders between latenesses of groups, as multiples of the usual lateness."""
KNOWN = 3
"""The number of past windows from which on a group is not a stranger."""
FAMILIAR = (len(SIZES) + 1) * (len(LATENESS) + 1)
CLASSES = FAMILIAR + len(SIZES) + 1
"""The number of classes: by size and lateness, and by size alone for strangers."""
SPREAD = 0.1
"""The variance of a group's rate, divided by the square of its mean."""
LEAN = 8.0
"""The number of rows by which the lateness of a slot leans towards that of all slots."""
MOST_MISSING = 2.0
"""The most rows that a group with a past may miss, by its usual or by its arrived rows.

A completeness that is far too small, such as that of a source whose clock drifts, would otherwise
let a group expect a hundred times its rows.
"""
_LATE = (0.02, 50.0)
_MOST = 48
_FINE = 64
"""Everything is counted in 64ths, so that halving does not round means away."""


@dataclass(frozen=True)
class GroupMemory:
    """The memory of the slots.

    `slots` has rows for windows, rows, missing and expected missing rows; `levels` has for each
    aggregate a row of counts and a row of sums of the logarithms of its finals.
    """

    VERSION: ClassVar[int] = 1

    slots: WholeNumbers | None = None
    levels: Mapping[str, WholeNumbers] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class GroupView:
    """What is known of the group of each early result.

    `size` is its usual number of rows, `missing` the expected number of missing rows by its own
    rows, `missing_usual` by its own rows and its usual size, `kind` its class, `known` whether it
    has a past, and `level` the usual size of the aggregate.
    """

    size: Floats
    missing: Floats
    missing_usual: Floats
    kind: Ticks
    known: np.ndarray

    def take(self, chosen: np.ndarray) -> GroupView:
        """Return the view of the results `chosen`."""
        parts = (self.size, self.missing, self.missing_usual, self.kind, self.known)
        return GroupView(*(part[chosen] for part in parts))

    def with_strangers(self, rows: Floats) -> GroupView:
        """Return the view, followed by that of the same results if their groups had no past."""
        whole, missing = rows + self.missing, self.missing
        kind = FAMILIAR + np.searchsorted(SIZES, whole)
        strange = (whole, missing, missing, kind, np.zeros(len(rows), bool))
        mine = (self.size, missing, self.missing_usual, self.kind, self.known)
        return GroupView(*(np.concatenate(pair) for pair in zip(mine, strange, strict=True)))


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots, unpacked."""

    counts: Counts
    levels: dict[str, Counts]

    @classmethod
    def of(cls, memory: GroupMemory) -> Slots:
        """Return the slots of `memory`."""
        levels = {name: numbers.counts for name, numbers in memory.levels.items()}
        return cls(counts_of(memory.slots, (4, SLOTS)), levels)

    def view(self, slot: Ticks, rows: Floats, share: Floats) -> GroupView:
        """Return what is known of results of `slot`, of which `rows` have arrived; -1: none."""
        odds = _odds(share)
        _, _, missing, expected = (sums.astype(np.float64) for sums in self.counts)
        lean = LEAN * _FINE
        usual = np.clip((missing.sum() + lean) / (expected.sum() + lean), *_LATE)
        late = ((missing + lean * usual) / (expected + lean))[slot]
        sure = (slot >= 0) & (self.counts[0][slot] >= KNOWN * _FINE)
        late = np.clip(np.where(sure, late, usual), *_LATE)
        behind = late * odds
        alone = rows * behind
        whole = rows + alone
        size = np.where(sure, self.counts[1][slot] / np.maximum(self.counts[0][slot], 1), whole)
        size = np.maximum(size, 0.5)
        arrived = 1 / (1 + behind)
        weight = 1 / (SPREAD * size)
        both = (1 - arrived) * (weight * size + rows) / (weight + arrived)
        most = MOST_MISSING * np.maximum(size, rows)
        alone = np.where(sure, np.minimum(alone, most), alone)
        both = np.minimum(both, most)
        by_size = np.searchsorted(SIZES, size)
        by_late = np.searchsorted(LATENESS, late / usual)
        kind = np.where(sure, by_size * (len(LATENESS) + 1) + by_late, FAMILIAR + by_size)
        return GroupView(size, alone, np.where(sure, both, alone), kind, sure)

    def level(self, name: str, slot: Ticks, view: GroupView, instead: Floats) -> Floats:
        """Return the usual absolute value of an aggregate; `instead` for strangers."""
        sizes = self.levels.get(name)
        if sizes is None:
            return instead
        count, total = sizes[0][slot], sizes[1][slot]
        usual = np.exp2(total / np.maximum(count, 1))
        return np.where(view.known & (count > 0), usual, instead)

    def common(self, name: str, instead: Floats) -> Floats:
        """Return the usual absolute value of an aggregate in all groups; `instead` before any."""
        sizes = self.levels.get(name)
        if sizes is None or not sizes[0].any():
            return instead
        return np.full(len(instead), np.exp2(sizes[1].sum() / sizes[0].sum()))

    def taught(
        self, slot: Ticks, rows: Floats, share: Floats, whole: Floats, finals: dict[str, Floats]
    ) -> GroupMemory:
        """Return the memory after results whose finals have `whole` rows."""
        mine = slot >= 0
        slot = slot[mine]
        sums = (
            np.ones(len(slot)),
            whole[mine],
            np.maximum(whole - rows, 0)[mine],
            (rows * _odds(share))[mine],
        )
        counts = _halved(self.counts + np.stack([_summed(slot, part) for part in sums]))
        levels = {n: self._level(n, slot, final[mine]) for n, final in finals.items()}
        return GroupMemory(WholeNumbers(counts), levels)

    def _level(self, name: str, slot: Ticks, final: Floats) -> WholeNumbers:
        before = self.levels.get(name, np.zeros((2, SLOTS), np.int64))
        sound = np.isfinite(final) & (final != 0)
        logs = np.log2(np.abs(final[sound]))
        news = [_summed(slot[sound], part) for part in (np.ones(len(logs)), logs)]
        return WholeNumbers(_halved(before + np.stack(news)))


def _halved(counts: Counts) -> Counts:
    """Return the sums; those of slots with many windows are halved."""
    return np.where(counts[0] > _MOST * _FINE, counts >> 1, counts)


def _odds(share: Floats) -> Floats:
    """Return the expected number of missing rows per arrived row."""
    return (1 - share) / np.maximum(share, 1e-3)


def _summed(slot: Ticks, values: Floats) -> Counts:
    """Return the sum of `values` in each slot, as a whole number of parts."""
    parts = np.round(values * _FINE)
    return np.bincount(slot, parts, SLOTS).astype(np.int64)
