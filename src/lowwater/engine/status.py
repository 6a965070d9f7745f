"""The status of a query: counts, watermark, state, quality and load."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from lowwater.dataflow.graph import Dataflow
from lowwater.engine.accounts import ACCOUNTS, TALLIES
from lowwater.engine.entry import Entry
from lowwater.engine.need_status import NeedStatus, need_status
from lowwater.engine.quality_status import QualityStatus, quality_status
from lowwater.needs.policy import NeedPolicy
from lowwater.shedding.shed_memory import ShedMemory
from lowwater.ticks import END
from lowwater.watermarks.adaptive.adapter import SlackAdapter


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of early results, from 0 to 1.

    `count` is the number of early results compared with their finals. `recent` is the accuracy of
    the latest results, `mean` the mean accuracy of all, `worst` the lowest accuracy. `groups` has
    these values for each group in the sample.
    """

    count: int
    recent: float
    mean: float
    worst: float
    groups: Mapping[str, Accuracy] = field(default_factory=dict)


@dataclass(frozen=True)
class Status:
    """The status of a query after its newest epoch.

    Attributes
    ----------
    counts
        Number of input rows by outcome at their first operator; the counts add up (`balanced`).
        `status["late"]` returns one count.
    watermark, newest
        The watermark of the first output's operator, and the newest time of a row, as values of
        the window attribute. The watermark is None before the first watermark is known and after
        the stream has `ended`.
    cells, state_bytes
        Number of partial aggregates and stored rows in state, and their size in bytes.
    skew
        Rows of the busiest shard, divided by the mean number of rows per shard.
    rows_per_second
        Rows of the newest epoch, divided by its duration; None if the duration is unknown.
    operators
        Number of rows by outcome for every operator, by the name of the operator.
    prods
        Numbers of prods `asked`, `answered` and without result (`empty`), and of `early` rows. A
        run without prods has no numbers.
    accuracy
        The accuracy of early results, compared with their finals, by aggregate.
    quality
        The delivered quality and the slack in force, by operator; see `QualityStatus`.
    needs
        The promises of each need (`need=`) and how they were kept, by the name of its output.
    dropped
        For a run with `shed=`: the `share` of windows being dropped, the `load` (arriving work over
        capacity, if a latency bound was set), the number of dropped `windows`, the queries that
        were shut down (`closed`), and what keeps results from being in time (`limited_by`):
        "max_gap", "begun" windows, the length of "epochs", or None. With `fair_by=`, windows count
        by class of groups: `classes` has the share of windows being dropped by class, `windows_of`
        the number of dropped windows by class. With different `weights=`, windows count by query:
        `queries` and `windows_of` have the same by its name.
    bad_files
        Number of files that were not read: damaged, too old, or changed since they were read. The
        output `bad_files` lists them.
    jumps
        Number of times that an epoch of an input was admitted although most of its rows were
        further ahead than `max_ahead`, as after a long silence.
    overflows
        Number of sums and means that are NULL because they do not fit their type.
    restarts, last_failure, failed
        How often the run was restarted (`restart=`), its last failure in one line, and whether the
        run has ended with it.
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
    bad_files: int = 0
    jumps: int = 0
    overflows: int = 0
    restarts: int = 0
    last_failure: str = ""
    failed: bool = False
    needs: Mapping[str, NeedStatus] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        entry: Entry,
        flow: Dataflow,
        rows_per_second: float | None = None,
        behind: Collection[int] | None = None,
        *,
        adapter: SlackAdapter | None = None,
        needs: NeedPolicy | None = None,
    ) -> Status:
        """Return the status after `entry`, of all operators or of the operators in `behind`."""
        ledgers = entry.accounts.operators
        counts = dict.fromkeys(TALLIES, 0)
        for number in flow.front if behind is None else flow.front & set(behind):
            for tally, n in ledgers.get(number, {}).items():
                counts[tally] += n
        waiting = _waiting(entry, flow, behind)
        counts["in"] += waiting
        counts["sidelined"] += waiting
        shards = entry.accounts.shards.values()
        accuracy = _accuracy(entry, flow, behind)
        quality = quality_status(entry, flow, adapter, behind)
        return cls(
            entry.epoch,
            counts,
            None if entry.ended else _watermark(entry, flow),
            _newest(entry, flow),
            entry.ended,
            sum(shard.cells for shard in shards),
            sum(shard.bytes for shard in shards),
            _skew(entry, flow),
            rows_per_second,
            {o.name: ledgers.get(number, {}) for number, o in enumerate(flow.operators)},
            {} if entry.early is None else entry.early.tallies,
            accuracy,
            quality,
            _shed(entry, flow),
            _bad_files(entry, flow, behind),
            sum(progress.jumps for progress in entry.standing.inputs),
            sum(c.get("overflows", 0) for n, c in ledgers.items() if behind is None or n in behind),
            needs=need_status(
                entry,
                flow,
                needs,
                {n: one.mean for n, one in accuracy.items()},
                {n: q.overall for n, q in quality.items() if q.overall is not None},
                behind=behind,
            ),
        )

    def __getitem__(self, name: str) -> int:
        if name not in TALLIES:
            raise KeyError(f"{name!r} is not counted; these are: {', '.join(TALLIES)}")
        return self.counts.get(name, 0)

    @property
    def need(self) -> NeedStatus | None:
        """The status of the first output's need; None for a run without `need=`."""
        return next(iter(self.needs.values()), None)

    @property
    def balanced(self) -> bool:
        """Whether the counts of all outcomes add up to the number of rows received."""
        return self["in"] == sum(self[a] for a in ACCOUNTS)


