"""Early results of an epoch: estimates, with their expected accuracy.

Operators answer prods from the rows that have arrived. This module turns all answers of an epoch
into estimates, and compares earlier estimates with their finals to measure the accuracy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.aggregate import numbers
from lowwater.control.completeness import Completeness
from lowwater.control.context import InputProgress
from lowwater.control.measures import EarlyNews, EpochMeasure, Measures, WaitingResult
from lowwater.control.report import EpochReport
from lowwater.control.watermark import latest
from lowwater.dataflow.answer_prods import bare, completed, completeness, window_ticks
from lowwater.dataflow.graph import Dataflow
from lowwater.early.calibration.calibrator import EarlyValues, Estimate
from lowwater.early.calibration.early_rows import SCALED
from lowwater.early.calibration.learner import HASHES, OperatorLearner
from lowwater.early.prodder import EarlyMemory, Prodder
from lowwater.engine.entry import Entry
from lowwater.operators.group_codes import shard_of
from lowwater.operators.operator import ROWS
from lowwater.operators.packet import Packet, measure_of, measure_packet, table_packet, tables
from lowwater.operators.window.plan import NAME, WindowPlan
from lowwater.planner.early_columns import HIDDEN, KNOWN

UNKNOWN_SHARE = 0.5
"""The completeness that is assumed for a window if no policy measures it."""


def with_estimates(
    prodder: Prodder | None, before: Entry, flow: Dataflow, packets: Sequence[Packet], now: int
) -> list[Packet]:
    """Return `packets` with estimates instead of answers, and with measurements of accuracy."""
    if prodder is None:
        return list(packets)
    emitted = [p for p in packets if p.kind != "early"]
    measured = Measures.of(measure_of(p) for p in packets if p.kind == "measure")
    known = EpochReport(_reached(before, measured, flow), measured, now)
    memory = before.early or EarlyMemory()
    arrived: list[Completeness | None] | None = None
    for operator in sorted({o.operator for o in flow.outputs}):
        mine = [p for p in packets if p.operator == operator]
        answers = tables(mine, "early")
        judge = _Judge(flow, operator, prodder, memory)
        news = EarlyNews(judge.finals(tables(mine, "results")))
        if answers:
            if arrived is None:
                by_input = prodder.arrived(memory, known)
                arrived = flow.expected(_without_held(by_input, flow, before, measured))
            rows = pa.concat_tables(answers)
            share = completeness(judge.plan, rows, arrived[flow.numbers[operator, 0]])
            estimates, waiting = judge.judge(rows, share, known)
            news = replace(news, early=waiting)
            emitted.append(replace(table_packet("early", 0, 0, estimates), operator=operator))
        learned = {operator: news} if news.finals or news.early else {}
        if answers or learned:
            count = sum(map(len, answers))
            emitted.append(measure_packet(0, 0, EpochMeasure(count, learned)))
    return emitted


def _reached(before: Entry, measured: Measures, flow: Dataflow) -> list[InputProgress]:
    """Return the progress of each input, with its newest time updated by the epoch's rows."""
    progress = []
    for number, one in enumerate(before.standing.inputs or [InputProgress()] * len(flow.inputs)):
        times = (m.newest for m in measured.of_input(number))
        progress.append(replace(one, newest=latest(one.newest, *times)))
    return progress


def _without_held(
    arrived: Sequence[Completeness | None], flow: Dataflow, before: Entry, measured: Measures
) -> list[Completeness | None]:
    """Return `arrived`, the completeness of each input, reduced by the rows that are held."""
    without = list(arrived)
    for number, start in enumerate(flow.inputs):
        waiting = [_waiting(route.hold, before, measured) for route in start.routes]
        for held in before.standing.held:
            rows = max((w.get(held.number, 0) for w in waiting), default=0)
            one = without[number]
            if rows and one is not None:
                without[number] = one.without(held.start, held.end, rows)
    return without


def _waiting(hold: int | None, before: Entry, measured: Measures) -> Counter[int]:
    """Return the number of rows that the operator `hold` still holds, by held interval."""
    waiting: Counter[int] = Counter()
    for held in () if before.sideline is None else before.sideline.held_rows(hold):
        waiting[held.interval] += held.rows
    for m in measured.shards:
        if m.operator == hold:
            waiting.update(dict(m.held))
    return waiting


