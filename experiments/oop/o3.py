"""O3: a tumbling join of two unions whose links are skewed (OOP, figure 10 and experiment G3).

Each side of the join is the union of two links, A with B and C with D, of 10,000 packets a second
each in the paper and a fiftieth of that here; B and D are late. The join is that of Q6: the same
10 s, and the answering packet of the same connection. The paper does not state how many
packets find a partner, which does not change the state; here it is about one in ten.

Both plans hold the same packets. IOP holds those ahead of the late links in its merges, as plain
rows; OOP holds them in the join, where they have an index by time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome
from experiments.harness.plot import canvas
from experiments.oop.pairs import Pair, agree, compare, draw
from experiments.streams.traffic import ANSWERS, Flows
from lowwater.query.stream import Stream
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATE = 10_000
EPOCH = SECOND // 2
SKEW = "skew s"
SAME = 0.05
"""Both plans hold "the same" tuples if they differ by no more than this."""
OVERHEAD = 0.25
"""The paper's extreme case is "about 20 %" more."""
EARLY, SLIGHT = 20, 0.1
"""Below a skew of 20 s the paper's overhead is "inconsequential"; so we call up to 10 %."""


def ask(mine: Stream, theirs: Stream) -> Stream:
    """Return the query: packets and their answers within the same 10 s."""
    return mine.join(theirs, on=ANSWERS, band=lw.same_window("10 seconds"))


def measure(skews: Sequence[int], *, seconds: int, scale: int, epoch: int = EPOCH) -> list[Pair]:
    """Run both plans with B and D late by each skew."""
    rate = RATE // scale
    flows = Flows(seconds, 200 * rate)

    def pair(skew: int) -> Pair:
        a, b = flows.link(rate, 1), flows.link(rate, 2, delay=skew)
        c = flows.link(rate, 3, reverse=True)
        d = flows.link(rate, 4, delay=skew, reverse=True)
        return compare(skew, [[a, b], [c, d]], ask, epoch=epoch)

    return [pair(s) for s in skews]


def below(pairs: Sequence[Pair]) -> float:
    """Return the overhead in bytes at skews that the paper calls small."""
    return max(p.size - 1 for p in pairs if p.delay < EARLY)


def check(pairs: Sequence[Pair]) -> list[Check]:
    """Return the shapes and whether they hold."""
    first, last = pairs[0], pairs[-1]
    most = max(pairs, key=lambda p: p.size)
    differ = max(abs(p.tuples - 1) for p in pairs)
    early = below(pairs)
    return [
        agree(pairs),
        Check(
            f"both plans hold the same tuples (within {SAME:.0%})",
            differ <= SAME,
            f"they differ by {differ:.1%} at most",
        ),
        Check(
            "what is held grows with the skew, in both",
            last.oop.tuples > first.oop.tuples and last.iop.tuples > first.iop.tuples,
            f"{first.oop.tuples:,} to {last.oop.tuples:,} tuples of OOP, {first.iop.tuples:,} to "
            f"{last.iop.tuples:,} of IOP",
        ),
        Check(
            f"below a skew of {EARLY} s OOP takes up little more ({SLIGHT:.0%} or less)",
            early <= SLIGHT,
            f"{early:.1%}",
        ),
        Check(
            f"OOP takes up about 20 % more bytes at most ({OVERHEAD:.0%} or less)",
            most.size - 1 <= OVERHEAD,
            f"{most.size - 1:.1%}, at {most.delay:g} s",
        ),
    ]


class SkewedJoin(Experiment):
    """State of a tumbling join of unions, by the skew of their links."""

    id = "O3"
    paper = "OOP, figure 10"
    title = "A tumbling join of skewed unions"
    reports = (
        "join of A with B and C with D in windows of 10 s, skew 0 to 40 s: both hold the same "
        "tuples; below 20 s OOP's overhead in memory is inconsequential, at the extreme about 20 %."
    )
    here = (
        "OOP is Lowwater's plan as it is; IOP merges A with B and C with D in order before the "
        "same join. Held is the most after any epoch: tuples are stored rows, bytes those of Arrow."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Run both plans over all skews."""
        skews = (10, 40) if quick else (0, 5, 10, 20, 30, 40)
        seconds, scale, epoch = (60, 250, 2 * EPOCH) if quick else (100, 50, EPOCH)
        pairs = measure(skews, seconds=seconds, scale=scale, epoch=epoch)
        last = pairs[-1]
        return Outcome(
            rows=[p.row(SKEW) for p in pairs],
            compared=[
                Comparison("tuples held", "the same", f"OOP {last.tuples - 1:+.1%} at 40 s"),
                Comparison("overhead below 20 s", "inconsequential", f"{below(pairs):.1%}"),
                Comparison("overhead at 40 s", "about 20 %", f"{last.size - 1:.1%} of the bytes"),
            ],
            checks=check(pairs),
            figure=_picture(pairs),
            settings={
                "packets per second and link": RATE // scale,
                "seconds": seconds,
                "epoch": f"{epoch / SECOND:g} s",
                "answers": len(last.oop.results),
            },
        )


def _picture(pairs: Sequence[Pair]) -> Figure:
    figure, axes = canvas("A tumbling join of skewed unions")
    draw(axes[0], pairs, "join in windows of 10 s", "skew of each union's links, s")
    return figure


EXPERIMENT = SkewedJoin()
