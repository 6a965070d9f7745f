"""O1: a window count over two links, one of them late (OOP, figure 1 and experiment G2).

The paper's links carry 110,000 packets a second each, in 65,536 groups of (source, destination);
here both are fifty times less, so that a group has as many rows in a window. RANGE is 10 s where
the paper explains figure 1, and 1 min in its query Q5: both are measured. The paper gives the
memory of the whole process; here only the state of the plans is counted.

IOP merges the links in order and holds what is ahead of the late one. OOP lets packets through and
holds a partial aggregate for each group of every window that the late link keeps open.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome
from experiments.harness.plot import canvas
from experiments.oop.pairs import Pair, agree, compare, draw, grown
from experiments.streams.traffic import Flows
from lowwater.query.stream import Stream
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATE, GROUPS = 110_000, 65_536
EPOCH = SECOND // 2
SHORT, LONG = 10, 60
SKEW = "skew s"
PAPER = 0.3
FLAT = 0.1
"""OOP is "relatively flat" if it grows by less than this share of what IOP grows by."""


def measure(
    size: int, skews: Sequence[int], *, seconds: int, scale: int, epoch: int = EPOCH
) -> list[Pair]:
    """Run both plans with windows of `size` seconds, one link late by each skew."""
    columns = ("src", "dst")
    flows = Flows(seconds, GROUPS // scale, columns)
    rate = RATE // scale

    def ask(packets: Stream) -> Stream:
        window = packets.window(range=timedelta(seconds=size))
        return window.group_by(*columns).agg(n=lw.count())

    return [
        compare(s, [[flows.link(rate, 1), flows.link(rate, 2, delay=s)]], ask, epoch=epoch)
        for s in skews
    ]


def check(short: Sequence[Pair], long: Sequence[Pair]) -> list[Check]:
    """Return the shapes and whether they hold."""
    first, last = short[0], short[-1]
    share = grown(short)
    steady = [p.oop.size for p in long]
    rising = [p.iop.size for p in short]
    return [
        agree([*short, *long]),
        Check(
            "OOP holds less than IOP at every skew",
            all(p.tuples < 1 and p.size < 1 for p in [*short, *long]),
            f"at {first.delay:g} s {first.size:.0%} of the bytes, at {last.delay:g} s "
            f"{last.size:.0%}",
        ),
        Check(
            "what IOP holds grows with the skew",
            rising == sorted(rising) and last.iop.size > 2 * first.iop.size,
            f"{last.iop.size / first.iop.size:.1f} times the bytes",
        ),
        Check(
            f"OOP grows by less than {FLAT:.0%} of that",
            share < FLAT,
            f"{share:.1%} with windows of {SHORT} s; {LONG} s: {max(steady) / min(steady):.2f} "
            f"times from the least to the most",
        ),
        Check(
            f"at {last.delay:g} s OOP holds {PAPER:.0%} of IOP's bytes or less",
            last.size <= PAPER,
            f"{last.size:.1%} of the bytes, {last.tuples:.1%} of the tuples",
        ),
    ]


def picture(short: Sequence[Pair], long: Sequence[Pair]) -> Figure:
    """Draw both window sizes."""
    figure, axes = canvas("A count over two links, one of them late", 2)
    for ax, pairs, size in zip(axes, (short, long), (SHORT, LONG), strict=True):
        draw(ax, pairs, f"windows of {size} s", "skew between the links, s")
    return figure


class LateLink(Experiment):
    """State of a window count over the union of two links, by their skew."""

    id = "O1"
    paper = "OOP, figure 1"
    title = "A count over two links, one of them late"
    reports = (
        "tumbling count by group over a union, skew 1 to 40 s: the memory of OOP starts below that "
        "of IOP and stays relatively flat, IOP's grows dramatically; at 40 s OOP needs 30 % of it."
    )
    here = (
        "OOP is Lowwater's plan as it is; IOP merges the links in order first, and holds what is "
        "ahead of the late one. Held is the most after any epoch: tuples are rows and partial "
        "aggregates, bytes those of Arrow."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Run both plans over all skews, with both window sizes."""
        skews = (1, 40) if quick else (1, 5, 10, 20, 30, 40)
        seconds, scale, epoch = (70, 500, 2 * EPOCH) if quick else (120, 50, EPOCH)
        short, long = (
            measure(size, skews, seconds=seconds, scale=scale, epoch=epoch)
            for size in (SHORT, LONG)
        )
        last = short[-1]
        rows = [
            p.row(SKEW, **{"RANGE s": size})
            for size, pairs in ((SHORT, short), (LONG, long))
            for p in pairs
        ]
        return Outcome(
            rows=rows,
            compared=[
                Comparison(
                    f"OOP over IOP at a skew of {last.delay:g} s",
                    "30 % of the process's memory",
                    f"{last.size:.1%} of the bytes held, {last.tuples:.1%} of the tuples",
                ),
                Comparison("the same, windows of 1 min", "–", f"{long[-1].size:.1%} of the bytes"),
            ],
            checks=check(short, long),
            figure=picture(short, long),
            settings={
                "packets per second and link": RATE // scale,
                "groups": GROUPS // scale,
                "seconds": seconds,
                "epoch": f"{epoch / SECOND:g} s",
            },
        )


EXPERIMENT = LateLink()
