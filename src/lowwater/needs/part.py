"""One need and the windows of one output: its account, its largest slack, and its requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowwater.intervals import Intervals, union
from lowwater.learners.slack_frontier import SlackFrontier
from lowwater.needs.memory import PartMemory, Section, thinned
from lowwater.needs.pace import Pace
from lowwater.needs.rightness import Rightness
from lowwater.needs.statement import Need
from lowwater.needs.tally import Cause
from lowwater.windows.sliding import ScheduledWindow, Sliding

DELAY = 3
"""Epochs from the arrival of a row to the effect of a decision on it."""
FINAL = 0.999
"""The completeness of finals for which the slack is chosen, up to the largest slack of a need."""
SURE = 0.25
"""Finals become first answers if they exceed what is needed by this share of what may be wrong."""


@dataclass(frozen=True)
class PartNews:
    """The news of one need after an epoch.

    - `newest`: The newest time of the inputs.
    - `low`: The watermark that closed windows in the epoch.
    - `early`, `finals`: The ends of the windows of which the epoch emitted early results or finals.
    - `frontier`: The completeness of windows by slack.
    - `accuracies`: The accuracies of first answers that were early, of windows with new finals.
    - `closed`, `missed`: (end of a window, number of rows) of the rows in finals, and of rows that
      missed their windows; empty if they are not counted by window.
    """

    newest: int | None = None
    low: int | None = None
    early: Sequence[int] = ()
    finals: Sequence[int] = ()
    frontier: SlackFrontier = field(default_factory=SlackFrontier)
    accuracies: Sequence[float] = ()
    closed: Iterable[tuple[int, int]] = ()
    missed: Iterable[tuple[int, int]] = ()


@dataclass(frozen=True)
class EpochTimes:
    """The times of an epoch.

    - `began`, `now`: Its begin and its end.
    - `pace`: The pace of the run after it.
    - `decided`: The clock at the decision that was in force during the epoch.
    - `stopped`: Whether the run stood still before the epoch.
    """

    began: int
    now: int
    pace: Pace
    decided: int | None = None
    stopped: bool = False


@dataclass(frozen=True)
class NeedPart:
    """A need for the windows of one output.

    - `name`: The name of the output.
    - `operator`: The operator of these windows.
    - `windows`: The windows, whose ends are known in advance.
    - `inputs`: The inputs whose rows they hold.
    - `gives`: What may be given up, in order.
    - `waits`: Whether the need chooses the slack of all of these inputs.
    """

    name: str
    operator: int
    need: Need
    windows: tuple[ScheduledWindow, ...]
    inputs: tuple[int, ...]
    gives: tuple[str, ...]
    waits: bool = True

    @property
    def slide(self) -> int:
        """The smallest slide of the windows."""
        return min(w.slide for w in self.windows)

    @property
    def range(self) -> int:
        """The smallest range of the windows."""
        return min(w.range if isinstance(w, Sliding) else w.slide for w in self.windows)

    def tuned(self, given: Need | Mapping[str, Any]) -> NeedPart:
        """Return the part with another need, or with some of its arguments changed."""
        parts = given.to_parts() if isinstance(given, Need) else given
        return replace(self, need=self.need.changed(parts))

    def last_end(self, at: int) -> int:
        """Return the last window end at or before `at`."""
        return max(w.align(at) for w in self.windows)

    def ends(self, since: int, end: int) -> list[int]:
        """Return the window ends after `since` and up to `end`, the last ones first."""
        found = []
        while (end := self.last_end(end)) > since:
            found.append(end)
            end -= 1
        return found

    def advance(self, memory: PartMemory, news: PartNews, epoch: EpochTimes) -> PartMemory:
        """Return the memory after an epoch, with the decisions that follow."""
        after = self._accounted(memory, news, epoch)
        after = self._reached(after, news, epoch).above(news.low)
        after = self._limited(after, news.frontier, epoch.pace)
        return self.asked(self.closing(after, news.newest, epoch), news.newest, epoch)

    # -- requests ---------------------------------------------------------------------------------

    def asked(self, memory: PartMemory, newest: int | None, epoch: EpochTimes) -> PartMemory:
        """Return the memory with requests for the windows whose answers are due."""
        due = [s for s in memory.sections if s.asked is None and self._due(s, memory, epoch)]
        ahead = self._ahead(memory, newest, epoch)
        ends = [end for end in (memory.asked, ahead, *(s.end for s in due)) if end is not None]
        sections = tuple(replace(s, asked=epoch.now) if s in due else s for s in memory.sections)
        return replace(memory, sections=sections, asked=max(ends, default=None))

    def _due(self, section: Section, memory: PartMemory, epoch: EpochTimes) -> bool:
        """Return whether an answer that is requested after the next epoch could come too late.

        Where finals are the first answers, they have an epoch more before a request.
        """
        epochs = DELAY - 1 if memory.alone else DELAY
        return epoch.now + epochs * epoch.pace.length > section.moment + self.need.fresh_ticks

    def _ahead(self, memory: PartMemory, newest: int | None, epoch: EpochTimes) -> int | None:
        """Return the last end that the next epoch reaches and that is requested now; else None.

        Epochs of more than a third of `fresh` leave no time to request a window after its end.
        """
        late = DELAY * epoch.pace.length > self.need.fresh_ticks
        if newest is None or memory.reached is None or not late or "right" not in self.gives:
            return None
        return self.last_end(min(newest + epoch.pace.step, newest + self.range - 1))

    # -- limits -----------------------------------------------------------------------------------

    def _reached(self, memory: PartMemory, news: PartNews, epoch: EpochTimes) -> PartMemory:
        """Return the memory with the window ends that the newest time has reached."""
        if news.newest is None:
            return memory
        end, since = self.last_end(news.newest), memory.reached
        if since is None:
            since = end - self.slide - self.range
        if end <= since:
            return memory
        split = min(max(memory.asked or since, since), end)
        new = [Section(since, split, epoch.began, epoch.decided), Section(split, end, epoch.began)]
        sections = (*memory.sections, *(s for s in new if s.since < s.end))
        return replace(memory, reached=end, sections=thinned(sections))

    def _limited(self, memory: PartMemory, frontier: SlackFrontier, pace: Pace) -> PartMemory:
        """Return the memory with the largest slack, and whether finals are the first answers."""
        delay = DELAY * pace.length
        within = max(self.need.fresh_ticks - delay, 0)
        share, needed = frontier.completeness_at(within), self.need.completeness
        sure = needed if memory.alone else needed + SURE * (1 - needed)
        alone = share is not None and share >= sure
        exact = self.need.exact_ticks
        cap = None if exact is None else max(exact - delay, 0)
        latency = self._latency(frontier)
        return replace(memory, alone=alone, cap=within if alone else cap, latency=latency)

    def closing(self, memory: PartMemory, newest: int | None, epoch: EpochTimes) -> PartMemory:
        """Return the memory with a slack that closes the windows whose finals are due.

        In a silence event time stands still, and so does the watermark; only the clock shows that
        `exact` is near.
        """
        exact = self.need.exact_ticks
        if exact is None or newest is None or memory.cap is None:
            return memory
        soon = epoch.now + DELAY * epoch.pace.length - exact
        due = [newest - s.end for s in memory.sections if s.moment < soon]
        return replace(memory, cap=min([memory.cap, *due]))

    def _latency(self, frontier: SlackFrontier) -> int | None:
        """Return how long the work on a window may take before windows are dropped.

        If `right` gives way before windows, an answer may be requested as early as the work needs,
        so all of `fresh` is left for it. Otherwise the rows that make it right must be waited for,
        in at most half of the time: with longer epochs no wait would help.
        """
        if "windows" not in self.gives:
            return None
        before = self.need.gives_before("windows", self.gives)
        left = self.need.fresh_ticks
        if "right" not in before:
            left -= _wait(frontier, self.need.completeness, left // 2)
        if self.need.exact_ticks is not None and "exact" not in before:
            exact = self.need.exact_ticks
            left = min(left, exact - _wait(frontier, FINAL, exact // 2))
        return max(left, 1)

    # -- the account ------------------------------------------------------------------------------

    def _accounted(self, memory: PartMemory, news: PartNews, epoch: EpochTimes) -> PartMemory:
        """Return the memory with the answers of an epoch in the tally."""
        tally = memory.tally
        for end in (end for end in news.early if not memory.has_answered(end)):
            tally = tally.with_first(self._cause(memory, end, epoch), early=True)
        answered = union([*memory.answered, *((end - 1, end) for end in news.early)])
        after = replace(memory, answered=self._joined(answered))
        first = {end for end in news.finals if not after.has_answered(end)}
        for end in news.finals:
            if end in first:
                tally = tally.with_first(self._cause(memory, end, epoch), early=False)
            tally = tally.with_final(in_time=self._in_time(memory, end, epoch))
        return replace(after, tally=tally, rightness=self._judged(memory.rightness, news, first))

    def _judged(self, before: Rightness, news: PartNews, first: set[int]) -> Rightness:
        """Return the account of how right first answers were; `first` are finals among them."""
        rows: dict[int, int] = {}
        for end, count in news.closed:
            if end in first:
                rows[end] = rows.get(end, 0) + count
        early = before.with_early(news.accuracies, self.need.error)
        return early.with_missed(news.missed, self.need.error).with_finals(rows)

    def _joined(self, answered: Intervals) -> Intervals:
        """Return `answered` with intervals joined where no other window end lies between them."""
        joined: list[tuple[int, int]] = []
        for since, end in answered:
            near = bool(joined) and self.last_end(end - 1) <= joined[-1][1]
            joined.append((joined.pop()[0], end) if near else (since, end))
        return tuple(joined)

    def _cause(self, memory: PartMemory, end: int, epoch: EpochTimes) -> Cause | None:
        """Return why the first answer of a window is late; None if it is in time."""
        section = memory.section(end)
        if section is None or epoch.now - section.moment <= self.need.fresh_ticks:
            return None
        if section.asked is not None and section.asked != epoch.decided:
            return "lateness"
        return "stopped" if epoch.stopped else "work"

    def _in_time(self, memory: PartMemory, end: int, epoch: EpochTimes) -> bool:
        """Return whether a final that the epoch emits comes within `exact`."""
        exact, section = self.need.exact_ticks, memory.section(end)
        return exact is None or section is None or epoch.now - section.moment <= exact


def _wait(frontier: SlackFrontier, share: float, most: int) -> int:
    """Return the slack for a completeness, at most `most`."""
    needed = frontier.least(share)
    return most if needed is None else min(needed, most)
