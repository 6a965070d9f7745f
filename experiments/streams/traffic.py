"""Network links, as in the experiments of OOP: packets in the order of their time, some links late.

A link has a rate and a delay and delivers its packets in order: a packet
arrives `delay` after it happened. Packets that arrive in [n·epoch, (n+1)·epoch) are epoch n. Links
carry only the columns that a query reads, since a plan that keeps order would project the others
away before it holds a packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.ticks import TICKS_PER_SECOND as SECOND

COLUMNS = ("src", "dst", "sport", "dport")
ANSWERS = {"src": "dst", "dst": "src", "sport": "dport", "dport": "sport"}
"""Which columns of an answering packet equal which of the packet it answers."""


def schema(columns: Sequence[str]) -> pa.Schema:
    """Return the columns of a link: its time, and some columns of packets."""
    return lw.feed(", ".join(["ts timestamp", *(f"{c} int" for c in columns)])).schema


@dataclass(frozen=True)
class Link:
    """Packets in the order of their time, and how many ticks later each arrives."""

    packets: pa.Table
    delay: int = 0

    @property
    def ts(self) -> np.ndarray:
        """The times of the packets, in ticks."""
        return np.asarray(self.packets.column("ts").cast(pa.int64()).to_numpy())

    def epochs(self, length: int, count: int) -> list[pa.Table]:
        """Cut the link by arrival, from 0 on."""
        cuts = np.searchsorted(self.ts + self.delay, np.arange(count + 1) * length)
        cuts[-1] = len(self.packets)
        return [self.packets.slice(a, b - a) for a, b in pairwise(cuts.tolist())]


@dataclass(frozen=True)
class Flows:
    """How to make links: `seconds` of packets that belong to some of `connections`.

    Packets of a connection have the same four columns; on a `reverse` link, those of the answers.
    With `step` (ticks) times are cut down to its multiples.
    """

    seconds: int
    connections: int
    columns: Sequence[str] = COLUMNS
    step: int = 1

    def link(self, rate: int, seed: int, *, delay: float = 0, reverse: bool = False) -> Link:
        """Return a link with `rate` packets a second."""
        random = np.random.default_rng(seed)
        count = self.seconds * rate
        ts = np.sort(random.integers(0, self.seconds * SECOND, count)) // self.step * self.step
        values = self._values(random.integers(0, self.connections, count), reverse=reverse)
        arrays = [pa.array(ts), *(pa.array(values[c]) for c in self.columns)]
        kept = schema(self.columns)
        return Link(pa.table(arrays, kept.names).cast(kept), round(delay * SECOND))

    def _values(self, connection: np.ndarray, *, reverse: bool) -> dict[str, np.ndarray]:
        """Return the columns of packets; the first column alone identifies the connection."""
        told = {
            "src": connection,
            "dst": connection % 251,
            "sport": 1_024 + connection % 60_000,
            "dport": connection % 7 + 80,
        }
        kept = {c: v.astype(np.int32) for c, v in told.items()}
        return {c: kept[ANSWERS[c]] for c in kept} if reverse else kept
