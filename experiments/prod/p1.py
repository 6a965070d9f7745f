"""P1: what prodding costs the final results (PROD, table 4.1).

The streams are one of P3 and two of P4, each played with and without prods. On the virtual clock an
epoch takes no time, so equal latencies only show that no final waits for another epoch because of
prods. The cost of prods is the processor time of epochs: both ways run alternately, and medians
are compared. A fourth stream has 3,000 times the rows of the first: where epochs
are small, their fixed cost is most of their time.

For the first stream the paper gives a latency of 11 s, less than its windows of 30 s take: it can
only be counted from the first row of the last slide. Here it is from the first row of the window,
as the paper defines it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, ORANGE, canvas, label, legend
from experiments.prod import p3, p4
from experiments.streams.prods import Answers, Play, Prods
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 1
PAPER = {"Uniform_1500": 11, "Burst_2": 6, "Burst_4": 6}
"""The paper's latency of final results in seconds, with prods and without."""
MANY = 3_000
"""How many times the rows of the first stream the fourth has."""


@dataclass(frozen=True)
class Case:
    """A stream and its prods."""

    name: str
    play: Play
    prods: Prods

    @classmethod
    def uniform(cls, name: str, seconds: int, times: int = 1) -> Case:
        """Return a stream of P3 in epochs of a second."""
        rows = p3.generate(SEED, seconds, p3.RATE * times)
        ends = np.arange(1, seconds // 10) * p3.SLIDE
        cuts = np.arange(1, seconds + 2) * SECOND
        play = Play.of(rows.punctuated(ends), p3.ASK, cuts)
        return cls(name, play, {int(e) - p3.LEAD: int(e) for e in ends})

    @classmethod
    def burst(cls, name: str, seconds: int) -> Case:
        """Return a stream of P4."""
        return cls(name, p4.generate(SEED, seconds).play, p4.POLICY)


@dataclass(frozen=True)
class StreamOutcome:
    """The answers of a stream with and without prods; times are processor seconds of whole runs."""

    case: Case
    plain: Answers
    prodded: Answers
    plain_time: float
    prodded_time: float

    @property
    def latencies(self) -> tuple[float, float]:
        """Return the mean latency of finals with prods and without."""
        with_prods, without = (
            float(a.latencies(early=False).mean()) for a in (self.prodded, self.plain)
        )
        return with_prods, without

    @property
    def same(self) -> bool:
        """Whether finals are the same, and came at the same time."""
        (name,) = self.plain.final
        values = np.array_equal(self.plain.final[name], self.prodded.final[name], equal_nan=True)
        times = np.array_equal(self.plain.finally_at, self.prodded.finally_at, equal_nan=True)
        return values and times

    @property
    def row(self) -> dict[str, Value]:
        """A row of the table."""
        epochs = len(self.case.play.cuts)
        with_prods, without = self.latencies
        return {
            "": self.case.name,
            "rows per epoch": round(len(self.case.play.rows.ts) / epochs),
            "early results": int(self.prodded.answered.sum()),
            "latency with prods s": with_prods,
            "without s": without,
            "with prods, ms an epoch": 1_000 * self.prodded_time / epochs,
            "without, ms an epoch": 1_000 * self.plain_time / epochs,
            "with / without": self.prodded_time / self.plain_time,
        }


def measure(case: Case, repeats: int) -> StreamOutcome:
    """Run a stream with and without prods, alternately."""
    times: dict[bool, list[float]] = {True: [], False: []}
    answers: dict[bool, Answers] = {}
    for _ in range(repeats):
        for prodded in (True, False):
            began = time.process_time()
            results = case.play.results(case.prods if prodded else None, "complete")
            times[prodded].append(time.process_time() - began)
            answers[prodded] = case.play.answers(results)
    return StreamOutcome(
        case, answers[False], answers[True], median(times[False]), median(times[True])
    )


def check(found: Sequence[StreamOutcome]) -> list[Check]:
    """Return the shapes and whether they hold."""
    told = ", ".join("{}: {:.2f} and {:.2f} s".format(f.case.name, *f.latencies) for f in found)
    return [
        Check(
            "final results have the same latency with prods and without",
            all(a == b for a, b in (f.latencies for f in found)),
            told,
        ),
        Check(
            "each final is the same, and comes in the same epoch",
            all(f.same and f.prodded.answered.any() for f in found),
            f"{sum(len(f.plain.ends) for f in found):,} windows",
        ),
    ]


def draw(found: Sequence[StreamOutcome]) -> Figure:
    """Draw latency and processor time, with and without."""
    figure, axes = canvas("What prods cost final results", 2)
    at, width = np.arange(len(found)), 0.38
    rows = [f.row for f in found]
    for ax, names in zip(
        axes,
        (
            ("latency with prods s", "without s"),
            ("with prods, ms an epoch", "without, ms an epoch"),
        ),
        strict=True,
    ):
        for side, name, colour in zip((-0.5, 0.5), names, (ORANGE, BLUE), strict=True):
            height = [float(r[name] or 0) for r in rows]
            word = "with prods" if side < 0 else "without"
            ax.bar(at + side * width, height, width, color=colour, label=word)
        ax.set_xticks(at, [f.case.name.replace(", ", ",\n") for f in found])
        ax.set_ylim(top=1.2 * ax.get_ylim()[1])
    label(axes[0], "Latency of final results", "", "mean, s")
    label(axes[1], "Processor time of an epoch", "", "mean, ms")
    legend(axes[0], loc="upper right")
    return figure


class Overhead(Experiment):
    """Latency of final results, and time of epochs, with and without prods."""

    id = "P1"
    paper = "PROD, table 4.1"
    title = "What prods cost final results"
    reports = (
        "latency of final results with and without prods, three streams: Uniform_1500 11 and 11 s, "
        "Burst_2 6 and 6 s, Burst_4 6 and 6 s."
    )
    here = (
        "Latency is from the arrival of a window's first row to its final, on the virtual clock. "
        "The time of an epoch is processor time, of runs with and without prods in turn."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Run all streams with and without prods."""
        cases = [
            Case.uniform("Uniform_1500", 60 if quick else 1_500),
            Case.burst("Burst_2", 25 if quick else p4.LENGTHS["Burst_2"]),
        ]
        if not quick:
            cases.append(Case.burst("Burst_4", p4.LENGTHS["Burst_4"]))
            cases.append(Case.uniform(f"Uniform, {MANY:,} × rows", 60, MANY))
        found = [measure(case, 1 if quick else 3) for case in cases]
        compared = [
            Comparison(
                f"{f.case.name}, with prods and without",
                f"{PAPER[f.case.name]} and {PAPER[f.case.name]} s",
                "{:.2f} and {:.2f} s".format(*f.latencies),
            )
            for f in found
            if f.case.name in PAPER
        ]
        ratio = [f"{f.row['with / without']:.2f}" for f in found]
        compared.append(Comparison("time of an epoch, with / without", "–", ", ".join(ratio)))
        return Outcome(
            rows=[f.row for f in found],
            compared=compared,
            checks=check(found),
            figure=draw(found),
            settings={"runs each": 1 if quick else 3, "seed": SEED},
        )


EXPERIMENT = Overhead()
