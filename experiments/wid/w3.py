"""W3: slack against punctuation where blocks arrive shuffled (WID, figures 7 and 10).

A router keeps records for a while and then emits them all, in no order. As in the paper, rows are
cut into blocks of 490 s of event time and their positions are shuffled inside a block; a
punctuation follows the last row of each block. The figure did not come with the text, nor how often
rows come, so here they come evenly, ten a second, a block while the next one happens: block k is
[490·k, 490·(k+1)) and arrives in [490·(k+1), 490·(k+2)). Nothing arrives before it has happened.

The effect of slack K follows from this. Soon after a block has begun to arrive, the newest time is
near the block's end. If K is shorter than the block, windows that end in the block close then,
before most of their rows have come. If it is longer, windows that end near a block's end wait for a
row of the block after the next. Between lies the one good slack, the length of a block.

`disorder` defines latency and age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREEN, INK, canvas, label, legend
from experiments.streams.disorder import Arrivals, Windows, play
from lowwater.ticks import TICKS_PER_SECOND as SECOND
from lowwater.watermarks.policy import WatermarkPolicy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 2
RANGE, SLIDE, BLOCK = 600 * SECOND, 60 * SECOND, 490 * SECOND
RATE = 10  # rows per second
START = 1229 * SECOND
"""Where the first block begins. Some block then begins 1 s before a window's end; had all of them
begun earlier, shorter slacks would have done as well."""
TAIL = 2
"""Blocks at the end whose windows are not judged: the longest slack would not close them."""
PAPER = 491
STEADY = 2.0
"""Latency is "essentially independent of slack" if it varies by no more than this factor."""
JUMP = 5.0
"""It "jumps dramatically" if half a minute or more above the optimum it grows by this factor."""


@dataclass(frozen=True)
class Point:
    """A slack, or None for punctuation, and its outcome: wrong in percent, the rest in s."""

    slack: int | None
    wrong: float
    latency: float
    age: float


def generate(blocks: int) -> Arrivals:
    """Return a stream of block-sorted disorder."""
    random = np.random.default_rng(SEED)
    count = BLOCK // SECOND * RATE
    within = (np.arange(count) * BLOCK + BLOCK // 2) // count
    ts = [START + k * BLOCK + random.permutation(within) for k in range(blocks)]
    arrived = np.concatenate([START + (k + 1) * BLOCK + within for k in range(blocks)])
    return Arrivals.of(np.concatenate(ts), arrived, np.ones(len(arrived)))


def measure(blocks: int, slacks: Sequence[int], epoch: int) -> list[Point]:
    """Play the stream under every slack, consistent as in the paper, and punctuated."""
    stream = generate(blocks)
    windows = Windows(RANGE, SLIDE, START, START + (blocks - TAIL) * BLOCK)
    exact = np.array([len(values) for values in windows.extents(stream)])

    def point(slack: int | None, rows: Arrivals, progress: WatermarkPolicy) -> Point:
        found = play(rows, progress, windows, lw.count(), epoch=epoch)
        wrong = 100 * float(np.mean(found.answer != exact))
        return Point(slack, wrong, found.latency, found.age)

    points = [point(s, stream, lw.slack(timedelta(seconds=s), mode="consistent")) for s in slacks]
    marks = START + np.arange(1, blocks + 1) * BLOCK
    return [*points, point(None, stream.punctuated(marks), lw.punctuated("mark"))]


def optimum(points: Sequence[Point]) -> Point:
    """Return the least slack of those that make the fewest wrong answers."""
    return min((p for p in points if p.slack is not None), key=lambda p: (p.wrong, p.slack))


def check(points: Sequence[Point]) -> list[Check]:
    """Return the shapes and whether they hold."""
    *slacks, marks = points
    best = optimum(slacks)
    assert best.slack is not None  # noqa: S101
    below = [p for p in slacks if p.slack is not None and p.slack < best.slack]
    above = [p for p in slacks if p.slack is not None and p.slack >= best.slack + 30]
    shortest, longest = (f(p.latency for p in [*below, best]) for f in (min, max))
    jump = min(p.latency for p in above) / best.latency
    others = min(p.latency for p in slacks)
    return [
        Check(
            "one slack is the best, the length of a block",
            best.wrong == 0 and abs(best.slack - BLOCK // SECOND) <= 1,
            f"{best.slack} s, with {best.wrong:.3g} % wrong; the paper has {PAPER} s",
        ),
        Check(
            "every shorter slack gives wrong answers",
            all(p.wrong > 0 for p in below),
            f"{min(p.wrong for p in below):.3g} % or more",
        ),
        Check(
            f"up to it, latency does not depend on slack (within {STEADY:g} times)",
            longest <= STEADY * shortest,
            f"{shortest:.2f} to {longest:.2f} s",
        ),
        Check(
            f"above it, latency jumps ({JUMP:g} times or more, from 30 s above)",
            jump >= JUMP,
            f"{best.latency:.2f} s at the best slack, {jump:.1f} times that or more above",
        ),
        Check(
            "punctuation makes no wrong answer, at less latency than any slack",
            marks.wrong == 0 and marks.latency < others,
            f"{marks.wrong:.3g} % wrong, {marks.latency:.2f} s against {others:.2f} s",
        ),
    ]


def draw(points: Sequence[Point]) -> Figure:
    """Draw wrong answers and latency over slack."""
    figure, axes = canvas("Slack and punctuation, shuffled blocks of 490 s", 2)
    *slacks, marks = points
    at, best = [float(p.slack or 0) for p in slacks], optimum(slacks).slack
    for ax, by in zip(axes, ("wrong", "latency"), strict=True):
        ax.plot(at, [getattr(p, by) for p in slacks], "o-", ms=5, lw=1.6, color=BLUE, label="slack")
        ax.axhline(getattr(marks, by), color=GREEN, lw=1.8, label="punctuation")
        ax.axvline(float(best or 0), color=INK, lw=1, ls=":", label=f"best slack: {best} s")
        ax.set_xlim(left=-0.02 * ax.get_xlim()[1])
        ax.set_ylim(bottom=-0.02 * ax.get_ylim()[1])
    label(axes[0], "Incorrect answers", "slack, s", "% of windows")
    label(axes[1], "Latency: since the last row of the answer", "slack, s", "mean, s")
    legend(axes[1], loc="upper left")
    return figure


class BlockSorted(Experiment):
    """Wrong answers and latency over slack, for blocks that arrive shuffled."""

    id = "W3"
    paper = "WID, figure 10"
    title = "Slack and punctuation, block-sorted disorder"
    reports = (
        "count, RANGE 600 s, SLIDE 60 s, blocks of 490 s, slack 0 to 600 s: one slack is the best, "
        "491 s; below it latency is essentially independent of slack, above it latency jumps "
        "dramatically; punctuation has better latency and accuracy than any slack."
    )
    here = (
        "An answer is incorrect if a row is missing from it. Latency counts from the arrival of "
        "the last row in an answer to the answer, age from the end of its window."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Play one stream under all slacks, and punctuated."""
        blocks, epoch = (7, 7 * SECOND) if quick else (20, 2 * SECOND)
        few, many = (0, 480, 490, 600), (*range(0, 481, 60), 489, 490, 491, 520, 540, 570, 600)
        slacks = few if quick else many
        points = measure(blocks, slacks, epoch)
        best = optimum(points)
        return Outcome(
            rows=[_row(p) for p in points],
            compared=[
                Comparison("best slack", f"{PAPER} s", f"{best.slack} s"),
                Comparison("latency below it", "independent of slack", _latencies(points, best)),
            ],
            checks=check(points),
            figure=draw(points),
            settings={
                "rows": blocks * (BLOCK // SECOND) * RATE,
                "blocks": blocks,
                "epoch": f"{epoch / SECOND:g} s",
                "seed": SEED,
            },
        )


def _latencies(points: Sequence[Point], best: Point) -> str:
    below = [p.latency for p in points if p.slack is not None and p.slack < (best.slack or 0)]
    return f"{min(below):.2f} to {max(below):.2f} s"


def _row(point: Point) -> dict[str, Value]:
    return {
        "": "punctuation" if point.slack is None else "consistent slack",
        "slack s": point.slack,
        "incorrect %": point.wrong,
        "latency s": point.latency,
        "age s": point.age,
    }


EXPERIMENT = BlockSorted()
