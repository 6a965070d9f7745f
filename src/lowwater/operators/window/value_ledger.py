"""The value ledger: an observer that measures the error of results when their late rows come.

The ledger has the finals of the newest results, and what rows added to them that needed slack. From
both follow the values that a result would have had under any slack. So it knows which slack a
result would have *needed*: the smallest with which it, and with every longer slack, is within the
bound. Each time that late rows change what is known of a result, the changes are counted.

At most `LIMIT` results are in the ledger. If they are the results of few windows, because there are
many groups, it samples groups by their hash, and counts each of them for several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lowwater.control.completeness import Floats
from lowwater.control.measures import NeededSlack, ShardMeasure
from lowwater.learners.slack_bins import BINS
from lowwater.operators.packet import Packet, packed, table_of, unpacked
from lowwater.operators.window.close import ClosedWindows
from lowwater.operators.window.loss_count import Observer
from lowwater.operators.window.plan import WindowPlan
from lowwater.operators.window.value_bound import (
    NOTHING,
    Additions,
    Criterion,
    criteria,
    floats,
    group_hashes,
)
from lowwater.ticks import END, FIRST_TICK

LIMIT = 2_048
"""The largest number of results in the ledger of a shard."""
WINDOWS = 64
"""The ledger samples groups if its results are those of fewer windows."""
EXACT = 1e-9
"""A relative error up to this is rounding."""
RESULTS, ADDITIONS = "ledger/results", "ledger/additions"
_HIGH = 32


@dataclass(frozen=True, eq=False)
class Results:
    """Finals by hash of the group and end of the window, with what was counted of each.

    A result counts `weight` times: as one that needed slack of the bin `bin` (-1: not yet counted),
    and was within the bound or, if `lost`, was not. `x` and `m` are as in `Additions`.
    """

    hash: np.ndarray
    end: np.ndarray
    weight: np.ndarray
    bin: np.ndarray
    lost: np.ndarray
    x: Floats
    m: Floats

    def __len__(self) -> int:
        return len(self.hash)

    @classmethod
    def new(cls, hashes: np.ndarray, end: np.ndarray, weight: int, x: Floats, m: Floats) -> Results:
        """Return results that have not been counted."""
        one = np.ones(len(hashes), np.int64)
        return cls(hashes, end, weight * one, -one, np.zeros(len(one), bool), x, m)

    def take(self, chosen: np.ndarray) -> Results:
        """Return the results with these indices, or in this mask."""
        return Results(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    @classmethod
    def together(cls, several: Sequence[Results]) -> Results:
        """Return all results."""
        fields = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(r, name) for r in several]) for name in fields))

    def to_table(self) -> pa.Table:
        """Return the results as a table."""
        as_additions = Additions(self.hash, self.end, self.bin, self.lost, self.x, self.m)
        return as_additions.to_table().append_column("weight", pa.array(self.weight))

    @classmethod
    def of_table(cls, table: pa.Table) -> Results:
        """Return the results that `to_table` wrote."""
        a, weight = Additions.of_table(table), table.column("weight").to_numpy()
        return cls(a.hash, a.end, weight, a.bin, a.late, a.x, a.m)


class ValueLedger(Observer):
    """An observer that counts results by the slack with which they are within the plan's bound."""

    def __init__(self, plan: WindowPlan, state: Mapping[str, bytes]) -> None:
        assert plan.bound is not None  # noqa: S101
        self.plan, self.error = plan, plan.bound.error
        self.kinds = criteria(plan.aggregates, plan.schema, plan.bound)
        none = Additions.none(len(self.kinds))
        self.results = Results.new(none.hash, none.end, 1, none.x, none.m)
        self.additions = none
        if RESULTS in state:
            self.results = Results.of_table(unpacked(state[RESULTS]))
            self.additions = Additions.of_table(unpacked(state[ADDITIONS]))
        self.fresh = none
        self.closing: list[Results] = []
        self.needed: list[NeededSlack] = []
        self.changes: dict[str, bytes | None] = {}

    # -- what happens in an epoch ------------------------------------------------------------------

    def receive(self, packets: Sequence[Packet]) -> None:
        """Receive what rows add to windows; called before admission."""
        tables = [Additions.of_table(table_of(p)) for p in packets if p.kind == "additions"]
        if tables:
            self.fresh = self._sampled(Additions.together(tables).summed(self.kinds))

    def closed(self, windows: ClosedWindows, keys: pa.Table) -> None:
        """Enter the finals of closed windows."""
        columns = [keys.column(k).combine_chunks() for k in self.plan.keys]
        hashes = group_hashes(columns, max(len(keys), int(windows.code.max(initial=0)) + 1))
        pairs = [self._final(kind, windows) for kind in self.kinds]
        x, m = (np.column_stack([pair[i] for pair in pairs]) for i in (0, 1))
        end = np.asarray(self.plan.positioned.end(windows.wid))
        every = Results.new(hashes[windows.code], end, self._weight, x, m)
        self.closing.append(every.take(self._chosen(every.hash)))

    def _final(self, kind: Criterion, windows: ClosedWindows) -> tuple[Floats, Floats]:
        """Return the numbers and the weights of the finals."""
        rows = windows.parts[0].arrays[0].astype(np.float64)
        if not kind.name:
            return rows, rows
        plan, aggregate = self.plan, self.plan.aggregates[kind.name]
        parts = [plan.settled(p, windows.parts) for p in aggregate.parts(plan.schema)]
        values = aggregate.lower(parts, plan.schema)
        if kind.kind == "max":
            return kind.sign * floats(values, NOTHING * kind.sign), rows
        known = parts[-1].arrays[0].astype(np.float64)
        value = floats(values, 0.0)
        return (value * known if kind.kind == "avg" else value), known

    def observed(self, measure: ShardMeasure, passed: int | None) -> ShardMeasure:
        """Return the measurement with the results that were counted, by end of their window."""
        if not (self.closing or len(self.fresh) or len(self.additions)):
            return measure
        known = len(self.results)
        late = _places(self.results, self.fresh) >= 0
        fresh = replace(self.fresh, late=late)
        self.additions = Additions.together([self.additions, fresh]).summed(self.kinds)
        self.results = Results.together([self.results, *self.closing])
        self.results = Results.together([self.results, self._without_final(passed)])
        touched = np.arange(len(self.results)) >= known
        again = _places(self.results, fresh.take(late))
        touched[again] = True
        before = self.results
        self._judge(np.flatnonzero(touched))
        measure = self._count(measure, before, np.flatnonzero(touched))
        if passed is not None and passed >= END:
            self.changes = dict.fromkeys((RESULTS, ADDITIONS))
            return measure
        self._forget()
        self.changes = {
            RESULTS: packed(self.results.to_table()),
            ADDITIONS: packed(self.additions.to_table()),
        }
        return measure

    def _without_final(self, passed: int | None) -> Results:
        """Return empty finals for windows all of whose rows were late."""
        low = FIRST_TICK if passed is None else passed
        some = self.additions.take(self.additions.end <= low)
        some = some.take(_places(self.results, some) < 0)
        keys = np.unique(_keys(some), return_index=True)[1]
        some = some.take(keys)
        none = [NOTHING if kind.kind == "max" else 0.0 for kind in self.kinds]
        x = np.broadcast_to(np.array(none), (len(some), len(none))).copy()
        return Results.new(some.hash, some.end, self._weight, x, np.zeros_like(x))

    # -- what slack results needed -----------------------------------------------------------------

    def _judge(self, at: np.ndarray) -> None:
        """Compute anew which slack the results at these places needed, and which are lost."""
        mine = self.results.take(at)
        place = _places(mine, self.additions)
        added, place = self.additions.take(place >= 0), place[place >= 0]
        order = np.lexsort((added.bin, place))
        added, place = added.take(order), place[order]
        total = self._plus(mine, place, added, added.late)
        starts = np.searchsorted(place, np.arange(len(mine)))
        count = np.searchsorted(place, np.arange(len(mine)), side="right") - starts
        now = self._before_additions(mine, place, added)
        needed = np.zeros(len(mine), np.int64)
        for step in range(int(count.max(initial=0))):
            some = np.flatnonzero(count > step)
            next_one = starts[some] + step
            beyond = self._errors(now.take(some), total.take(some)) > self.error
            needed[some[beyond]] = added.bin[next_one[beyond]]
            now = self._plus(now, some, added.take(next_one), np.ones(len(some), bool))
        lost = self._errors(mine, total) > self.error
        bins, losses = self.results.bin.copy(), self.results.lost.copy()
        bins[at], losses[at] = needed, lost
        self.results = replace(self.results, bin=bins, lost=losses)

    def _plus(
        self, results: Results, place: np.ndarray, added: Additions, chosen: np.ndarray
    ) -> Results:
        """Return the results with the `chosen` additions, each to the result at its place."""
        x, m = results.x.copy(), results.m.copy()
        at, some = place[chosen], added.take(chosen)
        for i, kind in enumerate(self.kinds):
            (np.maximum if kind.kind == "max" else np.add).at(x[:, i], at, some.x[:, i])
        np.add.at(m, at, some.m)
        return replace(results, x=x, m=m)

    def _before_additions(self, results: Results, place: np.ndarray, added: Additions) -> Results:
        """Return the results from only those rows that needed no slack.

        If such rows had a greatest value is unknown if a later row has the same; then none counts.
        """
        x, m = results.x.copy(), results.m.copy()
        at, in_time = place[~added.late], added.take(~added.late)
        for i, kind in enumerate(self.kinds):
            if kind.kind == "max":
                reached = in_time.x[:, i] >= results.x[at, i]
                x[at[reached], i] = NOTHING
            else:
                np.subtract.at(x[:, i], at, in_time.x[:, i])
        np.subtract.at(m, at, in_time.m)
        return replace(results, x=x, m=m)

    def _errors(self, results: Results, total: Results) -> Floats:
        """Return the largest relative error of each result; `total` has all rows."""
        errors = np.zeros(len(results))
        for i, kind in enumerate(self.kinds):
            value, true = results.x[:, i], total.x[:, i]
            with np.errstate(divide="ignore", invalid="ignore"):
                if kind.kind == "avg":
                    value, true = value / results.m[:, i], true / total.m[:, i]
                error = np.abs(value - true) / np.abs(true)
            same = (value == true) | (np.isnan(value) & np.isnan(true))
            error = np.where(same | (error <= EXACT), 0.0, np.where(np.isnan(error), np.inf, error))
            errors = np.maximum(errors, error)
        return errors

    # -- what is counted and kept ------------------------------------------------------------------

    def _count(self, measure: ShardMeasure, before: Results, at: np.ndarray) -> ShardMeasure:
        """Return the measurement with the changes of the results at these places."""
        old, new = before.take(at), self.results.take(at)
        counts = np.zeros((2, BINS), np.int64)
        known = old.bin >= 0
        np.subtract.at(
            counts, (old.lost[known].astype(np.int64), old.bin[known]), old.weight[known]
        )
        np.add.at(counts, (new.lost.astype(np.int64), new.bin), new.weight)
        made, lost = ([(int(b), int(c[b])) for b in np.flatnonzero(c)] for c in counts)
        if made or lost:
            self.needed = [NeededSlack(0, 0, None, tuple(made), tuple(lost))]
        kept = _by_end(new, new.weight * ~new.lost, old, old.weight * (known & ~old.lost))
        gone = _by_end(new, new.weight * new.lost, old, old.weight * (known & old.lost))
        return replace(measure, closed=kept, missed=gone)

    @property
    def _weight(self) -> int:
        """The number of groups for which each group of the sample stands."""
        return int(self.results.weight.max(initial=1))

    def _chosen(self, hashes: np.ndarray) -> np.ndarray:
        """Return a mask of the groups in the sample."""
        return np.asarray((hashes >> _HIGH) % self._weight == 0)

    def _sampled(self, additions: Additions) -> Additions:
        return additions.take(self._chosen(additions.hash))

    def _forget(self) -> None:
        """Forget groups while there are too many of them, and the oldest windows."""
        while len(self.results) > LIMIT and len(np.unique(self.results.end)) < WINDOWS:
            weight = np.full(len(self.results), 2 * self._weight)
            self.results = replace(self.results, weight=weight)
            self.results = self.results.take(self._chosen(self.results.hash))
            self.additions = self._sampled(self.additions)
            if not len(self.results):
                break
        if len(self.results) > LIMIT:
            newest = np.sort(np.argsort(self.results.end, kind="stable")[-LIMIT:])
            self.results = self.results.take(newest)
        oldest = self.results.end.min(initial=np.iinfo(np.int64).max)
        kept = (_places(self.results, self.additions) >= 0) | (self.additions.end > oldest)
        self.additions = self.additions.take(kept)


def _keys(of: Results | Additions) -> np.ndarray:
    keys = np.empty(len(of), [("hash", np.int64), ("end", np.int64)])
    keys["hash"], keys["end"] = of.hash, of.end
    return keys


def _places(results: Results, additions: Additions) -> np.ndarray:
    """Return the place of the result that each addition adds to; -1 if there is none."""
    if not len(results) or not len(additions):
        return np.full(len(additions), -1)
    known, wanted = _keys(results), _keys(additions)
    order = np.argsort(known, order=("hash", "end"), kind="stable")
    at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    return np.where(known[order][at] == wanted, order[at], -1)


def _by_end(
    new: Results, more: np.ndarray, old: Results, less: np.ndarray
) -> tuple[tuple[int, int], ...]:
    ends, place = np.unique(np.concatenate([new.end, old.end]), return_inverse=True)
    counts = np.bincount(place, np.concatenate([more, -less]), minlength=len(ends))
    return tuple([(int(e), round(c)) for e, c in zip(ends, counts.tolist(), strict=True) if c])
