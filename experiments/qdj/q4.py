"""Q4: what a quality target costs where nothing is late (QDJ, table 6.3).

As in the thesis, the streams are sorted, so that both ways do the same joins over all of
Soccer-23min; here on the local host, and with one of 200 keys for each row instead of none.
Monitor, rule and tracker are those of `lw.quality`; without them it is `lw.ordered()`. Both ways
run side by side, epoch by epoch, and of each epoch the least processor time of all runs counts: on
a shared machine whole runs differ by 15 % without a reason. A target costs a fixed time per epoch
and little per row: an epoch is 20 s, about 10,700 rows; with
epochs of a second it is measured, too, but not checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, canvas, label
from experiments.harness.side_by_side import Costs, excess, in_step, least
from experiments.streams.soccer import SOCCER_23, generate
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lowwater.watermarks.policy import WatermarkPolicy

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


def query(progress: WatermarkPolicy) -> lw.Stream:
    """Return the join of streams with this watermark policy."""
    a, b = (lw.stream(lw.feed(SCHEMA), time="ts", watermark=progress) for _ in range(2))
    return a.join(b, on="sensor", band=("-3 seconds", "2 seconds"))


def draw(took: Costs) -> Figure:
    """Draw the difference in every epoch."""
    figure, (axes,) = canvas("What a quality target costs")
    aimed, plain = took.min(axis=1)
    axes.plot(100 * (aimed / plain - 1), "o", color=BLUE)
    axes.axhline(MOST, color=BLUE, lw=0.8, ls="--")
    label(axes, "Processor time, with over without", "epoch", "%")
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
        ways = [query(p).assembly for p in (lw.quality(0.95), lw.ordered())]
        given, took = in_step(ways, epochs(seconds, EPOCH), repeats)
        more = excess(took)
        short = excess(in_step(ways, epochs(4.0 if quick else 60.0, SHORT), repeats)[1])
        with_it, without = least(took)
        rows: list[dict[str, Value]] = [
            {"epoch": n + 1, "with, ms": 1e3 * a, "without, ms": 1e3 * b}
            for n, (a, b) in enumerate(took.min(axis=1).T.tolist())
        ]
        return Outcome(
            rows=rows,
            compared=[
                Comparison("with", "1,369.13 s", f"{with_it:.3f} s of processor time"),
                Comparison("without", "1,369.31 s", f"{without:.3f} s of processor time"),
                Comparison("more, epochs of a second", "–", f"{short:+.1f} %"),
            ],
            checks=[
                Check("both ways give the same pairs", given[0] == given[1], f"{given[0]:,} pairs"),
                Check(
                    f"it costs at most {MOST:g} % more", more <= MOST, f"{more:+.2f} %", not quick
                ),
            ],
            figure=draw(took),
            settings={"seconds": seconds, "runs": repeats, "keys": KEYS},
        )


EXPERIMENT = Overhead()
