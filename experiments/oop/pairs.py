"""Two plans for one query, over the same links: without order (OOP) and in order (IOP).

The query reads one or more streams, each the union of some links. OOP lets the links flow together
as they come. IOP merges them in order before the query sees them. All after that is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

import lowwater as lw
from experiments.harness.contract import Check, Value
from experiments.harness.plot import BLUE, ORANGE, label, legend
from experiments.reference.in_order import Merge
from experiments.streams.hold import FeedRows, StateSize, UnorderedRows, play, same
from experiments.streams.traffic import Link
from lowwater.query.stream import Stream
from lowwater.sources.feed import Feed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KB = 1_000
Unions = Sequence[Sequence[Link]]
"""The links of each stream of a query."""
Cut = Sequence[Sequence[Sequence[pa.Table]]]
"""The epochs of each of them."""
Ask = Callable[..., Stream]
"""Makes the query of its streams."""


@dataclass(frozen=True)
class Pair:
    """The state of both plans, for one delay in seconds."""

    delay: float
    oop: StateSize
    iop: StateSize

    @property
    def tuples(self) -> float:
        """The tuples of OOP as a share of those of IOP."""
        return self.oop.tuples / self.iop.tuples

    @property
    def size(self) -> float:
        """The bytes of OOP as a share of those of IOP."""
        return self.oop.size / self.iop.size

    def row(self, name: str, **more: Value) -> dict[str, Value]:
        """Return a line of the table; `name` is the name of the delay."""
        return {
            **more,
            name: self.delay,
            "OOP tuples": self.oop.tuples,
            "IOP tuples": self.iop.tuples,
            "OOP kB": self.oop.size / KB,
            "IOP kB": self.iop.size / KB,
            "tuples, OOP / IOP": self.tuples,
            "bytes, OOP / IOP": self.size,
        }


def compare(delay: float, unions: Unions, ask: Ask, *, epoch: int) -> Pair:
    """Run both plans over the same links, in epochs of `epoch` ticks."""
    last = max(int(link.ts[-1]) + link.delay for links in unions for link in links)
    count = last // epoch + 1
    cut = [[link.epochs(epoch, count) for link in links] for links in unions]
    return Pair(delay, out_of_order(cut, ask, count, epoch), merged_before(cut, ask, count, epoch))


def out_of_order(cut: Cut, ask: Ask, count: int, epoch: int) -> StateSize:
    """Let the links flow together as they come."""
    feeds: dict[Feed, FeedRows] = {}
    streams = []
    for links in cut:
        own = [Feed(epochs[0].schema) for epochs in links]
        feeds |= {f: UnorderedRows(epochs) for f, epochs in zip(own, links, strict=True)}
        first, *others = (_stream(f) for f in own)
        streams.append(first.union(*others) if others else first)
    return play(ask(*streams), feeds, epochs=count, epoch=epoch)


def merged_before(cut: Cut, ask: Ask, count: int, epoch: int) -> StateSize:
    """Merge the links in order, before anything else."""
    feeds: dict[Feed, FeedRows] = {Feed(links[0][0].schema): Merge(links) for links in cut}
    return play(ask(*(_stream(f) for f in feeds)), feeds, epochs=count, epoch=epoch)


def _stream(feed: Feed) -> Stream:
    return lw.stream(feed, time="ts", watermark=lw.ordered())


def agree(pairs: Sequence[Pair], query: str = "the query") -> Check:
    """Check that both plans give the same answers, and lose no row to lateness."""
    differ = [p.delay for p in pairs if not same(p.oop.results, p.iop.results)]
    late = sum(p.oop.late + p.iop.late for p in pairs)
    rows = sum(len(p.oop.results) for p in pairs)
    return Check(
        f"both plans of {query} give the same answers, and no row is late",
        not differ and not late and rows > 0,
        f"{rows:,} answers, {len(differ)} of {len(pairs)} runs differ, {late} rows late",
    )


def grown(pairs: Sequence[Pair]) -> float:
    """Return how many bytes OOP grows, from the first pair to the last, per byte that IOP grows."""
    first, last = pairs[0], pairs[-1]
    return (last.oop.size - first.oop.size) / (last.iop.size - first.iop.size)


def draw(axes: Axes, pairs: Sequence[Pair], title: str, x: str) -> None:
    """Draw the bytes of both plans."""
    at = [p.delay for p in pairs]
    for name, colour in (("iop", ORANGE), ("oop", BLUE)):
        size = [getattr(p, name).size / KB for p in pairs]
        axes.plot(at, size, "o-", ms=5, lw=1.8, color=colour, label=name.upper())
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    label(axes, title, x, "most held, kB")
    legend(axes)
