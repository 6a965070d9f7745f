"""Routes at work: rows pass the steps of a route and are delivered where it ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lowwater.control import Marks, Standing
from lowwater.kernels.dataflow import Dataflow, Route, Transform
from lowwater.kernels.delivery import Arriving, deliver
from lowwater.kernels.packets import Packet, table_packet
from lowwater.kernels.plan import free
from lowwater.kernels.rows import STRETCH
from lowwater.kernels.skipping import Skipped, skipped, unread

REASON = "reason"
FAULTS = (
    None,
    "time is NULL or unreadable",
    "from the future",
    "a punctuation whose stretch ends before it begins",
)
"""What can be wrong with a row."""
NO_TIME, FUTURE, BACKWARDS = 1, 2, 3


@dataclass(frozen=True)
class Block:
    """Rows on a route. `ticks` and `degree` say where each lies and how late it is.

    `fault` says what is wrong with a row, by its place in `FAULTS`; 0 is nothing. `seq` is the
    block's place in arrival order; `own` are the marks that consistent slack decides by, `behind`
    those of rows that were put aside.
    """

    table: pa.Table
    ticks: np.ndarray
    degree: np.ndarray
    fault: np.ndarray
    seq: int
    own: Marks | None = None
    behind: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ticks)

    @property
    def sound(self) -> np.ndarray:
        """Which rows have a time that can be believed."""
        return np.asarray(self.fault == 0)

    def keep(self, mask: np.ndarray) -> Block:
        """Return the rows in `mask`."""
        if mask.all():
            return self
        return replace(
            self,
            table=self.table.filter(pa.array(mask)),
            ticks=self.ticks[mask],
            degree=self.degree[mask],
            fault=self.fault[mask],
            behind=None if self.behind is None else self.behind[mask],
        )

    def after(self, step: Transform) -> Block:
        """Return the rows after a step."""
        kept = step.kept(self.table)
        return replace(self, table=step(self.table)) if kept is None else self.keep(kept)


@dataclass
class Sent:
    """What was sent along routes: packets, and what became of the rows at each operator."""

    packets: list[Packet]
    counts: dict[str, dict[str, int]]

    def count(self, operator: int, counts: Mapping[str, int]) -> None:
        """Add to the counts of an operator."""
        ledger = self.counts.setdefault(str(operator), {})
        for tally, n in counts.items():
            ledger[tally] = ledger.get(tally, 0) + n


def take_routes(
    flow: Dataflow, blocks: Iterable[tuple[Sequence[Route], Block]], standing: Standing
) -> Sent:
    """Send blocks along their routes; rows that meet at a port are delivered together."""
    met: dict[tuple[int, int], list[Block]] = {}
    sent = Sent([], {})
    needless = skipped(flow, standing.dropped) if standing.dropped else None
    for routes, block in blocks:
        for route in routes:
            needed = block if needless is None else _shed(flow, route, block, needless, sent)
            rows, aside = _told_apart(route, needed, standing)
            if route.hold is not None and aside is not None:
                met.setdefault((route.hold, 0), []).append(aside)
            for stage in route.steps:
                rows = rows.after(stage)
            met.setdefault((route.operator, route.port), []).append(rows)
    for (operator, port), arrived in met.items():
        packets, counts = _arrive(flow, operator, port, arrived, standing)
        sent.packets += [replace(p, operator=operator) for p in packets]
        sent.count(operator, counts)
    return sent


def _shed(flow: Dataflow, route: Route, block: Block, needless: Skipped, sent: Sent) -> Block:
    """Return the rows that are needed behind a route, before any of its steps has cost anything."""
    found = unread(flow, needless, route, block.ticks, block.sound)
    if found is None:
        return block
    shed = int(found.sum())
    sent.count(route.operator, {"in": shed, "shed": shed})
    return block.keep(~found)


def _told_apart(route: Route, block: Block, standing: Standing) -> tuple[Block, Block | None]:
    """Return the rows that go on along a route, and those that are put aside before its steps."""
    held = [h for h in standing.held if h.operator == route.operator]
    if route.hold is None or not held:
        return block, None
    stretch = np.zeros(len(block), np.int64)
    for h in held:
        stretch[(block.ticks >= h.start) & (block.ticks < h.end)] = h.number
    stretch[~block.sound] = 0
    if not stretch.any():
        return block, None
    aside = block.keep(stretch > 0)
    numbers = pa.array(stretch[stretch > 0])
    return block.keep(stretch == 0), replace(
        aside, table=aside.table.append_column(STRETCH, numbers)
    )


def _arrive(
    flow: Dataflow, operator: int, port: int, blocks: Sequence[Block], standing: Standing
) -> tuple[list[Packet], dict[str, int]]:
    packets, sound = [], []
    for block in blocks:
        fine = block.keep(block.sound)
        if len(fine) < len(block):
            bad = _malformed(block.keep(~block.sound))
            packets.append(table_packet("malformed", 0, block.seq, bad, port))
        if len(fine):
            sound.append(
                Arriving(fine.table, fine.ticks, fine.degree, fine.seq, fine.own, fine.behind)
            )
    came, left = sum(map(len, blocks)), sum(map(len, sound))
    marks = flow.in_force(standing, operator, port)
    done = deliver(flow.operators[operator].plan, port, sound, marks)
    counts = {"in": came, "malformed": came - left, "outside": done.outside}
    return packets + done.packets, counts


def _malformed(block: Block) -> pa.Table:
    reason = np.array(FAULTS, object)[block.fault]
    name = free(REASON, block.table.schema)
    return block.table.append_column(name, pa.array(reason, pa.string()))
