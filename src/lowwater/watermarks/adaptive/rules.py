"""Rules that choose a slack without needed slacks: by a model with feedback, or by PD control.

A *track* is one interval of the quality target. It has one or more *steps*: at the end of a step, a
rule returns the slack of the next step, in granules. A rule receives a model, which estimates the
quality for a slack; so the same rules serve time-order joins, free-order joins and windows.

`FeedbackRule` differs in four ways from algorithms 2 to 4 of the thesis, which choose the smallest
slack that meets the target by the model.

- It computes the quality that the rest of the track needs, and chooses the slack for which the
  model estimates that quality. So a track above its target gets less slack.
- It uses lags between the streams at several moments of the last track instead of one moment.
- It aims above the target by a margin, because a missed target is worse than a longer wait. The
  margin grows with every track that misses the target, and shrinks 24 times more slowly with every
  track that meets it. In the long run one track in 25 (`misses`) misses the target, unless that
  would need a margin above half of 1 - target.
- It forgets old late degrees after an abrupt change (`distribution_changed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

from lowwater.watermarks.adaptive.join_model import smallest_slack
from lowwater.watermarks.adaptive.lateness import LatenessHistogram, distribution_changed

Degrees: TypeAlias = tuple[LatenessHistogram, ...]
QualityOf: TypeAlias = Callable[[Any], Any]
Model: TypeAlias = Callable[[Degrees, Sequence[float]], QualityOf]
"""A function of the streams' late degrees and lags; it returns a function from slack to quality."""

Counts: TypeAlias = tuple[float, float]
"""The numbers of produced results and of all results."""

MOMENTS = 16
"""The number of lags between the streams that a rule remembers."""
VARIES = 0.1
"""The weight of the newest track in the mean variation of the number of results."""
BURST = 2.0
"""The size of a possible burst in the rest of a track, as a multiple of `RuleState.varies`."""
FRESH = 0.5**5
"""The factor on the weight of `fresh` late degrees per track: 1/2 for each fifth of a track."""


@dataclass(frozen=True)
class RuleInput:
    """The measurements since the last choice of a slack, which a rule needs for the next choice.

    - `degrees`: The late degrees of the new rows, by stream.
    - `lags`: How far the first stream was ahead of the second, in granules, at several moments, the
      newest last; empty for one stream.
    - `given`, `wanted`: The number of produced results, and the number of all results, produced or
      lost to late rows. A result may be lost because of an earlier slack.
    - `passed`: The share of the track that has passed; 1 at the end of the track.
    """

    degrees: Degrees
    lags: Sequence[float] = ()
    given: float = 0.0
    wanted: float = 0.0
    passed: float = 1.0


@dataclass(frozen=True)
class PdState:
    """The state of a PD controller: slack, last error, and the result counts of `RuleState`."""

    slack: float = 0.0
    error: float | None = None
    given: float = 0.0
    wanted: float = 0.0
    now_given: float = 0.0
    now_wanted: float = 0.0


@dataclass(frozen=True)
class RuleState:
    """The state of a rule between two choices of a slack.

    - `degrees`, `fresh`: Late degrees by stream; old rows lose weight faster in `fresh`.
    - `lags`: The last lags between the streams.
    - `given`, `wanted`: The result counts of the whole run, as in `RuleInput`.
    - `now_given`, `now_wanted`: The result counts of the current track.
    - `usual`, `varies`: The usual value of `now_wanted` at the end of a track, and its mean
      variation from track to track.
    - `passed`: The share of the current track that has passed.
    - `margin`: The distance above the target at which the rule aims.
    - `slack`: The last slack, in granules.
    - `pd`: The state of the PD controller; None for other rules.
    """

    VERSION: ClassVar[int] = 1

    degrees: Degrees = ()
    fresh: Degrees = ()
    lags: tuple[float, ...] = ()
    given: float = 0.0
    wanted: float = 0.0
    now_given: float = 0.0
    now_wanted: float = 0.0
    usual: float = 0.0
    varies: float = 0.0
    passed: float = 0.0
    margin: float | None = None
    slack: int = 0
    pd: PdState | None = None

    def counted(self, seen: RuleInput) -> RuleState:
        """Return the state with the results and lags of `seen` added."""
        return replace(
            self,
            lags=(*self.lags, *map(float, seen.lags))[-MOMENTS:],
            given=self.given + seen.given,
            wanted=self.wanted + seen.wanted,
            now_given=self.now_given + seen.given,
            now_wanted=self.now_wanted + seen.wanted,
            passed=seen.passed,
        )

    def next_track(self) -> RuleState:
        """Return the state at the start of the next track."""
        now = self.now_wanted
        usual = (self.usual + now) / 2 if self.usual else now
        varies = self.varies + VARIES * (abs(now - (self.usual or now)) - self.varies)
        return replace(self, now_given=0.0, now_wanted=0.0, usual=usual, varies=varies, passed=0.0)

    def of_the_rest(self, aim: float) -> float:
        """Return the quality that the rest of the track needs, so that the whole track has `aim`.

        A deficit is spread over the expected remaining results. A surplus is spread over more
        results than expected, because a burst may still add results to the track.
        """
        if self.usual <= 0 or self.passed <= 0:
            return aim
        pace = self.now_wanted / self.passed
        rest = max((self.usual + pace) / 2 - self.now_wanted, 0.05 * pace)
        debt = aim * self.now_wanted - self.now_given
        if debt < 0:
            rest += BURST * self.varies
        return aim + debt / rest if rest > 0 else aim


