"""A model of arrivals: for each event time, the share of its rows that has arrived.

A row of event time t arrives when the newest time is t + its late degree. So the share of the rows
of t that has arrived is P(late degree ≤ now − t). The final number of rows in a bin of event time
follows a Gamma–Poisson model: past bins determine the mean and the variance of the rate, and the
arrived rows of a bin show how far the bin is from the mean. If row counts vary little more
than Poisson counts, the model relies on the mean rate; otherwise it relies on the bin's own rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from lowwater.control.completeness import Completeness, Floats, Ticks
from lowwater.control.measures import ArrivalCounts

MOST_BINS = 128
"""The largest number of bins of event time; longer spans have wider bins."""
SETTLED = 0.95
"""A bin updates the rates when this share of its rows has arrived."""
HALF_LIVES = (8.0, 64.0, 512.0)
"""The half-lives of the competing rates, in bins; the rate with the smallest error is used."""
_JUDGED = 0.5 ** (1 / 256)
_SHIFT = 50  # keeps two mantissa bits of a double: four bins per power of two
_ONE = (1023 << 2) - 1  # so that a degree of 1 is in bin 1, and 0 alone in bin 0


def count_arrivals(ticks: Ticks, degrees: Ticks, width: int) -> ArrivalCounts:
    """Return a block's row counts per bin of event time, and its row counts per bin of late degree.

    Bins of event time have `width` ticks; only the newest `MOST_BINS` of them are counted.
    """
    if not len(ticks):
        return ArrivalCounts()
    newest = int(np.max(ticks))
    bins = np.asarray(ticks) // width
    first = max(int(bins.min()), newest // width - MOST_BINS + 1)
    bins -= first - 1
    np.maximum(bins, 0, out=bins)
    counts = np.bincount(bins)[1:]
    codes = np.maximum(np.asarray(degrees, np.float64).view(np.int64) >> _SHIFT, _ONE) - _ONE
    late = np.bincount(codes)
    return ArrivalCounts(newest, first, tuple(counts.tolist()), tuple(late.tolist()))


class Lateness:
    """The distribution of late degrees, from a histogram: `below(x)` is P(degree ≤ x)."""

    def __init__(self, counts: Sequence[float]) -> None:
        """Create the distribution from row counts per bin; without rows, all degrees are 0."""
        rows = np.asarray(counts, np.float64)
        # Rows in order have degree 0: the distribution has a step at 0, and slopes in other bins.
        self._below = np.cumsum(rows / rows.sum() if rows.sum() > 0 else np.ones(1))
        code = np.arange(len(self._below))
        self._edges = 2.0 ** (code // 4) * (1 + code % 4 / 4)  # upper edges: 1, 1.25, 1.5 …
        mean = (self._below[1:] + self._below[:-1]) / 2
        areas = np.cumsum(np.diff(self._edges) * mean)
        self._area = np.concatenate([[self._below[0]], self._below[0] + areas])

    def below(self, x: npt.ArrayLike) -> Floats:
        """Return P(late degree ≤ x)."""
        at = np.asarray(x, np.float64)
        return np.where(at < 0, 0.0, np.interp(at, self._edges, self._below))

    def mean_below(self, start: Floats, end: Floats) -> Floats:
        """Return the mean of `below` over each interval `[start, end]`."""
        return np.asarray((self._integral(end) - self._integral(start)) / (end - start))

    def _integral(self, x: Floats) -> Floats:
        at = np.maximum(x, 0.0)
        bin = np.clip(np.searchsorted(self._edges, at, "right") - 1, 0, None)
        into = at - self._edges[bin]
        inside = self._area[bin] + into * (self._below[bin] + self.below(at)) / 2
        return np.where(at < 1.0, at * self._below[0], inside)


@dataclass(frozen=True)
class Rate:
    """The mean and mean square of rows per bin, the weight of past bins, and the forecast error."""

    seen: float = 0.0
    mean: float = 0.0
    square: float = 0.0
    error: float = 0.0


@dataclass(frozen=True)
class ArrivalsMemory:
    """The memory of `Arrivals` for one input.

    - `newest`: The newest event time.
    - `first`, `counts`: The number of the first bin, and the row counts from that bin on.
    - `next`: The number of the next bin that updates the rates.
    - `late`: The histogram of late degrees.
    - `slack`: The distance of the watermark behind the newest time, in ticks.
    - `rates`: The competing rates, one for each of `HALF_LIVES`.
    """

    VERSION: ClassVar[int] = 1

    newest: int | None = None
    first: int | None = None
    counts: tuple[int, ...] = ()
    next: int | None = None
    late: tuple[float, ...] = ()
    slack: int | None = None
    rates: tuple[Rate, ...] = tuple(Rate() for _ in HALF_LIVES)


class Arrivals:
    """A model of the `Completeness` of one input, from row counts per bin and late degrees.

    All bins together cover `span` ticks. A bin has `width` ticks; it is wider if `span` has more
    than `MOST_BINS` such bins. The weight of a late degree halves after `span` · `patience` ticks.
    """

    def __init__(self, width: int, span: int, *, patience: float = 4.0) -> None:
        self.width = max(width, -(-span // (MOST_BINS - 1)), 1)
        self.bins = min(-(-span // self.width) + 1, MOST_BINS)
        self.half_life = max(span * patience, 1.0)

    def begin(self) -> ArrivalsMemory:
        """Return the memory before the first epoch."""
        return ArrivalsMemory()

    def advance(
        self, memory: ArrivalsMemory, measured: Iterable[ArrivalCounts], low: int | None
    ) -> ArrivalsMemory:
        """Return the memory after an epoch; `low` is the input's watermark after the epoch."""
        blocks = [m for m in measured if m.counts]
        if not blocks:
            return memory
        parts = [(m.newest, m.first, m.counts) for m in blocks if m.newest is not None]
        if memory.newest is not None and memory.first is not None:
            parts.insert(0, (memory.newest, memory.first, memory.counts))
        newest, first, counts = self._counted(parts)
        fade = 0.5 ** ((0 if memory.newest is None else newest - memory.newest) / self.half_life)
        late = _added([memory.late, *(m.late for m in blocks)], fade)
        slack = memory.slack
        if low is not None:
            slack = max(newest - low, 0, int(fade * (memory.slack or 0)))
        after = replace(memory, newest=newest, first=first, counts=counts, late=late, slack=slack)
        return self._settled(after, first, newest, low)

    def _counted(
        self, parts: Sequence[tuple[int, int, Sequence[int]]]
    ) -> tuple[int, int, tuple[int, ...]]:
        """Return the sum of `parts`, each (newest time, first bin, counts), without old bins."""
        end = max(first + len(counts) for _, first, counts in parts)
        begin = max(min(first for _, first, _ in parts), end - self.bins)
        total = np.zeros(end - begin, np.int64)
        for _, first, counts in parts:
            added = np.asarray(counts[max(begin - first, 0) :], np.int64)
            at = max(first - begin, 0)
            total[at : at + len(added)] += added
        return max(newest for newest, _, _ in parts), begin, tuple(total.tolist())

    def _settled(
        self, memory: ArrivalsMemory, first: int, newest: int, low: int | None
    ) -> ArrivalsMemory:
        """Return the memory with its rates updated from the bins that are now nearly complete."""
        share = self._share(memory, newest)
        ready = share >= SETTLED
        ready[-1] = False  # this bin has the newest row and is not over
        if low is not None:
            ready |= (first + np.arange(len(share)) + 1) * self.width <= low
        until = first + (len(ready) if ready.all() else int(np.argmin(ready)))
        begin = first if memory.next is None else memory.next
        if until <= begin:
            return memory
        full = np.asarray(memory.counts) / np.maximum(share, SETTLED)
        bins = full[max(begin - first, 0) : until - first]
        rates = _taught(memory.rates, bins, max(first - begin, 0))
        return replace(memory, rates=rates, next=until)

    def _share(self, memory: ArrivalsMemory, now: int) -> Floats:
        """Return, for each bin, the share of its rows that has arrived at event time `now`."""
        lateness = Lateness(memory.late)
        behind = now + 1 - self._edges(memory, now).astype(np.float64)
        share = lateness.mean_below(behind[1:], behind[:-1])
        if memory.slack is not None:  # later rows are not admitted
            share = share / max(float(lateness.below(memory.slack + self.width)), 1e-6)
        return np.clip(share, 0.0, 1.0)

    def _edges(self, memory: ArrivalsMemory, now: int) -> Ticks:
        """Return the edges of the bins; the last bin is cut off after the tick `now`."""
        assert memory.first is not None  # noqa: S101
        edges = (memory.first + np.arange(len(memory.counts) + 1)) * self.width
        edges[-1] = min(edges[-1], max(now + 1, edges[-2] + 1))
        return np.asarray(edges, np.int64)

    def arrived(self, memory: ArrivalsMemory, now: int) -> Completeness:
        """Return the completeness of the input at the event time `now`.

        Rates have a Gamma distribution with mean μ, variance V and β = μ / V. If `count` rows of a
        bin have arrived, and s is their expected share, the bin's expected final number of rows is
        count + (1 − s) · (β·μ + count) / (β + s).
        """
        if memory.first is None:
            return Completeness.until(now)
        memory = self._stretched(memory, now)
        edges = self._edges(memory, now)
        share, counts = self._share(memory, now), np.asarray(memory.counts, np.float64)
        mean, spread = self.rate(memory)
        trust = mean / max(spread, mean * 1e-6, 1e-300)
        part = np.diff(edges) / self.width  # the clock may cut the last bin
        known = trust + share * part
        rate = np.divide(
            trust * mean + counts, known, out=np.full(len(known), mean), where=known > 0
        )
        weight = counts + (1 - share) * part * rate
        # Arrived rows are known: the share is arrived rows / expected rows, not the model's share.
        share = np.divide(counts, weight, out=share.copy(), where=weight > 0)
        return Completeness(edges, share, weight, mean / self.width)

    def foreseen(self, memory: ArrivalsMemory, now: int) -> Completeness:
        """Return the expected completeness of the input at `now`, a future event time.

        Bins that have not begun are expected to have the mean number of rows.
        """
        if memory.first is None:
            return Completeness.until(now)
        memory = self._stretched(memory, now)
        edges, share = self._edges(memory, now), self._share(memory, now)
        counts, (mean, _) = np.asarray(memory.counts, np.float64), self.rate(memory)
        weight = np.maximum(counts, mean * np.diff(edges) / self.width)
        return Completeness(edges, share, weight, mean / self.width)

    def _stretched(self, memory: ArrivalsMemory, now: int) -> ArrivalsMemory:
        """Return the memory with empty bins added up to the event time `now`."""
        assert memory.first is not None  # noqa: S101
        end = now // self.width + 1
        missing = end - memory.first - len(memory.counts)
        if missing <= 0:
            return memory
        counts = (*memory.counts, *[0] * min(missing, self.bins))[-self.bins :]
        return replace(memory, first=end - len(counts), counts=counts)

    def rate(self, memory: ArrivalsMemory) -> tuple[float, float]:
        """Return (mean of rows per bin, max(0, variance of rows per bin − mean)).

        Both values are from the rate with the smallest forecast error.
        """
        if not memory.rates[0].seen:
            assert memory.newest is not None  # noqa: S101
            share = self._share(memory, memory.newest)
            full = share @ np.diff(self._edges(memory, memory.newest)) / self.width
            return float(np.sum(memory.counts)) / max(float(full), 1.0), 0.0
        best = min(memory.rates, key=lambda rate: rate.error)
        return best.mean, max(best.square - best.mean * best.mean - best.mean, 0.0)


