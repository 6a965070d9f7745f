"""The bound on latency: from the report of an epoch to the share of windows to drop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lowwater.control.measures import EpochMeasure
from lowwater.control.report import EpochReport
from lowwater.control.watermark import latest
from lowwater.shedding.arrivals import rate
from lowwater.shedding.choice import Choice, Limit, Search
from lowwater.shedding.coin import Place
from lowwater.shedding.costs import Epoch
from lowwater.shedding.drop_geometry import Root, Slots
from lowwater.shedding.fair import Weighted
from lowwater.shedding.forecast import EPOCHS_TO_ANSWER
from lowwater.shedding.load_model import Begun, LoadMemory, costliest
from lowwater.shedding.policy import ShedPolicy
from lowwater.ticks import BEGIN

PATIENCE = 8
"""A query is shut down after `max_gap` has limited the bound for this number of epochs."""
TIRED = 0.7
"""A query restarts when the arrival rate is below this share of the rate at its shut-down."""


@dataclass(frozen=True)
class Spread:
    """How drops are spread, if not over whole windows of all groups.

    `lost` are begun intervals with the share of their rows that was skipped. If rows are
    `sampled`, all windows have results.
    """

    lost: Weighted
    sampled: bool = False


@dataclass(frozen=True)
class LatencyBound:
    """The bound on latency of a shedder, whose windows `inputs` feed.

    `longest` is the longest run of dropped slots; None is a run of any length.
    """

    how: ShedPolicy
    roots: tuple[Root, ...]
    slots: Slots
    inputs: Mapping[int, int]
    longest: int | None

    def newest(self, report: EpochReport) -> int | None:
        """Return the newest time of a row of these windows."""
        return latest(*(report.inputs[n].newest for n in self.inputs))

    def after(
        self,
        memory: LoadMemory,
        place: Place | None,
        report: EpochReport,
        spread: Spread | None = None,
    ) -> LoadMemory:
        """Return the memory of the load model after an epoch, with the next choice."""
        measured = [m for m in report.measured.epoch if m.took is not None]
        latency = self.how.latency
        if latency is None or not measured:
            return memory
        epoch = self._epoch(memory, report, measured[0])
        sampled = spread is not None and spread.sampled
        load = memory.after(epoch, self.newest(report), report.now, latency, sampled=sampled)
        choice = self._choice(load, place, report, spread)
        beyond = memory.beyond + 1 if choice.limit == "max_gap" else 0
        pace = rate(load.recent, latency).rows
        closed = self._shut(memory.closed, report, beyond, pace)
        return replace(load, choice=choice, beyond=beyond, closed=closed)

    def _choice(
        self, load: LoadMemory, place: Place | None, report: EpochReport, spread: Spread | None
    ) -> Choice:
        """Return the share of windows to drop: none, unless the load asks for a forecast."""
        latency = self.how.latency or 0
        beyond = latency < (EPOCHS_TO_ANSWER + 1) * load.fixed
        limit: Limit | None = "epochs" if beyond and load.costs.known else None
        if place is None or not load.overloaded(latency):
            return Choice(limit=limit)
        inputs = [report.inputs[n] for n in self.inputs]
        slack = 0 if any(i.ended for i in inputs) else max((i.lag for i in inputs), default=0)
        first_end = self.slots.first_end(self.roots)
        closed, even = watermark_in_force(report), spread or Spread(())
        dropped = report.dropped.intervals
        begun = Begun(dropped, closed, slack, first_end, even.lost, even.sampled)
        outlook = load.outlook(self.slots, begun, latency)
        if outlook is None:
            return Choice(limit=limit)
        search = Search(outlook, place, self.longest, self.how.seed, spread is not None)
        found = search.choice()
        return found if limit is None else replace(found, limit=limit)

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
            weights = {r.operator: self.how.weights.get(r.query, 1.0) for r in self.roots}
            rows = dict.fromkeys(weights, 0.0)
            for number, counts in report.measured.counts():
                if number in rows:
                    rows[number] += counts.get("in", 0) / weights[number]
            chosen = costliest(rows, list(shut))
            if chosen is not None:
                shut[chosen] = rate
        return shut


def watermark_in_force(report: EpochReport) -> int:
    """Return the lowest watermark in force."""
    return min((BEGIN if w.low is None else w.low for w in report.ports), default=BEGIN)
