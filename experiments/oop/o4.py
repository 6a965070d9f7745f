"""O4: a band join feeds a window count (OOP, figure 11 and experiment N1).

Links M1 and M2, in order and in step; a packet joins the answering packets of its connection that
are at most n seconds away; the pairs are counted per minute of M1's time. The paper has about 4,000
packets a second; here a quarter of that. The paper states neither the bands nor how often packets
find partners: here a packet has 0.4 · n partners on average, as each of 5,000 connections lasts for
the whole stream. Of a pair only M1's time goes on to the count, in both plans.

A join emits pairs in no order of M1's time. IOP sorts them before they are counted: the plan is
the same with `order("time")` between join and count, so the sort is an operator of the same host
and keeps its rows as the others do. Beside it stands a *bare* sort: Arrow tables in memory and
numpy, no host. No plan that sorts can take less time.

Packets come in epochs, and punctuation follows each, in an epoch without packets (on Spark, too, a
control record starts an epoch). The paper does not state how often for this
experiment; its appendix (A.1.1) advises punctuation as coarse as the smallest slide, which is 1 min
here. So is ours; beside it stands punctuation every second, when the sort has the least to do at
once. *Latency* is that of the paper: from the arrival of the punctuation that covers a window
to its answer, as processor time of that epoch. The clock of the streams shows no difference, for
both plans answer in that epoch. *Execution time* is the processor time of all epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, ORANGE, canvas, label, legend
from experiments.oop.band_join import CONNECTIONS, IOP, OOP, RATE, PlanRun, Trial
from experiments.streams.hold import same

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COARSE, FINE = 60, 1
"""Seconds from one punctuation to the next."""
KB, MS = 1_000, 1_000


@dataclass(frozen=True)
class Point:
    """Both plans for one band, medians of several runs, and the time of a bare sort."""

    step: int
    band: int
    oop: PlanRun
    iop: PlanRun
    bare: float

    def ratio(self, what: str) -> float:
        """Return a figure of OOP as a share of IOP's."""
        return float(getattr(self.oop, what) / getattr(self.iop, what))


def measure(trial: Trial, bands: Sequence[int], runs: int) -> list[Point]:
    """Run the plans of every band in turn, several times over."""
    ran: dict[tuple[int, str], list[PlanRun]] = {}
    bare: dict[int, list[float]] = {}
    for _ in range(runs):
        for band in bands:
            for way in (OOP, IOP):
                ran.setdefault((band, way), []).append(trial.run(way, band))
            bare.setdefault(band, []).append(trial.bare(band))
    return [
        Point(trial.step, b, _median(ran[b, OOP]), _median(ran[b, IOP]), median(bare[b]))
        for b in bands
    ]


def _median(runs: Sequence[PlanRun]) -> PlanRun:
    """Return one run that stands for all, with the medians of their times."""
    latency, seconds = (median(getattr(r, x) for r in runs) for x in ("latency", "seconds"))
    return replace(runs[0], latency=latency, seconds=seconds)


_FIGURES = {
    "tuples": "tuples",
    "size": "bytes",
    "latency": "latency",
    "seconds": "execution time",
}


_TIMES = ("latency", "seconds")
"""The figures that a quick run, which runs each plan once, prints without a verdict."""


def check(points: Sequence[Point], fine: Sequence[Point], *, quick: bool = False) -> list[Check]:
    """Return the shapes and whether they hold, with punctuation every minute and every second."""
    every = [*points, *fine]
    equal = all(same(p.oop.results, p.iop.results) for p in every)
    answers = sum(len(p.oop.results) for p in every)
    found = [Check("both plans give the same answers", equal and answers > 0, f"{answers} answers")]
    found += [
        replace(_lower(points, what, name), judged=not (quick and what in _TIMES))
        for what, name in _FIGURES.items()
    ]
    found.append(_waiting(points))
    if fine:
        worst = {name: max(p.ratio(what) for p in fine) for what, name in _FIGURES.items()}
        found.append(
            Check(
                "with punctuation every second OOP is lower on all, too",
                max(worst.values()) < 1,
                ", ".join(f"{name} {share:.2f} of IOP's or less" for name, share in worst.items()),
            )
        )
    return found


