"""O2: the highest rate of packets that a table before the stream keeps up with (OOP, figure 9).

Query Q4 counts packets by group and minute; a table of fixed size before it reduces them. The paper
raised the rate until packets were lost, on Gigascope and a traffic generator. Neither is at hand:
here the table, the ring buffer and its clock are a **model** (`sub_aggregation`). A packet
takes 1 µs, an occupant that leaves takes another, the ring holds 65,536 packets: round numbers of
the order that the paper's rates suggest, not adjusted to give its figures; some other machines are
tried, too. The model computes packet by packet when occupants leave; none of it runs
in Lowwater. Groups, table, ring and the minute are all 128 times smaller, so that shares stay the
same.

Lowwater's own remedy for bursts is **measured** beside it: `flush=` in a plan whose
windows have many groups, by the most results that one epoch emits. Its processor time is printed
but not checked: emitting in slices takes more of it, see the docs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREEN, ORANGE, canvas, label, legend
from experiments.reference.sub_aggregation import (
    IN_ORDER,
    LAZY,
    SLOW,
    WINDOWS,
    Machine,
    Table,
    highest_rate,
)
from experiments.streams.traffic import Flows, schema
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import tables
from lowwater.planner.flush import Flush
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 2
MINUTE = 60.0
FEW, MANY = 66_000, 260_000
TOP, K = 1_200_000, 1_000
PARITY, AHEAD = 0.1, 1.5
""""About the same" is within 10 %; the paper's OOP is 1.9 and 2.0 times ahead at 260k groups."""
_WAYS = (IN_ORDER, LAZY, SLOW)
_STYLES = {IN_ORDER: ("o-", 5, ORANGE), SLOW: ("o-", 7, BLUE), LAZY: ("o:", 4, GREEN)}
"""How each way is drawn; the lazy one often lies upon the slow one."""


