"""The memory of the slack rule: what each candidate remembers, owes and would have waited."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lowwater.control.measures import BinCounts

MEMORIES = np.array([5.0, 20.0, 100.0, 500.0])
"""The lengths of the memories, in windows."""
MEMORY = np.tile(np.arange(len(MEMORIES)), 2)
"""The memory of each candidate."""
BY_PRICE = np.repeat([False, True], len(MEMORIES))
"""Which candidates go by prices; the others go by quantiles."""
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

    - `newest`: The newest time; None before the first epoch.
    - `windows`: The number of windows that the newest time has passed.
    - `bins`, `counts`: The bins of needed slacks that are not empty, first of them bin 0; and
      by length of memory the rows in each of them.
    - `span`: The windows that each memory holds.
    - `virtual`: The virtual watermarks after the last three epochs, oldest first.
    - `slack`, `offset`, `price`: The slacks, the logarithms of the budgets, and the prices.
    - `given`, `lost`: The rows of the horizon, and those that missed their window.
    - `lost_by`: The rows of the horizon that each candidate would have lost.
    - `wait`, `waited`: The sum of the waits of candidates, and the windows summed over.
    - `obeyed`: The candidate that is obeyed.
    """

    VERSION: ClassVar[int] = 1

    newest: int | None
    windows: float
    bins: Whole
    counts: Floats
    span: Floats
    virtual: Whole
    slack: Floats
    offset: Floats
    price: Floats
    given: float
    lost: float
    lost_by: Floats
    wait: Floats
    waited: float
    obeyed: int

    @classmethod
    def of(cls, slack: float, price: float) -> TournamentMemory:
        """Return the memory before the first epoch, in which all choose `slack` and `price`."""
        one, none = np.ones(len(MEMORY)), np.zeros(len(MEMORY))
        return cls(
            newest=None,
            windows=0.0,
            bins=np.zeros(1, np.int64),
            counts=np.zeros((len(MEMORIES), 1)),
            span=np.zeros(len(MEMORIES)),
            virtual=np.full((3, len(MEMORY)), UNKNOWN, np.int64),
            slack=slack * one,
            offset=none,
            price=price * one,
            given=0.0,
            lost=0.0,
            lost_by=none,
            wait=none,
            waited=0.0,
            obeyed=len(MEMORIES) - 1,
        )

    @cached_property
    def beyond(self) -> Floats:
        """By memory, the share of rows that need more slack than each of `bins`."""
        total = np.maximum(self.counts.sum(axis=1, keepdims=True), 1e-9)
        short = np.maximum(total - np.cumsum(self.counts, axis=1), 0.0)
        return np.asarray(short / total)

    @cached_property
    def rate(self) -> Floats:
        """The rows in a window, as each candidate remembers them."""
        rates = self.counts.sum(axis=1) / np.maximum(self.span, 1e-9)
        return np.asarray(np.maximum(rates, 1e-9)[MEMORY])

    def faded(self, passed: float, *, horizon: float, scored: float) -> TournamentMemory:
        """Return the memory `passed` windows later."""
        by_memory = np.exp(-passed / MEMORIES)
        by_horizon, by_score = np.exp(-passed / horizon), np.exp(-passed / scored)
        return replace(
            self,
            counts=self.counts * by_memory[:, None],
            span=self.span * by_memory + passed,
            given=self.given * by_horizon,
            lost=self.lost * by_horizon,
            lost_by=self.lost_by * by_horizon,
            wait=self.wait * by_score,
            waited=self.waited * by_score,
        )

    def plus(self, needed: BinCounts) -> TournamentMemory:
        """Return the memory plus the rows of a histogram, in all memories."""
        if not needed:
            return self
        more, rows = (np.array(column) for column in zip(*needed, strict=True))
        bins = np.union1d(self.bins, more)
        counts = np.zeros((len(MEMORIES), len(bins)))
        counts[:, np.searchsorted(bins, self.bins)] = self.counts
        counts[:, np.searchsorted(bins, more)] += rows
        kept = counts.max(axis=0) >= FORGOTTEN
        kept[0] = True
        return replace(self, bins=bins[kept], counts=counts[:, kept])

    def advanced(self, newest: int) -> TournamentMemory:
        """Return the memory with the virtual watermarks after an epoch."""
        marks = np.maximum(self.virtual[2], newest - self.slack.astype(np.int64))
        return replace(self, virtual=np.vstack([self.virtual[1:], marks]))

    def rounded(self) -> TournamentMemory:
        """Return the memory with numbers of `DIGITS` digits, as the log holds them."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        short: dict[str, Any] = {n: _rounded(v) for n, v in values.items() if _is_float(v)}
        return replace(self, **short)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TournamentMemory):
            return NotImplemented
        pairs = [(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        return all(np.array_equal(a, b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]  # fields are arrays


def _is_float(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype == np.float64)


def _rounded(value: Floats | float) -> Floats | float:
    """Return numbers of `DIGITS` digits.

    >>> _rounded(1234.56789), _rounded(np.array([0.0, -0.0001234567891])).tolist()
    (1234.568, [0.0, -0.0001234568])
    """
    size = np.abs(value)
    power = DIGITS - 1 - np.floor(np.log10(np.where(size > 0, size, 1.0)))
    scale = np.power(10.0, np.abs(power))
    short = np.where(power >= 0, np.round(value * scale) / scale, np.round(value / scale) * scale)
    return short if isinstance(value, np.ndarray) else float(short)