def _lower(points: Sequence[Point], what: str, name: str) -> Check:
    ratios = [p.ratio(what) for p in points]
    return Check(
        f"{name}: OOP is lower at every band, and more so at the widest than at the narrowest",
        max(ratios) < 1 and ratios[-1] < ratios[0],
        f"{ratios[0]:.2f} of IOP's at {points[0].band} s, {ratios[-1]:.2f} at {points[-1].band} s",
    )


def _waiting(points: Sequence[Point]) -> Check:
    waits = [p.iop.waiting for p in points]
    return Check(
        "from punctuation to answer IOP has pairs to sort, more with wider bands; OOP has none",
        waits == sorted(waits) and waits[0] > 0 and not any(p.oop.waiting for p in points),
        f"{waits[0]:,} to {waits[-1]:,}",
    )


def draw(points: Sequence[Point]) -> Figure:
    """Draw memory, latency and execution time over the band."""
    figure, axes = canvas("A band join feeds a window count", 3)
    at = [p.band for p in points]
    for way, colour in (("iop", ORANGE), ("oop", BLUE)):
        own = [getattr(p, way) for p in points]
        lines = (
            [r.size / KB for r in own],
            [r.latency * MS for r in own],
            [r.seconds for r in own],
        )
        for ax, line in zip(axes, lines, strict=True):
            ax.plot(at, line, "o-", ms=5, lw=1.8, color=colour, label=way.upper())
    least = [p.oop.seconds + p.bare for p in points]
    axes[2].plot(at, least, ls=":", lw=1.6, color=ORANGE, label="OOP and a bare sort")
    label(axes[0], "Memory", "band, s", "most held, kB")
    label(axes[1], "Latency: from punctuation to answer", "band, s", "processor ms")
    label(axes[2], "Execution time", "band, s", "processor s")
    for ax in axes:
        ax.set_ylim(bottom=0)
        ax.set_xlim(left=0)
        legend(ax)
    return figure


class BandJoin(Experiment):
    """State, latency and execution time of a count over a band join, by the band."""

    id = "O4"
    paper = "OOP, figure 11"
    title = "A band join feeds a window count"
    reports = (
        "count per minute of M1's time over a band join, band varied: OOP significantly "
        "outperforms IOP, especially on memory and latency, as it need not sort the join's output."
    )
    here = (
        "OOP is Lowwater's plan as it is; IOP sorts the join's output before it is counted. "
        "Latency is from the arrival of the punctuation that covers a window to its answer, in "
        "processor time; so is execution time, of the whole run. The bare sort has no system "
        "around it."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Run both plans over all bands, alternately."""
        bands = (5, 45) if quick else (5, 15, 30, 45)
        seconds, runs = (180, 1) if quick else (240, 5)
        points = measure(Trial.over(seconds, COARSE), bands, runs)
        fine = [] if quick else measure(Trial.over(120, FINE), (5, 30), 3)
        last = points[-1]
        more = {x: f"{1 / last.ratio(x):.1f} times OOP's at {last.band} s" for x in _FIGURES}
        return Outcome(
            rows=[_row(p) for p in [*points, *fine]],
            compared=[
                Comparison("memory of IOP", "significantly more", more["size"]),
                Comparison("latency of IOP", "significantly more", more["latency"]),
                Comparison("execution time of IOP", "more", more["seconds"]),
            ],
            checks=check(points, fine, quick=quick),
            figure=draw(points),
            settings={
                "packets per second and link": RATE,
                "connections": CONNECTIONS,
                "seconds": seconds,
                "runs": runs,
            },
        )


def _row(point: Point) -> dict[str, Value]:
    return {
        "punctuation every s": point.step,
        "band s": point.band,
        "OOP tuples": point.oop.tuples,
        "IOP tuples": point.iop.tuples,
        "OOP kB": point.oop.size / KB,
        "IOP kB": point.iop.size / KB,
        "OOP latency ms": point.oop.latency * MS,
        "IOP latency ms": point.iop.latency * MS,
        "IOP pairs to sort": point.iop.waiting,
        "OOP s": point.oop.seconds,
        "IOP s": point.iop.seconds,
        "bare sort s": point.bare,
    }


EXPERIMENT = BandJoin()
