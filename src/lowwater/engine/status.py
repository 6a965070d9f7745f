"""How a query stands: its counts, how far it is, what it delivers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from lowwater.dataflow.graph import Dataflow
from lowwater.engine.accounts import ACCOUNTS, TALLIES
from lowwater.engine.entry import Entry
from lowwater.engine.quality_status import QualityStatus, quality_status
from lowwater.ticks import END
from lowwater.watermarks.adaptive.adapter import SlackAdapter


@dataclass(frozen=True)
class Accuracy:
    """How right early results have been, from 0 to 1 (semantics 17).

    Of `count` early results whose finals have come: of late, in the mean, at worst. The same for
    single groups, as far as they are remembered.
    """

    count: int
    recent: float
    mean: float
    worst: float
    groups: Mapping[str, Accuracy] = field(default_factory=dict)


@dataclass(frozen=True)
class Status:
    """Where a query stands after its newest epoch.

    Attributes
    ----------
    counts
        Rows from outside by what became of them at the first operator they reached; they add up
        (`balanced`). `status["late"]` reads one.
    watermark, newest
        The watermark at the operator whose results leave the query, and the newest time
        admitted, as values of the window attribute. The watermark is None before there is one and
        after the stream has `ended`.
    cells, state_bytes
        Open partial aggregates and stored rows, and what they take up.
    skew
        Rows of the busiest shard over the mean of all.
    rows_per_second
        Rows of the newest epoch by the time it took, where the host knows it.
    operators
        Rows by what became of them for each operator by its name, also for those that work on
        results of others.
    prods
        Prods that were `asked`, that were `answered` and that found nothing (`empty`), and the
        `early` rows they found; nothing for a run without prods.
    accuracy
        How right early results have been, by aggregate, judged by the finals that followed.
    quality
        What quality targets came to, by the operator they are about, and the slack in force.
    dropped
        For a run that may drop windows: the share in force, `share`, the `load` (work arriving
        over capacity, where a latency was asked for), how many `windows` were dropped, which
        queries were shut down (`closed`), and whether the bound can be met (`in_reach`).
    """

    epoch: int
    counts: Mapping[str, int]
    watermark: Any
    newest: Any
    ended: bool
    cells: int
    state_bytes: int
    skew: float
    rows_per_second: float | None = None
    operators: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    prods: Mapping[str, int] = field(default_factory=dict)
    accuracy: Mapping[str, Accuracy] = field(default_factory=dict)
    quality: Mapping[str, QualityStatus] = field(default_factory=dict)
    dropped: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        entry: Entry,
        flow: Dataflow,
        rows_per_second: float | None = None,
        behind: Collection[int] | None = None,
        adapter: SlackAdapter | None = None,
    ) -> Status:
        """Read the status off a log entry, of all operators or of those behind an output."""
        ledgers = entry.accounts.operators
        counts = dict.fromkeys(TALLIES, 0)
        for number in flow.front if behind is None else flow.front & set(behind):
            for tally, n in ledgers.get(number, {}).items():
                counts[tally] += n
        waiting = _waiting(entry, flow, behind)
        counts["in"] += waiting
        counts["sidelined"] += waiting
        shards = entry.accounts.shards.values()
        return cls(
            entry.epoch,
            counts,
            None if entry.ended else _lwm(entry, flow),
            _newest(entry, flow),
            entry.ended,
            sum(shard.cells for shard in shards),
            sum(shard.bytes for shard in shards),
            _skew(entry, flow),
            rows_per_second,
            {o.name: ledgers.get(number, {}) for number, o in enumerate(flow.operators)},
            {} if entry.early is None else entry.early.tallies,
            _accuracy(entry, flow, behind),
            quality_status(entry, flow, adapter, behind),
            _shed(entry, flow),
        )

    def __getitem__(self, name: str) -> int:
        if name not in TALLIES:
            raise KeyError(f"{name!r} is not counted; these are: {', '.join(TALLIES)}")
        return self.counts.get(name, 0)

    @property
    def balanced(self) -> bool:
        """Whether every row that came in is accounted for."""
        return self["in"] == sum(self[a] for a in ACCOUNTS)


def _accuracy(entry: Entry, flow: Dataflow, behind: Collection[int] | None) -> dict[str, Accuracy]:
    """Return how right early results have been; of several operators, under their names."""
    learned = {} if entry.early is None else entry.early.learned
    mine = [n for n in learned if behind is None or n in behind]
    found = {}
    for number in mine:
        prefix = f"{flow.operators[number].name}." if len(mine) > 1 else ""
        for name, running in learned[number].accuracy.items():
            if running.overall.count:
                groups = {g: Accuracy(*astuple(t)) for g, t in running.groups.items() if g}
                found[prefix + name] = replace(Accuracy(*astuple(running.overall)), groups=groups)
    return found


def _shed(entry: Entry, flow: Dataflow) -> dict[str, Any]:
    """Return the share and number of dropped windows, and the load."""
    memory = entry.shed
    if memory is None:
        return {}
    return {
        "share": 0.0 if memory.rule is None else memory.rule.share,
        "load": memory.load.load,
        "windows": memory.windows,
        "closed": [o.name for o in flow.outputs if o.operator in memory.load.closed],
        "in_reach": not memory.load.beyond,
    }


def _waiting(entry: Entry, flow: Dataflow, behind: Collection[int] | None) -> int:
    """Return how many rows are held; no operator has counted them yet."""
    holds = [n for n in flow.holds if behind is None or n in behind]
    return sum(shard.cells for n in holds for shard in entry.accounts.of(n))


def _lwm(entry: Entry, flow: Dataflow) -> Any:
    """Return the least mark at the ports of the operator whose results leave."""
    last = flow.outputs[0].operator
    marks = [
        (m.low, p)
        for (operator, p), m in zip(flow.ports, entry.standing.ports, strict=False)
        if operator == last
    ]
    known = [(low, p) for low, p in marks if low is not None]
    if not known or len(known) < len(marks):
        return None
    low, port = min(known)
    return None if low >= END else flow.operators[last].plan.axes[port].value(low)


def _newest(entry: Entry, flow: Dataflow) -> Any:
    known = [(r.newest, i) for i, r in enumerate(entry.standing.inputs) if r.newest is not None]
    if not known:
        return None
    newest, number = max(known)
    return flow.inputs[number].axis.value(newest)


def _skew(entry: Entry, flow: Dataflow) -> float:
    """Return how uneven the shards of the most uneven operator are."""
    found = [1.0]
    for number in range(len(flow.operators)):
        rows = [shard.rows for shard in entry.accounts.of(number)]
        if sum(rows):
            found.append(max(rows) * len(rows) / sum(rows))
    return max(found)
