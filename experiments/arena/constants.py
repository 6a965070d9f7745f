"""Every fixed slack at once: the completeness and the mean wait of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.arena.incidence import Incidences
from experiments.arena.stream import ArenaStream, Floats, Ticks


def closing_epochs(stream: ArenaStream, reach: Ticks) -> Ticks:
    """Return the epoch at whose end windows close that need the newest time to be at `reach`."""
    decided = np.searchsorted(stream.newest, reach, side="left")
    return np.minimum(decided + 1, len(stream.cuts) - 1)


@dataclass(frozen=True, eq=False)
class Frontier:
    """Fixed slacks in ascending order, the completeness and the mean wait in ticks of each."""

    slack: Ticks
    completeness: Floats
    wait: Floats

    @classmethod
    def of(cls, stream: ArenaStream, found: Incidences, judged: np.ndarray) -> Frontier:
        """Return the frontier over the windows of the mask `judged`."""
        needed = np.sort(found.needed[judged[found.window]])
        if not len(needed):
            return cls(np.zeros(1, np.int64), np.ones(1), np.zeros(1))
        shares = np.unique(np.concatenate([np.linspace(0, 1, 201), 1 - np.logspace(-4, -0.3, 200)]))
        at = np.minimum((shares * len(needed)).astype(int), len(needed) - 1)
        slack = np.unique(np.concatenate([[0], needed[at]]))
        kept = np.searchsorted(needed, slack, side="right") / len(needed)
        ends = found.ends[judged]
        waits = [
            float((stream.cuts[closing_epochs(stream, ends + k)] - ends).mean()) for k in slack
        ]
        return cls(slack, kept, np.array(waits))

    def least(self, completeness: float) -> int:
        """Return the place of the smallest slack with at least this completeness."""
        place = int(np.searchsorted(self.completeness, completeness - 1e-12))
        return min(place, len(self.slack) - 1)
