"""O5: plans in which one slow stream is late (OOP, figures 12 and 13, experiments N2 and N3).

Two links M1 and M2 of about 4,000 packets a second and a slow one C, which is delayed; here the
rates are a twentieth, and C, whose volume the paper calls very low, has a hundredth of M1's rate.
The paper does not state the delays; section 5.3 mentions up to 5 minutes. Times are whole seconds,
so that `M1.ts = M3.ts` finds partners.

*The join* (Q8) is of M1 with the union M2, C at equal times. In both plans M1's packets wait for
C's. IOP must hold those of M2 as well, to merge them with C; in OOP they meet M1's and go. So OOP
holds about half. *The count* (Q9) is over 5 min every 1 min of all three: IOP holds the packets of
M1 and M2, OOP a partial aggregate per minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome
from experiments.harness.plot import canvas
from experiments.oop.pairs import Pair, agree, compare, draw, grown
from experiments.streams.traffic import ANSWERS, Flows
from lowwater.query.stream import Stream
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATE, SLOW = 200, 2
EPOCH = SECOND
DELAY = "delay of C, s"
CONNECTIONS = 500
SLOWLY, STABLE = 0.75, 0.05
"""OOP grows "more slowly" in the join, is "relatively stable" in the count, if it grows by less
than this share of what IOP grows by."""


def joined(mine: Stream, theirs: Stream) -> Stream:
    """Return the query Q8: packets and their answers at the same time."""
    return mine.join(theirs, on=ANSWERS, band=("0 seconds", "0 seconds"))


def counted(packets: Stream) -> Stream:
    """Return the query Q9: packets in 5 minutes, every minute."""
    return packets.window(range="5 minutes", slide="1 minute").agg(n=lw.count())


def joins(delays: Sequence[int], seconds: int, epoch: int = EPOCH) -> list[Pair]:
    """Run both plans of the join, C late by each delay."""
    flows = Flows(seconds, CONNECTIONS, step=SECOND)

    def pair(delay: int) -> Pair:
        m1, m2 = flows.link(RATE, 1), flows.link(RATE, 2, reverse=True)
        c = flows.link(SLOW, 3, delay=delay, reverse=True)
        return compare(delay, [[m1], [m2, c]], joined, epoch=epoch)

    return [pair(d) for d in delays]


def counts(delays: Sequence[int], seconds: int, epoch: int = EPOCH) -> list[Pair]:
    """Run both plans of the count, C late by each delay."""
    flows = Flows(seconds, CONNECTIONS, columns=())

    def pair(delay: int) -> Pair:
        links = [flows.link(RATE, 1), flows.link(RATE, 2), flows.link(SLOW, 3, delay=delay)]
        return compare(delay, [links], counted, epoch=epoch)

    return [pair(d) for d in delays]


def check(join: Sequence[Pair], count: Sequence[Pair]) -> list[Check]:
    """Return the shapes and whether they hold."""
    late = [*join[1:], *count[1:]]
    return [
        agree(join, "the join"),
        agree(count, "the count"),
        Check(
            "with any delay, OOP holds less than IOP",
            all(p.tuples < 1 and p.size < 1 for p in late),
            f"{max(p.size for p in join[1:]):.0%} of the bytes or less in the join, "
            f"{max(p.size for p in count[1:]):.1%} in the count",
        ),
        Check(
            f"in the join OOP grows more slowly (by less than {SLOWLY:.0%} of what IOP grows by)",
            grown(join) < SLOWLY,
            f"by {grown(join):.0%}",
        ),
        Check(
            f"in the count OOP is stable (grows by less than {STABLE:.0%} of what IOP grows by)",
            grown(count) < STABLE,
            f"by {grown(count):.2%}",
        ),
    ]


class LateTuples(Experiment):
    """State of a join and of a sliding count, by how late a slow stream is."""

    id = "O5"
    paper = "OOP, figures 12 and 13"
    title = "A join and a sliding count with late tuples"
    reports = (
        "with the delay of the slow stream, the memory of IOP grows; OOP's grows more slowly in "
        "the join (equal times), and is relatively stable in the count (5 min every 1 min)."
    )
    here = (
        "OOP is Lowwater's plan as it is; IOP merges the links of each input in order first. Held "
        "is the most after any epoch: tuples are rows and partial aggregates, bytes those of Arrow."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Run both plans of both queries over all delays."""
        delays = (0, 60) if quick else (0, 15, 30, 60, 120, 300)
        seconds, epoch = (90, 2 * EPOCH) if quick else (330, EPOCH)
        join, count = joins(delays, seconds, epoch), counts(delays, seconds, epoch)
        found = {"join": join, "count": count}
        last = join[-1], count[-1]
        return Outcome(
            rows=[p.row(DELAY, **{"": name}) for name, pairs in found.items() for p in pairs],
            compared=[
                Comparison(
                    f"join: OOP over IOP at {last[0].delay:g} s",
                    "less, growing more slowly",
                    f"{last[0].size:.0%} of the bytes, {last[0].tuples:.0%} of the tuples",
                ),
                Comparison(
                    f"count: OOP over IOP at {last[1].delay:g} s",
                    "relatively stable against significant growth",
                    f"{last[1].oop.tuples:,} against {last[1].iop.tuples:,} tuples",
                ),
            ],
            checks=check(join, count),
            figure=_picture(join, count),
            settings={
                "packets per second": f"{RATE}, {RATE} and {SLOW}",
                "seconds": seconds,
                "epoch": f"{epoch / SECOND:g} s",
            },
        )


def _picture(join: Sequence[Pair], count: Sequence[Pair]) -> Figure:
    figure, axes = canvas("A join and a sliding count with late tuples", 2)
    draw(axes[0], join, "join at equal times", "delay of the slow stream, s")
    draw(axes[1], count, "count over 5 min, every 1 min", "delay of the slow stream, s")
    return figure


EXPERIMENT = LateTuples()
