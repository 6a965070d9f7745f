"""Algorithm 1 of QDJ, tuple by tuple and word by word, with the buffers before it."""

from __future__ import annotations

from collections import Counter


class Slack:
    """A K-slack buffer. What has been let pass is passed: rows behind it do not wait."""

    def __init__(self):
        self.clock, self.passed, self.buffer = None, None, []

    def push(self, ts, k):
        self.clock = ts if self.clock is None else max(self.clock, ts)
        self.passed = self.clock - k if self.passed is None else max(self.passed, self.clock - k)
        self.buffer.append(ts)
        out = sorted(t for t in self.buffer if t <= self.passed)
        self.buffer = [t for t in self.buffer if t > self.passed]
        return out


class Algorithm1:
    """The pseudo code; `do similar` is done by exchanging the sides."""

    def __init__(self, windows):
        self.w = windows
        self.window, self.sync = ([], []), ([], [])
        self.end = 0
        self.results = Counter()

    def take(self, e, mine):
        other = 1 - mine
        if e <= self.end - self.w[mine]:
            return  # situation 1
        if e <= self.end:
            for b in self.window[other]:
                if max(e, b) == self.end:
                    self.results[self.end] += 1
            self.window[mine].append(e)  # situations 2, 3
        elif self.sync[mine]:
            self.sync[mine].append(e)  # situation 4a
        else:
            self._forward(e, mine, other)

    def _forward(self, e, mine, other):
        while any(b <= e for b in self.sync[other]):
            b = min(self.sync[other])
            self.sync[other].remove(b)
            self.end = b
            self._purge(mine)
            self.results[b] += len(self.window[mine])
            self.window[other].append(b)  # lazy retention here
        if self.sync[other] or e == self.end:
            self.end = e
            self._purge(mine)
            self._purge(other)
            self.results[e] += len(self.window[other])
            self.window[mine].append(e)  # situation 4b
        else:
            self._purge(other)
            self.sync[mine].append(e)  # situation 4c

    def _purge(self, side):
        kept = [t for t in self.window[side] if t > self.end - self.w[side]]
        self.window[side][:] = kept


def by_the_letter(chunks, windows, unit):
    """Return results by time and the window end, for chunks of rows with the slacks of each."""
    join, slacks = Algorithm1(windows), (Slack(), Slack())
    for rows, ks in chunks:
        for ts, side in rows:
            for out in slacks[side].push(ts, ks[side]):
                join.take(out // unit, side)
    return join.results, join.end