@dataclass(frozen=True)
class Setting:
    """Groups, the size of the table as a multiple of them, and the machine."""

    groups: int
    share: float
    machine: Machine = field(default_factory=Machine)

    def rates(self, scale: int, ways: Sequence[str]) -> Point:
        """Find the highest rate of each way, with everything `scale` times smaller."""
        window = MINUTE / scale
        packets = round(WINDOWS * TOP * window) + WINDOWS
        slots = round(self.share * self.groups / scale)
        table = Table.of(packets, self.groups // scale, slots, SEED)
        small = replace(self.machine, ring=self.machine.ring // scale)
        found = {
            way: highest_rate(table, way, small, window, top=TOP, step=TOP / 128) for way in ways
        }
        return Point(self, {w: r for w, (r, _) in found.items()}, found[IN_ORDER][1])


@dataclass(frozen=True)
class Point:
    """The highest rates without loss, by way, and how busy the machine is at that of IOP."""

    setting: Setting
    rate: Mapping[str, float]
    busy: float

    @property
    def gain(self) -> float:
        """The rate of OOP with slow-flush, as a multiple of IOP's rate."""
        return self.rate[SLOW] / self.rate[IN_ORDER]


@dataclass(frozen=True)
class EpochLoad:
    """The work of Lowwater's epochs: the most results of one epoch, and the processor time."""

    most: int
    longest: float
    seconds: float


def smoothed(groups: int, windows: int) -> dict[str, EpochLoad]:
    """Run a plan in Lowwater that emits results at once, slowly and lazily."""
    ways = {
        "at once": None,
        "slow flush": lw.slow_flush(max_delay="2 windows"),
        "lazy flush": lw.lazy_flush(max_delay="2 windows", keep=2 * groups),
    }
    link = Flows(10 * windows, groups, ("src",)).link(groups, SEED)
    epochs = link.epochs(SECOND // 2, 20 * windows)
    return {name: _given(flush, epochs) for name, flush in ways.items()}


def _given(flush: Flush | None, epochs: Sequence[pa.Table]) -> EpochLoad:
    feed = lw.feed(schema(("src",)))
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.window(range="10 seconds", flush=flush).group_by("src").agg(n=lw.count())
    clock = lw.VirtualClock("1970-01-01", timedelta(seconds=0.5))
    host = LocalEpochs(query.assembly.with_shards(1), clock)
    most, took = 0, []
    for rows in epochs:
        began = time.process_time()
        packets = host.run([[rows]], last=[False])
        took.append(time.process_time() - began)
        most = max(most, sum(len(t) for t in tables(packets, "results")))
    return EpochLoad(most, max(took[len(took) // 5 :]), sum(took))


def check(points: Sequence[Point], given: Mapping[str, EpochLoad]) -> list[Check]:
    """Return the shapes and whether they hold."""
    few = [p for p in points if p.setting.groups == FEW]
    many = next(p for p in points if p.setting.groups == MANY and p.setting.share == max(_SHARES))
    last = [p for p in points if p.setting.groups == points[-1].setting.groups]
    off = max(abs(r / p.rate[IN_ORDER] - 1) for p in few for r in p.rate.values())
    least = min(r / p.rate[IN_ORDER] for p in points for r in p.rate.values())
    spread = {w: _spread([p.rate[w] for p in last]) for w in (IN_ORDER, SLOW)}
    return [
        Check(
            f"model: at {FEW // K}k groups all keep up with about the same (within {PARITY:.0%})",
            off <= PARITY,
            f"{off:.1%} apart at most",
        ),
        Check(
            f"model: at {MANY // K}k groups and twice the slots OOP is ahead by {AHEAD:g} times",
            min(many.rate[w] for w in (LAZY, SLOW)) >= AHEAD * many.rate[IN_ORDER],
            f"{many.rate[LAZY] / K:.0f}k and {many.rate[SLOW] / K:.0f}k against "
            f"{many.rate[IN_ORDER] / K:.0f}k packets a second",
        ),
        Check("model: OOP is nowhere behind IOP", least >= 1, f"{least:.2f} times at least"),
        Check(
            "model: with the most groups OOP depends less on the size of the table than IOP",
            spread[SLOW] < spread[IN_ORDER],
            f"{spread[SLOW]:.2f} times from the least to the most, IOP {spread[IN_ORDER]:.2f}",
        ),
        Check(
            "Lowwater: flushing slowly or lazily, no epoch emits half as many results",
            2 * max(given["slow flush"].most, given["lazy flush"].most) < given["at once"].most,
            ", ".join(f"{name} {g.most:,}" for name, g in given.items()),
        ),
    ]


def _spread(rates: Sequence[float]) -> float:
    return max(rates) / min(rates)


_SHARES = (0.5, 1.0, 2.0)


def draw(points: Sequence[Point]) -> Figure:
    """Draw the highest rates over the number of groups, one panel for each size of the table."""
    shares = sorted({p.setting.share for p in points})
    figure, axes = canvas("A model of Gigascope's low-level aggregation", len(shares), sharey=True)
    for ax, share in zip(axes, shares, strict=True):
        own = [p for p in points if p.setting.share == share]
        at = [p.setting.groups / K for p in own]
        for way, (style, size, colour) in _STYLES.items():
            ax.plot(at, [p.rate[way] / K for p in own], style, ms=size, color=colour, label=way)
        label(ax, f"slots: {share:g} × groups", "groups, thousands", "")
    for ax in axes:
        ax.set_ylim(0, 1.05 * max(r for p in points for r in p.rate.values()) / K)
        ax.set_xlim(left=0)
    axes[0].set_ylabel("highest rate without loss, k packets/s")
    legend(axes[0], loc="lower left")
    return figure


class HighestRate(Experiment):
    """The highest rate without loss, in order and out of order, by groups and size of the table."""

    id = "O2"
    paper = "OOP, figure 9"
    title = "Out-of-order flushing of a low-level table"
    reports = (
        "count by group and minute, 66k to 520k groups, a table of half, as many and twice the "
        "slots: at 66k groups IOP and OOP support about the same rate; at 260k and 540k slots OOP "
        "supports 760k (lazy) and 800k (slow-flush), IOP 400k packets/s; at 520k IOP 300k to 350k, "
        "with the processor half idle; OOP is less sensitive to the size of the table."
    )
    here = (
        "Rates are those of a model: 1 µs for a packet, 1 µs for an output, a ring of 65,536 "
        "packets. Only what is called Lowwater's is measured: results and processor time of epochs."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Find the highest rates, then vary the machine; measure the results of an epoch."""
        groups, shares = ((FEW, MANY), (0.5, 2.0)) if quick else (_GROUPS, _SHARES)
        scale = 1_024 if quick else 128
        points = [Setting(g, share).rates(scale, _WAYS) for g in groups for share in shares]
        others = [] if quick else [s.rates(scale, (IN_ORDER, SLOW)) for s in _other_machines()]
        given = smoothed(500, 5) if quick else smoothed(20_000, 8)
        return Outcome(
            rows=[_row(p) for p in [*points, *others]],
            compared=_compared(points, given),
            checks=check(points, given),
            figure=draw(points),
            settings={"scale": f"1 : {scale}", "seed": SEED, "windows": WINDOWS},
        )


_GROUPS = (FEW, 130_000, MANY, 520_000)


def _other_machines() -> list[Setting]:
    """Return how far the figures depend on the numbers of the model."""
    usual = Machine()
    machines = [replace(usual, ring=usual.ring // 2), replace(usual, ring=usual.ring * 2)]
    machines += [replace(usual, output=usual.output / 2), replace(usual, output=usual.output * 2)]
    return [Setting(g, 2.0, m) for g in (FEW, MANY) for m in machines]


def _compared(points: Sequence[Point], given: Mapping[str, EpochLoad]) -> list[Comparison]:
    told = {(MANY, 2.0): "400k, 760k, 800k", (520_000, 1.0): "300k", (520_000, 2.0): "350k"}
    found = [
        Comparison(
            f"packets/s at {p.setting.groups // K}k groups, {p.setting.share:g} × slots: "
            f"IOP, OOP lazy, OOP slow-flush",
            told[p.setting.groups, p.setting.share],
            ", ".join(f"{p.rate[w] / K:.0f}k" for w in _WAYS) + f"; IOP {p.busy:.0%} busy",
        )
        for p in points
        if (p.setting.groups, p.setting.share) in told
    ]
    for name, g in given.items():
        ours = f"{g.most:,} results, {1e3 * g.longest:.0f} ms; all epochs {g.seconds:.1f} s"
        found.append(Comparison(f"Lowwater, {name}: the fullest and the longest epoch", "–", ours))
    return found


def _row(point: Point) -> dict[str, Value]:
    s = point.setting
    lazy = point.rate.get(LAZY)
    return {
        "groups": s.groups,
        "slots / groups": s.share,
        "ring": s.machine.ring,
        "output µs": s.machine.output * 1e6,
        "IOP k/s": point.rate[IN_ORDER] / K,
        "OOP lazy k/s": None if lazy is None else lazy / K,
        "OOP slow-flush k/s": point.rate[SLOW] / K,
        "OOP / IOP": point.gain,
        "IOP busy": point.busy,
    }


EXPERIMENT = HighestRate()
