"""How a query stands: its counts, how far it is, what it delivers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from lowwater.control import ACCOUNTS, TALLIES, Entry
from lowwater.control.controller import SHED
from lowwater.kernels import Dataflow
from lowwater.prodding import PROD_TALLIES
from lowwater.progress.slacks import Slacks
from lowwater.query.quality import Delivered, delivered
from lowwater.windows import FOREVER


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
    lwm, newest
        The low-water mark at the operator whose results leave the query, and the newest time
        admitted, as values of the window attribute. The mark is None before there is one and after
        the stream has `ended`.
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
    shed
        For a run that may leave windows out: the share `p` in force, the `load` (work arriving
        over capacity, where a latency was asked for), how many `windows` were left out, which
        queries were shut down (`closed`), and whether the bound can be met (`in_reach`).
    """

    epoch: int
    counts: Mapping[str, int]
    lwm: Any
    newest: Any
    ended: bool
    cells: int
    state_bytes: int
    skew: float
    rows_per_second: float | None = None
    operators: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    prods: Mapping[str, int] = field(default_factory=dict)
    accuracy: Mapping[str, Accuracy] = field(default_factory=dict)
    quality: Mapping[str, Delivered] = field(default_factory=dict)
    shed: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        entry: Entry,
        flow: Dataflow,
        rows_per_second: float | None = None,
        behind: Collection[int] | None = None,
        adapter: Slacks | None = None,
    ) -> Status:
        """Read the status off a log entry, of all operators or of those behind an output."""
        ledgers = {int(n): kept for n, kept in entry.totals.get("operators", {}).items()}
        counts = dict.fromkeys(TALLIES, 0)
        for number in flow.front if behind is None else flow.front & set(behind):
            for tally, n in ledgers.get(number, {}).items():
                counts[tally] += n
        waiting = _waiting(entry, flow, behind)
        counts["in"] += waiting
        counts["sidelined"] += waiting
        shards = entry.totals.get("shards", {}).values()
        return cls(
            entry.epoch,
            counts,
            None if entry.ended else _lwm(entry, flow),
            _newest(entry, flow),
            entry.ended,
            sum(cells for cells, *_ in shards),
            sum(size for _, size, _ in shards),
            _skew(entry, flow),
            rows_per_second,
            {o.name: ledgers.get(number, {}) for number, o in enumerate(flow.operators)},
            {t: entry.prodding[t] for t in PROD_TALLIES if t in entry.prodding},
            _accuracy(entry, flow, behind),
            delivered(entry, flow, adapter, behind),
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
    learned = entry.prodding.get("learned", {})
    mine = [n for n in learned if behind is None or int(n) in behind]
    found = {}
    for number in mine:
        prefix = f"{flow.operators[int(number)].name}." if len(mine) > 1 else ""
        for name, kept in learned[number]["accuracy"].items():
            count, recent, mean, worst = kept["all"]
            if count:
                groups = {g: Accuracy(*figures) for g, figures in kept["groups"].items() if g}
                found[prefix + name] = Accuracy(count, recent, mean, worst, groups)
    return found


def _shed(entry: Entry, flow: Dataflow) -> dict[str, Any]:
    """Return how much is left out, and why."""
    kept = entry.prodding.get(SHED)
    if not kept:
        return {}
    load = kept["load"]
    closed = [o.name for o in flow.outputs if str(o.operator) in load.get("closed", {})]
    return {
        "p": kept["rule"][0] if "rule" in kept else 0.0,
        "load": load.get("load"),
        "windows": kept.get("windows", 0),
        "closed": closed,
        "in_reach": not load.get("beyond", 0),
    }


def _waiting(entry: Entry, flow: Dataflow, behind: Collection[int] | None) -> int:
    """Return how many rows are put aside; no operator has counted them yet."""
    holds = {str(n) for n in flow.holds if behind is None or n in behind}
    shards = entry.totals.get("shards", {}).items()
    return int(sum(cells for place, (cells, *_) in shards if place.split("/")[0] in holds))


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
    return None if low >= FOREVER else flow.operators[last].plan.axes[port].value(low)


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
        kept = entry.totals.get("shards", {}).items()
        rows = [r for place, (*_, r) in kept if place.startswith(f"{number}/")]
        if sum(rows):
            found.append(max(rows) * len(rows) / sum(rows))
    return max(found)