class _Judge:
    """An estimator for one operator's answers, based on the accuracy of earlier estimates."""

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
    ) -> tuple[pa.Table, tuple[WaitingResult, ...]]:
        """Return (estimates for the answers `rows`, records to compare with the finals later)."""
        values = bare(rows)
        if self.prodder.complete:
            values = completed(self.plan, values, share)
        shares = pa.nulls(len(rows), pa.float64()) if share is None else pa.array(share)
        values = values.append_column(HIDDEN + KNOWN[0], shares)
        if self.learning is None:
            return values, ()
        early = self._early(rows, values, share)
        estimates = self.learning.judge(self.known, early)
        if self.prodder.complete:
            values = self._estimated(rows, values, early, estimates)
        estimates = {n: e.around(_floats(values.column(n))) for n, e in estimates.items()}
        for name in KNOWN[1:]:
            values = values.append_column(HIDDEN + name, _each(estimates, name))
        return values, self._remembered(rows, values, early, known)

    def _early(self, rows: pa.Table, values: pa.Table, share: np.ndarray | None) -> EarlyValues:
        assert self.learning is not None  # noqa: S101
        raw = {n: _floats(self._raw(rows, values, n)) for n in self.learning.kinds}
        _, ends = window_ticks(rows)
        known = np.full(len(rows), UNKNOWN_SHARE) if share is None else share
        slots = self.known.sample.slots(self._hashes(rows))
        return EarlyValues(ends, slots, known, _floats(rows.column(ROWS)), raw)

    def _raw(self, rows: pa.Table, values: pa.Table, name: str) -> pa.ChunkedArray:
        """Return the column that is learned: scaled aggregates are not completed, others are."""
        assert self.learning is not None  # noqa: S101
        scaled = self.learning.kinds[name] in SCALED
        return (rows if scaled else values).column(name)

    def _estimated(
        self,
        rows: pa.Table,
        values: pa.Table,
        early: EarlyValues,
        estimates: Mapping[str, Estimate],
    ) -> pa.Table:
        """Return `values` with the estimates; a value that is not changed stays exact."""
        for name, one in estimates.items():
            at = values.column_names.index(name)
            column = self._raw(rows, values, name).combine_chunks()
            same = (one.estimate == early.raw[name]) | ~np.isfinite(one.estimate)
            emitted = pc.if_else(pa.array(same), column, numbers(one.estimate, column))
            values = values.set_column(at, values.schema.field(at), emitted)
        return values

    def _remembered(
        self, rows: pa.Table, values: pa.Table, early: EarlyValues, known: EpochReport
    ) -> tuple[WaitingResult, ...]:
        """Return records of sampled early rows; the log keeps a record until its final is known."""
        assert self.learning is not None  # noqa: S101
        chosen, hashes = self._sample(rows)
        lead = self.prodder.leads(self.memory, known, self.operator, early.window[chosen])
        keys = self._keys(rows, chosen)
        emitted = {n: _floats(values.column(n)) for n in self.learning.kinds}
        columns = {
            "key": [key for key, _ in keys],
            "group": [group for _, group in keys],
            "hash": hashes.tolist(),
            "wid": rows.column("wid").take(pa.array(chosen)).to_pylist(),
            "window": early.window[chosen].tolist(),
            "share": np.round(early.completeness[chosen], 5).tolist(),
            "rows": early.rows[chosen].tolist(),
            "lead": np.round(lead, 4).tolist(),
            "at": [known.now] * len(chosen),
            "raw": [{n: float(early.raw[n][i]) for n in emitted} for i in chosen],
            "said": [{n: float(column[i]) for n, column in emitted.items()} for i in chosen],
        }
        return tuple([WaitingResult(*row) for row in zip(*columns.values(), strict=True)])

    def finals(self, results: Sequence[pa.Table]) -> dict[str, tuple[float, ...]]:
        """Return {key of window and group: final values} for the recorded early rows."""
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
        return {
            key: tuple([float(v[i]) for v in values])
            for i, (key, _) in zip(chosen.tolist(), self._keys(rows, chosen), strict=True)
            if key in wanted
        }

    def _sample(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Return (indices, group hashes) of the rows whose group is in the sample."""
        hashes = self._hashes(rows)
        chosen = np.flatnonzero(hashes < self.known.sample.limit)
        return chosen, hashes[chosen]

    def _hashes(self, rows: pa.Table) -> np.ndarray:
        """Return the hash of each row's group, from 0 to `HASHES`."""
        assert isinstance(self.plan, WindowPlan)  # noqa: S101
        keys = [rows.column(k).combine_chunks() for k in self.plan.keys]
        return shard_of(keys, len(rows), HASHES) if keys else np.zeros(len(rows), np.int64)

    def _keys(self, rows: pa.Table, chosen: np.ndarray) -> list[tuple[str, str]]:
        """Return (key of window and group, group as text) for each row at an index in `chosen`."""
        assert isinstance(self.plan, WindowPlan)  # noqa: S101
        names = [n for n in ("wid", NAME) if n in rows.column_names]
        some = rows.take(pa.array(chosen))
        windows = zip(*(some.column(n).to_pylist() for n in names), strict=True)
        keys = [some.column(k).to_pylist() for k in self.plan.keys]
        by_row = zip(*keys, strict=True) if keys else [()] * len(chosen)
        groups = [", ".join(map(str, row)) for row in by_row]
        return [(f"{w} {g}", g) for w, g in zip(windows, groups, strict=True)]


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column of numbers as an array of floats, with NaN for NULL."""
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)


def _each(estimates: Mapping[str, Estimate], field: str) -> pa.Array:
    """Return a struct column with `field` of each aggregate's estimates; NaN becomes NULL."""
    columns = [pa.array(getattr(e, field), from_pandas=True) for e in estimates.values()]
    return pa.StructArray.from_arrays(columns, list(estimates))
