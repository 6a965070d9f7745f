"""Lowwater over a stream of the arena on a simulated machine, whose work takes time.

An epoch reads the rows that arrived before it began, and lasts as long as its rows cost. Between
epochs the machine does what a host does: it waits for rows, for control, or for the clock. Nothing
is timed, so a stream of an hour is played in seconds, with the same outcome every time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import lowwater as lw
from experiments.arena.stream import ArenaStream, Ticks
from lowwater.dataflow.answer_prods import window_ticks
from lowwater.dataflow.route import skipped
from lowwater.engine.entry import Entry
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import Packet, tables
from lowwater.query.options import RunOptions
from lowwater.shedding.drop_geometry import within

SCHEMA = lw.feed("ts timestamp, key bigint, value double").schema
POLLS = 4
"""How often per trigger an idle host asks whether the clock requires an epoch."""


@dataclass(frozen=True)
class Prices:
    """Costs in ticks: of an epoch, of a row that is processed, and of a row that is skipped.

    `warm_up` are the additional costs of the first epochs of each run.
    """

    epoch: int = 1_000
    row: float = 0.0
    shed: float = 0.0
    warm_up: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outage:
    """A span of the machine's clock in which the query does not run."""

    start: int
    end: int


@dataclass
class Machine:
    """The clock of a run whose work takes time."""

    time: int = 0
    length: int = 0

    def now(self, epoch: int) -> int:
        """Return the time at which an epoch ends."""
        del epoch
        return self.time

    def took(self, epoch: int, began: float) -> int:
        """Return how long the epoch took."""
        del epoch, began
        return self.length


