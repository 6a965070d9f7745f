"""Early accuracy against lead: how right the early values of a recording would have been, when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

import lowwater as lw
from lowwater.cli.replay.query import RecordedQuery
from lowwater.control.prod import Prod
from lowwater.dataflow.answer_prods import window_ticks
from lowwater.early.accuracy import accuracy
from lowwater.engine.outputs import plan_writers
from lowwater.learners.frontier import RecordedProgress
from lowwater.local.host import LocalEpochs, blocks_of, until_the_end
from lowwater.query.options import RunOptions
from lowwater.query.start import RESULTS
from lowwater.sinks.sink import Memory, Outputs
from lowwater.sources.arrival_clock import Ticks
from lowwater.ticks import BEGIN
from lowwater.watermarks.policy import WatermarkPolicy

SHARES = (1.0, 0.75, 0.5, 0.25, 0.1, 0.0)
"""The leads of a profile, as shares of a slide."""
END, EPOCH, LEAD = "__end", "__epoch", "__lead"


@dataclass(frozen=True)
class LeadAccuracy:
    """Early values at one lead, in ticks before the moment at which a window's end is reached.

    `answered` is the share of the finals with an early value by then; `accuracy` has the mean
    accuracy of these values, by aggregate.
    """

    lead: int
    answered: float
    accuracy: Mapping[str, float] = field(default_factory=dict)


def accuracies(
    query: RecordedQuery,
    watermark: WatermarkPolicy,
    slide: int,
    progress: RecordedProgress,
    leads: Sequence[int],
) -> list[LeadAccuracy]:
    """Return the accuracy of the early values at each lead, compared with their finals.

    All windows that end around the newest time are asked for after each epoch.
    """
    plan = RunOptions(early=lw.early_on_demand()).plan(query.query(watermark).assembly)
    writer = plan_writers(plan)[RESULTS]
    values = writer.flow.operators[writer.output.operator].plan.numeric_aggregates
    kept = [name for name in values if name in writer.result_schema.names]
    if not writer.key or not kept:
        return []
    local = LocalEpochs(plan.with_shards(1), query.clock)
    inputs = [blocks_of([f.table(t) for t in query.tables[f]]) for f in plan.sources]
    frames = []
    for epoch, (blocks, last) in enumerate(until_the_end(inputs)):
        sink = Memory()
        packets = local.run(blocks, last=last, asked=_asked(progress.newest, epoch, slide))
        writer.write(epoch, packets, Outputs(sink))
        chosen = [*writer.key, *kept, "kind"]
        frames += [_timed(table, epoch, chosen) for table in sink.epochs.values()]
    if not frames:
        return []
    rows = pa.concat_tables(frames).to_pandas()
    finals, early = rows[rows["kind"] == "final"], rows[rows["kind"] == "early"].copy()
    reached = progress.reached(early[END].to_numpy(np.int64))
    early[LEAD] = reached - query.cuts[np.minimum(early[EPOCH], len(query.cuts) - 1)]
    known = finals[progress.reached(finals[END].to_numpy(np.int64)) >= 0]
    return [_at(lead, known, early[reached >= 0], list(writer.key), kept) for lead in leads]


def _at(
    lead: int, finals: pd.DataFrame, early: pd.DataFrame, key: list[str], values: list[str]
) -> LeadAccuracy:
    """Return the accuracy of the last early value of each final that came by `lead`."""
    by_then = early[early[LEAD] >= lead].sort_values(EPOCH, kind="stable")
    last = by_then.drop_duplicates(key, keep="last")
    pairs = finals.merge(last, on=key, suffixes=("", "__early"))
    if not len(pairs):
        return LeadAccuracy(lead, 0.0)
    columns = {n: (pairs[f"{n}__early"], pairs[n]) for n in values}
    means = {
        n: float(accuracy(e.to_numpy(np.float64), f.to_numpy(np.float64)).mean())
        for n, (e, f) in columns.items()
    }
    return LeadAccuracy(lead, len(pairs) / len(finals), means)


def _asked(newest: Ticks, epoch: int, slide: int) -> list[Prod]:
    """Return a prod for the windows that end around the newest time.

    The prod is answered an epoch later, so it asks for two slides to answer with a lead of one.
    """
    if epoch >= len(newest) or newest[epoch] <= BEGIN:
        return []
    return [Prod(int(newest[epoch]) - slide, int(newest[epoch]) + 2 * slide)]


def _timed(table: pa.Table, epoch: int, columns: Sequence[str]) -> pa.Table:
    """Return the results of an epoch with the end of their window."""
    ends, epochs = window_ticks(table)[1], np.full(len(table), epoch)
    kept = table.select(columns).append_column(END, pa.array(ends))
    return kept.append_column(EPOCH, pa.array(epochs))
