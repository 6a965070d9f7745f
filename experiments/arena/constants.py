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
class Constants:
    """All fixed slacks that some row needs, in ascending order, and the completeness of each.

    `ends` are the ends of the windows over which completeness and wait are means.
    """

    stream: ArenaStream
    ends: Ticks
    slack: Ticks
    completeness: Floats

    @classmethod
    def of(cls, stream: ArenaStream, found: Incidences, judged: np.ndarray) -> Constants:
        """Return the constants over the windows of the mask `judged`."""
        mine = judged[found.window]
        slack, place = np.unique(np.append(found.needed[mine], 0), return_inverse=True)
        rows = np.bincount(place, np.append(found.count[mine], 0))
        kept = np.cumsum(rows) / max(rows.sum(), 1)
        return cls(stream, found.ends[judged], slack, kept)

    def least(self, completeness: float) -> int:
        """Return the smallest slack with at least this completeness."""
        place = int(np.searchsorted(self.completeness, completeness - 1e-12))
        return int(self.slack[min(place, len(self.slack) - 1)])

    def wait(self, slack: int) -> float:
        """Return the mean wait of the windows under a slack, in ticks."""
        closed = self.stream.cuts[closing_epochs(self.stream, self.ends + slack)]
        return float((closed - self.ends).mean())
