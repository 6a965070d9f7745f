"""Runs of the join of QDJ: under the rule of the thesis, ours, a PD controller, a fixed slack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.harness.contract import Value
from experiments.qdj.adaptive import JoinOutcome, JoinSettings, deliver
from experiments.qdj.rules import FeedbackOverall, PdOverall, ThesisOverall, ThesisRule
from experiments.reference.qdj import Pair
from experiments.reference.quality import quality
from lowwater.watermarks.adaptive.rules import (
    Degrees,
    FeedbackRule,
    PdController,
    PdState,
    QualityOf,
    RuleInput,
    RuleState,
)

TARGETS = (0.80, 0.90, 0.95, 0.98)
STEPS = 10
"""How often in a track our rule is asked."""
PROPORTIONAL = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
DERIVATIVE = (0.0, 0.25, 0.5, 1.0)
"""The grid of gains: granules per unit of quality, and how much of that by its change."""
GAINS = tuple((p, p * d) for p in PROPORTIONAL for d in DERIVATIVE)


def by_rule(stream: Pair, asked: JoinSettings, rule: FeedbackRule) -> JoinOutcome:
    """Run under a rule that asks the model."""
    a, b = (w * asked.windows.unit // asked.granule for w in asked.windows.kept)
    known = RuleState()

    def model(degrees: Degrees, lags: Sequence[float]) -> QualityOf:
        mine, other = degrees
        return lambda slack: quality(mine, other, a, b, slack, lag=np.asarray(lags))

    def decide(seen: RuleInput) -> float:
        nonlocal known
        known, slack = rule.step(known, seen, model)
        return slack

    return deliver(stream, asked, decide)


def thesis(
    stream: Pair,
    target: float,
    asked: JoinSettings | None = None,
    *,
    overall: bool = False,
    **how: Any,
) -> JoinOutcome:
    """Run under algorithms 2 to 4."""
    rule = ThesisOverall if overall else ThesisRule
    return by_rule(stream, asked or JoinSettings(), rule(target=target, **how))


def ours(
    stream: Pair,
    target: float,
    asked: JoinSettings | None = None,
    *,
    steps: int = STEPS,
    overall: bool = False,
    **how: Any,
) -> JoinOutcome:
    """Run under the rule with feedback."""
    asked = replace(asked or JoinSettings(), steps=steps)
    rule = FeedbackOverall if overall else FeedbackRule
    return by_rule(stream, asked, rule(target=target, **how))


def controlled(
    stream: Pair, target: float, gains: tuple[float, float], *, overall: bool = False
) -> JoinOutcome:
    """Run under a PD controller."""
    kind = PdOverall if overall else PdController
    rule = kind(target=target, proportional=gains[0], derivative=gains[1])
    known = PdState()

    def decide(seen: RuleInput) -> float:
        nonlocal known
        given, wanted, passed = seen.given, seen.wanted, seen.passed
        known, slack = rule.step(known, given=given, wanted=wanted, passed=passed)
        return slack

    return deliver(stream, JoinSettings(), decide, watch=False)


def fixed(stream: Pair, slack: float, *, sync: bool = True) -> JoinOutcome:
    """Run under one slack, in granules."""
    return deliver(stream, JoinSettings(sync=sync), lambda _: slack, first=slack, watch=False)


def largest_degree(stream: Pair) -> float:
    """Return the smallest slack that loses nothing, in granules."""
    clocks = stream.clocks
    behind = [(clocks[s] - stream.ts)[stream.side == s].max() for s in (0, 1)]
    return float(max(behind)) / JoinSettings().granule


def best(tuned: Iterable[JoinOutcome], target: float, most: float, *, overall: bool) -> JoinOutcome:
    """Return the run with the highest compliance whose buffer is at most `most`.

    If all buffers are larger, the one with the smallest.
    """
    runs = sorted(tuned, key=lambda d: d.buffer)
    fit = [d for d in runs if d.buffer <= most] or runs[:1]
    return max(fit, key=lambda d: compliance(d, target, overall=overall))


def compliance(run: JoinOutcome, target: float, *, overall: bool) -> float:
    """Return QCR: the share of tracks at or above the target, each alone or all up to it."""
    judged = run.so_far if overall else run.quality
    return float((judged >= target).mean())


def row(
    name: str, target: float, rule: str, run: JoinOutcome, *, overall: bool = False
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
