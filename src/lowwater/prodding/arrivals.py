"""How much of each event time has arrived: learned from late degrees and counts.

A row of event time t arrives when the newest time is t + its late degree. So of the rows of t, the
share P(late degree ≤ now − t) is in. How many rows a bin of time will have had in the end is a
Gamma–Poisson matter: bins of the past tell mean and variance of the rate, and the rows that are in
tell how far this bin is from the mean. Where counts are no more dispersed than Poisson, the rate is
believed; where they vary wildly, the bin's own rows are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowwater.control.arrived import Arrived, Floats, Ticks

MOST_BINS = 128
"""How many bins of event time are kept; wider ones instead of more."""
SETTLED = 0.95
"""The share from which on a bin tells how many rows come per bin."""
HALF_LIVES = (8.0, 64.0, 512.0)
"""After how many bins a bin counts half, for the rates that compete."""
_RATES = ("seen", "mean", "square", "error")
_JUDGED = 0.5 ** (1 / 256)
_SHIFT = 50  # leaves two bits of a double's mantissa: four bins per power of two
_ONE = (1023 << 2) - 1  # so that a degree of 1 is in bin 1, and 0 alone in bin 0


def measure(ticks: Ticks, degrees: Ticks, width: int) -> dict[str, Any]:
    """Count rows per bin of event time and per bin of late degree.

    Called at ingest for every block. Bins more than `MOST_BINS` before the newest are left out.
    """
    if not len(ticks):
        return {"newest": None, "first": 0, "counts": [], "late": []}
    newest = int(np.max(ticks))
    bins = np.asarray(ticks) // width
    first = max(int(bins.min()), newest // width - MOST_BINS + 1)
    bins -= first - 1
    np.maximum(bins, 0, out=bins)
    counts = np.bincount(bins)[1:]
    codes = np.maximum(np.asarray(degrees, np.float64).view(np.int64) >> _SHIFT, _ONE) - _ONE
    late = np.bincount(codes)
    return {"newest": newest, "first": first, "counts": counts.tolist(), "late": late.tolist()}


def late_edges(bins: int) -> Floats:
    """Return where the bins of late degrees begin, and where the last ends: 0, 1, 1.25, 1.5 …."""
    code = np.arange(bins)
    return np.concatenate([[0.0], 2.0 ** (code // 4) * (1 + code % 4 / 4)])


class Lateness:
    """The distribution of late degrees, as a histogram: `below(x)` is P(degree ≤ x)."""

    def __init__(self, counts: Sequence[float]) -> None:
        """Take counts per bin; without any, rows are believed to be in order."""
        held = np.asarray(counts, np.float64)
        self._p = held / held.sum() if held.sum() > 0 else np.ones(1)
        self._edges = late_edges(len(self._p))
        # Rows that are in order have degree 0: their bin is a step, the others are slopes.
        self._below = np.cumsum(self._p)
        gaps = np.diff(self._edges[1:])
        mean = (self._below[1:] + self._below[:-1]) / 2
        self._area = np.concatenate([[self._below[0]], self._below[0] + np.cumsum(gaps * mean)])

    def below(self, x: npt.ArrayLike) -> Floats:
        """Return P(late degree ≤ x)."""
        at = np.asarray(x, np.float64)
        return np.where(at < 0, 0.0, np.interp(at, self._edges[1:], self._below))

    def mean_below(self, start: Floats, end: Floats) -> Floats:
        """Return the mean of `below` over each stretch `[start, end]`."""
        return np.asarray((self._integral(end) - self._integral(start)) / (end - start))

    def _integral(self, x: Floats) -> Floats:
        at = np.maximum(x, 0.0)
        bin = np.clip(np.searchsorted(self._edges[1:], at, "right") - 1, 0, None)
        into = at - self._edges[1:][bin]
        inside = self._area[bin] + into * (self._below[bin] + self.below(at)) / 2
        return np.where(at < 1.0, at * self._below[0], inside)


class Arrivals:
    """Learns `Arrived` of one input. Its memory is JSON: some 128 counts and 200 late bins.

    `width` is the width of a bin in ticks, made wider if `span`, which is how far back bins are
    kept, would need more than `MOST_BINS`. Late degrees count half after `span` · `patience`.
    """

    def __init__(self, width: int, span: int, *, patience: float = 4.0) -> None:
        self.width = max(width, -(-span // (MOST_BINS - 1)), 1)
        self.kept = min(-(-span // self.width) + 1, MOST_BINS)
        self.half_life = max(span * patience, 1.0)

    def begin(self) -> dict[str, Any]:
        """Return the memory of an input that has not begun."""
        none = [0.0] * len(HALF_LIVES)
        rates = {"seen": none, "mean": none, "square": none, "error": none}
        bins: dict[str, Any] = {"newest": None, "first": None, "counts": [], "next": None}
        return {**bins, "late": [], "slack": None, **rates}

    def advance(
        self, memory: Mapping[str, Any], measured: Iterable[Mapping[str, Any]], low: int | None
    ) -> dict[str, Any]:
        """Return the memory after an epoch; `low` is the input's mark after it."""
        blocks = [m for m in measured if m["counts"]]
        if not blocks:
            return dict(memory)
        new, before = dict(memory), memory["newest"]
        self._count(new, blocks if before is None else [memory, *blocks])
        passed = 0 if before is None else new["newest"] - before
        fade = 0.5 ** (passed / self.half_life)
        new["late"] = _added([memory["late"], *(m["late"] for m in blocks)], fade)
        if low is not None:
            slack = max(new["newest"] - low, 0)
            new["slack"] = max(slack, int(fade * (memory["slack"] or 0)))
        self._settle(new, low)
        return new

    def _count(self, memory: dict[str, Any], held: Sequence[Mapping[str, Any]]) -> None:
        """Add up counts; bins far back are let go."""
        end = max(m["first"] + len(m["counts"]) for m in held)
        first = max(min(m["first"] for m in held), end - self.kept)
        counts = np.zeros(end - first, np.int64)
        for m in held:
            added = np.asarray(m["counts"][max(first - m["first"], 0) :], np.int64)
            at = max(m["first"] - first, 0)
            counts[at : at + len(added)] += added
        newest = max(m["newest"] for m in held)
        memory |= {"newest": newest, "first": first, "counts": counts.tolist()}

    def _settle(self, memory: dict[str, Any], low: int | None) -> None:
        """Let bins that are nearly complete teach the rates, each once and in order."""
        first, share = memory["first"], self._share(memory, memory["newest"])
        ready = share >= SETTLED
        ready[-1] = False  # the newest row is in it
        if low is not None:
            ready |= (first + np.arange(len(share)) + 1) * self.width <= low
        until = first + (len(ready) if ready.all() else int(np.argmin(ready)))
        begin = first if memory["next"] is None else memory["next"]
        if until <= begin:
            return
        known = np.asarray(memory["counts"]) / np.maximum(share, SETTLED)
        bins = known[max(begin - first, 0) : until - first]
        for name, values in _taught(memory, bins, max(first - begin, 0)).items():
            memory[name] = [float(f"{v:.6g}") for v in values]
        memory["next"] = until

    def _share(self, memory: Mapping[str, Any], now: int) -> Floats:
        """Return which share of the rows of each bin up to the clock is in."""
        lateness = Lateness(memory["late"])
        behind = now + 1 - self._edges(memory, now).astype(np.float64)
        share = lateness.mean_below(behind[1:], behind[:-1])
        if memory["slack"] is not None:  # what comes later than that is not admitted
            share = share / max(float(lateness.below(memory["slack"] + self.width)), 1e-6)
        return np.clip(share, 0.0, 1.0)

    def _edges(self, memory: Mapping[str, Any], now: int) -> Ticks:
        """Return the edges of the bins; the last ends with the tick of the clock."""
        edges = (memory["first"] + np.arange(len(memory["counts"]) + 1)) * self.width
        edges[-1] = min(edges[-1], max(now + 1, edges[-2] + 1))
        return np.asarray(edges, np.int64)

    def arrived(self, memory: Mapping[str, Any], now: int) -> Arrived:
        """Return what is expected to have arrived when the event-time clock says `now`.

        A bin with `count` rows of which the share s is in has, with rates ~ Gamma of mean μ and
        variance V and β = μ / V, count + (1 − s) · (β·μ + count) / (β + s) rows in the end.
        """
        if memory["first"] is None:
            return Arrived.until(now)
        memory = self._stretched(memory, now)
        edges = self._edges(memory, now)
        share, counts = self._share(memory, now), np.asarray(memory["counts"], np.float64)
        mean, spread = self.rate(memory)
        trust = mean / max(spread, mean * 1e-6, 1e-300)
        part = np.diff(edges) / self.width  # of a bin, for the last may be cut by the clock
        known = trust + share * part
        rate = np.divide(
            trust * mean + counts, known, out=np.full(len(known), mean), where=known > 0
        )
        weight = counts + (1 - share) * part * rate
        # What is in, is in: the share that counts is that of the rows, not of the model.
        share = np.divide(counts, weight, out=share.copy(), where=weight > 0)
        return Arrived(edges, share, weight, mean / self.width)

    def foreseen(self, memory: Mapping[str, Any], now: int) -> Arrived:
        """Return what is expected to have arrived when the clock says `now`, not having seen it.

        Of bins that are still to come the rate tells how many rows they have.
        """
        if memory["first"] is None:
            return Arrived.until(now)
        memory = self._stretched(memory, now)
        edges, share = self._edges(memory, now), self._share(memory, now)
        counts, (mean, _) = np.asarray(memory["counts"], np.float64), self.rate(memory)
        weight = np.maximum(counts, mean * np.diff(edges) / self.width)
        return Arrived(edges, share, weight, mean / self.width)

    def _stretched(self, memory: Mapping[str, Any], now: int) -> Mapping[str, Any]:
        """Return the memory with empty bins up to the clock: there a lull is a lull."""
        end = now // self.width + 1
        missing = end - memory["first"] - len(memory["counts"])
        if missing <= 0:
            return memory
        counts = (memory["counts"] + [0] * min(missing, self.kept))[-self.kept :]
        return {**memory, "first": end - len(counts), "counts": counts}

    def rate(self, memory: Mapping[str, Any]) -> tuple[float, float]:
        """Return the mean of rows per bin, and how much it varies beyond Poisson.

        Of rates with longer and shorter memories, the one that has foretold best.
        """
        if not memory["seen"][0]:
            share = self._share(memory, memory["newest"])
            full = share @ np.diff(self._edges(memory, memory["newest"])) / self.width
            return float(np.sum(memory["counts"])) / max(float(full), 1.0), 0.0
        best = int(np.argmin(memory["error"]))
        mean = memory["mean"][best]
        return mean, max(memory["square"][best] - mean * mean - mean, 0.0)


