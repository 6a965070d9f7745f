"""OOP-Join: rows join on arrival, whatever the order (OOP 5.3).

New rows of self meet the stored and the new rows of other, stored rows of self the new ones of
other. A row is stored while a partner may still come, which the mark of the *other* side tells:
until `mark_other > last(t)`. So what a side's own mark has passed still finds its partners, as long
as these are stored.

**Late rows.** Mark m of a row's own side has let the other side purge all times before `first(m)`.
A row whose partners all lie before that, `last(t) < first(m)`, is late: it takes no part. One with
some of them there, `first(t) < first(m)`, is partly late: it joins those that are left and those
still to come.

**Rows without a partner** leave when the mark of the other side says that none can come. A partly
late row never does: its partner may have been purged, and a row that says there was none would be
wrong. It is listed as late, with `admitted` true; what it missed cannot be known. A late row does
not leave as unmatched either. A row with a NULL key has no partner and waits all the same, so that
rows without partner leave by time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.aggregates import spread
from lowwater.kernels.bands import open_from
from lowwater.kernels.joined import alone, has_keys, key_codes, paired
from lowwater.kernels.joins import OTHER, SELF, JoinPlan
from lowwater.kernels.matching import Sorted, reached
from lowwater.kernels.ranges import slices
from lowwater.kernels.row_buckets import Kept, RowBucket, RowBuckets
from lowwater.kernels.row_epoch import PORTION, Arrivals, RowEpoch

__all__ = ["JoinEpoch", "JoinPlan"]


@dataclass
class _Side:
    """The rows of one side that may find partners in an epoch: stored ones, then new ones.

    Flags say which rows will not leave as unmatched, whatever comes.
    """

    buckets: list[RowBucket]
    rows: Kept
    stored: int
    flags: np.ndarray

    @property
    def fresh(self) -> Kept:
        """The new rows."""
        new = np.arange(len(self.rows)) >= self.stored
        return Kept(self.rows.table, self.rows.ticks, self.flags).where(new)


class JoinEpoch(RowEpoch):
    """One epoch of one shard of a join."""

    def __init__(
        self,
        plan: JoinPlan,
        shard: int,
        state: Mapping[str, bytes],
        more_stores: Sequence[type[RowBuckets]] = (),
    ) -> None:
        super().__init__(plan, shard, state, more_stores)
        self.plan = plan

    def advance(self, arrivals: list[Arrivals], marks: list[int | None]) -> None:
        """Join the rows that came, then let go what the marks have completed."""
        fresh = [self._admit(port, rows) for port, rows in enumerate(arrivals)]
        sides = [self._side(port, fresh) for port in (SELF, OTHER)]
        self._join(sides)
        self.marks = marks
        for port in (SELF, OTHER):
            self._keep_flags(port, sides[port])
            self._settle(port, sides[port].fresh)

    def _admit(self, port: int, rows: Arrivals) -> Kept:
        """Sort rows into late, partly late and in time; return those that take part."""
        reach, purged = self.plan.reaches[port], self.purged(port)
        late = rows.dead | (reach.last(rows.ticks) < purged)
        partly = ~late & (reach.first(rows.ticks) < purged)
        self.account(port, rows, late, partly)
        return rows.kept(~late, partly)

    def purged(self, port: int) -> int:
        """Return the time before which a side's own mark has let the other side's rows go."""
        return open_from(self.plan.reaches[port].inverse, self.marks[port])

    def _side(self, port: int, fresh: list[Kept]) -> _Side:
        """Bring the new rows of a side together with the stored ones that new partners may meet."""
        store, reach = self.stores[port], self.plan.reaches[port]
        buckets = reached(store.all, reach, fresh[1 - port].ticks)
        known = self.known(port, [store.read(b) for b in buckets])
        rows = Kept.together([*known, fresh[port]])
        return _Side(buckets, rows, len(rows) - len(fresh[port]), rows.flags.copy())

    def known(self, port: int, stored: list[Kept]) -> list[Kept]:
        """Return the stored rows of a side that may find partners."""
        return stored

    def _join(self, sides: list[_Side]) -> None:
        mine, theirs = sides
        if mine.stored == len(mine.rows) and theirs.stored == len(theirs.rows):
            return
        code = key_codes(self.plan, mine.rows.table, theirs.rows.table)
        n, keyed = len(mine.rows), has_keys(self.plan, SELF, mine.rows.table)
        fresh = [np.arange(len(s.rows)) >= s.stored for s in sides]
        asking = _holding(code[:n][fresh[SELF]], code)
        by_time = Sorted(
            code[n:],
            theirs.rows.ticks,
            np.flatnonzero(fresh[OTHER] | asking[n:]),
        )
        self._match(sides, np.flatnonzero(keyed & fresh[SELF]), code, by_time)
        asked = _holding(code[n:][fresh[OTHER]], code)[:n]
        known = np.flatnonzero(keyed & ~fresh[SELF] & asked)
        self._match(sides, known, code, by_time.only(fresh[OTHER]))

    def _match(
        self, sides: list[_Side], probes: np.ndarray, code: np.ndarray, by_time: Sorted
    ) -> None:
        """Find the partners of some rows of self, and give out the pairs."""
        plan, (mine, theirs) = self.plan, sides
        at = mine.rows.ticks[probes]
        start, end = by_time.between(code[probes], plan.band.first(at), plan.band.last(at))
        met = end > start
        probes, start, end = probes[met], start[met], end[met]
        mine.flags[probes] = True
        if plan.how == "anti":
            return
        for chosen in slices(end - start, PORTION):
            place, which = spread(start[chosen], end[chosen])
            found = by_time.order[place]
            theirs.flags[found] = True
            self.give(paired(plan, mine.rows, theirs.rows, probes[chosen][which], found))

    def _keep_flags(self, port: int, side: _Side) -> None:
        """Write down which stored rows have found a partner, where that matters."""
        if not self.plan.preserved[port]:
            return
        ends = np.cumsum([b.rows for b in side.buckets])
        for bucket, end in zip(side.buckets, ends.tolist(), strict=True):
            flags = side.flags[end - bucket.rows : end]
            if (flags != side.rows.flags[end - bucket.rows : end]).any():
                self.stores[port].flag(bucket, flags)

    def _settle(self, port: int, fresh: Kept) -> None:
        """Let go the rows that no partner can reach any more, store the new ones that it can."""
        plan, store = self.plan, self.stores[port]
        limit = self.limit(port)
        preserved = plan.preserved[port]
        waits = fresh.ticks >= limit
        needed = has_keys(plan, port, fresh.table)
        if preserved:
            gives_pairs = plan.how != "anti"
            needed = (needed & gives_pairs) | ~fresh.flags
            gone = [*self.completed(port, limit), fresh.where(~waits)]
            self.leave(port, Kept.together([rows.where(~rows.flags) for rows in gone]))
        else:
            store.cut(limit, wanted=False)
        store.add(fresh.where(waits & needed))

    def limit(self, port: int) -> int:
        """Return the time before which rows of a side need not be stored."""
        return open_from(self.plan.reaches[port], self.marks[1 - port])

    def completed(self, port: int, limit: int) -> list[Kept]:
        """Take out of store the rows before `limit`: no partner can reach them any more."""
        return self.stores[port].cut(limit, wanted=True)

    def leave(self, port: int, rows: Kept) -> None:
        """Give out rows of a side that no partner can meet any more, and that have met none."""
        self.give(alone(self.plan, port, rows.in_order()))


def _holding(codes: np.ndarray, all_codes: np.ndarray) -> np.ndarray:
    """Return which of all rows have one of `codes`."""
    held = np.zeros(int(all_codes.max(initial=-1)) + 1, bool)
    held[codes] = True
    return np.asarray(held[all_codes])