def _accuracy(entry: Entry, flow: Dataflow, behind: Collection[int] | None) -> dict[str, Accuracy]:
    """Return the accuracy by aggregate name; with several operators, by `operator.aggregate`."""
    learned = {} if entry.early is None else entry.early.learned
    mine = [n for n in learned if behind is None or n in behind]
    accuracy = {}
    for number in mine:
        prefix = f"{flow.operators[number].name}." if len(mine) > 1 else ""
        for name, running in learned[number].accuracy.items():
            if running.overall.count:
                groups = {g: Accuracy(*astuple(t)) for g, t in running.groups.items() if g}
                overall = Accuracy(*astuple(running.overall))
                accuracy[prefix + name] = replace(overall, groups=groups)
    return accuracy


def _shed(entry: Entry, flow: Dataflow) -> dict[str, Any]:
    """Return the values of `Status.dropped` by name; empty for a run without `shed=`."""
    memory = entry.shed
    if memory is None:
        return {}
    return {
        "share": 0.0 if memory.rule is None else memory.rule.share,
        "load": memory.load.load,
        "windows": memory.windows,
        "closed": [o.name for o in flow.outputs if o.operator in memory.load.closed],
        "limited_by": memory.load.choice.limit,
    } | _shares(memory, flow)


def _shares(memory: ShedMemory, flow: Dataflow) -> dict[str, Any]:
    """Return the shares of windows being dropped, and their number, by class or by query."""
    fair = memory.fair
    if fair is None:
        return {}
    shares = {n: rule.share for n, rule in fair.rules.items() if rule.share}
    if fair.column is not None:
        return {"classes": shares, "windows_of": dict(fair.windows)}
    names = {o.operator: o.name for o in flow.outputs}
    return {
        "queries": {names[n]: share for n, share in shares.items() if n in names},
        "windows_of": {names[n]: count for n, count in fair.windows.items() if n in names},
    }


def _bad_files(entry: Entry, flow: Dataflow, behind: Collection[int] | None) -> int:
    """Return the number of files that inputs of the operators in `behind` did not read."""
    each = zip(flow.inputs, entry.accounts.bad_files, strict=False)
    return sum(
        count
        for start, count in each
        if behind is None or any(route.operator in behind for route in start.routes)
    )


def _waiting(entry: Entry, flow: Dataflow, behind: Collection[int] | None) -> int:
    """Return the number of held rows, which no operator has counted yet."""
    holds = [n for n in flow.holds if behind is None or n in behind]
    return sum(shard.cells for n in holds for shard in entry.accounts.of(n))


def _watermark(entry: Entry, flow: Dataflow) -> Any:
    """Return the lowest watermark at the ports of the first output's operator."""
    last = flow.outputs[0].operator
    ports = zip(flow.ports, entry.standing.ports, strict=False)
    lows = [(marks.low, port) for (operator, port), marks in ports if operator == last]
    known = [(low, port) for low, port in lows if low is not None]
    if not known or len(known) < len(lows):
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
    """Return the skew of the operator with the most uneven shards."""
    by_operator = ([s.rows for s in entry.accounts.of(n)] for n in range(len(flow.operators)))
    return max([1.0, *(max(rows) * len(rows) / sum(rows) for rows in by_operator if sum(rows))])
