"""Rules that only the experiments run: that of the thesis, and targets for a whole run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowwater.watermarks.adaptive.rules import (
    Counts,
    FeedbackRule,
    Model,
    PdController,
    RuleInput,
    RuleState,
    added,
    faded,
    smallest,
)

PAID, SPENT = 2.0, 20.0
"""With a target for the whole run, a deficit is made up over `PAID` tracks, a surplus `SPENT`."""


def over_all(known: RuleState, aim: float, tracks: float = 1.0) -> float:
    """Return the quality that the next `tracks` tracks need, so that the whole run has `aim`.

    Each of these tracks is expected to have the usual number of results.
    """
    if known.usual <= 0:
        return aim
    return aim + (aim * known.wanted - known.given) / (known.usual * tracks)


@dataclass(frozen=True, kw_only=True)
class ThesisRule(FeedbackRule):
    """Algorithms 2 to 4 of QDJ unchanged (algorithm 2 tests K = 0 first).

    The slack changes only at the end of a track; `decay` then reduces the weight of late degrees.
    The lag between the streams is assumed constant.
    """

    def step(self, known: RuleState, seen: RuleInput, model: Model) -> tuple[RuleState, int]:
        """Return (new state of the rule, next slack in granules)."""
        known = replace(known.counted(seen), degrees=added(known.degrees, seen.degrees))
        if seen.passed < 1:
            return known, known.slack
        known = replace(known.next_track(), usual=known.now_wanted)
        wanted = self._wanted(known)
        slack = smallest(wanted, known.degrees, seen.lags[-1:], model, self.granularity)
        return replace(known, degrees=faded(known.degrees, self.decay), slack=slack), slack

    def _wanted(self, known: RuleState) -> float:
        del known
        return self.target


@dataclass(frozen=True, kw_only=True)
class ThesisOverall(ThesisRule):
    """The rule of the thesis with a target for the whole run."""

    def _wanted(self, known: RuleState) -> float:
        return over_all(known, self.target)


@dataclass(frozen=True, kw_only=True)
class FeedbackOverall(FeedbackRule):
    """The rule with feedback with a target for the whole run."""

    def _margin(self, known: RuleState) -> float:
        room = 1 - self.target
        margin = room / 10 if known.margin is None else known.margin
        missed = known.given < self.target * known.wanted
        # With an aim below the target, the whole run would miss the target.
        return min(max(0.0, margin + room / 10 * (missed - self.misses)), room / 2)

    def _need(self, known: RuleState) -> float:
        # A steady slack costs least: use up a surplus slowly, but make up for a deficit soon.
        room = 1 - self.target
        aim = self.target + (room / 10 if known.margin is None else known.margin)
        owed = aim * known.wanted > known.given
        return min(over_all(known, aim, PAID if owed else SPENT), 1 - room / 20)


@dataclass(frozen=True, kw_only=True)
class PdOverall(PdController):
    """A PD controller with a target for the whole run."""

    def judged(self, run: Counts, track: Counts) -> Counts:
        """Return the counts of the whole run."""
        del track
        return run