@dataclass(frozen=True, kw_only=True)
class FeedbackRule:
    """The rule with feedback: the smallest slack with which the whole track meets the target."""

    target: float
    decay: float = 0.8
    granularity: int = 1
    misses: float = 0.04

    def aiming_at(self, target: float) -> Self:
        """Return the rule with a new target."""
        return replace(self, target=target)

    def step(self, known: RuleState, seen: RuleInput, model: Model) -> tuple[RuleState, int]:
        """Return (new state of the rule, next slack in granules)."""
        known = self._late(known, seen).counted(seen)
        if seen.passed >= 1:
            known = replace(known, margin=self._margin(known)).next_track()
        slack = smallest(self._need(known), known.degrees, known.lags, model, self.granularity)
        return replace(known, slack=slack), slack

    def _late(self, known: RuleState, seen: RuleInput) -> RuleState:
        """Return the state plus new late degrees; an abrupt change removes the old late degrees."""
        passed = max(0.0, seen.passed - known.passed)
        slow = added(faded(known.degrees, self.decay**passed), seen.degrees)
        fresh = added(faded(known.fresh, FRESH**passed), seen.degrees)
        if any(distribution_changed(f, d) for f, d in zip(fresh, known.degrees, strict=False)):
            slow = fresh = seen.degrees
        return replace(known, degrees=slow, fresh=fresh)

    def _margin(self, known: RuleState) -> float:
        """Return the new margin above the target at the end of a track."""
        room = 1 - self.target
        margin = room / 10 if known.margin is None else known.margin
        missed = known.now_given < self.target * known.now_wanted
        return min(max(-room / 2, margin + room / 10 * (missed - self.misses)), room / 2)

    def _need(self, known: RuleState) -> float:
        """Return the estimated quality that the next slack must have."""
        room = 1 - self.target
        aim = self.target + (room / 10 if known.margin is None else known.margin)
        asked = known.of_the_rest(aim)
        if asked > 1 and known.of_the_rest(self.target) > 1:
            asked = aim  # Every slack misses the target of this track: do not wait longer.
        # The latest rows need the most slack: make up for losses over several choices instead.
        return min(asked, 1 - room / 20)


@dataclass(frozen=True, kw_only=True)
class PdController:
    """A proportional-derivative controller, the baseline of QDJ (6.2.3): it reads only quality.

    The error is the target minus the measured quality of the last track. The slack changes by
    `proportional` times the error plus `derivative` times the change of the error, in granules per
    unit of quality. The thesis tunes both gains by hand, `experiments.qdj.q1` by a grid search.

    >>> rule = PdController(target=0.9, proportional=20, derivative=0)
    >>> known, slack = rule.step(PdState(), given=80, wanted=100, passed=1)
    >>> round(slack, 6)
    2.0
    """

    target: float
    proportional: float
    derivative: float

    def step(
        self, known: PdState, *, given: float, wanted: float, passed: float
    ) -> tuple[PdState, float]:
        """Return (new state, next slack in granules); the slack changes only when a track ends."""
        now = (known.now_given + given, known.now_wanted + wanted)
        run = (known.given + given, known.wanted + wanted)
        if passed < 1:
            return PdState(known.slack, known.error, *run, *now), known.slack
        given, wanted = self.judged(run, now)
        if wanted <= 0:
            return PdState(known.slack, known.error, *run), known.slack
        error = self.target - given / wanted
        change = 0.0 if known.error is None else error - known.error
        slack = max(0.0, known.slack + self.proportional * error + self.derivative * change)
        return PdState(slack, error, *run), slack

    def judged(self, run: Counts, track: Counts) -> Counts:
        """Return the counts that the error is computed from: those of the last track."""
        del run
        return track


@dataclass(frozen=True)
class PdRule:
    """The rule of `lw.pd_controller`: a PD controller. Only the status reads the late degrees."""

    controller: PdController
    decay: float

    def aiming_at(self, target: float) -> PdRule:
        """Return the rule with a new target."""
        return replace(self, controller=replace(self.controller, target=target))

    def step(self, known: RuleState, seen: RuleInput, model: Model) -> tuple[RuleState, int]:
        """Return (new state of the rule, next slack in granules)."""
        del model
        after, slack = self.controller.step(
            known.pd or PdState(), given=seen.given, wanted=seen.wanted, passed=seen.passed
        )
        late = added(faded(known.degrees, self.decay), seen.degrees)
        return RuleState(degrees=late, pd=after), round(slack)


def added(known: Degrees, seen: Degrees) -> Degrees:
    """Return the late degrees of both, stream by stream."""
    return tuple(a + b for a, b in zip(known, seen, strict=True)) if known else seen


def faded(known: Degrees, decay: float) -> Degrees:
    """Return late degrees whose weight is multiplied by `decay`."""
    return tuple(d.decayed(decay) for d in known)


def smallest(
    wanted: float, degrees: Degrees, lags: Sequence[float], model: Model, granularity: int
) -> int:
    """Return the smallest slack with which a model estimates the wanted quality."""
    limit = max(d.largest for d in degrees)
    return smallest_slack(wanted, model(degrees, lags), granularity, limit)
