"""How a slack follows from a quality target: by the model of QDJ, and by feedback.

The adapter asks a rule at the end of every step; a track interval has one or more steps. The rule
returns the slack of the next step in granules. A model returns the quality of a slack, so the same
rules serve joins in order of time, joins in any order, and aggregates.

`ModelRule` is the rule of the thesis, algorithms 2 to 4 unchanged (algorithm 2 tests K = 0 first).
`FeedbackRule` is ours and differs in four ways.

- It computes which quality the rest of the track still needs, and asks the model for the slack that
  gives it. A track that is ahead of its target waits less.
- It averages the lag of the streams over the last track instead of taking it at one moment.
- A miss costs more than a wait. So it aims above the target by a margin that grows with every track
  that misses and shrinks, 24 times more slowly, with every track that does not. In the long run one
  track in 25 (`misses`) misses, as long as half of the room above the target suffices for that.
- When late degrees change abruptly, it forgets the old ones (`distribution_changed`).
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
"""From the late degrees of each stream and lags at several moments to the quality of a slack."""

MOMENTS = 16
"""The number of lags that are remembered."""
VARIES = 0.1
"""The weight of a track in the mean variation of results."""
BURST = 2.0
"""How many mean variations more the rest of a track may have."""
FRESH = 0.5**5
"""The weight that fresh late degrees keep after a track: half after a fifth of one."""
PAID, SPENT = 2.0, 20.0
"""With `overall`, the number of tracks over which a debt is paid, and a surplus is spent."""


@dataclass(frozen=True)
class RuleInput:
    """The measurements since the last choice.

    - `degrees`: The late degrees of the new rows, by stream.
    - `lags`: How far the first stream was ahead of the other, in granules, at several moments, the
      newest last; empty for one stream.
    - `given`, `wanted`: The number of final results; and with them the results that late rows would
      have added, for the same times and for earlier ones.
    - `passed`: The share of the track that has passed; 1 ends it.
    """

    degrees: Degrees
    lags: Sequence[float] = ()
    given: float = 0.0
    wanted: float = 0.0
    passed: float = 1.0


@dataclass(frozen=True)
class PdState:
    """The memory of a PD controller: its slack, the last error, and results as in `RuleState`."""

    slack: float = 0.0
    error: float | None = None
    given: float = 0.0
    wanted: float = 0.0
    now_given: float = 0.0
    now_wanted: float = 0.0


@dataclass(frozen=True)
class RuleState:
    """The memory of a rule.

    - `degrees`, `fresh`: Late degrees that fade by the track, and by the step.
    - `lags`: The last lags of the streams.
    - `given`, `wanted`: The results of the whole run, given and wanted.
    - `now_given`, `now_wanted`: The results of this track.
    - `usual`, `varies`: The results that a track usually wants, and their mean variation from track
      to track.
    - `passed`: The share of this track that has passed.
    - `margin`: How far the rule aims above the target.
    - `slack`: The last slack, in granules.
    - `pd`: The state of the PD controller, if the rule is one.
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
        """Return the state with the results of a step counted."""
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
        """Return the state at the beginning of the next track."""
        now = self.now_wanted
        usual = (self.usual + now) / 2 if self.usual else now
        varies = self.varies + VARIES * (abs(now - (self.usual or now)) - self.varies)
        return replace(self, now_given=0.0, now_wanted=0.0, usual=usual, varies=varies, passed=0.0)

    def over_all(self, aim: float, tracks: float = 1.0) -> float:
        """Return the quality that the next tracks need for the whole run to reach the aim.

        Each track is expected to have as many results as usual.
        """
        if self.usual <= 0:
            return aim
        return aim + (aim * self.wanted - self.given) / (self.usual * tracks)

    def of_the_rest(self, aim: float) -> float:
        """Return the quality that the rest of this track needs for the track to reach the aim.

        A debt is spread over the expected rest of the results. A surplus is spread over more, by
        the variation of tracks: a burst at the end would use it up.
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
class ModelRule:
    """Algorithms 2 to 4: the smallest slack whose estimated quality is the target.

    The slack changes at the end of a track. Late degrees then fade by `decay`; the lag of the
    streams is assumed constant. With `overall`, the target applies to all results so far.
    """

    target: float
    decay: float = 0.8
    overall: bool = False
    granularity: int = 1

    def aiming_at(self, target: float) -> Self:
        """Return the rule with another target."""
        return replace(self, target=target)

    def step(self, known: RuleState, seen: RuleInput, model: Model) -> tuple[RuleState, int]:
        """Return the new state, and the slack of the next step."""
        known = replace(known.counted(seen), degrees=_added(known.degrees, seen.degrees))
        if seen.passed < 1:
            return known, known.slack
        known = replace(known.next_track(), usual=known.now_wanted)
        wanted = known.over_all(self.target) if self.overall else self.target
        slack = _smallest(wanted, known.degrees, seen.lags[-1:], model, self.granularity)
        return replace(known, degrees=_faded(known.degrees, self.decay), slack=slack), slack


@dataclass(frozen=True, kw_only=True)
class FeedbackRule(ModelRule):
    """The smallest slack with which the rest of the track still reaches the target."""

    misses: float = 0.04

    def step(self, known: RuleState, seen: RuleInput, model: Model) -> tuple[RuleState, int]:  # noqa: D102
        known = self._late(known, seen).counted(seen)
        if seen.passed >= 1:
            known = replace(known, margin=self._margin(known)).next_track()
        slack = _smallest(self._need(known), known.degrees, known.lags, model, self.granularity)
        return replace(known, slack=slack), slack

    def _late(self, known: RuleState, seen: RuleInput) -> RuleState:
        """Return the state with new late degrees; after an abrupt change, with these alone."""
        passed = max(0.0, seen.passed - known.passed)
        slow = _added(_faded(known.degrees, self.decay**passed), seen.degrees)
        fresh = _added(_faded(known.fresh, FRESH**passed), seen.degrees)
        if any(distribution_changed(f, d) for f, d in zip(fresh, known.degrees, strict=False)):
            slow = fresh = seen.degrees
        return replace(known, degrees=slow, fresh=fresh)

    def _margin(self, known: RuleState) -> float:
        """Return the margin above the target after a track."""
        room = 1 - self.target
        margin = room / 10 if known.margin is None else known.margin
        pairs = (known.given, known.wanted) if self.overall else (known.now_given, known.now_wanted)
        missed = pairs[0] < self.target * pairs[1]
        # The whole run never recovers from an aim below the target; a track can.
        least = 0.0 if self.overall else -room / 2
        return min(max(least, margin + room / 10 * (missed - self.misses)), room / 2)

    def _need(self, known: RuleState) -> float:
        """Return the quality that the slack must give by the model."""
        room = 1 - self.target
        aim = self.target + (room / 10 if known.margin is None else known.margin)
        if self.overall:
            # A steady slack is the cheapest: spend a surplus slowly, and pay a debt soon.
            owed = aim * known.wanted > known.given
            asked = known.over_all(aim, PAID if owed else SPENT)
        else:
            asked = known.of_the_rest(aim)
            if asked > 1 and known.of_the_rest(self.target) > 1:
                asked = aim  # The track misses its target with any slack: do not wait for it.
        # The last rows cost the most slack: make up for losses over a few steps.
        return min(asked, 1 - room / 20)


@dataclass(frozen=True, kw_only=True)
class PdController:
    """The baseline of QDJ (6.2.3): it follows the delivered quality alone, not late degrees.

    The error is the target minus the quality of the last track. The slack moves by `proportional`
    times the error plus `derivative` times its change, in granules per unit of quality. The thesis
    tunes the gains by hand, `experiments.qdj.q1` by a grid.

    >>> rule = PdController(target=0.9, proportional=20, derivative=0)
    >>> known, slack = rule.step(PdState(), given=80, wanted=100, passed=1)
    >>> round(slack, 6)
    2.0
    """

    target: float
    proportional: float
    derivative: float
    overall: bool = False

    def step(
        self, known: PdState, *, given: float, wanted: float, passed: float
    ) -> tuple[PdState, float]:
        """Return the new state, and the slack of the next step; it moves when a track ends."""
        now = (known.now_given + given, known.now_wanted + wanted)
        run = (known.given + given, known.wanted + wanted)
        judged = run if self.overall else now
        if passed < 1:
            return PdState(known.slack, known.error, *run, *now), known.slack
        if judged[1] <= 0:
            return PdState(known.slack, known.error, *run), known.slack
        error = self.target - judged[0] / judged[1]
        change = 0.0 if known.error is None else error - known.error
        slack = max(0.0, known.slack + self.proportional * error + self.derivative * change)
        return PdState(slack, error, *run), slack


@dataclass(frozen=True)
class PdRule:
    """Slack by a PD controller; see `lw.pd_controller`. Late degrees are for the status only."""

    controller: PdController
    decay: float

    def aiming_at(self, target: float) -> PdRule:
        """Return the rule with another target."""
        return replace(self, controller=replace(self.controller, target=target))

    def step(self, known: RuleState, seen: RuleInput, model: Model) -> tuple[RuleState, int]:
        """Return the new state, and the slack of the next step."""
        del model
        after, slack = self.controller.step(
            known.pd or PdState(), given=seen.given, wanted=seen.wanted, passed=seen.passed
        )
        late = _added(_faded(known.degrees, self.decay), seen.degrees)
        return RuleState(degrees=late, pd=after), round(slack)


def _added(known: Degrees, seen: Degrees) -> Degrees:
    return tuple(a + b for a, b in zip(known, seen, strict=True)) if known else seen


def _faded(known: Degrees, decay: float) -> Degrees:
    return tuple(d.decayed(decay) for d in known)


def _smallest(
    wanted: float, degrees: Degrees, lags: Sequence[float], model: Model, granularity: int
) -> int:
    limit = max(d.largest for d in degrees)
    return smallest_slack(wanted, model(degrees, lags), granularity, limit)
