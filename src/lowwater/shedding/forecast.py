"""The forecast: how old results will be if some windows are dropped.

The forecast plays the next epochs in advance. An epoch reads the rows that arrived while the epoch
before it ran, so the next one reads rows that wait already. The epoch's work determines its length,
and its length the rows of the epoch after it. A window can be closed when the row arrives that
takes the watermark past its end. The epoch that reads this row decides on the watermark, and the
next epoch closes the window; the age of its result is the time from that arrival to the end of that
epoch. So neither slack nor waiting for rows is part of an age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lowwater.intervals import Intervals
from lowwater.shedding.arrivals import Rate
from lowwater.shedding.costs import Costs
from lowwater.shedding.drop_geometry import Slots, within
from lowwater.shedding.fair import Weighted

Floats = npt.NDArray[np.float64]
Slots_ = npt.NDArray[np.bool_]
EPOCHS_TO_ANSWER = 3
"""The largest number of epochs between the arrival of a row and the result that it completes."""
EPOCHS = 150
"""The forecast plays at most about this many epochs; it takes shorter ones together."""
SLOTS = 4096
"""The largest number of slots that the forecast looks at, before and after the newest row."""
NEARLY, LOST = 0.03, 0.3
"""A begun window that is late in any case may become later by the first share of the bound; if it
is late by the second share, it is lost, and nothing is dropped for it."""
MOST_BUSY = 0.95
"""Epochs that are taken together are not busier than this, or they would not be short."""
LEAST_BEHIND = 0.02
"""Rows that are on average fewer slots late than this are taken to be in order."""
NEVER = 1e18
"""The end of an epoch beyond the forecast."""


@dataclass(frozen=True)
class Outlook:
    """What is known at the end of an epoch; times on the clock are relative to it.

    - `slots`, `first`: The slots, and the first slot that has not begun.
    - `first_end`: The ticks from a slot's start to the end of its first window.
    - `newest`: The newest time of a row that was read.
    - `event`: The time of the rows that arrive now.
    - `speed`: The advance of event time per tick of the clock.
    - `slack`: The distance of the watermark behind the newest time.
    - `behind`: The mean late degree of rows: how far behind the newest time they are.
    - `waiting`: The number of rows that have arrived and were not read.
    - `rate`: The rate of arrivals.
    - `costs`, `results`: The costs, and the number of results per row if no window is dropped.
    - `dropped`: The dropped intervals of result times that have begun.
    - `closed`: The watermark that was in force: windows up to here have results.
    - `latency`: The largest age that the forecast accepts.
    - `lost`: Begun intervals of which some rows are skipped, with their share.
    - `sampled`: Whether rows are skipped instead of windows, so that all windows have results.
    """

    slots: Slots
    first: int
    first_end: int
    newest: int
    event: float
    speed: float
    slack: int
    behind: float
    waiting: float
    rate: Rate
    costs: Costs
    results: float
    dropped: Intervals
    closed: int
    latency: float
    lost: Weighted = ()
    sampled: bool = False

    @property
    def past(self) -> float:
        """How long ago the newest row that was read arrived."""
        return max(0.0, (self.event - self.newest) / self.speed)

    @cached_property
    def horizon(self) -> float:
        """The ticks from now until the last judged window can be closed, without a backlog."""
        ahead = (self.slots.lead + self.slots.slide + self.slack) / self.speed
        return max(self.latency, ahead)

    @cached_property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The slots of the forecast: those without a result so far, and those up to the horizon."""
        slide, overlap = self.slots.slide, self.slots.params.overlap
        back = (self.slots.lead + self.slack + 2 * self.speed * self.past) // slide + overlap + 2
        reach = self.event + self.speed * self.horizon - self.newest
        ahead = max(reach, slide) // slide + overlap + 2
        low, high = (int(min(span, SLOTS)) for span in (back, ahead))
        return np.arange(self.first - low, self.first + high)

    @property
    def end(self) -> int:
        """The slot after those for which the forecast needs decisions."""
        return int(self.numbers[-1]) + 1

    def with_share(self, share: float) -> Floats:
        """Return drops by slot, if `share` of the slots that have not begun is dropped."""
        return np.where(self.fresh, share, self._begun)

    def with_runs(self, chosen: Sequence[bool]) -> Floats:
        """Return drops by slot; `chosen` has the decision on each slot from the first on."""
        drops = self._begun.copy()
        drops[self.fresh] = chosen
        return drops

    @cached_property
    def fresh(self) -> npt.NDArray[np.bool_]:
        """Which slots have not begun."""
        return np.asarray(self.numbers >= self.first)

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.slots.anchor + self.numbers * self.slots.slide)

    @cached_property
    def _begun(self) -> Floats:
        begun = within(self.dropped, self._starts).astype(np.float64)
        for weight, intervals in self.lost:
            begun += weight * within(intervals, self._starts)
        return np.minimum(begun, 1.0)

    def triggers(self, end: int) -> Floats:
        """Return when the windows can be closed that end `end` ticks after their slot's start."""
        return np.asarray((self._starts + end + self.slack - self.event) / self.speed)

    @cached_property
    def begins(self) -> Floats:
        """When the first row of each slot arrives."""
        return np.asarray((self._starts - self.slots.lead - self.event) / self.speed)

    @cached_property
    def _rows(self) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
        """The times between which rows arrive, the rows by interval, and the slot of each."""
        inside = self.begins[(self.begins * self.speed + self.event) > self.newest]
        known = [-self.past, 0.0]
        edges = np.unique(np.concatenate([known, inside]))
        total = np.array([self._arrived(at) for at in edges.tolist()])
        middle = (edges[1:] + edges[:-1]) / 2
        slot = np.clip(np.searchsorted(self.begins, middle, "right") - 1, 0, None)
        return edges, np.diff(total), slot

    def _arrived(self, at: float) -> float:
        """Return how many of the unread rows will have arrived at a time."""
        if at >= 0:
            return self.waiting + self.rate.within(at)
        return self.waiting * (1 + at / self.past) if self.past else self.waiting

    def _work(self, drops: Floats, early: float) -> tuple[Floats, Floats]:
        """Return (times, the work of all unread rows that arrive until then)."""
        edges, rows, slot = self._rows
        unread = later(unread_share(drops, self.slots), self.behind / self.slots.slide)
        skipped = early * unread[slot]
        each = self.costs.kept * (1 - skipped) + self.costs.shed * skipped
        emitted = 1.0 if self.sampled else 1 - drops[slot]
        each = each + self.costs.result * self.results * emitted
        return edges, np.concatenate([[0.0], np.cumsum(rows * each)])

    def late(self, drops: Floats, early: float = 1.0, best: Floats | None = None) -> Slots_:
        """Return which slots have kept results that are too old.

        Slots are judged that begin before the next epoch ends; later decisions serve the others. A
        slot of which all windows are dropped saves the share `early` of its rows. `best` are the
        ages that no drops can improve: windows that are lost are not judged, others that are nearly
        lost must not become older.
        """
        ages, end = self.ages(drops, early)
        judged = (self.begins <= end) & (drops < 1) & self._open
        bound = np.full(len(ages), self.latency)
        if best is not None:
            begun = np.maximum(bound, best + NEARLY * self.latency)
            begun = np.where(best > (1 + LOST) * self.latency, np.inf, begun)
            bound = np.where(self.fresh, bound, begun)
        return np.asarray(judged & (ages > bound))

    @property
    def _open(self) -> Slots_:
        """Which slots have windows without a result."""
        return np.asarray(self._starts + self.slots.slide > self.closed)

    def ages(self, drops: Floats, early: float = 1.0) -> tuple[Floats, float]:
        """Return (the age of the results of each slot, when the next epoch ends)."""
        ends, short = self._epochs(*self._work(drops, early))
        windows = {self.first_end, self.slots.slide}
        ages = [self._ages(self.triggers(end), ends, short) for end in windows]
        return np.maximum.reduce(ages), float(ends[1])

    def _ages(self, triggers: Floats, ends: Floats, short: Floats) -> Floats:
        """Return the ages of results whose windows can be closed at the times `triggers`."""
        place = np.searchsorted(ends, triggers, "left")
        emitted = ends[np.minimum(place + 2, len(ends) - 1)]
        together = (place > 0) & (short[place] > 0)
        ages = np.where(together, EPOCHS_TO_ANSWER * short[place], emitted - triggers)
        return np.where(triggers <= -self.past, ends[1] - triggers, ages)

    def _epochs(self, times: Floats, work: Floats) -> tuple[Floats, Floats]:
        """Return (the ends of epochs, the length of each epoch that was taken with others or 0)."""
        least = max(self.latency / 100, self.horizon / EPOCHS)
        ends, short, before = [0.0], [0.0], 0.0
        while len(ends) <= EPOCHS_TO_ANSWER or (
            ends[-3] <= ends[1] + self.horizon and len(ends) < 3 * EPOCHS
        ):
            done = float(np.interp(ends[-1], times, work))
            length, apart = self.costs.fixed + done - before, 0.0
            if length < least and len(ends) > 1:
                busy = min((done - before) / max(ends[-1] - ends[-2], 1.0), MOST_BUSY)
                length, apart = least, min(self.costs.fixed / (1 - busy), least)
            ends.append(ends[-1] + length)
            short.append(apart)
            before = done
        return np.array([*ends, NEVER]), np.array([*short, 0.0, 0.0])


