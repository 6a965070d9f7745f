"""W1: what sliding windows cost (WID, figure 8).

The paper compares WID with *buffering*, which keeps rows, materialises each window's extent and
computes the aggregate over it again, and with the cost of scanning the data. Its 35 MB of readings
and the figure did not come with the text. Here readings are lines of JSON, text that names its
fields like the XML of the paper, and all three read them from the same files, one file per epoch:

- WID is Lowwater: panes, window ids, the host's epochs, state written after each;
- buffering keeps the values of the last RANGE rows in one array. An extent is a slice of it, which
  copies nothing, and its maximum is one call of numpy. Rows are trusted to be in order and none to
  be missing; nothing is written down. No implementation that recomputes can do much less;
- the scan reads the files and takes one maximum of each.

Ways are run alternately and compared by medians, as ratios: the machine does not matter then.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.experiments.contract import Check, Compared, Experiment, Outcome, Value
from lowwater.experiments.drawing import BLUE, GREY, ORANGE, canvas, label, legend
from lowwater.sources import Files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 3
RANGE = 4_000
SCHEMA = "row_num bigint, ts bigint, segment bigint, speed double"
ROWS_PER_FILE = 50_000
NEAR = 2.0
"""WID is "near scan cost" below this factor: reading a row still costs more than all the rest."""


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


def wid(source: Files, slide: int) -> pa.Table:
    """Return the maximum of every window, by Lowwater."""
    query = (
        lw.stream(source, time="row_num", progress=lw.ordered())
        .window(range=lw.rows(RANGE), slide=lw.rows(slide), on="row_num")
        .agg(fastest=lw.max("speed"))
    )
    found = query.run(host="local", shards=1).results
    assert found is not None  # noqa: S101
    return found


def buffering(source: Files, slide: int) -> pa.Table:
    """Return the same by materialising each extent [w·slide, w·slide + RANGE)."""
    buffer, first, w = np.empty(0), 0, (-RANGE) // slide + 1
    tables = []
    for speeds in _speeds(source):
        buffer = np.concatenate([buffer, speeds])
        complete = (first + len(buffer) - RANGE) // slide + 1
        tables.append(_extents(buffer, first, slide, w, complete))
        w = max(w, complete)
        kept = max(w * slide - first, 0)
        buffer, first = buffer[kept:], first + kept
    begun = -(-(first + len(buffer)) // slide)
    return pa.concat_tables([*tables, _extents(buffer, first, slide, w, begun)])


def _extents(buffer: np.ndarray, first: int, slide: int, since: int, until: int) -> pa.Table:
    """Compute windows `since` to `until` over rows that are numbered from `first`."""
    wids = np.arange(since, max(since, until))
    starts = wids * slide
    begin, end = np.maximum(starts - first, 0).tolist(), (starts - first + RANGE).tolist()
    fastest = np.array([buffer[a:b].max() for a, b in zip(begin, end, strict=True)])
    bounds = pa.StructArray.from_arrays(
        [pa.array(starts), pa.array(starts + RANGE)], ["start", "end"]
    )
    return pa.table({"window": bounds, "wid": wids, "fastest": fastest.astype(float)})


def scan(source: Files) -> float:
    """Read everything once."""
    return max(float(speeds.max()) for speeds in _speeds(source))


def _speeds(source: Files) -> Iterator[np.ndarray]:
    """Read the files one after the other, as the host does."""
    at = source.begin()
    while (end := source.reach(at)) != at:
        for block in source.blocks(at, end):
            yield source.read(block).column("speed").to_numpy()
        at = end


@dataclass(frozen=True)
class Timed:
    """Seconds for a slide: medians over repeats."""

    slide: int
    wid: float
    buffering: float
    scan: float

    @property
    def gain(self) -> float:
        """How many times faster WID is than buffering."""
        return self.buffering / self.wid


def measure(source: Files, slides: Sequence[int], repeats: int) -> list[Timed]:
    """Time the three ways, alternately."""
    scans: list[float] = []
    times: dict[int, list[list[float]]] = {s: [] for s in slides}
    for _ in range(repeats):
        for s in slides:
            scans.append(_seconds(partial(scan, source)))
            ways = (partial(wid, source, s), partial(buffering, source, s))
            times[s].append([_seconds(way) for way in ways])
    read = float(np.median(scans))
    return [Timed(s, *map(float, np.median(times[s], axis=0)), read) for s in slides]


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def agree(source: Files, slide: int) -> bool:
    """Say whether both ways give the same windows and answers."""
    names = ["wid", "fastest"]
    ours, theirs = wid(source, slide).select(names), buffering(source, slide).select(names)
    return bool(ours.sort_by("wid").equals(theirs.sort_by("wid")))


def check(timed: Sequence[Timed], *, same: bool) -> list[Check]:
    """Say which shapes hold."""
    overlapping = [t for t in timed if t.slide < RANGE]
    gains = [t.gain for t in sorted(timed, key=lambda t: -t.slide)]
    last = max(timed, key=lambda t: t.slide)
    return [
        Check("both ways give the same answers", same, "every window, at every slide"),
        Check(
            "WID is faster wherever windows overlap",
            all(t.gain > 1 for t in overlapping),
            ", ".join(f"{t.slide}: {t.gain:.2f}" for t in overlapping),
        ),
        Check(
            "the gap grows with RANGE/SLIDE",
            all(a < b for a, b in pairwise(gains)),
            " → ".join(f"{g:.2f}" for g in gains),
        ),
        Check(
            f"near scan cost at large SLIDE (below {NEAR:g} times)",
            last.wid < NEAR * last.scan,
            f"{last.wid / last.scan:.2f} times at SLIDE {last.slide}",
        ),
    ]


def draw(timed: Sequence[Timed]) -> Figure:
    """Draw times over SLIDE, and how many times faster WID is."""
    figure, (times, gains) = canvas(
        "Sliding windows: window ids and buffering, RANGE 4,000 rows", 2
    )
    slides = [t.slide for t in timed]
    times.plot(slides, [t.buffering for t in timed], "o-", color=ORANGE, label="buffering")
    times.plot(slides, [t.wid for t in timed], "o-", color=BLUE, label="window ids (Lowwater)")
    times.axhline(timed[0].scan, color=GREY, lw=1.4, ls="--", label="scan")
    gains.plot(slides, [t.gain for t in timed], "o-", color=BLUE)
    gains.axhline(1, color=GREY, lw=1.2, ls="--")
    for axes in (times, gains):
        axes.set_xscale("log")
        axes.set_yscale("log")
    label(times, "Execution time", "SLIDE, rows", "seconds")
    label(gains, "Time of buffering over that of window ids", "SLIDE, rows", "times")
    legend(times)
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

    def run(self, *, quick: bool) -> Outcome:
        """Time all slides on one set of files."""
        files, repeats = (1, 3) if quick else (10, 5)
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
                Compared("faster, at SLIDE 1", "much", f"{most.gain:.1f} times"),
                Compared(
                    f"WID over scan, at SLIDE {RANGE:,}",
                    "near",
                    f"{least.wid / least.scan:.2f} times",
                ),
            ],
            checks=check(timed, same=same),
            figure=draw(timed),
            settings={
                "rows": files * ROWS_PER_FILE,
                "MB": size / 1e6,
                "epochs": files,
                "repeats": repeats,
                "seed": SEED,
            },
        )


def _row(timed: Timed) -> dict[str, Value]:
    return {
        "SLIDE": timed.slide,
        "RANGE/SLIDE": RANGE // timed.slide,
        "WID ms": 1e3 * timed.wid,
        "buffering ms": 1e3 * timed.buffering,
        "scan ms": 1e3 * timed.scan,
        "buffering / WID": timed.gain,
        "WID / scan": timed.wid / timed.scan,
    }


EXPERIMENT = SlidingCost()
