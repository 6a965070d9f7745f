"""The rule of QDJ for windows: algorithms 2 to 4, with the late degrees of rows and a model.

After each track the rule takes the smallest slack for which the model expects the target, and old
late degrees lose weight. A window of R granules misses a row x granules before its end if the row's
late degree is above slack + x; so the model is the mean of the distribution function of late
degrees from the slack to the slack plus R. The thesis leaves the length of a track to the user:
here it is the distance between two windows.
"""

from __future__ import annotations

import numpy as np

from experiments.arena.simulate import EpochNews
from experiments.arena.stream import ArenaStream, Floats

DECAY = 0.8
"""The factor on the weight of late degrees after each track (QDJ table 6.2)."""
GRANULES = 64
"""The number of granules in a window."""
LONGEST = 64 * GRANULES
"""Longer late degrees count as this many granules."""


class ThesisRule:
    """The smallest slack for which the model expects the target.

    `degrees` counts the late degrees of rows, in granules; `lag` is the mean distance that the
    newest time advances until its watermark is in force.
    """

    def __init__(self, target: float, stream: ArenaStream) -> None:
        self.target = target
        self.granule = max(stream.range // GRANULES, 1)
        self.track = stream.slide
        self.degrees = np.zeros(LONGEST + 1)
        self.ended: int | None = None
        self.lag, self.slack = 0.0, 0.0

    def step(self, news: EpochNews) -> float:
        """Return the slack after an epoch."""
        late = np.minimum(-(-news.degrees // self.granule), LONGEST)
        np.add.at(self.degrees, late, 1.0)
        self.lag += 0.1 * ((news.newest - news.decided) / self.granule - self.lag)
        track = news.newest // self.track
        if self.ended is None or track > self.ended:
            self.ended = track
            self.slack = self._smallest() * self.granule
            self.degrees *= DECAY
        return self.slack

    def _smallest(self) -> float:
        """Return the smallest slack in granules that keeps the target by the model."""
        enough = self.expected() >= self.target - 1e-12
        place = int(enough.argmax()) if enough.any() else LONGEST
        return max(place - self.lag, 0.0)

    def expected(self) -> Floats:
        """Return the share of rows that reach their window in time, for each slack in granules."""
        share = np.cumsum(self.degrees) / max(self.degrees.sum(), 1e-9)
        upto = np.append(0.0, np.cumsum(np.append(share, np.ones(GRANULES))))
        return np.asarray((upto[GRANULES:] - upto[:-GRANULES])[:LONGEST] / GRANULES)
