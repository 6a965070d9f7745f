"""Runs of the join of QDJ: under the rule of the thesis, ours, a PD controller, a fixed slack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowwater.experiments.adapted import Asked, Delivered, deliver
from lowwater.experiments.contract import Value
from lowwater.experiments.qdj import Pair
from lowwater.progress.adapting import (
    ByFeedback,
    ByModel,
    Degrees,
    Observed,
    QualityOf,
    Remembered,
)
from lowwater.progress.controlling import ByControl, Controlled
from lowwater.progress.model import quality

TARGETS = (0.80, 0.90, 0.95, 0.98)
STEPS = 10
"""How often in a track our rule is asked."""
PROPORTIONAL = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
DERIVATIVE = (0.0, 0.25, 0.5, 1.0)
"""The grid of gains: granules per unit of quality, and how much of that by its change."""
GAINS = tuple((p, p * d) for p in PROPORTIONAL for d in DERIVATIVE)


def by_rule(stream: Pair, asked: Asked, rule: ByModel | ByFeedback) -> Delivered:
    """Run under a rule that asks the model."""
    a, b = (w * asked.windows.unit // asked.granule for w in asked.windows.kept)
    known = Remembered()

    def model(degrees: Degrees, lags: Sequence[float]) -> QualityOf:
        mine, other = degrees
        return lambda slack: quality(mine, other, a, b, slack, lag=np.asarray(lags))

    def decide(seen: Observed) -> float:
        nonlocal known
        known, slack = rule.step(known, seen, model)
        return slack

    return deliver(stream, asked, decide)


def thesis(stream: Pair, target: float, asked: Asked | None = None, **how: Any) -> Delivered:
    """Run under algorithms 2 to 4."""
    return by_rule(stream, asked or Asked(), ByModel(target=target, **how))


def ours(
    stream: Pair, target: float, asked: Asked | None = None, *, steps: int = STEPS, **how: Any
) -> Delivered:
    """Run under the default rule."""
    asked = replace(asked or Asked(), steps=steps)
    return by_rule(stream, asked, ByFeedback(target=target, **how))


def controlled(
    stream: Pair, target: float, gains: tuple[float, float], *, overall: bool = False
) -> Delivered:
    """Run under a PD controller."""
    rule = ByControl(target=target, proportional=gains[0], derivative=gains[1], overall=overall)
    known = Controlled()

    def decide(seen: Observed) -> float:
        nonlocal known
        given, wanted, passed = seen.given, seen.wanted, seen.passed
        known, slack = rule.step(known, given=given, wanted=wanted, passed=passed)
        return slack

    return deliver(stream, Asked(), decide, watch=False)


def fixed(stream: Pair, slack: float, *, sync: bool = True) -> Delivered:
    """Run under one slack, in granules."""
    return deliver(stream, Asked(sync=sync), lambda _: slack, first=slack, watch=False)


def largest_degree(stream: Pair) -> float:
    """Return the smallest slack that loses nothing, in granules."""
    clocks = stream.clocks
    behind = [(clocks[s] - stream.ts)[stream.side == s].max() for s in (0, 1)]
    return float(max(behind)) / Asked().granule


def best(tuned: Iterable[Delivered], target: float, most: float, *, overall: bool) -> Delivered:
    """Return the run with the highest compliance whose buffer is at most `most`.

    If all buffers are larger, the one with the smallest.
    """
    runs = sorted(tuned, key=lambda d: d.buffer)
    fit = [d for d in runs if d.buffer <= most] or runs[:1]
    return max(fit, key=lambda d: compliance(d, target, overall=overall))


def compliance(run: Delivered, target: float, *, overall: bool) -> float:
    """Return QCR: the share of tracks at or above the target, each alone or all up to it."""
    judged = run.so_far if overall else run.quality
    return float((judged >= target).mean())


def row(
    name: str, target: float, rule: str, run: Delivered, *, overall: bool = False
) -> dict[str, Value]:
    """Return the figures of a run."""
    share, buffer = 100 * compliance(run, target, overall=overall), run.buffer / 1_000
    return {
        "stream": name,
        "target %": round(100 * target),
        "rule": rule,
        "QCR %": round(share, 2),
        "ABS ms": round(buffer, 1),
        "QCR/ABS": round(share / buffer, 2) if buffer else None,
        "overall %": round(100 * run.overall, 2),
    }
