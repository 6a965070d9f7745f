"""W1: the cost of sliding windows (WID, figure 8).

The paper compares WID with *buffering*, which keeps rows, materialises each window's extent and
computes the aggregate over it again, and with the cost of scanning the data. Its 35 MB of readings
and the figure did not come with the text. Here readings are lines of JSON, text that names its
fields like the XML of the paper, and all ways read them from the same files, one file per epoch:

- WID is Lowwater as it is: panes, window ids, the local host;
- buffering is an operator on the same host, which keeps rows and takes the maximum of each extent
  by one call of numpy. As in the paper, both ways share the system around them. A bare loop, which
  has no system around it, is timed as well (`reference.buffer` describes both);
- the scan reads the files and takes one maximum of each.

Ways are run alternately and compared by medians of ratios, in processor time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREY, ORANGE, canvas, label, legend
from experiments.reference.buffer import bare, buffered, columns
from lowwater.sources.files import Files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 3
RANGE = 4_000
SCHEMA = "row_num bigint, speed double"
"""What is read of a row; the other fields are passed over."""
ROWS_PER_FILE = 50_000
_TICKS = (1, 10, 100, 1_000, 4_000)
NEAR = 2.0
"""WID is "near scan cost" below this factor: to read a row costs more than all that follows."""
NOISE = 1.1
"""Where both ways take little longer than the scan, medians differ by this much between runs."""


def write(folder: Path, files: int, rows: int) -> int:
    """Write readings as lines of JSON, in order; return their size in bytes."""
    random, size = np.random.default_rng(SEED), 0
    for f in range(files):
        speed = np.round(random.normal(60, 12, rows), 2)
        segment = random.integers(0, 100, rows)
        lines = [
            f'{{"row_num": {f * rows + i}, "ts": {1_100_000_000_000 + 20 * (f * rows + i)}, '
            f'"segment": {segment[i]}, "speed": {speed[i]}}}\n'
            for i in range(rows)
        ]
        size += (folder / f"{f:04d}.json").write_text("".join(lines))
    return size


def fastest(source: Files, slide: int) -> lw.Query:
    """The query: the maximum of the last 4,000 rows, every `slide` rows."""
    return (
        lw.stream(source, time="row_num", watermark=lw.ordered())
        .window(range=lw.rows(RANGE), slide=lw.rows(slide), on="row_num")
        .agg(fastest=lw.max("speed"))
    )


def wid(source: Files, slide: int) -> pa.Table:
    """Return the maximum of every window, by Lowwater."""
    found = fastest(source, slide).run(host="local", shards=1).results
    assert found is not None  # noqa: S101
    return found


def ways(source: Files, slide: int) -> dict[str, Callable[[], pa.Table]]:
    """Return the ways to compute every window."""
    return {
        "wid": partial(wid, source, slide),
        "buffering": partial(buffered, fastest(source, slide), source),
        "bare": partial(bare, source, RANGE, slide),
    }


def agree(source: Files, slide: int) -> bool:
    """Return whether all ways give the same windows and answers."""
    names = ["wid", "fastest"]
    ours, *others = (way().select(names).sort_by("wid") for way in ways(source, slide).values())
    return all(ours.equals(other) for other in others)


def scan(source: Files) -> float:
    """Read everything once."""
    return max(float(speeds.max()) for speeds in columns(source, "speed"))


@dataclass(frozen=True)
class Timing:
    """Seconds for a slide: medians over repeats. Gains are medians, too, of what alternated."""

    slide: int
    wid: float
    buffering: float
    bare: float
    scan: float
    gain: float
    gain_over_bare: float


def measure(source: Files, slides: Sequence[int], repeats: int) -> list[Timing]:
    """Time all ways, alternately."""
    scans: list[float] = []
    times: dict[int, list[list[float]]] = {s: [] for s in slides}
    gc.collect()
    gc.disable()  # else a collection would count for the next run
    try:
        for s in (s for _ in range(repeats) for s in slides):
            scans.append(_seconds(partial(scan, source)))
            times[s].append([_seconds(way) for way in ways(source, s).values()])
    finally:
        gc.enable()
    read = float(np.median(scans))
    return [_timed(s, np.array(times[s]), read) for s in slides]


def _timed(slide: int, times: np.ndarray, read: float) -> Timing:
    middle, gains = np.median(times, axis=0), np.median(times[:, 1:] / times[:, :1], axis=0)
    return Timing(slide, *map(float, (*middle, read, *gains)))


def _seconds(work: Callable[[], object]) -> float:
    """Return the processor time of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def check(timed: Sequence[Timing], *, same: bool, quick: bool = False) -> list[Check]:
    """Return the shapes and whether they hold; `timed` is in the order of SLIDE."""
    gains = [t.gain for t in reversed(timed)]
    last = timed[-1]
    grows = all(b * NOISE > a for a, b in pairwise(gains)) and gains[-1] > gains[0] * NOISE
    return [
        Check("all ways give the same answers", same, "every window, at every slide"),
        Check(
            "WID is faster than buffering",
            min(gains) > 1,
            f"{min(gains):.2f} times or more",
            not quick,
        ),
        Check(
            f"the gap grows with RANGE/SLIDE (a step of {NOISE - 1:.0%} is noise)",
            grows,
            " → ".join(f"{g:.2f}" for g in gains),
            not quick,
        ),
        Check(
            f"near scan cost at large SLIDE (below {NEAR:g} times)",
            last.wid < NEAR * last.scan,
            f"{last.wid / last.scan:.2f} times at SLIDE {last.slide:,}",
            not quick,
        ),
    ]


