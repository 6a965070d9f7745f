"""The load shedder: the component that chooses, after every epoch, which later windows to drop.

The control log holds the shedder's memory, so an epoch that runs again drops the same windows. A
window that has begun cannot be dropped. So the shedder decides ahead, and may revise a decision
until the window begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from lowwater.control.drop import DropPlan
from lowwater.control.measures import EpochMeasure, GapMemory
from lowwater.control.report import EpochReport
from lowwater.control.watermark import latest
from lowwater.intervals import Intervals, difference, intersection, union
from lowwater.shedding.arrivals import rate
from lowwater.shedding.choice import Choice, Limit, Search, rule
from lowwater.shedding.coin import Place, Rule, decide, dropped_runs
from lowwater.shedding.costs import Epoch
from lowwater.shedding.drop_geometry import Root, Slots
from lowwater.shedding.forecast import EPOCHS_TO_ANSWER
from lowwater.shedding.load_model import Begun, LoadMemory, costliest
from lowwater.shedding.policy import (
    ShedPolicy,
    bound_ticks,
    check_gaps,
    gap_of,
    plain,
    results_in,
)
from lowwater.ticks import BEGIN, END, spoken

AHEAD = 4
"""The shedder decides ahead for `AHEAD` times as many slots as a recent epoch advanced."""
LEAST_RUNS, MOST_RUNS = 8, 500
"""The smallest and the largest number of runs for which decisions are made ahead."""
REMEMBERED = 256
"""The number of past dropped intervals in memory; their late rows are counted as shed."""
PATIENCE = 8
"""A query is shut down after `max_gap` has limited the bound for this number of epochs."""
TIRED = 0.7
"""A query restarts when the arrival rate is below this share of the rate at its shut-down."""


@dataclass(frozen=True)
class DroppedInterval:
    """An interval of result times whose drop is final, for the output `dropped`.

    - `start`, `end`: The interval.
    - `share`, `load`: The share of windows to drop and the load, both at the time of the decision.
    - `reason`: The cause: a fixed share, a bound on latency, or a query that is shut down.
    - `operator`: The operator of the query that was shut down; None if all queries are affected.
    """

    start: int
    end: int
    share: float
    load: float | None
    reason: Literal["share", "latency", "closed"]
    operator: int | None = None


@dataclass(frozen=True)
class ShedMemory:
    """The memory of the shedder.

    - `load`: The memory of the load model.
    - `place`: The state of the decisions after all begun slots; None before the first row.
    - `until`, `rule`: The first slot without a decision, and the rule of the decisions.
    - `stride`: The number of slots that a recent epoch advanced.
    - `windows`: The number of windows dropped so far.
    - `news`: The dropped intervals that became final in the last epoch.
    - `finals`: {operator: final results that gap filling needs}.
    """

    VERSION: ClassVar[int] = 2

    load: LoadMemory = field(default_factory=LoadMemory)
    place: Place | None = None
    until: int = 0
    rule: Rule | None = None
    stride: float = 0.0
    windows: int = 0
    news: tuple[DroppedInterval, ...] = ()
    finals: Mapping[int, GapMemory] = field(default_factory=dict)


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
        bound = {} if self.how.latency is None else {"latency": spoken(self.how.latency)}
        return {"max_gap": plain(self.how.max_gap), **bound}

    def tuned(self, values: Mapping[str, Any]) -> LoadShedder:
        """Return the shedder with the `max_gap` and the `latency` in `values`."""
        shedder = self
        if "latency" in values and self.how.latency is not None:
            bound = bound_ticks(values["latency"])
            shedder = replace(shedder, how=replace(shedder.how, latency=bound))
        return shedder.with_gap(values["max_gap"]) if "max_gap" in values else shedder

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
        newest = self._newest(report)
        if newest is None:
            load = self._load(memory.load, None, report)
            return replace(memory, load=load, news=()), report.dropped
        first = self.slots.first_after(newest)
        start = self.slots.start(first)
        place, begun = self._begun(memory, first)
        load = self._load(memory.load, place, report)
        drops, stride = self._rule(load), 0.0
        if memory.place is not None:
            stride = float(max(first - memory.place.slot, 0.8 * memory.stride))
        run = drops.batch + 1
        until = first + min(max(int(AHEAD * stride), LEAST_RUNS * run), MOST_RUNS * run)
        chosen = [dropped for _, dropped in decide(place, drops, until)] if drops.share else []
        ahead = self._times(dropped_runs(first, chosen))
        over = intersection(report.dropped.intervals, ((BEGIN, start),))
        windows = memory.windows + self._windows(begun)
        news = tuple(self._news(begun, memory, report, start))
        finals = [m.finals for m in report.measured.epoch if m.finals is not None] or [{}]
        after = ShedMemory(load, place, until, drops, stride, windows, news, finals[0])
        intervals = union([*_still_known(over, report), *ahead])
        return after, DropPlan(intervals, self._closed(report, load, start))

    def _begun(self, memory: ShedMemory, first: int) -> tuple[Place, Intervals]:
        """Return the state before slot `first`, and the dropped runs that began before it."""
        place, drops = memory.place, memory.rule
        if place is None or drops is None:
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
        why: Literal["share", "latency"] = "latency" if self.measures else "share"
        news = [DroppedInterval(*s, share, load, why) for s in self._times(begun)]
        since_then = ((self.slots.start(memory.place.slot), start),)
        for operator, since, until in report.dropped.closed:
            closed = intersection(((since, until),), since_then)
            own = difference(closed, report.dropped.intervals)
            news += [DroppedInterval(*s, 1.0, load, "closed", operator) for s in own]
        return news

    def _windows(self, runs: Intervals) -> int:
        """Return the number of windows in the slots of `runs`."""
        each = sum(self.slots.slide // root.spec.slide for root in self.roots)
        return each * sum(end - start for start, end in runs)

    def _times(self, runs: Intervals) -> Intervals:
        """Return `runs` of slots as intervals of result times."""
        return tuple((self.slots.start(a), self.slots.start(b)) for a, b in runs)

    def _rule(self, load: LoadMemory) -> Rule:
        """Return the rule of the next decisions: share to drop, batch size and longest run."""
        if self.how.latency is None:
            return rule(self.how.share or 0.0, self.most, self.most, self.how.seed)
        return rule(load.choice.share, load.choice.run, self._longest, self.how.seed)

    @property
    def _longest(self) -> int | None:
        """The longest run of dropped slots; None if gaps give way to the bound on latency."""
        return None if self.how.gives == "max_gap" else self.most

    def _load(self, memory: LoadMemory, place: Place | None, report: EpochReport) -> LoadMemory:
        """Return the memory of the load model after an epoch, with the next choice."""
        measured = [m for m in report.measured.epoch if m.took is not None]
        latency = self.how.latency
        if latency is None or not measured:
            return memory
        epoch = self._epoch(memory, report, measured[0])
        load = memory.after(epoch, self._newest(report), report.now, latency)
        choice = self._choice(load, place, report, epoch.took)
        beyond = memory.beyond + 1 if choice.limit == "max_gap" else 0
        pace = rate(load.recent, latency).rows
        closed = self._shut(memory.closed, report, beyond, pace)
        return replace(load, choice=choice, beyond=beyond, closed=closed)

    def _choice(
        self, load: LoadMemory, place: Place | None, report: EpochReport, took: float
    ) -> Choice:
        """Return the share of windows to drop: none, unless the load asks for a forecast."""
        latency = self.how.latency or 0
        beyond = latency < (EPOCHS_TO_ANSWER + 1) * load.fixed
        limit: Limit | None = "epochs" if beyond and load.costs.known else None
        if place is None or not load.overloaded(latency):
            return Choice(limit=limit)
        inputs = [report.inputs[n] for n in self.inputs]
        slack = 0 if any(i.ended for i in inputs) else max((i.lag for i in inputs), default=0)
        lows = [w.low for w in report.ports if w.low is not None]
        first_end = self.slots.first_end(self.roots)
        begun = Begun(report.dropped.intervals, min(lows, default=BEGIN), slack, first_end)
        outlook = load.outlook(self.slots, begun, took, latency)
        if outlook is None:
            return Choice(limit=limit)
        found = Search(outlook, place, self._longest, self.how.seed).choice()
        return found if limit is None else replace(found, limit=limit)

    def _newest(self, report: EpochReport) -> int | None:
        return latest(*(report.inputs[n].newest for n in self.inputs))

    def _epoch(self, memory: LoadMemory, report: EpochReport, measured: EpochMeasure) -> Epoch:
        """Return the load model's measurements of an epoch."""
        took = measured.took or 0
        rows = sum(m.rows * self.inputs.get(m.input, 0) for m in report.measured.inputs)
        shed = sum(counts.get("shed", 0) for _, counts in report.measured.counts())
        sources = [m for m in report.measured.inputs if m.waiting is not None]
        waiting = sum((m.waiting or 0) * self.inputs.get(m.input, 0) for m in sources)
        elapsed = took if memory.now is None else report.now - memory.now
        operators = {root.operator for root in self.roots}
        mine = (m for m in report.measured.shards if m.operator in operators)
        results = sum(m.counts.get("results", 0) for m in mine)
        kept, unread = max(0, rows - shed), waiting if sources else None
        behind = sum(m.behind * self.inputs.get(m.input, 0) for m in report.measured.inputs)
        return Epoch(took, elapsed, kept, shed, results, unread, measured.run, behind)

    def _shut(
        self, closed: Mapping[int, float], report: EpochReport, beyond: int, rate: float
    ) -> dict[int, float]:
        """Return {operator of a shut-down query: arrival rate at the shut-down} after an epoch."""
        shut = {n: at for n, at in closed.items() if rate > TIRED * at}
        if beyond and beyond % PATIENCE == 0:
            rows = dict.fromkeys((root.operator for root in self.roots), 0)
            for number, counts in report.measured.counts():
                if number in rows:
                    rows[number] += counts.get("in", 0)
            chosen = costliest(rows, list(shut))
            if chosen is not None:
                shut[chosen] = rate
        return shut

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
    low = min((BEGIN if w.low is None else w.low for w in report.ports), default=BEGIN)
    return [s for n, s in enumerate(over) if s[1] > low or len(over) - n <= REMEMBERED]
