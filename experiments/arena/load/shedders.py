"""The shedders that the arena compares: the library's, and one that follows the load."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np

import lowwater as lw
from experiments.arena.load.machine import LoadStream, MachineEpoch
from lowwater.control.context import InputProgress
from lowwater.control.drop import DropPlan
from lowwater.control.measures import EpochMeasure, InputMeasure, Measures, ShardMeasure
from lowwater.control.report import EpochReport
from lowwater.control.watermark import Watermarks
from lowwater.intervals import Intervals
from lowwater.shedding.coin import Place, Rule, decide, dropped_runs
from lowwater.shedding.drop_geometry import Root, Slots
from lowwater.shedding.policy import Gives
from lowwater.shedding.shed_memory import ShedMemory
from lowwater.shedding.shedder import LoadShedder
from lowwater.windows.sliding import Sliding


class LibraryShedder:
    """The shedder of `lw.shed`, as the engine runs it."""

    def __init__(self, stream: LoadStream, gives: Gives = "max_gap", max_gap: int = 10) -> None:
        policy = lw.shed(
            latency=timedelta(microseconds=stream.latency), max_gap=max_gap, gives=gives
        )
        roots = (Root(0, Sliding(range=stream.range), 0, max_gap),)
        self.shedder = LoadShedder(policy, roots, Slots.of(roots), {0: 1})
        self.memory: ShedMemory = self.shedder.begin()
        self.plan, self.slack = DropPlan(), stream.slack

    def step(self, epoch: MachineEpoch) -> Intervals:
        """Return the windows to drop from the next epoch on."""
        rows, newest = epoch.kept + epoch.shed, epoch.newest
        counts = {0: {"in": rows, "shed": epoch.shed}}
        block = InputMeasure(0, rows, counts=counts, behind=epoch.behind)
        measured = Measures(
            (block, InputMeasure(0, waiting=epoch.waiting)),
            (ShardMeasure(0, counts={"results": epoch.results}),),
            epoch=(EpochMeasure(took=round(epoch.end - epoch.start), run=epoch.run),),
        )
        mark = Watermarks(None if newest is None else newest - self.slack)
        report = EpochReport(
            [InputProgress(mark, newest)],
            measured,
            round(epoch.end),
            ports=(Watermarks(epoch.watermark),),
            dropped=self.plan,
        )
        self.memory, self.plan = self.shedder.advance(self.memory, report)
        return self.plan.intervals


class NoShedder:
    """A shedder that drops nothing."""

    def step(self, epoch: MachineEpoch) -> Intervals:
        """Return no windows."""
        del epoch
        return ()


@dataclass
class FollowingShedder:
    """A shedder that follows the load, and counts slack and warm-up as load.

    By the costs and the rate of recent epochs, it sheds the work for which epochs of a third of the
    bound have no time.
    """

    stream: LoadStream
    sums: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    times: np.ndarray = field(default_factory=lambda: np.zeros(3))
    rate: float | None = None
    share: float = 0.0
    waiting: int = 0
    ended: float = 0.0
    rule: Rule | None = None
    place: Place | None = None
    until: int = 0
    over: Intervals = ()

    def step(self, epoch: MachineEpoch) -> Intervals:
        """Return the windows to drop from the next epoch on."""
        took = epoch.end - epoch.start
        row = np.array([1.0, epoch.kept, epoch.shed])
        self.sums, self.times = 0.9 * self.sums + np.outer(row, row), 0.9 * self.times + row * took
        ridge = np.diag(1e-3 * np.diag(self.sums) + 1e-9)
        fixed, kept, shed = np.maximum(np.linalg.solve(self.sums + ridge, self.times), 0.0).tolist()
        arrived = epoch.kept + epoch.shed + epoch.waiting - self.waiting
        now = max(0, arrived) / max(epoch.end - self.ended, 1.0)
        known = now if self.rate is None else self.rate
        self.rate = known + (0.9 if now > known else 0.5) * (now - known)
        self.waiting, self.ended = epoch.waiting, epoch.end
        share = self._needed(self.rate, fixed, kept, min(shed, kept))
        share = max(share, 0.5 * self.share)
        self.share = share if share >= (0.01 if self.share else 0.03) else 0.0
        return self._decided(epoch)

    def _needed(self, rate: float, fixed: float, kept: float, shed: float) -> float:
        full = max(0.0, kept * rate - 1) * self.stream.range
        length = (0.8 * self.stream.latency - self.stream.slack - full) / 3
        if length <= fixed:
            return 10 / 11
        rows = rate * length
        rows += max(0.0, self.waiting - rows) / 2
        excess, saved = fixed + kept * rows - length, (kept - shed) * rows
        return float(np.clip(excess / saved if saved > 0 else 0.0, 0.0, 10 / 11))

    def _decided(self, epoch: MachineEpoch) -> Intervals:
        if epoch.newest is None:
            return self.over
        first, span = epoch.newest // self.stream.range + 1, self.stream.range
        if self.place is None or self.rule is None:
            self.place = Place(first)
        elif first > self.place.slot:
            steps = list(decide(self.place, self.rule, min(first, self.until)))
            runs = dropped_runs(self.place.slot, [drop for _, drop in steps])
            self.over = (*self.over, *((a * span, b * span) for a, b in runs))
            self.place = (steps[-1][0] if steps else self.place).skipped_to(first)
        self.rule, self.until = Rule(self.share, 1, 10, 0), first + 100
        steps_ahead = decide(self.place, self.rule, self.until) if self.share else ()
        ahead = dropped_runs(first, [drop for _, drop in steps_ahead])
        return (*self.over, *((a * span, b * span) for a, b in ahead))
