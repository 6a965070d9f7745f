"""A trial: one run of a query over its recordings under one setting, and its figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import lowwater as lw
from lowwater.cli.replay.query import RecordedQuery
from lowwater.cli.replay.windows import frontier_of, slack_policy
from lowwater.dataflow.answer_prods import window_ticks
from lowwater.dataflow.graph import Dataflow
from lowwater.early.accuracy import accuracy
from lowwater.early.policies import ProdPolicy
from lowwater.engine.host import Outcome
from lowwater.engine.outputs import OutputWriter, output_writers
from lowwater.learners.frontier import Frontier, RecordedProgress
from lowwater.needs.statement import Need
from lowwater.operators.join.plan import JoinPlan
from lowwater.shedding.policy import ShedPolicy
from lowwater.sinks.sink import Memory
from lowwater.sources.arrival_clock import Ticks
from lowwater.watermarks.policy import WatermarkPolicy

END, AT = "__end", "__at"
"""Columns of results: the end of the window, or the time of the pair, and the arrival clock."""


@dataclass(frozen=True)
class Setting:
    """The settings of a trial, and their text."""

    text: str
    watermark: WatermarkPolicy | None
    early: ProdPolicy | None = None
    shed: ShedPolicy | None = None
    need: Need | None = None


@dataclass(frozen=True)
class Figures:
    """The figures of a trial; lengths are in ticks of the arrival clock, None if there are none.

    Attributes
    ----------
    completeness
        The share of pairs (row, window) in the finals, of the pairs of a join, or of the rows.
    mean_wait, wait_95
        The wait of the windows, from the moment at which the newest time reached their end to their
        final.
    first
        The mean of the time from that moment to the first answer of a window, early or final.
    early_error
        The mean of 1 - accuracy over the first early value of each result.
    dropped, late
        The number of dropped windows, and of rows that missed a window.
    """

    completeness: float | None
    mean_wait: float | None
    wait_95: float | None
    first: float | None
    early_error: float | None
    dropped: int
    late: int


@dataclass(frozen=True, eq=False)
class Ran:
    """The tables of a run, by the epoch that emitted them, and its outcome."""

    results: Memory
    late: Memory
    dropped: Memory
    outcome: Outcome = field(repr=False)


@dataclass(frozen=True, eq=False)
class Trials:
    """The trials of a query: each runs it once over the same rows in the same epochs."""

    query: RecordedQuery

    @cached_property
    def frontier(self) -> Frontier | None:
        """The frontier of the query, if its windows are known in advance."""
        return frontier_of(self.query)

    @cached_property
    def progress(self) -> RecordedProgress:
        """The progress of all recordings together."""
        return RecordedProgress.least([self.query.progress(n) for n in self.query.recordings])

    @property
    def timed(self) -> bool:
        """Whether waits are lengths of time, not of numbers."""
        return not self.query.counts_numbers

    @property
    def counted(self) -> str:
        """The moment from which waits count, in words."""
        return "the time of a pair" if self.due is not None else "a window's end"

    def late_degree(self, share: float) -> int:
        """Return the late degree, in ticks, that a share of the rows does not exceed."""
        degrees = [
            np.maximum.accumulate(ticks[valid]) - ticks[valid]
            for ticks, valid in (one.ticks for one in self.query.recordings.values())
            if valid.any()
        ]
        return int(np.quantile(np.concatenate(degrees), share, method="inverted_cdf"))

    @cached_property
    def due(self) -> int | None:
        """The number of pairs that a join has if no row is late; None for other queries."""
        query = self.query.query(lw.ordered())
        flow = query.assembly.flow
        last = flow.operators[flow.outputs[0].operator].plan
        if not isinstance(last, JoinPlan) or len(flow.operators) > 1:
            return None
        ran = self._run(Setting("", slack_policy(self.query.axis, self.query.span)))
        return sum(map(len, ran.results.epochs.values()))

    def run(self, setting: Setting) -> Figures:
        """Return the figures of the query under one setting."""
        ran = self._run(setting)
        status = ran.outcome.status
        rows = self._timed(ran.results)
        late = status["late"] + status["partly_late"]
        dropped = sum(map(len, ran.dropped.epochs.values()))
        share = self._completeness(ran, late, status["in"])
        return Figures(share, *self._waits(rows), self._early_error(setting, rows), dropped, late)

    def _run(self, setting: Setting) -> Ran:
        results, late, dropped = lw.to_memory(), lw.to_memory(), lw.to_memory()
        outcome = self.query.query(setting.watermark).run(
            epochs=self.query.tables,
            clock=self.query.clock,
            shards=1,
            sink=results,
            late=late,
            dropped=dropped,
            early=setting.early,
            shed=setting.shed,
            need=setting.need,
        )
        return Ran(results, late, dropped, outcome)

    # -- completeness -----------------------------------------------------------------------------

    def _completeness(self, ran: Ran, late: int, rows: int) -> float | None:
        if self.frontier is not None:
            pairs = self.frontier.pairs
            lost = missed(ran.late.epochs.values()) + self._in_dropped(ran.dropped)
            return max(1 - lost / pairs.total, 0.0) if pairs.total else None
        if self.due is not None:
            given = sum(map(len, ran.results.epochs.values()))
            return given / self.due if self.due else None
        return 1 - late / rows if rows else None

    def _in_dropped(self, dropped: Memory) -> int:
        """Return the number of pairs (row, window) of the dropped windows."""
        assert self.frontier is not None  # noqa: S101
        if not dropped.epochs:
            return 0
        pairs = self.frontier.pairs
        starts, ends = window_ticks(pa.concat_tables(dropped.epochs.values()))
        gone = set(zip(starts.tolist(), ends.tolist(), strict=True))
        known = zip(pairs.starts.tolist(), pairs.ends.tolist(), strict=True)
        mask = np.array([window in gone for window in known])
        return int(pairs.rows[mask[pairs.window]].sum())

    # -- waits ------------------------------------------------------------------------------------

    def _timed(self, results: Memory) -> pd.DataFrame | None:
        """Return the results with their ends and emission; None if their ends are unknown."""
        cuts, tables = self.query.cuts, []
        for epoch, table in results.epochs.items():
            ends = result_times(self._writer.flow, self._writer, table)
            if ends is None:
                return None
            at = np.full(len(table), cuts[min(epoch, len(cuts) - 1)])
            kept = table.select([n for n in self._kept if n in table.column_names])
            tables.append(kept.append_column(END, pa.array(ends)).append_column(AT, pa.array(at)))
        return pa.concat_tables(tables).to_pandas() if tables else None

    @cached_property
    def _writer(self) -> OutputWriter:
        plan = self.query.query(lw.ordered()).assembly
        return next(iter(output_writers(plan.flow, prodded=True).values()))

    @property
    def _kept(self) -> list[str]:
        return list(dict.fromkeys([*self._writer.key, *self._values, "kind"]))

    @property
    def _values(self) -> list[str]:
        plan = self._writer.flow.operators[self._writer.output.operator].plan
        return [n for n in plan.numeric_aggregates if n in self._writer.result_schema.names]

    def _waits(self, rows: pd.DataFrame | None) -> tuple[float | None, float | None, float | None]:
        """Return the mean and the 95 % quantile of the waits, and the mean age of first answers."""
        if rows is None:
            return None, None, None
        finals = rows[rows["kind"] == "final"] if "kind" in rows else rows
        last, first = (one.groupby(END)[AT] for one in (finals, rows))
        waits = self._since(last.max())
        ages = self._since(first.min())
        if not len(waits):
            return None, None, None
        return float(waits.mean()), float(np.quantile(waits, 0.95)), float(ages.mean())

    def _since(self, at: pd.Series) -> np.ndarray:
        """Return the time since the moment at which the stream reached each window's end."""
        moments = self.progress.reached(at.index.to_numpy(np.int64))
        return np.asarray(at.to_numpy(np.int64)[moments >= 0] - moments[moments >= 0])

    def _early_error(self, setting: Setting, rows: pd.DataFrame | None) -> float | None:
        """Return the mean error of the first early value of each result."""
        key, values = list(self._writer.key), self._values
        if (
            (setting.early is None and setting.need is None)
            or rows is None
            or not key
            or not values
        ):
            return None
        early = rows[rows["kind"] == "early"].sort_values(AT, kind="stable")
        finals = rows[rows["kind"] == "final"]
        pairs = finals.merge(early.drop_duplicates(key), on=key, suffixes=("", "__early"))
        if not len(pairs):
            return None
        each = [accuracy(floats(pairs[f"{n}__early"]), floats(pairs[n])) for n in values]
        return float(1 - np.mean(each))


def floats(column: pd.Series) -> np.ndarray:
    """Return a column of numbers as floats."""
    return np.asarray(column.to_numpy(np.float64, na_value=np.nan))


def missed(late: Any) -> int:
    """Return the number of windows that late rows missed, one for each row and window."""
    count = 0
    for table in late:
        column = table.column(table.num_columns - 2).combine_chunks()
        first, last = (column.field(n).to_numpy(zero_copy_only=False) for n in ("first", "last"))
        count += int((last - first + 1).sum())
    return count


def result_times(flow: Dataflow, writer: OutputWriter, table: pa.Table) -> Ticks | None:
    """Return the window end of each result, or the time of a pair; None if it has neither."""
    if "window" in table.column_names and pa.types.is_struct(table.schema.field("window").type):
        return window_ticks(table)[1]
    for axis in flow.operators[writer.output.operator].times:
        if axis.column in table.column_names:
            return np.asarray(axis.to_ticks(table.column(axis.column))[0])
    return None
