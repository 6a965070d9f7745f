"""The rules that the arena judges, by name."""

from __future__ import annotations

import numpy as np

from experiments.arena.simulate import EpochNews, MakeRule
from experiments.arena.stream import ArenaStream
from lowwater.watermarks.adaptive.tournament import SlackNews, Tournament


class LibraryRule:
    """The rule of `lw.quality`, as the engine runs it: with histograms of what rows need."""

    def __init__(self, target: float, stream: ArenaStream) -> None:
        self.rule = Tournament(target, stream.range, stream.slide)
        self.memory = self.rule.begin()

    def step(self, news: EpochNews) -> float:
        """Return the slack after an epoch."""
        needed = self.rule.bins.count(news.needed, np.ones(len(news.needed), np.int64))
        told = SlackNews(news.newest, news.decided, needed, float(news.late.sum()))
        self.memory, slack = self.rule.step(self.memory, told)
        return slack


RULES: dict[str, MakeRule] = {"tournament": LibraryRule}
"""The rules that the arena judges, by name."""
