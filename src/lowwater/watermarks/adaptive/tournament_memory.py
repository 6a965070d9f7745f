"""The memory of the slack rule: needed slacks, the price, and the record of each candidate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lowwater.control.measures import BinCounts
from lowwater.learners.late_batches import LateBatches
from lowwater.learners.shortfall import Shortfall

MEMORIES = np.array([2.0, 10.0, 50.0, 500.0])
"""The lengths of the memories of needed slacks, in windows."""
USUAL = 2
"""The memory by which batches and shortfalls are judged."""
BATCHES, SHORTFALL = len(MEMORIES), len(MEMORIES) + 1
"""The candidates after those that go by one memory each."""
CANDIDATES = len(MEMORIES) + 2
UNKNOWN = -(1 << 62)
"""The virtual watermark before the first epoch."""
FORGOTTEN = 1e-3
"""A bin with fewer rows than this in all memories is forgotten."""
DIGITS = 7
"""The number of digits with which the log holds a number."""

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TournamentMemory:
    """What the slack rule remembers; arrays have a place for each candidate.

    - `price`: The wait in ticks that the share 1 of a usual window's rows is worth.
    - `newest`: The newest time; None before the first epoch.
    - `windows`: The number of windows that the newest time has passed.
    - `bins`, `counts`: The bins of needed slacks that are not empty, first of them bin 0; and
      by length of memory the rows in each of them.
    - `span`: The windows that each memory holds.
    - `virtual`: The virtual watermarks after the last two epochs, older one first.
    - `slack`: The chosen slack.
    - `lost`: The rows of the longest memory that missed their window.
    - `rows`, `lost_by`: The rows since the last windows, and those that each candidate would have
      lost.
    - `waited`, `wait`: The last windows, and the sum of the waits of each candidate over them.
    - `obeyed`: The candidate that is obeyed.
    - `batches`, `shortfall`: What is known of recurring batches, and of missing rows.
    """

    VERSION: ClassVar[int] = 2

    price: float
    slack: int
    newest: int | None = None
    windows: float = 0.0
    bins: Whole = field(default_factory=lambda: np.zeros(1, np.int64))
    counts: Floats = field(default_factory=lambda: np.zeros((len(MEMORIES), 1)))
    span: Floats = field(default_factory=lambda: np.zeros(len(MEMORIES)))
    virtual: Whole = field(default_factory=lambda: np.full((2, CANDIDATES), UNKNOWN, np.int64))
    lost: float = 0.0
    rows: float = 0.0
    lost_by: Floats = field(default_factory=lambda: np.zeros(CANDIDATES))
    waited: float = 0.0
    wait: Floats = field(default_factory=lambda: np.zeros(CANDIDATES))
    obeyed: int = len(MEMORIES) - 1
    batches: LateBatches = field(default_factory=LateBatches)
    shortfall: Shortfall = field(default_factory=Shortfall)

    @cached_property
    def given(self) -> float:
        """The rows of the longest memory."""
        return float(self.counts[-1].sum())

    @cached_property
    def beyond(self) -> Floats:
        """By memory, the share of rows that need more slack than each of `bins`."""
        upto = np.cumsum(self.counts, axis=1)
        total = np.maximum(upto[:, -1:], 1e-9)
        return np.asarray(np.maximum(total - upto, 0.0) / total)

    @property
    def kept(self) -> float:
        """The share of the rows of the horizon that were in time; 1 before the first row."""
        return 1.0 - self.lost / self.given if self.given > 0 else 1.0

    @cached_property
    def rate(self) -> Floats:
        """The rows in a window, by memory."""
        return np.asarray(self.counts.sum(axis=1) / np.maximum(self.span, 1e-9))

    def having(self, **changes: Any) -> TournamentMemory:
        """Return the memory with new values of some fields.

        The rule calls this several times in a step, and `dataclasses.replace` takes as long as the
        arithmetic.
        """
        known = vars(self)
        after = object.__new__(TournamentMemory)
        vars(after).update({name: known[name] for name in NAMES}, **changes)
        return after

    def faded(self, passed: float, scored: float) -> TournamentMemory:
        """Return the memory `passed` windows later; waits fade over `scored` windows."""
        by_memory, by_score = np.exp(-passed / MEMORIES), math.exp(-passed / scored)
        return self.having(
            counts=self.counts * by_memory[:, None],
            span=self.span * by_memory + passed,
            lost=self.lost * float(by_memory[-1]),
            rows=self.rows * by_score,
            lost_by=self.lost_by * by_score,
            waited=self.waited * by_score + passed,
            wait=self.wait * by_score,
        )

    def plus(self, needed: BinCounts) -> TournamentMemory:
        """Return the memory plus the rows of a histogram, in all memories."""
        if not needed:
            return self
        if len(self.bins) == 1 and needed[-1][0] == 0:  # a stream in order
            return self.having(counts=self.counts + needed[0][1])
        more, rows = np.array(needed, np.int64).T
        place = np.minimum(np.searchsorted(self.bins, more), len(self.bins) - 1)
        if (self.bins[place] == more).all():
            bins, counts = self.bins, self.counts.copy()
            counts[:, place] += rows
        else:
            bins = np.union1d(self.bins, more)
            counts = np.zeros((len(MEMORIES), len(bins)))
            counts[:, np.searchsorted(bins, self.bins)] = self.counts
            counts[:, np.searchsorted(bins, more)] += rows
        kept = counts.max(axis=0) >= FORGOTTEN
        kept[0] = True
        if kept.all():
            return self.having(bins=bins, counts=counts)
        return self.having(bins=bins[kept], counts=counts[:, kept])

    def decided(self, newest: int, slacks: Whole, **chosen: Any) -> TournamentMemory:
        """Return the memory with the virtual watermarks after an epoch, and what was chosen."""
        latest = np.maximum(self.virtual[1], newest - slacks)
        virtual = np.stack([self.virtual[1], latest])
        return self.having(newest=newest, virtual=virtual, **chosen)

    def rounded(self) -> TournamentMemory:
        """Return the memory with short numbers, as the log holds them."""
        known = vars(self)
        short = {name: _rounded(known[name]) for name in NUMBERS}
        return self.having(**short, counts=np.round(self.counts, 3))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TournamentMemory):
            return NotImplemented
        pairs = [(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        return all(np.array_equal(a, b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]  # fields are arrays


NAMES = tuple(one.name for one in fields(TournamentMemory))
NUMBERS = ("price", "windows", "span", "lost", "rows", "lost_by", "waited", "wait")
"""The fields with numbers that the log holds with `DIGITS` digits."""


def _rounded(value: Floats | float) -> Floats | float:
    """Return numbers of `DIGITS` digits.

    >>> _rounded(1234.56789), _rounded(np.array([0.0, -0.0001234567891])).tolist()
    (1234.568, [0.0, -0.0001234568])
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return np.array([float(f"{one:.{DIGITS}g}") for one in value.tolist()])
