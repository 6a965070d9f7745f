"""How a slack follows from a quality target: by the model of QDJ, and by what was delivered.

A rule is asked at the end of every step, of which a track has one or more, and returns the slack of
the next step in granules. What it remembers is a value that survives JSON, because it lives in the
control log. Which quality a slack gives is asked of a model, so that the same rules serve joins in
order of time, joins in any order, and aggregates.

`ByModel` is the rule of the thesis, algorithms 2 to 4 as they stand (algorithm 2 with K = 0 tested
first). `ByFeedback` is ours, and differs in four ways.

- It looks at what the track has delivered so far and asks the model for the slack that gives the
  rest of it what the target still needs; a track that fares well pays for no more than it must.
- The lag of the streams is averaged over the last track, not taken from one moment.
- A miss costs more than a wait: the aim is off the target by a margin that grows with every track
  that misses and shrinks, 24 times slower, with every one that does not, so that in the long run
  one track in 25 (`misses`) misses, as long as what half of the room above the target buys is
  enough for that.
- When late degrees change abruptly, what was known of them is forgotten (`changes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from lowwater.progress.changes import changed
from lowwater.progress.late_degrees import LateDegrees
from lowwater.progress.model import smallest_slack

Degrees: TypeAlias = tuple[LateDegrees, ...]
QualityOf: TypeAlias = Callable[[Any], Any]
Model: TypeAlias = Callable[[Degrees, Sequence[float]], QualityOf]
"""From late degrees of each stream, and lags at several moments, to the quality of a slack."""

MOMENTS = 16
"""How many lags are remembered."""
VARIES = 0.1
"""How fast it is learned by how much the results of tracks vary."""
BURST = 2.0
"""How many times that the rest of a track may have more."""
FRESH = 0.5**5
"""What is left, after a track, of the weight of what came last; half after a fifth of one."""
PAID, SPENT = 2.0, 20.0
"""Over how many tracks all results so far make up for what they lack, and use what they have."""


@dataclass(frozen=True)
class Observed:
    """What has happened since a rule was last asked.

    `degrees` are those of the rows that came, by stream; `lags` how far the first stream was ahead
    of the other, in granules, at several moments, the last being the latest; empty for one stream.
    `given` results became final, and so many more were found to be `wanted`: of the same times, and
    of earlier ones by rows that came too late. `passed` is the share of the track that has passed;
    1 ends it.
    """

    degrees: Degrees
    lags: Sequence[float] = ()
    given: float = 0.0
    wanted: float = 0.0
    passed: float = 1.0


@dataclass(frozen=True)
class Remembered:
    """What a rule knows.

    `degrees` fade by the track, those of `fresh` by the step. `given` and `wanted` are of all
    results, `now_given` and `now_wanted` of this track; `usual` is what a track
    wants, `varies` by how much that differs from one to the next.
    """

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

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        late = {name: [d.to_json() for d in getattr(self, name)] for name in ("degrees", "fresh")}
        return {**vars(self), **late, "lags": list(self.lags)}

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Remembered:
        """Read it back."""
        late = {n: tuple(map(LateDegrees.from_json, known[n])) for n in ("degrees", "fresh")}
        return cls(**{**known, **late, "lags": tuple(known["lags"])})

    def counted(self, seen: Observed) -> Remembered:
        """Return this with the results that were observed."""
        return replace(
            self,
            lags=(*self.lags, *map(float, seen.lags))[-MOMENTS:],
            given=self.given + seen.given,
            wanted=self.wanted + seen.wanted,
            now_given=self.now_given + seen.given,
            now_wanted=self.now_wanted + seen.wanted,
            passed=seen.passed,
        )

    def next_track(self) -> Remembered:
        """Return this at the beginning of a track."""
        now = self.now_wanted
        usual = (self.usual + now) / 2 if self.usual else now
        varies = self.varies + VARIES * (abs(now - (self.usual or now)) - self.varies)
        return replace(self, now_given=0.0, now_wanted=0.0, usual=usual, varies=varies, passed=0.0)

    def over_all(self, aim: float, tracks: float = 1.0) -> float:
        """Return the quality that the next tracks need for all results to reach the aim.

        As many results are expected of each as of those before.
        """
        if self.usual <= 0:
            return aim
        return aim + (aim * self.wanted - self.given) / (self.usual * tracks)

    def of_the_rest(self, aim: float) -> float:
        """Return the quality that the rest of this track needs for the track to reach the aim.

        A debt is spread over as many results as are expected; what is ahead of the aim over more,
        by as much as tracks vary: a burst at the end would use it up.
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
class ByModel:
    """Algorithms 2 to 4: the smallest slack whose estimated quality is the target.

    It is set at the end of a track. Late degrees then fade by `decay`, and the lag of the streams
    is taken to stay what it is. With `overall`, the target is one for all results so far.
    """

    target: float
    decay: float = 0.8
    overall: bool = False
    granularity: int = 1

    def aiming_at(self, target: float) -> ByModel:
        """Return the rule with another target."""
        return replace(self, target=target)

    def step(self, known: Remembered, seen: Observed, model: Model) -> tuple[Remembered, int]:
        """Return what to remember, and the slack of the next step."""
        known = replace(known.counted(seen), degrees=_added(known.degrees, seen.degrees))
        if seen.passed < 1:
            return known, known.slack
        known = replace(known.next_track(), usual=known.now_wanted)
        wanted = known.over_all(self.target) if self.overall else self.target
        slack = _smallest(wanted, known.degrees, seen.lags[-1:], model, self.granularity)
        return replace(known, degrees=_faded(known.degrees, self.decay), slack=slack), slack


