"""Early results of an epoch: estimates, with their expected accuracy.

Operators answer prods with what has arrived. Here, where all answers of an epoch are together, they
become estimates. Finals measure the accuracy of earlier estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.control.completeness import Completeness
from lowwater.control.context import InputProgress
from lowwater.control.report import EpochReport
from lowwater.dataflow.answer_prods import bare, completed, completeness, window_ticks
from lowwater.dataflow.graph import Dataflow
from lowwater.early.calibration.calibrator import EarlyValues, Estimate
from lowwater.early.calibration.learner import HASHES, OperatorLearner
from lowwater.early.prodder import EarlyMemory, Prodder
from lowwater.engine.entry import Entry
from lowwater.operators.group_codes import shard_of
from lowwater.operators.operator import ROWS
from lowwater.operators.packet import Packet, measure_packet, measures_of, table_packet, tables
from lowwater.operators.window.plan import NAME, WindowPlan
from lowwater.planner.early_columns import HIDDEN, KNOWN

UNKNOWN_SHARE = 0.5
"""The share of rows that counts as arrived where no policy measures it."""


def judged(
    prodder: Prodder | None, before: Entry, flow: Dataflow, packets: Sequence[Packet], now: int
) -> list[Packet]:
    """Return what an epoch gave, its answers as estimates, and what the epoch taught of them."""
    if prodder is None:
        return list(packets)
    found = [p for p in packets if p.kind != "early"]
    measured = [measures_of(p) for p in packets if p.kind == "measure"]
    known = EpochReport(_reached(before, measured, flow), measured, now)
    memory = before.early or EarlyMemory()
    arrived: list[Completeness | None] | None = None
    for operator in sorted({o.operator for o in flow.outputs}):
        mine = [p for p in packets if p.operator == operator]
        answers = tables(mine, "early")
        judge = _Judge(flow, operator, prodder, memory)
        told = judge.finals(tables(mine, "results"))
        if answers:
            if arrived is None:
                came = prodder.arrived(memory, known)
                arrived = flow.expected(_without_held(came, flow, before, measured))
            rows = pa.concat_tables(answers)
            share = completeness(judge.plan, rows, arrived[flow.numbers[operator, 0]])
            shown, told["early"] = judge.judge(rows, share, known)
            found.append(replace(table_packet("early", 0, 0, shown), operator=operator))
            found.append(measure_packet(0, 0, {"early": len(rows)}))
        if any(told.values()):
            found.append(measure_packet(0, 0, {"learned": {str(operator): told}}))
    return found


def _reached(
    before: Entry, measured: Sequence[Mapping[str, Any]], flow: Dataflow
) -> list[InputProgress]:
    """Return how far the inputs are after an epoch, as far as its rows tell."""
    known = before.standing.inputs or [InputProgress() for _ in flow.inputs]
    found = []
    for number, one in enumerate(known):
        newest = [m["newest"] for m in measured if m.get("input") == number and "newest" in m]
        most = max([*newest, *([] if one.newest is None else [one.newest])], default=None)
        found.append(replace(one, newest=most))
    return found


def _without_held(
    arrived: Sequence[Completeness | None],
    flow: Dataflow,
    before: Entry,
    measured: Sequence[Mapping[str, Any]],
) -> list[Completeness | None]:
    """Return the completeness of each input after an epoch, without the rows that are held."""
    found = list(arrived)
    for number, start in enumerate(flow.inputs):
        waiting = [_waiting(route.hold, before, measured) for route in start.routes]
        for stretch in before.standing.held:
            rows = max((w.get(stretch.number, 0) for w in waiting), default=0)
            one = found[number]
            if rows and one is not None:
                found[number] = one.without(stretch.start, stretch.end, rows)
    return found


def _waiting(
    hold: int | None, before: Entry, measured: Sequence[Mapping[str, Any]]
) -> Counter[int]:
    """Return how many rows a hold keeps, by held interval; rows called for do not count."""
    found: Counter[int] = Counter()
    held = () if before.sideline is None else before.sideline.held_rows(hold)
    for one in held:
        found[one.interval] += one.rows
    for m in measured:
        if m.get("came") and m["operator"] == hold:
            found.update(dict(m["came"]))
    return found


class _Judge:
    """Judges the answers of one operator by what is known of it."""

    def __init__(
        self, flow: Dataflow, operator: int, prodder: Prodder, memory: EarlyMemory
    ) -> None:
        self.plan = flow.operators[operator].plan
        self.prodder, self.memory = prodder, memory
        self.operator = operator
        self.learning: OperatorLearner | None = prodder.learning.get(operator)
        self.known = prodder.learned(memory, operator)

    def judge(
        self, rows: pa.Table, share: np.ndarray | None, known: EpochReport
    ) -> tuple[pa.Table, list[dict[str, Any]]]:
        """Return the estimates of answers, and the early rows to compare with their finals."""
        values = bare(rows)
        if self.prodder.complete:
            values = completed(self.plan, values, share)
        shown = pa.nulls(len(rows), pa.float64()) if share is None else pa.array(share)
        values = values.append_column(HIDDEN + KNOWN[0], shown)
        if self.learning is None:
            return values, []
        early = self._early(rows, values, share)
        said = self.learning.judge(self.known, early)
        for name, column in zip(KNOWN[1:], ("expected_accuracy", "low", "high"), strict=True):
            values = values.append_column(HIDDEN + name, _each(said, column))
        return values, self._remembered(rows, values, early, known)

    def _early(self, rows: pa.Table, values: pa.Table, share: np.ndarray | None) -> EarlyValues:
        assert self.learning is not None  # noqa: S101
        # Scaled aggregates are learned from the rows that arrived, the others from the estimate.
        raw = {
            name: _floats((rows if kind in {"counted", "scaled"} else values).column(name))
            for name, kind in self.learning.kinds.items()
        }
        _, ends = window_ticks(rows)
        known = np.full(len(rows), UNKNOWN_SHARE) if share is None else share
        return EarlyValues(ends, known, _floats(rows.column(ROWS)), raw)

    def _remembered(
        self, rows: pa.Table, values: pa.Table, early: EarlyValues, known: EpochReport
    ) -> list[dict[str, Any]]:
        """Return what is to be remembered of answers until their finals come."""
        assert self.learning is not None  # noqa: S101
        chosen, hashes = self._sample(rows)
        lead = self.prodder.leads(self.memory, known, self.operator, early.window[chosen])
        names = list(self.learning.kinds)
        said = {n: _floats(values.column(n))[chosen].tolist() for n in names}
        raw = {n: early.raw[n][chosen].tolist() for n in names}
        columns = zip(
            self._keys(rows, chosen),
            hashes.tolist(),
            rows.column("wid").take(pa.array(chosen)).to_pylist(),
            early.window[chosen].tolist(),
            np.round(early.completeness[chosen], 5).tolist(),
            early.rows[chosen].tolist(),
            np.round(lead, 4).tolist(),
            strict=True,
        )
        return [
            {
                "key": key,
                "group": group,
                "hash": h,
                "wid": wid,
                "window": window,
                "share": share,
                "rows": count,
                "lead": ahead,
                "at": known.now,
                "raw": {n: raw[n][i] for n in names},
                "said": {n: said[n][i] for n in names},
            }
            for i, ((key, group), h, wid, window, share, count, ahead) in enumerate(columns)
        ]

    def finals(self, results: Sequence[pa.Table]) -> dict[str, Any]:
        """Return the values of finals that are waited for, by window and group."""
        waiting = self.known.sample.waiting
        if self.learning is None or not waiting or not results:
            return {}
        rows = pa.concat_tables(results)
        awaited = pa.array(sorted({w.wid for w in waiting}), pa.int64())
        rows = rows.filter(pc.is_in(rows.column("wid"), awaited))
        if not len(rows):
            return {}
        chosen, _ = self._sample(rows)
        wanted = {w.key for w in waiting}
        values = [_floats(rows.column(n)) for n in self.learning.kinds]
        found = {
            key: [float(v[i]) for v in values]
            for i, (key, _) in zip(chosen.tolist(), self._keys(rows, chosen), strict=True)
            if key in wanted
        }
        return {"finals": found}

    def _sample(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows are of groups that are remembered, and the hash of each."""
        assert isinstance(self.plan, WindowPlan)  # noqa: S101
        keys = [rows.column(k).combine_chunks() for k in self.plan.keys]
        hashes = shard_of(keys, len(rows), HASHES) if keys else np.zeros(len(rows), np.int64)
        chosen = np.flatnonzero(hashes < self.known.sample.limit)
        return chosen, hashes[chosen]

    def _keys(self, rows: pa.Table, chosen: np.ndarray) -> list[tuple[str, str]]:
        """Return what tells windows of groups apart, and the groups."""
        assert isinstance(self.plan, WindowPlan)  # noqa: S101
        names = [n for n in ("wid", NAME) if n in rows.column_names]
        some = rows.take(pa.array(chosen))
        windows = zip(*(some.column(n).to_pylist() for n in names), strict=True)
        keys = [some.column(k).to_pylist() for k in self.plan.keys]
        groups = (
            [", ".join(map(str, row)) for row in zip(*keys, strict=True)]
            if keys
            else [""] * len(chosen)
        )
        return [(f"{w} {g}", g) for w, g in zip(windows, groups, strict=True)]


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return numbers as floats, NULL as NaN."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)


def _each(said: Mapping[str, Estimate], what: str) -> pa.Array:
    """Return one figure of every aggregate, NULL where there is none."""
    columns = [pa.array(getattr(j, what), from_pandas=True) for j in said.values()]
    return pa.StructArray.from_arrays(columns, list(said))