def _added(lists: Sequence[Sequence[float]], fade: float) -> list[float]:
    """Return the sum of histograms, the first of them faded."""
    total = np.zeros(max(len(x) for x in lists))
    for i, one in enumerate(lists):
        total[: len(one)] += np.asarray(one, np.float64) * (fade if i == 0 else 1.0)
    return [float(f"{v:.5g}") for v in total]


def _taught(memory: Mapping[str, Any], bins: Floats, skipped: int) -> dict[str, list[float]]:
    """Return the rates after some bins more, `skipped` empty ones before them.

    Each bin builds on the one before, so there is nothing to gain from arrays of three numbers.
    """
    found: dict[str, list[float]] = {name: [] for name in _RATES}
    turns = [(0.0, skipped)] * (skipped > 0) + [(rows, 1) for rows in bins.tolist()]
    for half_life, *state in zip(HALF_LIVES, *(memory[name] for name in _RATES), strict=True):
        keep = 0.5 ** (1 / half_life)
        seen, mean, square, error = state
        for rows, times in turns:
            error = error * _JUDGED**times + ((rows - mean) ** 2 if seen > 0 else 0.0)
            before = seen * keep**times
            seen = before + (1 - keep**times)
            news = 1 - before / seen
            mean += (rows - mean) * news
            square += (rows * rows - square) * news
        for name, value in zip(_RATES, (seen, mean, square, error), strict=True):
            found[name].append(value)
    return found