@dataclass(frozen=True, kw_only=True)
class ByFeedback:
    """The smallest slack that gives the rest of the track what the target still needs of it."""

    target: float
    decay: float = 0.8
    overall: bool = False
    granularity: int = 1
    misses: float = 0.04

    def aiming_at(self, target: float) -> ByFeedback:
        """Return the rule with another target."""
        return replace(self, target=target)

    def step(self, known: Remembered, seen: Observed, model: Model) -> tuple[Remembered, int]:
        """Return what to remember, and the slack of the next step."""
        known = self._late(known, seen).counted(seen)
        if seen.passed >= 1:
            known = replace(known, margin=self._margin(known)).next_track()
        slack = _smallest(self._need(known), known.degrees, known.lags, model, self.granularity)
        return replace(known, slack=slack), slack

    def _late(self, known: Remembered, seen: Observed) -> Remembered:
        """Take late degrees in; forget what no longer holds."""
        passed = max(0.0, seen.passed - known.passed)
        slow = _added(_faded(known.degrees, self.decay**passed), seen.degrees)
        fresh = _added(_faded(known.fresh, FRESH**passed), seen.degrees)
        if any(changed(f, d) for f, d in zip(fresh, known.degrees, strict=False)):
            slow = fresh = seen.degrees
        return replace(known, degrees=slow, fresh=fresh)

    def _margin(self, known: Remembered) -> float:
        """Return by how much to aim above the target, after a track."""
        room = 1 - self.target
        margin = room / 10 if known.margin is None else known.margin
        pairs = (known.given, known.wanted) if self.overall else (known.now_given, known.now_wanted)
        missed = pairs[0] < self.target * pairs[1]
        # All results so far never recover from an aim below the target; a track is a new beginning.
        least = 0.0 if self.overall else -room / 2
        return min(max(least, margin + room / 10 * (missed - self.misses)), room / 2)

    def _need(self, known: Remembered) -> float:
        """Return the quality that is asked of the model."""
        room = 1 - self.target
        aim = self.target + (room / 10 if known.margin is None else known.margin)
        if self.overall:
            # A steady wait is the shortest: what is ahead is spent slowly, what is owed paid soon.
            owed = aim * known.wanted > known.given
            asked = known.over_all(aim, PAID if owed else SPENT)
        else:
            asked = known.of_the_rest(aim)
            if asked > 1 and known.of_the_rest(self.target) > 1:
                asked = aim  # What cannot be saved is not worth a wait.
        # The last rows of all are the dearest: what is made up is made up over a few steps.
        return min(asked, 1 - room / 20)


def _added(known: Degrees, seen: Degrees) -> Degrees:
    return tuple(a + b for a, b in zip(known, seen, strict=True)) if known else seen


def _faded(known: Degrees, decay: float) -> Degrees:
    return tuple(d.decayed(decay) for d in known)


def _smallest(
    wanted: float, degrees: Degrees, lags: Sequence[float], model: Model, granularity: int
) -> int:
    limit = max(d.largest for d in degrees)
    return smallest_slack(wanted, model(degrees, lags), granularity, limit)
