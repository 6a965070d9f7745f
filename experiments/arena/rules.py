"""The rules that the arena judges, by name: the library's, and rules to compare with."""

from __future__ import annotations

from experiments.arena.constants import Constants
from experiments.arena.incidence import Incidences
from experiments.arena.simulate import EpochNews, FixedSlack, MakeRule
from experiments.arena.stream import ArenaStream
from experiments.arena.thesis_rule import ThesisRule
from lowwater.watermarks.adaptive.tournament import SlackNews, Tournament

PROPORTIONAL, DERIVATIVE = 20.0, 0.0
"""Gains of the PD controller, in ranges per unit of quality.

Of a grid of 14, on nine families and two tuning seeds: the fewest missed targets, then the shortest
waits.
"""
TENTH = 10
"""The fixed slack is read off the first tenth of the stream."""


class LibraryRule:
    """The rule of `lw.quality`, as the engine runs it: with histograms of what rows need."""

    def __init__(self, target: float, stream: ArenaStream) -> None:
        self.rule = Tournament(target, stream.range, stream.slide)
        self.memory = self.rule.begin()

    def step(self, news: EpochNews) -> float:
        """Return the slack after an epoch."""
        told = SlackNews(news.newest, news.decided, news.needed, float(news.late))
        self.memory, slack = self.rule.step(self.memory, told)
        return slack


class PdControl:
    """A proportional-derivative controller (QDJ 6.2.3), which reads the quality of each track."""

    def __init__(self, target: float, stream: ArenaStream) -> None:
        self.target = target
        self.range, self.track = stream.range, stream.slide
        self.slack, self.error = 0.0, 0.0
        self.given = self.late = 0
        self.ended: int | None = None

    def step(self, news: EpochNews) -> float:
        """Return the slack after an epoch."""
        self.given, self.late = self.given + news.given, self.late + news.late
        track = news.newest // self.track
        if self.given and (self.ended is None or track > self.ended):
            error = self.target - (1 - self.late / self.given)
            change = PROPORTIONAL * error + DERIVATIVE * (error - self.error)
            self.slack = max(self.slack + change * self.range, 0.0)
            self.given, self.late, self.error, self.ended = 0, 0, error, track
        return self.slack


def profiled(target: float, stream: ArenaStream) -> FixedSlack:
    """Return the smallest fixed slack that keeps the target over the first tenth of the windows."""
    found = Incidences.of(stream)
    first = found.ends <= found.ends[len(found.ends) // TENTH]
    return FixedSlack(Constants.of(stream, found, first).least(target))


RULES: dict[str, MakeRule] = {"tournament": LibraryRule}
"""The rules whose verdicts count."""
BASELINES: dict[str, MakeRule] = {"thesis": ThesisRule, "PD": PdControl, "profiled": profiled}
"""Rules to compare with."""