def _added(lists: Sequence[Sequence[float]], fade: float) -> tuple[float, ...]:
    """Return the sum of the histograms `lists`; the first one is multiplied by `fade`."""
    total = np.zeros(max(len(x) for x in lists))
    for i, one in enumerate(lists):
        total[: len(one)] += np.asarray(one, np.float64) * (fade if i == 0 else 1.0)
    return tuple(float(f"{v:.5g}") for v in total)


def _taught(rates: Sequence[Rate], bins: Floats, skipped: int) -> tuple[Rate, ...]:
    """Return the rates updated by `skipped` empty bins and then by `bins`.

    Each update needs the previous one, so NumPy arrays of the rates would not be faster.
    """
    turns = [(0.0, skipped)] * (skipped > 0) + [(rows, 1) for rows in bins.tolist()]
    taught = []
    for half_life, rate in zip(HALF_LIVES, rates, strict=True):
        keep = 0.5 ** (1 / half_life)
        seen, mean, square, error = rate.seen, rate.mean, rate.square, rate.error
        for rows, times in turns:
            error = error * _JUDGED**times + ((rows - mean) ** 2 if seen > 0 else 0.0)
            before = seen * keep**times
            seen = before + (1 - keep**times)
            news = 1 - before / seen
            mean += (rows - mean) * news
            square += (rows * rows - square) * news
        taught.append(Rate(*(float(f"{v:.6g}") for v in (seen, mean, square, error))))
    return tuple(taught)
