"""The join of QDJ (algorithm 1): slack buffers, a sync buffer, results in order of time, counted.

Rows of two streams come in one order of arrival. Each passes a buffer that holds it until the
newest time of its stream is `slack` past its own. A buffer never takes back a row when the slack
grows: a row behind the newest row that passed goes through at once. Then the window end is the
smaller of the two newest times that came through, in units of the slide, and a pair of rows is a
result of time t, the larger of their times, if each came through before the window end was past t.
This sums up situations 1 to 4c; `tests/reference/qdj.py` has them word by word. So results can be
counted without being made: of time t there are on_a * held_b + on_b * held_a - on_a * on_b, where
`on` are the rows of time t that came in time and `held` the rows in the window. A row is in the
window from max(t, window end) on. A window of W holds rows of W units, the last being t (the
algorithm, against definition 8).

The join that queries run (`lowwater/operators/join/ordered_kernel.py`) keeps rows and works by
epochs. Here every row moves the window end, as in the thesis, and pairs are too many to be made
(semantics 27).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

NEVER = np.int64(-(1 << 60))


@dataclass(frozen=True)
class Pair:
    """Two streams in one order of arrival: times in ticks from 0 on, and whose each is."""

    ts: Ints
    side: npt.NDArray[np.int8]

    @property
    def clocks(self) -> tuple[Ints, Ints]:
        """The newest time of each side, after every row."""
        a, b = (np.maximum.accumulate(np.where(self.side == s, self.ts, NEVER)) for s in (0, 1))
        return a, b

    def cut(self, step: int) -> list[Pair]:
        """Return the rows up to each time that is a multiple of `step`, in order of arrival."""
        newest = np.maximum.accumulate(self.ts) // step
        at = np.flatnonzero(np.diff(newest)) + 1
        return [
            Pair(t, s) for t, s in zip(np.split(self.ts, at), np.split(self.side, at), strict=True)
        ]


@dataclass(frozen=True)
class Windows:
    """How long rows are kept, in units, and how long a unit, the slide, is in ticks."""

    kept: tuple[int, int]
    unit: int


@dataclass
class _Side:
    """What is known of one stream."""

    window: int
    size: int
    clock: int = int(NEVER)
    passed: int = int(NEVER)
    """Up to which time its buffer has let rows pass."""
    newest: int = int(NEVER)
    """The newest unit that came through."""
    level: float = 0.0
    """How many rows the window held at the last time that was settled."""
    waiting: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        self.on, self.seen = np.zeros(self.size), np.zeros(self.size)
        self.moved = np.zeros(self.size + self.window + 1)

    def release(self, ts: Ints, at: Ints, slack: int) -> tuple[Ints, Ints]:
        """Take rows in; return those that come through, and with which arrival."""
        if not len(ts):
            return ts, at
        clock = np.maximum(np.maximum.accumulate(ts), self.clock)
        passed = np.maximum(clock - slack, self.passed)
        pool = np.concatenate((self.waiting, ts))
        own = np.concatenate((np.zeros(len(self.waiting), np.int64), np.arange(len(ts))))
        when = np.maximum(own, np.searchsorted(passed, pool))
        out = when < len(ts)
        self.waiting, self.clock, self.passed = pool[~out], int(clock[-1]), int(passed[-1])
        return pool[out], at[when[out]]

    def take(self, units: Ints, end: Ints) -> None:
        """Count rows that came through when the window end was `end`."""
        np.add.at(self.on, units[end <= units], 1)
        kept = end < units + self.window
        np.add.at(self.moved, np.maximum(units, end)[kept], 1)
        np.add.at(self.moved, units[kept] + self.window, -1)

    def held(self, since: int, until: int) -> Floats:
        """Return how many rows the window holds at each time; each is asked for once, in order."""
        found = self.level + np.cumsum(self.moved[since:until])
        self.level = float(found[-1])
        return np.asarray(found)


class Join:
    """Algorithm 1 at work: `feed` rows, `settle` what cannot change any more, read `given`."""

    def __init__(self, windows: Windows, last: int, *, sync: bool = True) -> None:
        self.windows = windows
        # Without a sync buffer nothing waits for the other stream: the leading one moves windows.
        self.which = (min, np.minimum) if sync else (max, np.maximum)
        self.units = last // windows.unit + 1
        self.sides = tuple(_Side(w, self.units) for w in windows.kept)
        self.given, self.known = np.zeros(self.units), np.zeros(self.units)
        self.settled = 0
        self.buffered, self.rows = 0.0, 0

    @property
    def end(self) -> int:
        """The window end; results before it are all there."""
        return max(0, self.which[0](s.newest for s in self.sides))

    def feed(self, rows: Pair, slacks: tuple[int, int]) -> None:
        """Take rows in under a slack for each side."""
        unit, at = self.windows.unit, np.arange(len(rows.ts))
        self._weigh(rows, slacks)
        outs = []
        for number, side in enumerate(self.sides):
            mine = rows.side == number
            np.add.at(side.seen, rows.ts[mine] // unit, 1)
            outs.append(side.release(rows.ts[mine], at[mine], slacks[number]))
        ts, when = (np.concatenate(both) for both in zip(*outs, strict=True))
        whose = np.repeat(np.arange(2), [len(out[0]) for out in outs])
        order = np.lexsort((ts, when))
        units, whose = ts[order] // unit, whose[order]
        ends = self._ends(units, whose)
        for number, side in enumerate(self.sides):
            side.take(units[whose == number], ends[whose == number])

    def _ends(self, units: Ints, whose: Ints) -> Ints:
        """Return the window end that each row meets, and move it."""
        newest = []
        for number, side in enumerate(self.sides):
            seen = np.concatenate(([side.newest], np.where(whose == number, units, NEVER)))
            newest.append(np.maximum.accumulate(seen))
            side.newest = int(newest[-1][-1])
        return np.maximum(self.which[1](*newest), 0)[:-1]

    def _weigh(self, rows: Pair, slacks: tuple[int, int]) -> None:
        """Add up how long the buffers are: from the newest time to what may pass on both sides."""
        clocks = [
            np.maximum(clock, side.clock)
            for clock, side in zip(rows.clocks, self.sides, strict=True)
        ]
        passed = [
            np.maximum(clock - slack, side.passed)
            for clock, slack, side in zip(clocks, slacks, self.sides, strict=True)
        ]
        size = np.maximum(*clocks) - self.which[1](*passed)
        begun = np.minimum(*clocks) > NEVER
        self.buffered += float(size[begun].sum())
        self.rows += int(begun.sum())

    def settle(self, *, last: bool = False) -> tuple[float, float]:
        """Count the results that have become final, and those that are known to be wanted.

        Rows that come too late make more of earlier times wanted. With `last` results at the
        window end are counted, too: nothing comes any more.
        """
        since, until = self.settled, min(self.end + last, self.units)
        if until <= since:
            return 0.0, 0.0
        known = max(0, since - max(self.windows.kept))
        a, b = (side.held(since, until) for side in self.sides)
        on_a, on_b = (side.on[since:until] for side in self.sides)
        self.given[since:until] = on_a * b + on_b * a - on_a * on_b
        self.settled = until
        wanted = self.wanted(known, until)
        more = float(wanted.sum() - self.known[known:until].sum())
        self.known[known:until] = wanted
        return float(self.given[since:until].sum()), more

    def wanted(self, since: int = 0, until: int | None = None) -> Floats:
        """Return how many results there should be, of the rows that have arrived so far."""
        until = self.units if until is None else until
        counted = [s.seen[since:until] for s in self.sides]
        held = [_held(s.seen, s.window, since, until) for s in self.sides]
        return counted[0] * held[1] + counted[1] * held[0] - counted[0] * counted[1]


def _held(seen: Floats, window: int, since: int, until: int) -> Floats:
    """Return how many rows the window holds that ends at each time."""
    first = max(0, since - window)
    total = np.concatenate(([0.0], np.cumsum(seen[first:until])))
    ends = np.arange(since, until) + 1 - first
    return np.asarray(total[ends] - total[np.maximum(0, ends - window)])
