"""Early answers of the engine itself over a stream of the arena, on a host with a trigger.

The host runs as `AskSimulation` describes it. Each epoch's prods, answers and finals are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa

import lowwater as lw
from experiments.arena.early_asks import NEVER, Asks, AskSimulation
from lowwater.control.prod import Prod
from lowwater.early.policies import ProdPolicy
from lowwater.engine.entry import Entry
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import Packet, tables
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.query.options import RunOptions

SCHEMA = lw.feed("ts timestamp, key bigint, value double").schema


@dataclass
class TickClock:
    """A clock that reads the time of the current tick."""

    time: int = 0

    def now(self, epoch: int) -> int:
        """Return the time of the tick."""
        del epoch
        return self.time


@dataclass(frozen=True)
class PlayedEpoch:
    """An epoch: its tick, the prods that it decided, and the ends of its early and final windows.

    `rows` is the number of rows, `newest` the newest event time at its end.
    """

    tick: int
    rows: int
    newest: int
    prods: tuple[Prod, ...]
    early: tuple[int, ...]
    final: tuple[int, ...]


@dataclass
class TriggeredHost:
    """A host with a trigger, over single epochs of the engine."""

    plan: PhysicalPlan
    clock: TickClock = field(default_factory=TickClock)

    def __post_init__(self) -> None:
        self.local = LocalEpochs(self.plan, self.clock)

    @property
    def entry(self) -> Entry:
        """The newest entry of the log."""
        return self.local.log.before(self.local.epoch)

    def tick(self, now: int, rows: pa.Table | None) -> list[Packet] | None:
        """Run an epoch at `now` if rows, control or the clock require one; return its packets."""
        self.clock.time = now
        entry = self.entry
        if rows is None and entry.quiet and not self.local.controller.due(entry, now):
            return None
        return self.local.run([[] if rows is None else [rows]], last=[False])

    def restart(self) -> None:
        """Continue as after a crash: from the entries and the state as they are stored."""
        before = self.local
        self.local = LocalEpochs(self.plan, self.clock)
        self.local.epoch, self.local.state = before.epoch, before.state
        for number in range(-1, before.epoch):
            entry = before.log.read(number)
            assert entry is not None  # noqa: S101
            self.local.log.append(Entry.from_bytes(entry.to_bytes()))


def play_asks(
    sim: AskSimulation, policy: ProdPolicy, restarts: Collection[int] = ()
) -> list[PlayedEpoch]:
    """Return the epochs of a count by window under a policy; restart before some of the ticks."""
    host, tables_of = TriggeredHost(_plan(sim, policy)), _tables(sim)
    played = []
    for tick, (now, rows) in enumerate(zip(sim.ticks.tolist(), tables_of, strict=True)):
        if tick in restarts:
            host.restart()
        packets = host.tick(now, rows)
        if packets is None:
            continue
        prods = next((c.prods for c in host.entry.control.values() if c.prods), ())
        newest = host.entry.standing.inputs[0].newest or -NEVER
        ends = (_ends(tables(packets, kind)) for kind in ("early", "results"))
        count = 0 if rows is None else len(rows)
        played.append(PlayedEpoch(tick, count, newest, tuple(prods), *ends))
    return played


def asks_of(sim: AskSimulation, played: Sequence[PlayedEpoch]) -> Asks:
    """Return the prods and answers of each window that holds a row."""
    asked = np.zeros(len(sim.ends), np.int64)
    answers, prods = [], []
    for epoch in played:
        windows = np.searchsorted(sim.ends, epoch.early)
        answers += [(window, epoch.tick) for window in windows.tolist()]
        for prod in epoch.prods:
            since, upto = prod.since or 0, prod.upto or 0
            some = slice(*np.searchsorted(sim.ends, [since, upto], side="right"))
            asked[some] += 1
            prods.append((epoch.tick, since, upto))
    return Asks(asked, sorted(answers), prods)


def _plan(sim: AskSimulation, policy: ProdPolicy) -> PhysicalPlan:
    range, slide, slack = (
        timedelta(microseconds=span) for span in (sim.stream.range, sim.stream.slide, sim.slack)
    )
    query = (
        lw.stream(lw.feed(SCHEMA), time="ts", watermark=lw.slack(slack))
        .window(range=range, slide=slide)
        .group_by("key")
        .agg(n=lw.count())
    )
    options = RunOptions(early=policy, estimate="raw")
    return options.plan(query.assembly).with_shards(2)


def _tables(sim: AskSimulation) -> list[pa.Table | None]:
    """Return the rows of each tick; None without rows."""
    stream = sim.stream
    columns = [pa.array(stream.ts), pa.array(stream.key), pa.array(stream.value)]
    table = pa.table(columns, SCHEMA.names).cast(SCHEMA)
    places = [0, *sim.bounds.tolist()]
    return [table.slice(a, b - a) if b > a else None for a, b in pairwise(places)]


def _ends(results: Sequence[pa.Table]) -> tuple[int, ...]:
    """Return the window ends of results, each once, in order."""
    ends: set[int] = set()
    for rows in results:
        window = rows["window"].combine_chunks()
        ends.update(window.field("end").cast(pa.int64()).to_pylist())
    return tuple(sorted(ends))
