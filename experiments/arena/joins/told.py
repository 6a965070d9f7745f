"""The quality of pairs that a join reports, beside that which it has in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.console import Console

import lowwater as lw
from experiments.arena.joins.families import FAMILIES, JoinStream, Ticks
from experiments.arena.joins.simulate import matches
from experiments.arena.report import empty_table
from experiments.arena.selection import Selection
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import tables
from lowwater.ticks import BEGIN
from lowwater.watermarks.adaptive.quality_book import QualitySpan
from lowwater.watermarks.adaptive.told_quality import told_of_pairs

EPOCHS = 600
"""The epochs that are played."""
TARGET = 0.9
"""The target; with a higher one, too few pairs are lost to be judged."""
REACH = 500_000
"""Rows join if their times are at most so far apart, in ticks."""
EVERY = 25
"""The status is read once in this many epochs."""
PAIRS = 1_000
"""The reported quality is judged over at least this many settled pairs."""
OVER, UNDER = 0.01, -0.02
"""The largest and the least difference of the reported and the true quality."""


@dataclass(frozen=True)
class ToldVerdict:
    """The reported quality of a join minus the true one: the largest and the least difference."""

    family: str
    seed: int
    over: float
    under: float
    judged: int

    @property
    def fails(self) -> bool:
        """Whether a reported quality is too far from the true one."""
        return self.over > OVER or self.under < UNDER


def judge_told(family: str, seed: int, epochs: int = EPOCHS) -> ToldVerdict:
    """Run the join of a family and a seed, and judge the quality that it reports meanwhile."""
    one = FAMILIES[family]
    mine, theirs = (_first(stream, epochs * one.epoch) for stream in one.streams(seed))
    reported, made = _run((mine, theirs), one.epoch)
    every = np.sort(mine.ts[matches((mine, theirs), REACH)[0]])
    found = [one for spans in reported for one in _differences(spans, np.sort(made), every)]
    return ToldVerdict(family, seed, max(found, default=0.0), min(found, default=0.0), len(found))


def _first(stream: JoinStream, until: int) -> JoinStream:
    some = stream.arrived < until
    return JoinStream(stream.ts[some], stream.arrived[some], stream.key[some])


def _run(streams: Sequence[JoinStream], length: int) -> tuple[list[list[QualitySpan]], Ticks]:
    """Return the spans that were settled now and then, and the times of self of all results."""
    feeds = [lw.feed("ts timestamp, key bigint") for _ in streams]
    a, b = (lw.stream(feed, time="ts", watermark=lw.quality(TARGET)) for feed in feeds)
    query = a.join(b, on="key", band=("-500 milliseconds", "500 milliseconds"))
    local = LocalEpochs(query.assembly.with_shards(1), lw.VirtualClock())
    spans, made = list[list[QualitySpan]](), list[Ticks]()
    for epoch in range(max(int(one.arrived.max()) for one in streams) // length + 1):
        blocks = [[_rows(one, one.arrived // length == epoch)] for one in streams]
        for table in tables(local.run(blocks, last=[False, False]), "results"):
            made.append(np.asarray(table["ts"].cast(pa.int64())))
        if epoch % EVERY == EVERY - 1:
            spans.append(_settled(local))
    return spans, np.concatenate(made)


def _rows(stream: JoinStream, some: np.ndarray) -> pa.Table:
    ts = pa.array(stream.ts[some], pa.timestamp("us", "UTC"))
    return pa.table({"ts": ts, "key": stream.key[some]})


def _settled(local: LocalEpochs) -> list[QualitySpan]:
    """Return the spans whose quality is settled."""
    newest = local.log.newest()
    assert local.adapter is not None and newest is not None and newest.adapting is not None  # noqa: S101, PT018
    (join,), (memory,) = local.adapter.pairs, newest.adapting.pairs
    told = told_of_pairs(join, memory, ended=False).spans
    return [s for s, one in zip(memory.book.spans, told, strict=True) if one.settled]


def _differences(spans: Sequence[QualitySpan], made: Ticks, every: Ticks) -> Iterator[float]:
    """Yield reported minus true quality over each run of spans, as short as it has enough pairs."""
    ends = np.array([BEGIN, *(span.end for span in spans)])
    pairs, emitted = (np.searchsorted(times, ends) for times in (every, made))
    told = np.cumsum([0, *(span.given for span in spans)])
    lost = np.cumsum([0, *(span.lost for span in spans)])
    for last in range(1, len(ends)):
        first = int(np.searchsorted(pairs[: last + 1], pairs[last] - PAIRS, side="right")) - 1
        if first < 0:
            continue
        given, missed = told[last] - told[first], lost[last] - lost[first]
        true = (emitted[last] - emitted[first]) / (pairs[last] - pairs[first])
        yield float(given / max(given + missed, 1) - true)


def told_of_joins(chosen: Selection, console: Console) -> list[ToldVerdict]:
    """Judge what the joins of the chosen families report, print a table, return the verdicts."""
    verdicts = [judge_told(name, seed) for seed, name in chosen.drawn(FAMILIES)]
    table = empty_table("reported", "seed", "− true, at least", "at most", "judged", "fails")
    for v in verdicts:
        figures = f"{v.under:+.4f}", f"{v.over:+.4f}", str(v.judged), "told" if v.fails else ""
        table.add_row(v.family, str(v.seed), *figures)
    console.print(table)
    return verdicts
