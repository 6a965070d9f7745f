"""W2: slack against punctuation where disorder is bounded (WID, figure 9).

The paper's stream is ten flow sequences, made from traces of TCP headers, in random succession; its
punctuations were put into the data beforehand. Neither the traces nor the figure came with the
text. Here a sequence is 16 s of rows, of which a share is delayed by an exponential time, at most
4 s; share and mean differ among the ten. A row's value goes with its delay, as the size of a flow
goes with its length: were they independent, losing late rows would hardly change a mean, whatever
the slack. A punctuation follows the last row before each window's end.

`disorder` defines latency and age.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREEN, ORANGE, canvas, label, legend
from experiments.streams.disorder import Arrivals, Windows, play
from lowwater.ticks import TICKS_PER_SECOND as SECOND
from lowwater.watermarks.policy import WatermarkPolicy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 1
RANGE, SLIDE = 64 * SECOND, 64 * SECOND // 10
RATE = 40  # rows per second
"""Few enough that the epoch, which punctuation pays for as well, is short beside the time between
the last rows of a window."""
SEQUENCE = 16  # seconds
BOUND = 4.0  # seconds: no row is delayed longer
CLEARLY = 2.0
"""Generous slack is "significantly better" if consistent slack errs this many times more."""
CONSISTENT, GENEROUS, PUNCTUATION = "consistent slack", "generous slack", "punctuation"
_COLOURS = {CONSISTENT: ORANGE, GENEROUS: BLUE, PUNCTUATION: GREEN}


@dataclass(frozen=True)
class Point:
    """A way to handle disorder, and its outcome: error in percent, the rest in seconds."""

    way: str
    slack: float | None
    error: float
    latency: float
    age: float


def generate(seconds: int) -> Arrivals:
    """Return a stream of bounded disorder."""
    random = np.random.default_rng(SEED)
    share, mean = random.uniform(0.05, 0.4, 10), random.uniform(0.4, 1.6, 10)
    count = seconds * RATE
    ts = np.sort(random.integers(0, seconds * SECOND, count))
    chosen = random.integers(0, 10, -(-seconds // SEQUENCE))
    sequence = chosen[ts // (SEQUENCE * SECOND)]
    delayed = random.random(count) < share[sequence]
    delay = np.minimum(random.exponential(mean[sequence]), BOUND) * delayed
    value = random.normal(60, 12, count) + 20 * delay
    jitter = random.uniform(0, 0.02, count)
    return Arrivals.of(ts, ts + ((delay + jitter) * SECOND).astype(np.int64), value)


@dataclass(frozen=True)
class Trial:
    """A stream, its windows and their exact answers."""

    stream: Arrivals
    windows: Windows
    exact: np.ndarray
    epoch: int

    @classmethod
    def over(cls, seconds: int, *, slide: int, epoch: int) -> Trial:
        """Make a stream of `seconds` seconds."""
        stream = generate(seconds)
        windows = Windows(RANGE, slide, 0, (seconds - 10) * SECOND)
        exact = np.array([values.mean() for values in windows.extents(stream)])
        return cls(stream, windows, exact, epoch)

    def with_slack(self, way: str, slack: float) -> Point:
        """Play the stream under slack."""
        span = timedelta(seconds=slack)
        mode = lw.slack(span, mode="consistent" if way == CONSISTENT else "generous")
        return self._point(way, slack, self.stream, mode)

    def with_punctuation(self) -> Point:
        """Play the stream with a punctuation for each window's end."""
        slide = self.windows.slide
        marks = np.arange(1, self.stream.ts.max() // slide + 1) * slide
        return self._point(PUNCTUATION, None, self.stream.punctuated(marks), lw.punctuated("mark"))

    def _point(
        self, way: str, slack: float | None, rows: Arrivals, progress: WatermarkPolicy
    ) -> Point:
        found = play(rows, progress, self.windows, lw.avg("value"), epoch=self.epoch)
        off = np.abs(found.answer - self.exact) / np.abs(self.exact)
        off = np.where(np.isnan(off), 1.0, off)  # a final that never came
        off[np.isclose(found.answer, self.exact, rtol=1e-9)] = 0  # summed in another order
        return Point(way, slack, 100 * float(off.mean()), found.latency, found.age)


def check(consistent: Sequence[Point], generous: Sequence[Point], marks: Point) -> list[Check]:
    """Return the shapes and whether they hold."""
    checks = []
    for points in (consistent, generous):
        errors, waits = [p.error for p in points], [p.latency for p in points]
        falls = all(a > b for a, b in pairwise(errors))
        rises = all(a < b for a, b in pairwise(waits))
        checks += [
            Check(f"{points[0].way}: error falls as slack grows", falls, _chain(errors, " %")),
            Check(f"{points[0].way}: latency rises as slack grows", rises, _chain(waits, " s")),
        ]
    pairs = list(zip(consistent, generous, strict=True))
    ratio = min(c.error / g.error if g.error else math.inf for c, g in pairs)
    longer = max(g.latency - c.latency for c, g in pairs)
    least_error = min(p.error for p in (*consistent, *generous))
    least_wait = min(p.latency for p in (*consistent, *generous))
    return [
        *checks,
        Check(
            f"generous slack errs less, {CLEARLY:g} times or more, at no more latency",
            ratio >= CLEARLY and longer <= 0,
            f"{ratio:.1f} times or more; latency lower by {-longer:.3f} s or more",
        ),
        Check(
            "punctuation errs less than any slack",
            marks.error < least_error,
            f"{marks.error:.3g} % against {least_error:.3g} %",
        ),
        Check(
            "punctuation has less latency than any slack",
            marks.latency < least_wait,
            f"{marks.latency:.3f} s against {least_wait:.3f} s",
        ),
    ]


def _chain(figures: Sequence[float], unit: str) -> str:
    return " → ".join(f"{f:.3g}" for f in (figures[0], figures[-1])) + unit


def draw(points: Sequence[Point]) -> Figure:
    """Draw error against latency, and against age."""
    title = "Slack and punctuation, bounded disorder"
    figure, axes = canvas(title, 2, sharey=True)
    for way, colour in _COLOURS.items():
        own = [p for p in points if p.way == way]
        style: dict[str, Any] = {"marker": "o", "ms": 5, "lw": 1.6, "color": colour}
        if way == PUNCTUATION:
            style |= {"marker": "*", "ms": 15, "lw": 0}
        for ax, by in zip(axes, ("latency", "age"), strict=True):
            ax.plot([getattr(p, by) for p in own], [p.error for p in own], label=way, **style)
            for p in (own[0], own[-1]) if len(own) > 1 else ():
                text = f" {p.slack:g} s"
                ax.annotate(
                    text,
                    (getattr(p, by), p.error),
                    xytext=(2, 4),
                    textcoords="offset points",
                    fontsize=8.5,
                    color=colour,
                )
    label(axes[0], "Latency: since the last row of the answer", "seconds", "mean error, %")
    label(axes[1], "Age: since the window's end", "seconds", "")
    for ax in axes:
        ax.set_ylim(bottom=-0.03 * ax.get_ylim()[1])
        ax.set_xlim(0, 1.08 * ax.get_xlim()[1])  # room for what is written at the last point
    legend(axes[0])
    return figure


class BoundedDisorder(Experiment):
    """Average error against latency, for three ways to handle bounded disorder."""

    id = "W2"
    paper = "WID, figure 9"
    title = "Slack and punctuation, bounded disorder"
    reports = (
        "avg, RANGE 64 s, SLIDE 6.4 s, slack 0.32 to 3.2 s: as slack grows, error falls and "
        "latency rises; generous slack is significantly more accurate than consistent slack at "
        "comparable latency; punctuation has better latency and accuracy than either."
    )
    here = (
        "The error of an answer is how far it is from that over all rows, in percent of it. "
        "Latency counts from the arrival of the last row in an answer to the answer, age from the "
        "end of its window. Under consistent slack a late row misses all its windows, under "
        "generous slack those that are closed."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Play one stream under all slacks, in both modes, and punctuated."""
        seconds, epoch = (100, SECOND // 5) if quick else (400, SECOND // 10)
        slacks = [0.32 * n for n in ((1, 7) if quick else range(1, 11))]
        trial = Trial.over(seconds, slide=SLIDE, epoch=epoch)
        consistent = [trial.with_slack(CONSISTENT, s) for s in slacks]
        generous = [trial.with_slack(GENEROUS, s) for s in slacks]
        marks = trial.with_punctuation()
        points = [*consistent, *generous, marks]
        compared = [
            Comparison(
                "error, consistent over generous slack",
                "significantly more",
                f"{_ratio(consistent[0], generous[0])} to {_ratio(consistent[-1], generous[-1])}",
            ),
            Comparison("error with punctuation", "below any slack's", f"{marks.error:.3g} %"),
        ]
        if not quick:
            compared.insert(1, _tumbling(seconds, slacks[0], epoch))
        return Outcome(
            rows=[_row(p) for p in points],
            compared=compared,
            checks=check(consistent, generous, marks),
            figure=draw(points),
            settings={
                "rows": len(trial.stream.ts),
                "windows judged": len(trial.exact),
                "epoch": f"{epoch / SECOND:g} s",
                "seed": SEED,
            },
        )


def _row(point: Point) -> dict[str, Value]:
    return {
        "": point.way,
        "slack s": point.slack,
        "mean error %": point.error,
        "latency s": point.latency,
        "age s": point.age,
    }


def _ratio(a: Point, b: Point) -> str:
    return f"{a.error / b.error:.1f} times" if b.error else "some against none"


def _tumbling(seconds: int, slack: float, epoch: int) -> Comparison:
    """Compare both modes where a row has one window: the text has SLIDE 64 s, table 1 6.4 s."""
    trial = Trial.over(seconds, slide=RANGE, epoch=epoch)
    ours = _ratio(*(trial.with_slack(way, slack) for way in (CONSISTENT, GENEROUS)))
    return Comparison(f"the same with SLIDE 64 s, slack {slack:g} s", "equal by definition", ours)


EXPERIMENT = BoundedDisorder()
