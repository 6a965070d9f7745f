"""The join of QDJ as Lowwater runs it: epochs of one granule on the local host, pairs made.

`adaptive` counts results row by row; here `join(..., order="time", quality=...)` makes them.
Watermarks act after the rows of the next epoch, as the model assumes, and the rule chooses the
slack by the measurements of the kernels. Rows have one of 200 keys, so that pairs can be made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

import lowwater as lw
from experiments.qdj.adaptive import JoinOutcome
from experiments.qdj.rules import ThesisRule
from experiments.reference.qdj import Pair
from lowwater.engine.entry import Entry
from lowwater.local.host import LocalEpochs
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.watermarks.adaptive.adapter import MonitoredInput, SlackAdapter
from lowwater.watermarks.adaptive.decision import SlackDecision
from lowwater.watermarks.adaptive.rules import FeedbackRule

EPOCH = 10_000
"""Ticks: one granule."""
TRACK = 1_000_000
"""Ticks: the interval of the target."""
KEYS = 200
SCHEMA = "ts timestamp, key bigint"


def play(stream: Pair, target: float, *, thesis: bool = False) -> JoinOutcome:
    """Run the join under the rule with feedback, or under algorithms 2 to 4 in its place."""
    a, b = (lw.stream(lw.feed(SCHEMA), time="ts") for _ in range(2))
    band = ("-3 seconds", "2 seconds")
    made = a.join(b, on="key", band=band, order="time", quality=target).assembly
    made = _by_model(made, ThesisRule(target=target) if thesis else FeedbackRule(target=target))
    local = LocalEpochs(made.with_shards(1), lw.VirtualClock())
    buffered = rows = newest = 0
    end: int | None = None
    totals, tracks, slacks = [[0.0, 0.0]], [0], []
    for chunk, blocks in _epochs(stream):
        newest = max(newest, int(chunk.ts.max()))
        if end is not None:
            buffered, rows = buffered + (newest - end) * len(chunk.ts), rows + len(chunk.ts)
        local.run([[block] for block in blocks], last=[False, False])
        entry = local.log.newest()
        assert entry is not None and entry.adapting is not None  # noqa: PT018, S101
        end = _window_end(entry)
        assert entry.adapting is not None  # noqa: S101
        (known,) = entry.adapting.decisions
        slacks.append(max(known.slacks) / EPOCH)
        if known.interval is not None and known.interval != tracks[-1]:
            tracks.append(known.interval)
            totals.append([known.total.given, known.total.lost])
    given, lost = np.diff(np.array(totals), axis=0).T
    there = given + lost > 0
    wanted = (given + lost)[there]
    return JoinOutcome(given[there] / wanted, wanted, np.array(slacks), buffered / max(1, rows))


def _by_model(made: PhysicalPlan, rule: FeedbackRule) -> PhysicalPlan:
    """Return the query with a rule that asks the model."""
    assert made.adapter is not None  # noqa: S101
    (pair,) = made.adapter.pairs
    model = made.flow.operators[pair.operator].plan.quality_model(EPOCH, None, ordered=False)
    ways = model, rule, rule.target, TRACK, EPOCH, pair.measured
    decision = SlackDecision(pair.operator, pair.name, pair.ports, *ways, unit=pair.unit)
    inputs = [MonitoredInput(number, EPOCH, rule.decay) for number in pair.inputs]
    flow = replace(made.flow, inputs=tuple(replace(i, granule=EPOCH) for i in made.flow.inputs))
    return replace(made, flow=flow, adapter=SlackAdapter(inputs, [decision]))


def _epochs(stream: Pair) -> Iterator[tuple[Pair, list[pa.Table]]]:
    random = np.random.default_rng(1)
    for chunk in stream.cut(EPOCH):
        keys = random.integers(0, KEYS, len(chunk.ts))
        sides = [chunk.side == side for side in (0, 1)]
        yield (
            chunk,
            [
                pa.table({"ts": pa.array(chunk.ts[s], pa.timestamp("us", "UTC")), "key": keys[s]})
                for s in sides
            ],
        )


def _window_end(entry: Entry) -> int | None:
    marks = [reached.marks.low for reached in entry.standing.inputs]
    return None if None in marks else min(m for m in marks if m is not None)
