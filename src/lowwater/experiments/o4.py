"""O4: a band join feeds a window count (OOP, figure 11 and experiment N1).

Links M1 and M2, in order and in step; a packet joins the answering packets of its connection that
are at most n seconds away; the pairs are counted per minute of M1's time. The paper has about 4,000
packets a second; here a quarter of that. Neither the bands nor how often packets find partners are
told: here a packet has 0.4 · n partners on average, as each of 5,000 connections goes on all the
time. Of a pair only M1's time goes on to the count, in both plans.

A join puts out pairs in no order of M1's time. IOP sorts them before they are counted: the plan is
the same with `order("time")` between join and count, so the sort is an operator of the same host
and keeps its rows as the others do. Beside it stands a *bare* sort: Arrow tables in memory and
numpy, no host. No plan that sorts can do with less.

Every second of packets is an epoch, and punctuation follows it, in an epoch without packets (on
Spark such an epoch runs, too, when control has something to say). *Latency* is what the paper calls
so: from the arrival of the punctuation that covers a window to its answer, as processor time of
that epoch. The clock of the streams shows no difference, for both plans answer in that epoch.
*Execution time* is the processor time of all epochs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa

import lowwater as lw
from lowwater.durations import TICKS_PER_SECOND as SECOND
from lowwater.experiments.contract import Check, Compared, Experiment, Outcome, Value
from lowwater.experiments.drawing import BLUE, ORANGE, canvas, label, legend
from lowwater.experiments.holding import same
from lowwater.experiments.in_order import Sort
from lowwater.experiments.traffic import ANSWERS, COLUMNS, Flows, schema
from lowwater.kernels.packets import tables
from lowwater.local.host import LocalEpochs
from lowwater.query import Status
from lowwater.query.stream import Stream
from lowwater.sources import Feed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATE, CONNECTIONS = 1_000, 5_000
KB, MS = 1_000, 1_000
OOP, IOP = "OOP", "IOP"


@dataclass(frozen=True)
class Ran:
    """One run of a plan: the most it held, what its answers waited for, what it took.

    `latency` and `seconds` are processor time; `waiting` is how many pairs had to be sorted and
    counted between a punctuation and the answer.
    """

    tuples: int
    size: int
    waiting: int
    latency: float
    seconds: float
    results: pa.Table


@dataclass(frozen=True)
class Trial:
    """Two links, cut into seconds."""

    feeds: tuple[Feed, Feed]
    epochs: Sequence[tuple[pa.Table, pa.Table]]

    @classmethod
    def over(cls, seconds: int) -> Trial:
        """Make the links."""
        flows = Flows(seconds, CONNECTIONS)
        links = flows.link(RATE, 1), flows.link(RATE, 2, reverse=True)
        cut = (link.epochs(SECOND, seconds) for link in links)
        feeds = Feed(schema(COLUMNS)), Feed(schema(COLUMNS))
        return cls(feeds, list(zip(*cut, strict=True)))

    def joined(self, band: int) -> Stream:
        """Return when packets of M1 have answers at most `band` seconds away: all that is read."""
        m1, m2 = (lw.stream(f, time="ts", progress=lw.ordered()) for f in self.feeds)
        pairs = m1.join(m2, on=ANSWERS, band=(f"-{band} seconds", f"{band} seconds"))
        return pairs.select("ts")

    def plan(self, way: str, band: int) -> Stream:
        """Return the query Q7 as one of the plans."""
        pairs = self.joined(band)
        if way == IOP:
            pairs = pairs.order("time")
        return pairs.window(range="1 minute").agg(n=lw.count())

    def run(self, way: str, band: int) -> Ran:
        """Run a plan over all epochs, each followed by its punctuation."""
        clock = lw.VirtualClock("1970-01-01", timedelta(seconds=1))
        host = LocalEpochs(self.plan(way, band).assembly.with_shards(1), clock)
        tuples, size, results = 0, 0, []
        waits: list[tuple[int, float]] = []
        gc.collect()
        began = time.process_time()
        for m1, m2 in self.epochs:
            host.run([[m1], [m2]], last=[False, False])
            status = host.status()
            tuples, size = max(tuples, status.cells), max(size, status.state_bytes)
            came = time.process_time()
            answers = tables(host.run([[], []], last=[False, False]), "results")
            if answers:
                waited = time.process_time() - came
                waits.append((_left_sort(host.status()) - _left_sort(status), waited))
                results += answers
        took = time.process_time() - began
        waiting, latency = (median(w[i] for w in waits) for i in (0, 1))
        return Ran(tuples, size, round(waiting), latency, took, pa.concat_tables(results))

    def bare(self, band: int) -> float:
        """Return the processor time of a bare sort of the same pairs."""
        clock = lw.VirtualClock("1970-01-01", timedelta(seconds=1))
        host, sort = LocalEpochs(self.joined(band).assembly.with_shards(1), clock), Sort()
        took = 0.0
        for second, (m1, m2) in enumerate(self.epochs):
            pairs = tables(host.run([[m1], [m2]], last=[False, False]), "results")
            host.run([[], []], last=[False, False])
            rows = pa.concat_tables(pairs) if pairs else None
            began = time.process_time()
            if rows is not None:
                sort.take(rows, (second + 1 - band) * SECOND)
            took += time.process_time() - began
        return took


def _left_sort(status: Status) -> int:
    """Return how many rows have left the sort; without one, none had to."""
    return status.operators.get("order", {}).get("results", 0)


@dataclass(frozen=True)
class Point:
    """Both plans for one band, medians of several runs, and the time of a bare sort."""

    band: int
    oop: Ran
    iop: Ran
    bare: float

    def ratio(self, what: str) -> float:
        """Return a figure of OOP as a share of IOP's."""
        return float(getattr(self.oop, what) / getattr(self.iop, what))


