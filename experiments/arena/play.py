"""Lowwater itself over a stream of the arena, on the local host, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

import lowwater as lw
from experiments.arena.incidence import Incidences
from experiments.arena.stream import ArenaStream, Floats, Ticks
from lowwater.watermarks.policy import WatermarkPolicy

SCHEMA = lw.feed("ts timestamp, key bigint, value double, matches boolean").schema


@dataclass(frozen=True)
class Cuts:
    """A clock that stands at the end of each epoch, and goes on by a tick after the last."""

    cuts: Ticks

    def now(self, epoch: int) -> int:
        """Return the time of an epoch."""
        last = len(self.cuts) - 1
        return int(self.cuts[min(epoch, last)]) + max(epoch - last, 0)


@dataclass(frozen=True, eq=False)
class Finals:
    """For each window: the rows in its final, and its wait in ticks."""

    rows: Ticks
    wait: Floats


def epochs(stream: ArenaStream) -> list[pa.Table]:
    """Return the rows of each epoch."""
    columns = [pa.array(stream.ts), pa.array(stream.key), pa.array(stream.value)]
    columns.append(pa.array(stream.matches))
    table = pa.table(columns, SCHEMA.names).cast(SCHEMA)
    places = np.searchsorted(stream.row_epoch, np.arange(len(stream.cuts) + 1))
    pairs = zip(places[:-1].tolist(), places[1:].tolist(), strict=True)
    return [table.slice(a, b - a) for a, b in pairs]


def play(stream: ArenaStream, watermark: WatermarkPolicy, found: Incidences) -> Finals:
    """Return the finals of all windows under a policy."""
    feed, sink = lw.feed(SCHEMA), lw.to_memory()
    range, slide = (timedelta(microseconds=span) for span in (stream.range, stream.slide))
    query = (
        lw.stream(feed, time="ts", watermark=watermark)
        .where("matches")
        .window(range=range, slide=slide)
        .agg(n=lw.count())
    )
    clock = Cuts(stream.cuts)
    query.run(epochs={feed: epochs(stream)}, sink=sink, clock=clock, shards=1)
    rows, wait = np.zeros(len(found.ends), np.int64), np.full(len(found.ends), np.nan)
    for number, table in sink.epochs.items():
        ends = table["window"].combine_chunks().field("end").cast(pa.int64()).to_numpy()
        at = np.searchsorted(found.ends, ends)
        rows[at] = table["n"].to_numpy()
        wait[at] = min(clock.now(number), int(stream.cuts[-1])) - ends
    last = stream.cuts[-1] - found.ends
    return Finals(rows, np.where(np.isnan(wait), last, wait))
