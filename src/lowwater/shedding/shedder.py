"""The load shedder: the component that chooses, after every epoch, which later windows to drop.

The control log holds the shedder's memory, so an epoch that runs again drops the same windows. A
window that has begun cannot be dropped. So the shedder decides ahead, and may revise a decision
until the window begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from lowwater.control.drop import DropPlan
from lowwater.control.report import EpochReport
from lowwater.intervals import Intervals, difference, intersection, union
from lowwater.shedding.choice import rule, run_length
from lowwater.shedding.coin import Place, Rule, decide, dropped_runs
from lowwater.shedding.drop_geometry import Root, Slots
from lowwater.shedding.fair import FairMemory, class_seed, fair_shares, with_classes, with_queries
from lowwater.shedding.latency_bound import LatencyBound, Spread, watermark_in_force
from lowwater.shedding.load_model import LoadMemory
from lowwater.shedding.policy import (
    ShedPolicy,
    bound_ticks,
    bytes_in,
    check_gaps,
    check_gives,
    check_share,
    check_weights,
    gap_of,
    plain,
    results_in,
)
from lowwater.shedding.shed_memory import DroppedInterval, ShedMemory
from lowwater.shedding.state_bound import OpenSlots, needed_share, slot_bytes
from lowwater.ticks import BEGIN, END, spoken

AHEAD = 4
"""The shedder decides ahead for `AHEAD` times as many slots as a recent epoch advanced."""
LEAST_RUNS, MOST_RUNS = 8, 500
"""The smallest and the largest number of runs for which decisions are made ahead."""
MOST_SLOTS = 20_000
"""The largest number of slots for which decisions are made ahead."""
REMEMBERED = 256
"""The number of past dropped intervals in memory; their late rows are counted as shed."""


TUNED: Mapping[str, Callable[[Any], Any]] = {
    "latency": bound_ticks,
    "memory": bytes_in,
    "gives": check_gives,
    "share": check_share,
    "weights": check_weights,
}
"""The settings beside `max_gap` that can change, each with the function that reads a value."""


@dataclass(frozen=True)
class LoadShedder:
    """The component that chooses which windows of `roots` to drop; all roots use common slots.

    `inputs` is {input of these windows: number of operators that read the input}.
    """

    how: ShedPolicy
    roots: tuple[Root, ...]
    slots: Slots
    inputs: Mapping[int, int]

    memory_type: ClassVar[type[ShedMemory]] = ShedMemory

    @property
    def most(self) -> int:
        """The largest number of consecutive slots that may be dropped."""
        return self.slots.gap(self.roots)

    @property
    def measures(self) -> bool:
        """Whether the shedder needs the durations of epochs."""
        return self.how.latency is not None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that can change while the query runs."""
        how, settings = self.how, {"max_gap": plain(self.how.max_gap)}
        if how.share is not None:
            return settings | {"share": how.share}
        settings["gives"] = how.gives
        if how.latency is not None:
            settings["latency"] = spoken(how.latency)
        if how.memory is not None:
            settings["memory"] = how.memory
        if how.weights:
            settings["weights"] = dict(how.weights)
        return settings

    def tuned(self, values: Mapping[str, Any]) -> LoadShedder:
        """Return the shedder with those of `values` that it has as settings."""
        mine = self.settings.keys() & values.keys()
        new = {name: TUNED[name](values[name]) for name in TUNED if name in mine}
        shedder = replace(self, how=replace(self.how, **new)) if new else self
        return shedder.with_gap(values["max_gap"]) if "max_gap" in mine else shedder

    def with_gap(self, gap: Any) -> LoadShedder:
        """Return the shedder with another `max_gap`."""
        check_gaps(gap)
        queries = list(dict.fromkeys(root.query for root in self.roots))
        roots = tuple(
            replace(r, gap=results_in(gap_of(r.query, gap, queries), r.spec.slide))
            for r in self.roots
        )
        return replace(self, how=replace(self.how, max_gap=gap), roots=roots)

    def begin(self) -> ShedMemory:
        """Return the memory before the first epoch."""
        return ShedMemory()

    def advance(self, memory: ShedMemory, report: EpochReport) -> tuple[ShedMemory, DropPlan]:
        """Return the memory after an epoch, and the windows to drop from the next epoch on."""
        newest = self._bound.newest(report)
        if newest is None:
            load = self._bound.after(memory.load, None, report)
            return replace(memory, load=load, news=()), report.dropped
        first = self.slots.first_after(newest)
        start = self.slots.start(first)
        place, begun = self._begun(memory, first)
        fair, begun_of = self._fair(memory, report, first)
        spread = None if fair is None else Spread(fair.weighted(report.dropped))
        load = self._bound.after(memory.load, place, report, spread)
        each, needed = self._state(memory, report, first)
        drops, stride = self._rule(load, needed), 0.0
        if memory.place is not None:
            stride = float(max(first - memory.place.slot, 0.8 * memory.stride))
        until = first + self._ahead_by(load, stride, drops.batch + 1)
        ahead: Intervals = ()
        if drops.share and fair is None:
            chosen = [dropped for _, dropped in decide(place, drops, until)]
            ahead = self._times(dropped_runs(first, chosen))
        over = intersection(report.dropped.intervals, ((BEGIN, start),))
        fair, plan = self._classes(fair, report, drops.share, first, until)
        windows = memory.windows + self.slots.windows(self.roots, begun)
        of = None if memory.fair is None else memory.fair.column
        windows += sum(self._windows_of(of, n, runs) for n, runs in begun_of.items())
        news = tuple(self._news(begun, memory, report, start))
        news += tuple(self._class_news(begun_of, memory))
        finals = [m.finals for m in report.measured.epoch if m.finals is not None] or [{}]
        large = needed > load.choice.share
        after = ShedMemory(
            load, each, large, place, until, drops, stride, windows, news, finals[0], fair
        )
        intervals = union([*_still_known(over, report), *ahead])
        sampled = tuple(one for one in report.dropped.samples if one.start <= newest)
        closed = self._closed(report, load, start)
        salt = report.dropped.salt
        return after, replace(plan, intervals=intervals, closed=closed, samples=sampled, salt=salt)

    def _ahead_by(self, load: LoadMemory, stride: float, run: int) -> int:
        """Return for how many slots decisions are made ahead, in runs of `run` slots."""
        reach = int(load.reach(self.how.latency or 0) // self.slots.slide)
        ahead = max(min(max(int(AHEAD * stride), LEAST_RUNS * run), MOST_RUNS * run), reach)
        return min(ahead, MOST_SLOTS)

    def _fair(
        self, memory: ShedMemory, report: EpochReport, first: int
    ) -> tuple[FairMemory | None, dict[int, Intervals]]:
        """Return the memory of fair shares before slot `first`, and the runs that have begun."""
        before, column, begun_of = memory.fair, self.how.fair_by, dict[int, Intervals]()
        if before is not None:
            before, begun_of = before.begun(first, memory.until)
        if column is None and self.weights is None:
            return None, begun_of
        if before is None or before.column != column:
            before = FairMemory(column)
        else:
            windows = dict(before.windows)
            for n, runs in begun_of.items():
                windows[n] = windows.get(n, 0) + self._windows_of(column, n, runs)
            before = replace(before, windows=windows)
        counts = [measured.classes for measured in report.measured.inputs]
        if column is None:
            known = self.weights or {}
            counts = [{n: c["in"]} for n, c in report.measured.counts() if n in known and "in" in c]
        return before.with_rows(counts), begun_of

    def _classes(
        self, fair: FairMemory | None, report: EpochReport, share: float, first: int, until: int
    ) -> tuple[FairMemory | None, DropPlan]:
        """Return the memory with the next decisions of each class, and a plan with their drops.

        `share` is the share of the work that all classes together must give up.
        """
        begun, known = (watermark_in_force(report), self.slots.start(first)), report.dropped
        ahead: dict[int, Intervals] = {}
        if fair is None:
            classes = with_classes(known.classes, begun, None, ahead)
            return None, DropPlan(
                classes=classes, queries=with_queries(known.queries, begun, ahead)
            )
        largest = self._largest
        shares = fair_shares(fair.rows, min(share, largest), largest, self.weights)
        rules = {
            n: self._class_rule(n, shares.get(n, 0.0)) for n in sorted({*shares, *fair.places})
        }
        after, runs = fair.decided(shares, rules, first, until)
        ahead = {n: self._times(some) for n, some in runs.items()}
        of_queries = fair.column is None
        classes = with_classes(known.classes, begun, fair.column, {} if of_queries else ahead)
        queries = with_queries(known.queries, begun, ahead if of_queries else {})
        return after, DropPlan(classes=classes, queries=queries)

    @property
    def weights(self) -> Mapping[int, float] | None:
        """{operator: weight of its query}, if queries share drops by weight; None if all alike."""
        if self.how.fair_by is not None or self.how.kind != "windows":
            return None
        weights = {r.operator: self.how.weights.get(r.query, 1.0) for r in self.roots}
        return weights if len(set(weights.values())) > 1 else None

    def _windows_of(self, column: str | None, number: int, runs: Intervals) -> int:
        """Return the number of windows in the slots of `runs`, of a query if `column` is None."""
        mine = [r for r in self.roots if column is not None or r.operator == number]
        return self.slots.windows(mine, runs)

    def _class_rule(self, number: int, share: float) -> Rule:
        """Return the rule of the next decisions of a class that loses `share` of its windows."""
        run = run_length(self.slots.params, self._longest, self.how.latency or 0, share)
        return rule(share, run, self._longest, class_seed(self.how.seed, number))

    def _begun(self, memory: ShedMemory, first: int) -> tuple[Place, Intervals]:
        """Return the state before slot `first`, and the dropped runs that began before it."""
        place, drops = memory.place, memory.rule
        if place is None or drops is None or memory.fair is not None:
            return Place(first), ()
        if first <= place.slot:
            return place, ()
        drops = replace(drops, seed=self.how.seed)
        steps = list(decide(place, drops, min(first, memory.until)))
        after = steps[-1][0] if steps else place
        return after.skipped_to(first), dropped_runs(place.slot, [drop for _, drop in steps])

    def _news(
        self, begun: Intervals, memory: ShedMemory, report: EpochReport, start: int
    ) -> list[DroppedInterval]:
        """Return the dropped intervals that became final in the epoch."""
        if memory.place is None or memory.rule is None:
            return []
        load, share = memory.load.load, memory.rule.share
        why = self._reason(memory)
        news = [DroppedInterval(*s, share, load, why) for s in self._times(begun)]
        since_then = ((self.slots.start(memory.place.slot), start),)
        for operator, since, until in report.dropped.closed:
            closed = intersection(((since, until),), since_then)
            own = difference(closed, report.dropped.intervals)
            news += [DroppedInterval(*s, 1.0, load, "closed", operator) for s in own]
        return news

    def _class_news(
        self, begun: Mapping[int, Intervals], memory: ShedMemory
    ) -> Iterator[DroppedInterval]:
        """Yield the dropped intervals of classes that became final in the epoch."""
        if memory.fair is None:
            return
        rules, key = memory.fair.rules, "number" if memory.fair.column is not None else "operator"
        load, why = memory.load.load, self._reason(memory)
        for n, runs in begun.items():
            for start, end in self._times(runs):
                yield DroppedInterval(start, end, rules[n].share, load, why, **{key: n})

    def _reason(self, memory: ShedMemory) -> Literal["share", "latency", "memory"]:
        """Return why windows that have begun were dropped."""
        if self.how.share is not None:
            return "share"
        return "memory" if memory.too_large else "latency"

    def _times(self, runs: Intervals) -> Intervals:
        """Return `runs` of slots as intervals of result times."""
        return tuple((self.slots.start(a), self.slots.start(b)) for a, b in runs)

    def _rule(self, load: LoadMemory, needed: float) -> Rule:
        """Return the rule of the next decisions: share to drop, batch size and longest run.

        `needed` is the share that the bound on state needs.
        """
        if self.how.share is not None:
            return rule(self.how.share, self.most, self.most, self.how.seed)
        run = load.choice.run
        if needed > load.choice.share:
            run = run_length(self.slots.params, self._longest, 0, needed)
        share = min(max(needed, load.choice.share), self._largest)
        return rule(share, run, self._longest, self.how.seed)

    def _state(
        self, memory: ShedMemory, report: EpochReport, first: int
    ) -> tuple[float | None, float]:
        """Return (the mean state of a kept slot, the share to drop so that the state fits)."""
        if self.how.memory is None:
            return None, 0.0
        begun, closed = self.slots.start(first), watermark_in_force(report)
        if closed == BEGIN:
            return memory.slot_bytes, 0.0
        lost = () if memory.fair is None else memory.fair.weighted(report.dropped)
        slots = OpenSlots.of(closed, begun, self.slots.slide, report.dropped.intervals, lost)
        each = slot_bytes(memory.slot_bytes, report.state_bytes, slots)
        return each, needed_share(each, slots, self.how.memory)

    @property
    def _largest(self) -> float:
        """The largest share of slots that may be dropped."""
        return 1.0 if self._longest is None else self.most / (self.most + 1)

    @property
    def _longest(self) -> int | None:
        """The longest run of dropped slots; None if gaps give way to the bound on latency."""
        return None if self.how.gives == "max_gap" else self.most

    @property
    def _bound(self) -> LatencyBound:
        """The bound on latency, which keeps the memory of the load."""
        return LatencyBound(self.how, self.roots, self.slots, self.inputs, self._longest)

    def _closed(
        self, report: EpochReport, load: LoadMemory, start: int
    ) -> tuple[tuple[int, int, int], ...]:
        """Return the shut-downs as (operator, start, end); new shut-downs begin at `start`."""
        wanted = set(load.closed)
        closed = []
        for operator, since, until in report.dropped.closed:
            if operator in wanted and until == END:
                wanted.discard(operator)
                closed.append((operator, since, until))
            elif since < min(until, start):
                closed.append((operator, since, min(until, start)))
        return (*closed, *((operator, start, END) for operator in sorted(wanted)))


def _still_known(over: Intervals, report: EpochReport) -> Sequence[tuple[int, int]]:
    """Return the intervals in `over` that are incomplete or among the last `REMEMBERED` ones."""
    low = watermark_in_force(report)
    return [s for n, s in enumerate(over) if s[1] > low or len(over) - n <= REMEMBERED]