def measure(trial: Trial, bands: Sequence[int], runs: int) -> list[Point]:
    """Run the plans of every band in turn, several times over."""
    ran: dict[tuple[int, str], list[Ran]] = {}
    bare: dict[int, list[float]] = {}
    for _ in range(runs):
        for band in bands:
            for way in (OOP, IOP):
                ran.setdefault((band, way), []).append(trial.run(way, band))
            bare.setdefault(band, []).append(trial.bare(band))
    return [Point(b, _median(ran[b, OOP]), _median(ran[b, IOP]), median(bare[b])) for b in bands]


def _median(runs: Sequence[Ran]) -> Ran:
    """Return what all runs have in common, and the medians of their times."""
    latency, seconds = (median(getattr(r, x) for r in runs) for x in ("latency", "seconds"))
    return replace(runs[0], latency=latency, seconds=seconds)


_FIGURES = {
    "tuples": "tuples",
    "size": "bytes",
    "latency": "latency",
    "seconds": "execution time",
}


def check(points: Sequence[Point]) -> list[Check]:
    """Say which shapes hold."""
    equal = all(same(p.oop.results, p.iop.results) for p in points)
    answers = sum(len(p.oop.results) for p in points)
    waits = [p.iop.waiting for p in points]
    found = [Check("both plans give the same answers", equal and answers > 0, f"{answers} answers")]
    found += [_lower(points, what, name) for what, name in _FIGURES.items()]
    found.append(
        Check(
            "between punctuation and answer IOP has pairs to sort, the more the wider the band; "
            "OOP has none",
            waits == sorted(waits) and waits[0] > 0 and not any(p.oop.waiting for p in points),
            f"{waits[0]:,} to {waits[-1]:,}",
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
        bands = (2, 12) if quick else (1, 5, 10, 20, 30)
        seconds, runs = (75, 1) if quick else (190, 5)
        points = measure(Trial.over(seconds), bands, runs)
        last = points[-1]
        more = {x: f"{1 / last.ratio(x):.1f} times OOP's at {last.band} s" for x in _FIGURES}
        return Outcome(
            rows=[_row(p) for p in points],
            compared=[
                Compared("memory of IOP", "significantly more", more["size"]),
                Compared("latency of IOP", "significantly more", more["latency"]),
                Compared("execution time of IOP", "more", more["seconds"]),
            ],
            checks=check(points),
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
