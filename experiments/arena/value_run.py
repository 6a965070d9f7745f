"""The library's calibrator, and plain intervals, over the pairs of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from experiments.arena.stream import Floats, Ticks
from experiments.arena.values import KINDS, ValuePairs
from lowwater.early.calibration.calibrator import Calibrator, EarlyFinalPairs, EarlyValues
from lowwater.early.calibration.groups import SLOTS

LEVEL = 0.9
LAST = 100
"""How many windows some plain intervals remember."""
FEWEST = 20
"""How many windows must be known before intervals are judged."""
MOST_GROUPS = 64
"""The number of groups whose finals are learned, as in the library."""


@dataclass(frozen=True, eq=False)
class Said:
    """The estimate of each pair; NaN before anything was known."""

    estimate: Floats
    low: Floats
    high: Floats
    settled: Floats


def said(pairs: ValuePairs) -> tuple[dict[str, Said], float]:
    """Return the calibrator's estimates of each aggregate, and the seconds that it took."""
    calibrator = Calibrator(KINDS, LEVEL)
    memory = calibrator.begin()
    out = {n: np.full((4, len(pairs)), np.nan) for n in KINDS}
    slot = _slots(pairs.group)
    began = perf_counter()
    for asked, known in _turns(pairs):
        if len(asked):
            for name, one in calibrator.judge(memory, _early(pairs, slot, asked)).items():
                out[name][:, asked] = one.estimate, one.low, one.high, one.settled
        kept = known[slot[known] >= 0]
        if len(kept):
            early, told = _early(pairs, slot, kept), {n: out[n][0, kept] for n in KINDS}
            news = EarlyFinalPairs(**vars(early), final=_at(pairs.final, kept), said=told)
            memory = calibrator.learn(memory, news)
    return {n: Said(*parts) for n, parts in out.items()}, perf_counter() - began


def _early(pairs: ValuePairs, slot: Ticks, at: np.ndarray) -> EarlyValues:
    raw = _at(pairs.early, at)
    return EarlyValues(pairs.window[at], slot[at], pairs.share[at], pairs.arrived[at], raw)


def _at(values: Mapping[str, Floats], places: np.ndarray) -> dict[str, Floats]:
    return {n: v[places] for n, v in values.items()}


def _slots(group: Ticks) -> Ticks:
    """Return the slot of each group, or -1 for groups whose finals are not remembered."""
    names = np.unique(group)
    hashes = (names.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    hashes = (hashes >> np.uint64(34)).astype(np.int64)
    limit = 1 << 30
    while (hashes < limit).sum() > MOST_GROUPS:
        limit >>= 1
    slots = np.where(hashes < limit, hashes % SLOTS, -1)
    return np.asarray(slots[np.searchsorted(names, group)])


def _turns(pairs: ValuePairs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, epoch by epoch, the pairs that are asked for and those whose finals come."""
    asked, known = (np.argsort(e, kind="stable") for e in (pairs.asked, pairs.known))
    for epoch in np.unique(np.concatenate([pairs.asked, pairs.known])).tolist():
        a = np.searchsorted(pairs.asked[asked], [epoch, epoch + 1])
        b = np.searchsorted(pairs.known[known], [epoch, epoch + 1])
        yield asked[a[0] : a[1]], known[b[0] : b[1]]


def completed(pairs: ValuePairs, name: str) -> Floats:
    """Return the early values divided by the completeness, of aggregates that grow with rows."""
    share = np.maximum(pairs.share, 1e-3)
    return pairs.early[name] / share if KINDS[name] in {"scaled", "counted"} else pairs.early[name]


def plain(pairs: ValuePairs, name: str, around: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield the four plain intervals: by difference and ratio, of all and of the last windows.

    They go from the 5 % to the 95 % quantile of past differences (ratios) of finals and `around`.
    """
    final = pairs.final[name]
    with np.errstate(divide="ignore", invalid="ignore"):
        pasts = (final - around, final / around)
    tails = [(1 - LEVEL) / 2, 1 - (1 - LEVEL) / 2]
    for ratio, past in enumerate(pasts):
        both = np.full((2, 2, len(pairs)), np.nan)
        for asked, seen in _known_before(pairs):
            every = [past[seen], past[seen[pairs.window[seen] > pairs.window[seen[-1]] - LAST]]]
            for which, values in enumerate(every):
                ends = np.quantile(values[np.isfinite(values)], tails, method="weibull")[:, None]
                made = around[asked] * ends if ratio else around[asked] + ends
                both[which][:, asked] = np.sort(made, axis=0)
        yield from ((low, high) for low, high in both)


def _known_before(pairs: ValuePairs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the pairs asked for in an epoch, and all pairs known before it, oldest first."""
    known = np.argsort(pairs.known, kind="stable")
    for asked, _ in _turns(pairs):
        if len(asked):
            until = np.searchsorted(pairs.known[known], pairs.asked[asked[0]])
            seen = known[:until]
            if until and len(np.unique(pairs.window[seen[:: max(1, until // 500)]])) >= FEWEST:
                yield asked, seen