@dataclass
class Answers:
    """The answers of a run, by window end: when they were emitted, and their values.

    - `early`, `finals`: {window end: (time, value) of each early answer, of the final}.
    - `dropped`: The ends of the windows that were dropped.
    - `asked`: (time, newest time, since, up to) of each prod.
    - `lengths`: The times between the ends of epochs.
    """

    early: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    finals: dict[int, tuple[int, float]] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    asked: list[tuple[int, int, int | None, int | None]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    status: Any = None

    def first(self, end: int) -> tuple[int, float] | None:
        """Return (time, value) of the first answer of a window; None if it has none."""
        every = [*self.early.get(end, []), *([self.finals[end]] if end in self.finals else [])]
        return min(every, default=None)


def query_over(stream: ArenaStream, watermark: Any) -> tuple[lw.Query, Any]:
    """Return a sum by window over a stream, and its feed."""
    feed = lw.feed(SCHEMA)
    range, slide = (timedelta(microseconds=span) for span in (stream.range, stream.slide))
    rows = lw.stream(feed, time="ts", watermark=watermark)
    return rows.window(range=range, slide=slide).agg(total=lw.sum("value")), feed


@dataclass
class Live:
    """A run of `query` over `stream` on a machine with `prices`.

    `restart`, if given, returns the run after an outage with a new controller from its log.
    """

    stream: ArenaStream
    epochs: LocalEpochs
    prices: Prices
    outages: Sequence[Outage] = ()
    machine: Machine = field(default_factory=Machine)
    restart: Callable[[LocalEpochs], LocalEpochs] | None = None
    answers: Answers = field(default_factory=Answers)
    taken: int = 0
    done: int = 0

    def play(self, until: int) -> Answers:
        """Run all epochs that begin before `until`, and return the answers."""
        opened = self.machine.time
        while self.machine.time < until:
            upto = int(np.searchsorted(self.stream.arrived, self.machine.time, "right"))
            if upto > self.taken or self._due():
                opened = self.machine.time
                self._epoch(upto)
                self.machine.time = max(self.machine.time, opened + self.stream.epoch)
            else:
                self.machine.time += max(self.stream.epoch // POLLS, 1)
            for outage in self.outages:
                if outage.start <= self.machine.time < outage.end:
                    self.machine.time = outage.end
                    self.epochs = self.restart(self.epochs) if self.restart else self.epochs
                    self.done = 0
        self.answers.status = self.epochs.status()
        return self.answers

    def _due(self) -> bool:
        newest = self.epochs.log.before(self.epochs.epoch)
        return not newest.quiet or self.epochs.controller.due(newest, self.machine.time)

    def _epoch(self, upto: int) -> None:
        """Run an epoch over the rows up to place `upto`; its work moves the clock."""
        stream, prices = self.stream, self.prices
        before = self.epochs.log.before(self.epochs.epoch)
        ts = stream.ts[self.taken : upto]
        known = skipped(self.epochs.flow, before.standing.dropped)
        gone = int(within(known.rows[0], ts).sum()) if len(ts) else 0
        work = prices.epoch + prices.row * (len(ts) - gone) + prices.shed * gone
        work += sum(prices.warm_up[self.done : self.done + 1])
        self.done += 1
        self.machine.length = int(work)
        self.machine.time += self.machine.length
        columns = [ts, stream.key[self.taken : upto], stream.value[self.taken : upto]]
        table = pa.table([pa.array(c) for c in columns], SCHEMA.names).cast(SCHEMA)
        self._read(self.epochs.run([[table]], last=[False]))
        self.taken = upto
        self._note_prods()

    def _read(self, packets: Sequence[Packet]) -> None:
        now = self.machine.time
        for end, value in values(packets, "early"):
            self.answers.early.setdefault(end, []).append((now, value))
        for end, value in values(packets, "results"):
            self.answers.finals.setdefault(end, (now, value))

    def _note_prods(self) -> None:
        entry = self.epochs.log.before(self.epochs.epoch)
        newest = max((i.newest for i in entry.standing.inputs if i.newest is not None), default=0)
        prods = next((m.prods for m in entry.control.values() if m.prods), ())
        self.answers.asked += [(self.machine.time, newest, p.since, p.upto) for p in prods]
        if entry.shed is not None:
            for news in entry.shed.news:
                first = -(-news.start // self.stream.slide) * self.stream.slide
                starts = np.arange(first, news.end, self.stream.slide)
                self.answers.dropped |= set((starts + self.stream.range).tolist())
        if entry.need is not None:
            self.answers.lengths.append(entry.need.pace.length)


def values(packets: Sequence[Packet], kind: Any) -> list[tuple[int, float]]:
    """Return (window end, value) of the rows of one kind."""
    found = []
    for rows in tables(packets, kind):
        ends = window_ticks(rows)[1].tolist()
        found += list(zip(ends, rows.column("total").to_pylist(), strict=True))
    return [(end, value) for end, value in found if value is not None]


def live(
    stream: ArenaStream,
    options: RunOptions,
    *,
    watermark: Any = None,
    prices: Prices | None = None,
    outages: Sequence[Outage] = (),
    until: int | None = None,
) -> Answers:
    """Return the answers of a run with `options` over a stream.

    After each outage, a new run goes on from the log and the state of the one before.
    """
    query, _ = query_over(stream, watermark)
    machine = Machine(int(stream.arrived[0]) - stream.epoch)
    plan = query.planned(options).with_shards(1)

    def restart(before: LocalEpochs) -> LocalEpochs:
        return restarted(before, LocalEpochs(plan, machine))

    epochs = LocalEpochs(plan, machine)
    run = Live(stream, epochs, prices or Prices(), outages, machine, restart)
    return run.play(int(stream.arrived[-1]) + stream.range if until is None else until)


def restarted(before: LocalEpochs, after: LocalEpochs) -> LocalEpochs:
    """Return `after` with the log of `before`, as it is on disk, and its state."""
    for n in range(before.epoch):
        if (entry := before.log.read(n)) is not None:
            after.log.append(Entry.from_bytes(entry.to_bytes()))
    after.epoch, after.state = before.epoch, before.state
    return after


def moments(stream: ArenaStream, ends: Ticks) -> Ticks:
    """Return, for each window end, the arrival of the first row at or after it; -1 if none came."""
    running = np.maximum.accumulate(stream.ts)
    places = np.searchsorted(running, ends, side="left")
    known = places < len(running)
    return np.where(known, stream.arrived[np.minimum(places, len(running) - 1)], -1)


def truth(stream: ArenaStream) -> dict[int, float]:
    """Return {window end: sum of the values of all its rows}."""
    found: dict[int, float] = {}
    for back in range(stream.range // stream.slide):
        ends = (stream.ts // stream.slide - back) * stream.slide + stream.range
        keys, nth = np.unique(ends, return_inverse=True)
        for end, total in zip(keys.tolist(), np.bincount(nth, stream.value).tolist(), strict=True):
            found[end] = found.get(end, 0.0) + total
    return found


Draw = Callable[[int], ArenaStream]
"""Returns the stream of a seed."""