def unread_share(drops: Floats, slots: Slots) -> Floats:
    """Return the share of each slot's first `slide` ticks of rows that no kept slot needs.

    A row is needed by its own slot and by earlier ones. With shares instead of decisions, the drops
    are taken as runs as long as the overlap needs.

    >>> slots = Slots(anchor=0, slide=2, lead=2, size=3)
    >>> unread_share(np.array([0.0, 1.0, 1.0, 0.0]), slots).tolist()
    [0.0, 0.5, 1.0, 0.0]
    """
    whole, rest = divmod(slots.size, slots.slide)
    needs = drops.copy()
    for back in range(1, min(whole, len(drops))):
        needs[back:] = np.minimum(needs[back:], drops[:-back])
        needs[:back] = np.minimum(needs[:back], drops[0])
    if not rest or whole >= len(drops):
        return needs
    more = needs.copy()
    more[whole:] = np.minimum(needs[whole:], drops[: len(drops) - whole])
    return np.asarray(needs + (more - needs) * rest / slots.slide)


def later(shares: Floats, behind: float) -> Floats:
    """Return the shares that rows meet that are on average `behind` slots late.

    >>> later(np.array([1.0, 0.0, 0.0]), 1.0).round(2).tolist()
    [1.0, 0.63, 0.23]
    """
    if behind < LEAST_BEHIND:
        return shares
    # Late degrees are taken as exponential: `own` of the rows that arrive during a slot belong to
    # it, the others meet the shares of the slots before it.
    stays = float(np.exp(-1 / behind))
    own = 1 - behind * (1 - stays)
    met, before = shares.copy(), float(shares[0])
    for n, share in enumerate(shares.tolist()):
        met[n] = own * share + (1 - own) * before
        before = (1 - stays) * share + stays * before
    return met
