"""The memory of the slack rule: needed slacks, the price, and the record of each candidate."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
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

    def faded(self, passed: float, scored: float) -> TournamentMemory:
        """Return the memory `passed` windows later; waits fade over `scored` windows."""
        by_memory, by_score = np.exp(-passed / MEMORIES), float(np.exp(-passed / scored))
        return replace(
            self,
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
        more, rows = (np.array(column) for column in zip(*needed, strict=True))
        bins = np.union1d(self.bins, more)
        counts = np.zeros((len(MEMORIES), len(bins)))
        counts[:, np.searchsorted(bins, self.bins)] = self.counts
        counts[:, np.searchsorted(bins, more)] += rows
        kept = counts.max(axis=0) >= FORGOTTEN
        kept[0] = True
        return replace(self, bins=bins[kept], counts=counts[:, kept])

    def decided(self, newest: int, slacks: Whole, **chosen: Any) -> TournamentMemory:
        """Return the memory with the virtual watermarks after an epoch, and what was chosen."""
        latest = np.maximum(self.virtual[1], newest - slacks)
        virtual = np.stack([self.virtual[1], latest])
        return replace(self, newest=newest, virtual=virtual, **chosen)

    def rounded(self) -> TournamentMemory:
        """Return the memory with short numbers, as the log holds them."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        short: dict[str, Any] = {n: _rounded(v) for n, v in values.items() if _is_float(v)}
        return replace(self, **short, counts=np.round(self.counts, 3))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TournamentMemory):
            return NotImplemented
        pairs = [(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        return all(np.array_equal(a, b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]  # fields are arrays


def _is_float(value: object) -> bool:
    vector = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == np.float64
    return isinstance(value, float) or vector


def _rounded(value: Floats | float) -> Floats | float:
    """Return numbers of `DIGITS` digits.

    >>> _rounded(1234.56789), _rounded(np.array([0.0, -0.0001234567891])).tolist()
    (1234.568, [0.0, -0.0001234568])
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return np.array([float(f"{one:.{DIGITS}g}") for one in value.tolist()])