def better_than_bare(timed: Sequence[Timing]) -> str:
    """Return where WID is faster than a loop with no system around it, and by how much."""
    better = [t for t in timed if t.gain_over_bare > 1]
    least = min((RANGE // t.slide for t in better), default=None)
    rest = min(t.gain_over_bare for t in timed)
    where = "nowhere" if least is None else f"from RANGE/SLIDE {least:,} on"
    most = max(t.gain_over_bare for t in timed)
    return f"faster {where}; its time is {rest:.2f} to {most:.2f} times that of WID"


def draw(timed: Sequence[Timing]) -> Figure:
    """Draw times over SLIDE, and how many times faster WID is."""
    figure, (times, gains) = canvas(
        "Sliding windows: window ids and buffering, RANGE 4,000 rows", 2
    )
    slides = [t.slide for t in timed]
    times.plot(slides, [t.buffering for t in timed], "o-", color=ORANGE, label="buffering")
    times.plot(slides, [t.bare for t in timed], "o:", ms=4, color=ORANGE, label="bare loop")
    times.plot(slides, [t.wid for t in timed], "o-", color=BLUE, label="WID (Lowwater)")
    times.axhline(timed[0].scan, color=GREY, lw=1.4, ls="--", label="scan")
    gains.plot(slides, [t.gain for t in timed], "o-", color=ORANGE, label="buffering")
    over_bare = [t.gain_over_bare for t in timed]
    gains.plot(slides, over_bare, "o:", ms=4, color=ORANGE, label="bare loop")
    gains.axhline(1, color=BLUE, lw=1.4, label="WID (Lowwater)")
    for axes in (times, gains):
        axes.set_xscale("log")
        axes.set_xticks(_TICKS, [f"{n:,}" for n in _TICKS])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
    label(times, "Processor time", "SLIDE, rows", "seconds")
    label(gains, "The same, as multiples of the time of WID", "SLIDE, rows", "times")
    legend(times)
    legend(gains)
    return figure


class SlidingCost(Experiment):
    """Execution time of window ids and of buffering, over SLIDE."""

    id = "W1"
    paper = "WID, figure 8"
    title = "What sliding windows cost"
    reports = (
        "max, RANGE 4,000 rows, SLIDE 1 to 4,000 rows, 35 MB: window ids are in general faster "
        "than buffering, the more so the larger RANGE/SLIDE is; at large SLIDE they come near the "
        "cost of scanning the data."
    )
    here = (
        "WID is Lowwater: panes and window ids. Buffering keeps rows and takes the maximum of each "
        "window over all its rows again, in the same system; the bare loop does that with no "
        "system around it. The scan only reads the data and takes one maximum."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Time all slides on one set of files."""
        files, repeats = (1, 5) if quick else (10, 9)
        slides = (1, 10, 100, RANGE) if quick else (1, 4, 10, 40, 100, 400, 1_000, RANGE)
        with TemporaryDirectory(prefix="lowwater-") as folder:
            size = write(Path(folder), files, ROWS_PER_FILE)
            source = lw.files(folder, format="json", schema=SCHEMA, files_per_epoch=1)
            same = all(agree(source, s) for s in slides)  # also warms up
            timed = measure(source, slides, repeats)
        most, least = timed[0], timed[-1]
        return Outcome(
            rows=[_row(t) for t in timed],
            compared=[
                Comparison(
                    "WID against buffering, at SLIDE 1", "faster", f"{most.gain:.2f} times faster"
                ),
                Comparison("WID against a bare loop", "not measured", better_than_bare(timed)),
                Comparison(
                    f"WID over scan, at SLIDE {RANGE:,}",
                    "near",
                    f"{least.wid / least.scan:.2f} times",
                ),
            ],
            checks=check(timed, same=same, quick=quick),
            figure=draw(timed),
            settings={
                "rows": files * ROWS_PER_FILE,
                "MB": size / 1e6,
                "epochs": files,
                "repeats": repeats,
                "seed": SEED,
            },
        )


def _row(timed: Timing) -> dict[str, Value]:
    return {
        "SLIDE": timed.slide,
        "WID ms": 1e3 * timed.wid,
        "buffering ms": 1e3 * timed.buffering,
        "bare loop ms": 1e3 * timed.bare,
        "scan ms": 1e3 * timed.scan,
        "buffering/WID": timed.gain,
        "bare loop/WID": timed.gain_over_bare,
        "WID/scan": timed.wid / timed.scan,
    }


EXPERIMENT = SlidingCost()
