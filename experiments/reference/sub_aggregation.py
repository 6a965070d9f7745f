"""A model of Gigascope's low-level aggregation: a table of fixed size before the stream (OOP 6).

A packet's group has one slot in the table. A packet of the occupant's group and window updates the
occupant; any other packet makes the occupant leave, as output, and takes the slot. When a window
has ended, its occupants are *old*, and what differs is how they leave:

- in order, slow-flush (the paper's figure 7): one old occupant leaves per packet; but before an
  occupant of the new window may leave, because another group needs its slot, all old ones must have
  left. They leave then, at once.
- out of order, lazy: old occupants leave when their slots are needed, at the latest when `delay`
  further windows have ended.
- out of order, slow-flush: besides, one old occupant leaves after every n-th packet.

Packets wait in a ring buffer. To take one in and to put one occupant out each takes a fixed time;
a packet that finds the ring full is lost. So the *costs* and the ring are a model, given in
numbers; *which* packet makes how many occupants leave is computed from the packets. (The working
Gigascope also tries the next slot before it flushes, a footnote says; this model does not.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

IN_ORDER, LAZY, SLOW = "IOP", "OOP lazy", "OOP slow-flush"
EVERY, DELAY = 160, 2
"""Out of order: an old occupant leaves every 160 packets; none stays for more than 2 windows."""
WINDOWS = 5
"""How many windows a trial takes: the first fills the table, the others flush it."""


@dataclass(frozen=True)
class Machine:
    """What things cost, in seconds, and how many packets the ring holds."""

    packet: float = 1e-6
    output: float = 1e-6
    ring: int = 65_536

    def backlog(self, rate: float, left: np.ndarray) -> int:
        """Return the most packets that wait, when packet i makes `left[i]` occupants leave."""
        arrives = np.arange(len(left)) / rate
        took = np.cumsum(self.packet + self.output * left)
        begun = np.concatenate([[0.0], took[:-1]])
        done = took + np.maximum.accumulate(arrives - begun)
        return int((np.searchsorted(arrives, done) - np.arange(len(left))).max())

    def busy(self, rate: float, left: np.ndarray) -> float:
        """Return the share of time that work takes."""
        return float(rate * (self.packet + self.output * left.mean()))


@dataclass(frozen=True)
class Table:
    """Packets, each with the slot its group has in the table."""

    group: np.ndarray
    slot: np.ndarray
    slots: int

    @classmethod
    def of(cls, packets: int, groups: int, slots: int, seed: int) -> Table:
        """Draw packets of groups, all as likely, and their slots."""
        random = np.random.default_rng(seed)
        group = random.integers(0, groups, packets, dtype=np.uint32)
        place = random.integers(0, slots, groups)
        return cls(group, place.astype(np.uint32 if slots > 2**16 else np.uint16)[group], slots)

    @cached_property
    def by_slot(self) -> np.ndarray:
        """The packets in the order of their slots, those of a slot as they come."""
        return np.argsort(self.slot, kind="stable")

    def leaving(self, window: int, way: str) -> np.ndarray:
        """Return how many occupants each packet makes leave, with `window` packets to a window."""
        count = min(len(self.group), WINDOWS * window)
        stays = _Stays.of(self, self.by_slot[self.by_slot < count], window)
        flush = _FLUSHES[way]
        for start in range(window, count, window):
            flush(stays, start, window)
        return np.bincount(stays.until[stays.until < count], minlength=count)


@dataclass
class _Stays:
    """Who was in which slot from packet `since` until packet `until`, by slot and time.

    `clash` are the packets that took the slot of an occupant of the same window.
    """

    slot: np.ndarray
    since: np.ndarray
    until: np.ndarray
    clash: np.ndarray

    @classmethod
    def of(cls, table: Table, order: np.ndarray, window: int) -> _Stays:
        """Find those of packets in slot order, each until another group or window needs the slot.

        An occupant that is never driven out stays until the packet after the last.
        """
        slots, groups, number = table.slot[order], table.group[order], order // window
        moved = np.ones(len(order), bool)
        moved[1:] = slots[1:] != slots[:-1]
        another = moved.copy()
        another[1:] |= groups[1:] != groups[:-1]
        fresh = another.copy()
        fresh[1:] |= number[1:] != number[:-1]
        begin = np.flatnonzero(fresh)
        since = order[begin]
        until = np.full(len(begin), len(order))
        follows = ~moved[begin[1:]]
        until[:-1][follows] = since[1:][follows]
        same_window = number[begin[1:]] == number[begin[1:] - 1]
        clash = np.sort(since[1:][follows & same_window])
        return cls(slots[begin], since, until, clash)

    def old(self, start: int) -> np.ndarray:
        """Return the stays that began before a packet and are not over, by slot."""
        return np.flatnonzero((self.since < start) & (self.until >= start))


def _in_order(stays: _Stays, start: int, window: int) -> None:
    """Let old occupants go one per packet, until one of the new window must leave."""
    old = stays.old(start)
    first = np.searchsorted(stays.clash, start)
    limit = int(stays.clash[first]) if first < len(stays.clash) else start + window
    gone = _one_by_one(stays.until[old], start, min(limit, start + window), 1)
    stays.until[old] = np.minimum(np.minimum(stays.until[old], gone), limit)


def _lazy(stays: _Stays, start: int, window: int) -> None:
    """Evict the occupants that have stayed for the most windows allowed."""
    old = stays.old(start)
    overdue = old[stays.since[old] < start - DELAY * window]
    stays.until[overdue] = start


def _slow(stays: _Stays, start: int, window: int) -> None:
    """Evict one old occupant after every n-th packet."""
    _lazy(stays, start, window)
    old = stays.old(start)
    gone = _one_by_one(stays.until[old], start, start + window, EVERY)
    stays.until[old] = np.minimum(stays.until[old], gone)


_FLUSHES: dict[str, Callable[[_Stays, int, int], None]] = {
    IN_ORDER: _in_order,
    LAZY: _lazy,
    SLOW: _slow,
}


def _one_by_one(until: np.ndarray, start: int, end: int, every: int) -> np.ndarray:
    """Return the packet that evicts each occupant still there: one after every `every` packets."""
    gone = np.full(len(until), np.iinfo(np.int64).max)
    place = 0
    for packet in range(start + every - 1, end, every):
        while place < len(until) and until[place] <= packet:
            place += 1
        if place == len(until):
            break
        gone[place] = packet
        place += 1
    return gone


def highest_rate(
    table: Table, way: str, machine: Machine, window: float, *, top: float, step: float
) -> tuple[float, float]:
    """Return the highest rate without loss, and how busy the machine is then.

    `window` is in seconds. Rates are tried by halving, down to `step`.
    """
    low, high, busy = 0.0, top, 0.0
    while high - low > step:
        rate = (low + high) / 2
        left = table.leaving(round(rate * window), way)
        if machine.backlog(rate, left) <= machine.ring:
            low, busy = rate, machine.busy(rate, left)
        else:
            high = rate
    return low, busy
