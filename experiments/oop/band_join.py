"""A count over a band join as two plans: out of order, and with a sort of the join's output.

`o4` describes the links and the measurements.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

import pyarrow as pa

import lowwater as lw
from experiments.reference.in_order import Sort
from experiments.streams.traffic import ANSWERS, COLUMNS, Flows, schema
from lowwater.engine.status import Status
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import tables
from lowwater.query.stream import Stream
from lowwater.sources.feed import Feed
from lowwater.ticks import TICKS_PER_SECOND as SECOND

RATE, CONNECTIONS = 1_000, 5_000
OOP, IOP = "OOP", "IOP"


@dataclass(frozen=True)
class PlanRun:
    """One run of a plan: its largest state, the work before its answers, and its time.

    `latency` and `seconds` are processor time; `waiting` is how many pairs had to be sorted and
    counted between a punctuation and the answer.
    """

    tuples: int
    size: int
    waiting: int
    latency: float
    seconds: float
    results: pa.Table


@dataclass(frozen=True)
class Trial:
    """Two links, cut into epochs of `step` seconds."""

    step: int
    feeds: tuple[Feed, Feed]
    epochs: Sequence[tuple[pa.Table, pa.Table]]

    @classmethod
    def over(cls, seconds: int, step: int) -> Trial:
        """Make the links."""
        flows = Flows(seconds, CONNECTIONS)
        links = flows.link(RATE, 1), flows.link(RATE, 2, reverse=True)
        cut = (link.epochs(step * SECOND, seconds // step) for link in links)
        feeds = Feed(schema(COLUMNS)), Feed(schema(COLUMNS))
        return cls(step, feeds, list(zip(*cut, strict=True)))

    def joined(self, band: int) -> Stream:
        """Return when packets of M1 have answers at most `band` seconds away: all that is read."""
        m1, m2 = (lw.stream(f, time="ts", watermark=lw.ordered()) for f in self.feeds)
        pairs = m1.join(m2, on=ANSWERS, band=(f"-{band} seconds", f"{band} seconds"))
        return pairs.select("ts")

    def plan(self, way: str, band: int) -> Stream:
        """Return the query Q7 as one of the plans."""
        pairs = self.joined(band)
        if way == IOP:
            pairs = pairs.order("time")
        return pairs.window(range="1 minute").agg(n=lw.count())

    def run(self, way: str, band: int) -> PlanRun:
        """Run a plan over all epochs, each followed by its punctuation."""
        host = self._host(self.plan(way, band))
        tuples, size, results = 0, 0, []
        waits: list[tuple[int, float]] = []
        gc.collect()
        began = time.process_time()
        for m1, m2 in self.epochs:
            host.run([[m1], [m2]], last=[False, False])
            status = host.status()
            tuples, size = max(tuples, status.cells), max(size, status.state_bytes)
            came = time.process_time()
            answers = tables(host.run([[], []], last=[False, False]), "results")
            if answers:
                waited = time.process_time() - came
                waits.append((_left_sort(host.status()) - _left_sort(status), waited))
                results += answers
        took = time.process_time() - began
        waiting, latency = (median(w[i] for w in waits) for i in (0, 1))
        return PlanRun(tuples, size, round(waiting), latency, took, pa.concat_tables(results))

    def _host(self, query: Stream) -> LocalEpochs:
        clock = lw.VirtualClock("1970-01-01", timedelta(seconds=self.step))
        return LocalEpochs(query.assembly.with_shards(1), clock)

    def bare(self, band: int) -> float:
        """Return the processor time of a bare sort of the same pairs."""
        host, sort = self._host(self.joined(band)), Sort()
        took = 0.0
        for number, (m1, m2) in enumerate(self.epochs, start=1):
            pairs = tables(host.run([[m1], [m2]], last=[False, False]), "results")
            host.run([[], []], last=[False, False])
            rows = pa.concat_tables(pairs) if pairs else None
            began = time.process_time()
            if rows is not None:
                sort.take(rows, (number * self.step - band) * SECOND)
            took += time.process_time() - began
        return took


def _left_sort(status: Status) -> int:
    """Return how many rows have left the sort; 0 for a plan without one."""
    return status.operators.get("order", {}).get("results", 0)
