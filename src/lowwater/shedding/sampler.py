"""The row sampler: the load shedder that reads a share of the rows instead of dropping windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from lowwater.control.drop import DropPlan
from lowwater.control.report import EpochReport
from lowwater.intervals import intersection
from lowwater.shedding.coin import Place, Rule
from lowwater.shedding.drop_geometry import Root, Slots
from lowwater.shedding.fair import with_classes
from lowwater.shedding.latency_bound import Spread, watermark_in_force
from lowwater.shedding.sample import (
    LEAST,
    begun_samples,
    joined,
    next_salt,
    sampled_ahead,
    weighted,
)
from lowwater.shedding.shed_memory import ShedMemory
from lowwater.shedding.shedder import LoadShedder
from lowwater.ticks import BEGIN


@dataclass(frozen=True)
class RowSampler(LoadShedder):
    """The component that chooses the share of the rows to read, by slots of row times."""

    @classmethod
    def row_slots(cls, roots: tuple[Root, ...]) -> Slots:
        """Return the slots of row times: a slot begins where a window of every root may begin.

        >>> from lowwater.windows.sliding import Sliding
        >>> RowSampler.row_slots((Root(0, Sliding(range=30, slide=10), 0, 1),))
        Slots(anchor=0, slide=10, lead=0, size=10)
        """
        slide = lcm(*(root.spec.slide for root in roots))
        return Slots(roots[0].spec.origin % slide, slide, 0, slide)

    @property
    def _longest(self) -> int | None:
        """None: no window is missing, however many rows are skipped."""
        return None

    def advance(self, memory: ShedMemory, report: EpochReport) -> tuple[ShedMemory, DropPlan]:
        """Return the memory after an epoch, and the rows to leave out from the next epoch on."""
        newest = self._bound.newest(report)
        if memory.place is not None and newest is not None:
            return self._without_drops(memory, report, newest)
        dropped = report.dropped
        spread = Spread(weighted(dropped.samples), sampled=True)
        if newest is None:
            load = self._bound.after(memory.load, None, report, spread)
            return replace(memory, load=load, news=()), dropped
        first = self.slots.first_after(newest)
        load = self._bound.after(memory.load, Place(first), report, spread)
        share = load.choice.share if self.how.share is None else self.how.share
        share = min(share, 1 - LEAST)
        stride = 0.0 if memory.first is None else max(first - memory.first, 0.8 * memory.stride)
        until = first + self._ahead_by(load, stride, 1)
        after = ShedMemory(load, rule=Rule(share, 1, 1, self.how.seed), stride=stride, first=first)
        needed = watermark_in_force(report) - max(root.spec.range for root in self.roots)
        kept = begun_samples(dropped.samples, needed, self.slots.start(first))
        ahead = sampled_ahead(self.slots, first, until, share, self.how.seed)
        samples = joined([*kept, *ahead])
        return after, replace(dropped, samples=samples, salt=next_salt(dropped.salt, self.how.seed))

    def _without_drops(
        self, memory: ShedMemory, report: EpochReport, newest: int
    ) -> tuple[ShedMemory, DropPlan]:
        """Return the memory and the plan of a run that dropped windows until its restart.

        Windows that have begun stay dropped, the others are kept.
        """
        windows = LoadShedder(self.how, self.roots, Slots.of(self.roots), self.inputs)
        after, plan = windows.advance(memory, report)
        start = windows.slots.start(windows.slots.first_after(newest))
        begun = watermark_in_force(report), start
        kept = replace(
            plan,
            intervals=intersection(plan.intervals, ((BEGIN, start),)),
            classes=with_classes(plan.classes, begun, None, {}),
            closed=tuple((n, a, min(b, start)) for n, a, b in plan.closed if a < min(b, start)),
        )
        return replace(after, place=None, rule=None, until=0, fair=None), kept
