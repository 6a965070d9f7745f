"""Bursty streams before an expensive step, played against a clock that work moves on.

A row that passes the expensive step takes `COST` of the clock, a row that is held `ASIDE`. An
epoch takes in what has arrived, up to `EPOCH` of work; its results are produced when it is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import Packet, tables
from lowwater.planner.early import prodded
from lowwater.planner.sidelining import sidelined
from lowwater.ticks import TICKS_PER_SECOND as SECOND

SEED = 8
RANGE, SLIDE = 5, 1  # seconds
COST = SECOND // 300
"""What the expensive step takes for a row."""
ASIDE = COST // 20
EPOCH = SECOND // 5
"""How much work an epoch takes in at most."""
STEP = SECOND // 20
"""How long an epoch without rows takes, and how often an idle query looks for more."""
EVERY, MAX_DELAY = 20, "1 minute"
CALM, LOW, MEDIUM = (20, 220), (20, 100), (235, 285)
"""Rows in a second: in most, after a burst that has passed, and after one that is sustained."""


@dataclass(frozen=True)
class Stream:
    """Rows in order of time; they arrive when they happen."""

    ts: np.ndarray
    counter: np.ndarray
    bursts: Mapping[int, int]

    @property
    def ends(self) -> np.ndarray:
        """Where the windows end that the stream's beginning and end do not cut."""
        return np.arange(RANGE, int(self.ts[-1]) // SECOND + 1) * SECOND

    def exact(self, end: int) -> int:
        """Return the greatest counter of a window."""
        low, high = np.searchsorted(self.ts, [end - RANGE * SECOND, end])
        return int(self.counter[low:high].max())


@dataclass(frozen=True)
class Layout:
    """Seconds of a stream: how many rows bursts have, and which seconds have few or many."""

    seconds: int
    bursts: Mapping[int, int]
    low: range = range(0)
    medium: Sequence[range] = ()

    def rows(self, random: np.random.Generator) -> list[int]:
        """Return how many rows each second has."""
        rows = random.integers(*CALM, self.seconds)
        rows[self.low] = random.integers(*LOW, len(self.low))
        for some in self.medium:
            rows[some] = random.integers(*MEDIUM, len(some))
        rows[list(self.bursts)] = list(self.bursts.values())
        return [int(n) for n in rows]


def generate(layout: Layout) -> Stream:
    """Return a stream that is laid out so."""
    random = np.random.default_rng(SEED)
    rows = layout.rows(random)
    ts = [np.sort(random.integers(0, SECOND, n)) + s * SECOND for s, n in enumerate(rows)]
    total = sum(rows)
    # Neither rising nor falling, with short runs that rise.
    counter = random.integers(0, 10_000, total) + np.arange(total) % 17 * 40
    return Stream(np.concatenate(ts), counter, layout.bursts)


@dataclass
class Clock:
    """A clock that stands where the work done so far has brought it."""

    at: int = 0

    def now(self, epoch: int) -> int:
        """Return the time."""
        del epoch
        return self.at


@dataclass
class BurstRun:
    """The time of each result, by the end of its window, and the windows that had held rows."""

    finals: dict[int, tuple[int, int]] = field(default_factory=dict)
    early: dict[int, int] = field(default_factory=dict)
    aside: set[int] = field(default_factory=set)
    most_aside: int = 0

    def age(self, end: int) -> float:
        """Return the seconds from a window's end to its final."""
        return (self.finals[end][1] - end) / SECOND


class Player:
    """Plays a stream against a clock that work moves on."""

    def __init__(self, stream: Stream, *, sideline: bool) -> None:
        self.stream, self.clock, self.found = stream, Clock(), BurstRun()
        self.feed = lw.feed("ts timestamp, counter bigint")
        of = lw.stream(self.feed, time="ts", watermark=lw.ordered())
        query = of.window(range=f"{RANGE} seconds", slide=f"{SLIDE} seconds").agg(
            top=lw.max("counter")
        )
        prods, how = lw.early_every("1 second"), lw.sideline(every=EVERY, max_delay=MAX_DELAY)
        plan = sidelined(query.assembly, how if sideline else False, prods)
        plan = prodded(plan, prods, "raw").with_shards(1)
        self.windows = plan.flow.outputs[0].operator
        self.epochs = LocalEpochs(plan, self.clock)
        self.taken = 0

    def play(self) -> BurstRun:
        """Play it to the end."""
        ts = self.stream.ts
        while self.taken < len(ts):
            arrived = int(np.searchsorted(ts, self.clock.at, "right"))
            if arrived == self.taken and not self.epochs.status()["sidelined"]:
                self.clock.at = max(self.clock.at + STEP, int(ts[self.taken]))
                continue
            self._epoch(arrived)
        for _ in range(2):
            self._epoch(self.taken, last=True)
        return self.found

    def _epoch(self, arrived: int, *, last: bool = False) -> None:
        entry = self.epochs.log.before(self.epochs.epoch)
        called = sum(n for c in entry.control.values() for n in c.release.values())
        ts = self.stream.ts[self.taken : arrived]
        held = np.zeros(len(ts), bool)
        for interval in entry.standing.held:
            held |= (ts >= interval.start) & (ts < interval.end)
            self._note(interval.start, interval.end)
        work = np.cumsum(np.where(held, ASIDE, COST))
        rows = int(np.searchsorted(work, EPOCH)) + 1 if len(ts) else 0
        spent = int(work[min(rows, len(ts)) - 1]) if len(ts) else STEP
        self.clock.at += spent + called * COST
        until = min(self.taken + rows, arrived)
        block = {c: getattr(self.stream, c)[self.taken : until] for c in ("ts", "counter")}
        table = self.feed.table(pa.table(block).cast(self.feed.schema))
        self.taken = until
        self._collect(self.epochs.run([[table] if rows else []], last=[last]))

    def _note(self, start: int, end: int) -> None:
        """Note the windows that have a pane in an interval."""
        first = start // SECOND // SLIDE * SLIDE + SLIDE
        last = -(-end // SECOND) + RANGE - SLIDE
        self.found.aside |= {e * SECOND for e in range(first, last + 1, SLIDE)}

    def _collect(self, packets: Sequence[Packet]) -> None:
        own = [p for p in packets if p.operator == self.windows]
        for kind in ("results", "early"):
            for table in tables(own, kind):
                ends = table.column("window").combine_chunks().field("end").cast(pa.int64())
                tops = table.column("top").to_pylist()
                for end, top in zip(ends.to_pylist(), tops, strict=True):
                    if kind == "results":
                        self.found.finals[end] = (top, self.clock.at)
                    else:
                        self.found.early.setdefault(end, self.clock.at)
        self.found.most_aside = max(self.found.most_aside, self.epochs.status()["sidelined"])
