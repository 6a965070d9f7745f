"""Q4: what a quality target costs where nothing is late (QDJ, table 6.3).

As in the thesis, the streams are sorted, so that both ways do the same joins; there it was all of
Soccer-23min without a key; so it is here, on the local host, but with one of 200 keys for each row.
Monitor, rule and tracker are those of `lw.quality`; without them it is `lw.ordered()`. Both ways
run in turn, and processor time is compared pair by pair. What a target costs is a fixed time per
epoch and little per row: an epoch is 20 s, about 10,700 rows; with epochs of a second it is shown,
too, and not judged.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.durations import TICKS_PER_SECOND as SECOND
from lowwater.experiments.contract import Check, Compared, Experiment, Outcome, Value
from lowwater.experiments.drawing import BLUE, canvas, label
from lowwater.experiments.soccer import SOCCER_23, generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lowwater.progress.policy import Progress

KEYS = 200
EPOCH, SHORT = 20, 1
"""How long epochs are, in seconds of the stream."""
MOST = 2.0
"""By how many percent a quality target may add to the processor time."""
SCHEMA = "ts timestamp, sensor bigint"


def epochs(seconds: float, epoch: int) -> tuple[list[pa.Table], list[pa.Table]]:
    """Return both streams in order of time, cut into epochs."""
    stream = generate(SOCCER_23.shortened(seconds))
    random = np.random.default_rng(1)
    sides = []
    for side in (0, 1):
        ts = np.sort(stream.ts[stream.side == side])
        table = pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                "sensor": random.integers(0, KEYS, len(ts)),
            }
        )
        at = np.searchsorted(ts, np.arange(epoch, int(seconds) + 1, epoch) * SECOND)
        starts = [0, *at[:-1].tolist()]
        sides.append([table.slice(a, b - a) for a, b in zip(starts, at.tolist(), strict=True)])
    return sides[0], sides[1]


def cost(blocks: Sequence[Sequence[pa.Table]], progress: Progress) -> tuple[float, int]:
    """Return the processor time of a run, in seconds, and how many pairs it gave."""
    feeds = [lw.feed(SCHEMA) for _ in blocks]
    a, b = (lw.stream(feed, time="ts", progress=progress) for feed in feeds)
    query = a.join(b, on="sensor", band=("-3 seconds", "2 seconds"))
    gc.collect()
    began = time.process_time()
    out = query.run(epochs=dict(zip(feeds, blocks, strict=True)), host="local")
    took = time.process_time() - began
    return took, sum(len(batch) for batch in [out.results] if batch is not None)


def compare(
    blocks: Sequence[Sequence[pa.Table]], repeats: int
) -> tuple[list[int], list[tuple[float, float]]]:
    """Return how many pairs both ways give, and what they cost, in turn."""
    ways = (lw.quality(0.95), lw.ordered())
    given = [cost(blocks, way)[1] for way in ways]
    costs = [(cost(blocks, ways[0])[0], cost(blocks, ways[1])[0]) for _ in range(repeats)]
    return given, costs


def excess(pairs: Sequence[tuple[float, float]]) -> float:
    """Return by how many percent the first of a pair costs more, in the middle."""
    return 100 * (float(np.median([a / b for a, b in pairs])) - 1)


def draw(pairs: Sequence[tuple[float, float]]) -> Figure:
    """Draw the difference of every pair of runs."""
    figure, (axes,) = canvas("What a quality target costs")
    axes.plot([100 * (a / b - 1) for a, b in pairs], "o", color=BLUE)
    axes.axhline(MOST, color=BLUE, lw=0.8, ls="--")
    label(axes, "Processor time, with over without", "pair of runs", "%")
    return figure


class Overhead(Experiment):
    """Monitor, rule and tracker on sorted streams."""

    id = "Q4"
    paper = "QDJ, table 6.3"
    title = "What a quality target costs"
    reports = (
        "A join of sorted streams takes 1,369.13 s with monitor, adapter and tracker and 1,369.31 "
        "s without: no overhead can be measured."
    )
    here = "Processor time of a join on the local host under lw.quality(0.95) and lw.ordered()."

    def run(self, *, quick: bool) -> Outcome:
        """Run both ways in turn."""
        seconds, repeats = (40.0, 1) if quick else (1_436.0, 25)
        warm, pairs = compare(epochs(seconds, EPOCH), repeats)
        more = excess(pairs)
        short = excess(compare(epochs(4.0 if quick else 60.0, SHORT), repeats)[1])
        with_it, without = (float(np.median(each)) for each in zip(*pairs, strict=True))
        rows: list[dict[str, Value]] = [
            {"run": i + 1, "with, s": a, "without, s": b} for i, (a, b) in enumerate(pairs)
        ]
        return Outcome(
            rows=rows,
            compared=[
                Compared("with", "1,369.13 s", f"{with_it:.3f} s of processor time"),
                Compared("without", "1,369.31 s", f"{without:.3f} s of processor time"),
                Compared("more, epochs of a second", "–", f"{short:+.1f} %"),
            ],
            checks=[
                Check("both ways give the same pairs", warm[0] == warm[1], f"{warm[0]:,} pairs"),
                Check(f"it costs at most {MOST:g} % more", more <= MOST, f"{more:+.2f} %"),
            ],
            figure=draw(pairs),
            settings={"seconds": seconds, "pairs of runs": repeats, "keys": KEYS},
        )


EXPERIMENT = Overhead()
