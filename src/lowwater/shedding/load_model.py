"""The load model: from the measurements of epochs to the load, and to the outlook on ages.

The load is the work that arrived within the bound on latency, with the fixed costs of three epochs,
by the bound. Three epochs pass at most from an arrival to a result. If the load is below 1 over
every interval as long as the bound, any three neighbouring epochs are shorter than the bound: their
work arrived during three epochs, which were shorter in turn. So no result is too old, and nothing
needs to be dropped, however the rows are distributed. The load model therefore asks for a forecast
only once the load has reached `FULL`.

Rows that wait because the first epochs of a run were slow are not load; they are *excused*. After a
pause of the machine or of the source, the waiting rows are work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from lowwater.intervals import Intervals
from lowwater.shedding.arrivals import Arrived, Recent, extended, lead, rate, rows_within, speed
from lowwater.shedding.choice import Choice
from lowwater.shedding.costs import CostMemory, Epoch
from lowwater.shedding.drop_geometry import Slots
from lowwater.shedding.fair import Weighted
from lowwater.shedding.forecast import EPOCHS_TO_ANSWER, Outlook

FULL = 0.85
"""The load from which windows may be dropped."""
MARGIN = 0.85
"""The model aims at this share of the bound, because the length of epochs varies."""
LEARNING = 0.2
"""The weight of the newest epoch in the results per row, and in the mean late degree."""


@dataclass(frozen=True)
class LoadMemory:
    """The memory of the load model.

    - `now`, `newest`: The system clock and the newest time at the end of the last epoch.
    - `read`: The system clock at its begin, when its rows were read.
    - `costs`: The memory of the costs.
    - `recent`: The arrivals of about the last `latency` ticks.
    - `lead`: The largest recent lead of event time over the system clock.
    - `behind`: The mean late degree of rows.
    - `results`: The number of results per row if no window is dropped.
    - `waiting`: The number of rows that wait at the sources; None if unknown.
    - `excused`: The number of rows that wait because of a warm-up.
    - `choice`: The share of windows to drop, and what limits the bound.
    - `load`: The work that arrives by capacity.
    - `beyond`: The number of consecutive epochs up to now in which `max_gap` limited the bound.
    - `closed`: {operator of a shut-down query: arrival rate at the shut-down}.
    """

    VERSION: ClassVar[int] = 3

    now: int | None = None
    newest: int | None = None
    read: float | None = None
    costs: CostMemory = field(default_factory=CostMemory)
    recent: Recent = ()
    lead: float | None = None
    behind: float = 0.0
    results: float | None = None
    waiting: int | None = None
    excused: float = 0.0
    choice: Choice = field(default_factory=Choice)
    load: float | None = None
    beyond: int = 0
    closed: Mapping[int, float] = field(default_factory=dict)

    @property
    def each(self) -> float:
        """The cost of a row, with its share of the results."""
        cost = self.costs.cost
        return 0.0 if cost is None else cost.kept + cost.result * (self.results or 0.0)

    @property
    def fixed(self) -> float:
        """The fixed cost of an epoch."""
        return 0.0 if self.costs.cost is None else self.costs.cost.fixed

    @property
    def unread(self) -> float:
        """The number of rows that wait at the sources.

        If the sources report none, those that arrived since the last epoch read its rows, at the
        present rate.
        """
        if self.waiting is not None:
            return self.waiting
        if not self.recent or self.now is None or self.read is None:
            return 0.0
        return rate(self.recent, 1).rows * (self.now - self.read)

    def after(
        self,
        epoch: Epoch,
        newest: int | None,
        now: int,
        latency: int,
        *,
        sampled: bool = False,
    ) -> LoadMemory:
        """Return the memory after `epoch`, without a new choice.

        If rows are `sampled`, results do not get fewer with the rows.
        """
        costs = self.costs.after(epoch)
        arrived = self._arrived(epoch, newest, now)
        recent = self.recent if arrived is None else extended(self.recent, arrived, latency)
        ahead = self.lead
        if newest is not None and newest != self.newest:
            ahead = lead(self.lead, newest, now - epoch.took, epoch.elapsed)
        after = replace(
            self,
            now=now,
            newest=newest,
            read=now - epoch.took,
            costs=costs,
            recent=recent,
            lead=ahead,
            behind=self._behind(epoch),
            results=self._results(epoch, 0.0 if sampled else self.choice.share),
            waiting=epoch.waiting,
        )
        work = after.each * rows_within(recent, latency)
        load = (work + EPOCHS_TO_ANSWER * after.fixed) / latency
        excused = after.still_excused(self, epoch, arrived, latency)
        return replace(after, load=load, excused=excused)

    def _arrived(self, epoch: Epoch, newest: int | None, now: int) -> Arrived | None:
        """Return the rows that arrived during the epoch, or None if unknown.

        If sources do not report waiting rows, the epoch has read the rows that arrived since the
        epoch before it read its own. The first epoch of a run reads rows that waited for it.
        """
        step = 0 if newest is None or self.newest is None else newest - self.newest
        apart = 0.0 if self.read is None else now - epoch.took - self.read
        if epoch.run == 0:
            return None if epoch.waiting is None else Arrived(epoch.took, epoch.waiting)
        if epoch.waiting is not None:
            rows = epoch.rows + epoch.waiting - (self.waiting or 0)
            return Arrived(epoch.elapsed, max(0, rows), step, apart)
        return Arrived(epoch.elapsed if self.read is None else apart, epoch.rows, step, apart)

    def _results(self, epoch: Epoch, share: float) -> float | None:
        """Return the number of results per row if no window were dropped."""
        if not epoch.rows or share >= 1:
            return self.results
        now = epoch.results / epoch.rows / (1 - share)
        return now if self.results is None else self.results + LEARNING * (now - self.results)

    def _behind(self, epoch: Epoch) -> float:
        if not epoch.rows:
            return self.behind
        return self.behind + LEARNING * (epoch.behind / epoch.rows - self.behind)

    def still_excused(
        self, before: LoadMemory, epoch: Epoch, arrived: Arrived | None, latency: int
    ) -> float:
        """Return how many of the waiting rows wait because of the first epochs of the run.

        While the excused rows are processed, more rows arrive, and these are excused as well.
        """
        busy = min(1.0, self.each * rate(self.recent, latency).rows)
        excused = busy * before.excused
        if not self.costs.settled and arrived is not None:
            excused += arrived.rows * (1 - before.costs.explained(epoch))
        return min(excused, self.unread)

    def overloaded(self, latency: int) -> bool:
        """Return whether more work has arrived than can be done in time."""
        if not self.costs.known or self.load is None:
            return False
        backlog = self.each * (self.unread - self.excused) + EPOCHS_TO_ANSWER * self.fixed
        return max(self.load, backlog / latency) > FULL

    def aim(self, latency: int) -> float:
        """Return the age to aim at: below the bound, because epochs vary, but within reach."""
        least = (EPOCHS_TO_ANSWER + 1) * self.fixed
        return max(MARGIN * latency / (1 + self.costs.surprise / 2), least)

    def event(self) -> tuple[float, float]:
        """Return (the time of the rows that arrive now, the speed of event time)."""
        assert self.newest is not None and self.now is not None and self.read is not None  # noqa: S101, PT018
        fast = speed(self.recent)
        event = self.newest + fast * (self.now - self.read)
        if fast == 1 and self.lead is not None:
            event = max(event, self.now + self.lead)
        return event, fast

    def reach(self, latency: int) -> float:
        """Return how far after the newest time rows may be that arrive within `latency`."""
        if self.newest is None or self.read is None:
            return 0.0
        event, fast = self.event()
        return event + fast * latency - self.newest

    def outlook(self, slots: Slots, begun: Begun, latency: int) -> Outlook | None:
        """Return the outlook, or None before the first row or while costs are not known."""
        if self.newest is None or self.costs.cost is None or self.now is None:
            return None
        event, fast = self.event()
        return Outlook(
            slots,
            slots.first_after(self.newest),
            begun.first_end,
            self.newest,
            event,
            fast,
            begun.slack,
            self.behind,
            self.unread,
            rate(self.recent, latency),
            self.costs.cost,
            self.results or 0.0,
            begun.dropped,
            begun.closed,
            self.aim(latency),
            begun.lost,
            begun.sampled,
        )


@dataclass(frozen=True)
class Begun:
    """The windows that have begun: the dropped ones, the watermark in force, and its distance.

    `dropped` are intervals of result times; `slack` is the distance of watermarks behind the newest
    time after the epoch, `first_end` the ticks from a slot's start to the end of its first window.
    `lost` are intervals of which some rows are skipped, with their share. If rows are `sampled`,
    all windows have results.
    """

    dropped: Intervals
    closed: int
    slack: int
    first_end: int
    lost: Weighted = ()
    sampled: bool = False


def costliest(rows: Mapping[int, float], closed: Sequence[int]) -> int | None:
    """Return the operator not in `closed` with the most rows; None if fewer than two are open.

    `rows` has the rows of each operator by its weight.
    """
    open_ones = {n: count for n, count in rows.items() if n not in closed}
    return max(open_ones, key=lambda n: (open_ones[n], n)) if len(open_ones) > 1 else None
