"""Algorithm 1 of QDJ, tuple by tuple and word by word, with the buffers before it."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple


class Tuple(NamedTuple):
    """A tuple of a stream. One without a name joins nothing: it only says how late it is."""

    ts: int
    key: Any = None
    name: Any = None


class Slack:
    """A K-slack buffer. What has been let pass is passed: rows behind it do not wait."""

    def __init__(self):
        self.clock, self.passed, self.buffer = None, None, []

    def push(self, e, k):
        return [*self.hold(e), *self.release(k)]

    def hold(self, e):
        """Take a tuple in, and let it through at once if it is behind what was let pass."""
        self.clock = e.ts if self.clock is None else max(self.clock, e.ts)
        if self.passed is not None and e.ts <= self.passed:
            return [e]
        self.buffer.append(e)
        return []

    def release(self, k):
        return self.release_to(self.clock - k)

    def release_to(self, time):
        self.passed = time if self.passed is None else max(self.passed, time)
        out = sorted((e for e in self.buffer if e.ts <= self.passed), key=lambda e: e.ts)
        self.buffer = [e for e in self.buffer if e.ts > self.passed]
        return out


class Algorithm1:
    """The pseudo code; `do similar` is done by exchanging the sides."""

    def __init__(self, windows):
        self.w = windows
        self.window, self.sync = ([], []), ([], [])
        self.end = 0
        self.results = []

    def take(self, e, mine):
        other = 1 - mine
        if e.ts <= self.end - self.w[mine]:
            return  # situation 1
        if e.ts <= self.end:
            self._join(e, mine, [b for b in self.window[other] if max(e.ts, b.ts) == self.end])
            self.window[mine].append(e)  # situations 2, 3
        elif self.sync[mine]:
            self.sync[mine].append(e)  # situation 4a
        else:
            self._forward(e, mine, other)

    def _forward(self, e, mine, other):
        while any(b.ts <= e.ts for b in self.sync[other]):
            b = min(self.sync[other], key=lambda b: b.ts)
            self.sync[other].remove(b)
            self.end = b.ts
            self._purge(mine)
            self._join(b, other, self.window[mine])
            self.window[other].append(b)  # lazy retention here
        if self.sync[other] or e.ts == self.end:
            self.end = e.ts
            self._purge(mine)
            self._purge(other)
            self._join(e, mine, self.window[other])
            self.window[mine].append(e)  # situation 4b
        else:
            self._purge(other)
            self.sync[mine].append(e)  # situation 4c

    def _join(self, e, side, partners):
        for b in partners:
            if e.key == b.key and e.name is not None and b.name is not None:
                pair = (e, b) if side == 0 else (b, e)
                self.results.append((max(e.ts, b.ts), *(x.name for x in pair)))

    def _purge(self, side):
        kept = [e for e in self.window[side] if e.ts > self.end - self.w[side]]
        self.window[side][:] = kept


def by_the_letter(chunks, windows, unit):
    """Return results by time and the window end, for chunks of rows with the slacks of each."""
    join, slacks = Algorithm1(windows), (Slack(), Slack())
    for rows, ks in chunks:
        for ts, side in rows:
            for e in slacks[side].push(Tuple(ts, name=""), ks[side]):
                join.take(e._replace(ts=e.ts // unit), side)
    return Counter(time for time, *_ in join.results), join.end


class ByEpoch:
    """The same with buffers that release after each epoch, and marks that are tuples.

    Where a stream's mark is, its buffer sends a tuple that joins nothing: so the window end stands
    at the lower one of both marks, and not at the last tuple before it.
    """

    def __init__(self, windows):
        self.join, self.slacks = Algorithm1(windows), (Slack(), Slack())

    def run(self, rows, marks):
        """Take in an epoch of (tuple, side) in order of arrival, then let both marks act."""
        for e, side in rows:
            for out in self.slacks[side].hold(e):
                self.join.take(out, side)
        for side, mark in enumerate(marks):
            if mark is not None:
                for out in self.slacks[side].release_to(mark):
                    self.join.take(out, side)
                self.join.take(Tuple(self.slacks[side].passed), side)

    def marks(self, ks):
        """Return the marks that slacks give by the rows that have come."""
        pairs = zip(self.slacks, ks, strict=True)
        return [None if s.clock is None else s.clock - k for s, k in pairs]
