"""Rows in state that wait in a queue, and leave it by (time, arrival).

Buckets come in as another store leaves them: nothing is read or written. Rows of theirs that have a
flag are no part of the queue, nor are they counted; they go with their bucket. So do those that
have left: a portion is read from the front, and what is behind it is not rewritten.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowwater.kernels.row_buckets import Kept, RowBucket, RowBuckets


class Waiting(RowBuckets):
    """The rows of one port of one shard that wait."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(waiting_in(b) for b in self.all)

    def take_over(self, store: RowBuckets, limit: int) -> None:
        """Let the buckets of a store queue up that lie before `limit`.

        Of the one that it lies in, take as much if that is most of it, else nothing.
        """
        for bucket in [b for b in store.all if b.low < limit]:
            if bucket.high < limit:
                store.all.remove(bucket)
                self._take(bucket)
            else:
                self._take_most(store, bucket, limit)

    def _take(self, bucket: RowBucket) -> None:
        self.all.append(bucket)
        if not waiting_in(bucket):
            self._delete(bucket)

    def _take_most(self, store: RowBuckets, bucket: RowBucket, limit: int) -> None:
        rows = store.read(bucket)
        before = rows.ticks < limit
        queued = before & ~rows.flags
        if 2 * np.count_nonzero(queued) < bucket.rows:
            return
        store.all.remove(bucket)
        store.add(rows.where(~before))
        mine = replace(bucket, high=int(rows.ticks[before].max()))
        self.all.append(mine)
        self.flag(mine, ~queued)

    def add(self, rows: Kept) -> None:
        """Let rows queue up, which arrived after all that are there."""
        if len(rows) and self.all and self.all[0].left and rows.ticks.min() <= self.all[0].high:
            # Counted from the front, other rows than those would have left.
            front = self.all[0]
            rest = self._portion(front, waiting_in(front))
            self._delete(front)
            self._create(rest)
            self.all.sort(key=lambda b: b.low)
        super().add(rows)

    def _create(self, rows: Kept) -> None:
        """Cut rows into new buckets; those with a flag need not be written again."""
        super()._create(rows.where(~rows.flags))

    def before(self, limit: int) -> int:
        """Return how many rows wait that lie before `limit`."""
        count = sum(waiting_in(b) for b in self.all if b.high < limit)
        for bucket in [b for b in self.all if b.low < limit <= b.high]:
            rows = self.read(bucket)
            early = int(np.count_nonzero(~rows.flags & (rows.ticks < limit)))
            count += max(0, early - bucket.left)
        return count

    def first(self, count: int) -> list[Kept]:
        """Take so many rows from the front, of each bucket by (time, arrival)."""
        taken = []
        while count > 0:
            bucket = self.all[0]
            portion = self._portion(bucket, min(count, waiting_in(bucket)))
            count -= len(portion)
            taken.append(portion)
            left = replace(bucket, left=bucket.left + len(portion))
            if waiting_in(left):
                self.all[0] = left
            else:
                self._delete(bucket)
        return taken

    def _portion(self, bucket: RowBucket, count: int) -> Kept:
        """Return the first rows of a bucket that have neither a flag nor left."""
        rows = self.read(bucket)
        if bucket.raised:
            queued = np.flatnonzero(~rows.flags)
            return rows.take(queued[stretch(rows.ticks[queued], bucket.left, count)])
        return rows.take(stretch(rows.ticks, bucket.left, count))


def waiting_in(bucket: RowBucket) -> int:
    """Return how many rows of a bucket wait."""
    return bucket.rows - bucket.raised - bucket.left


def stretch(ticks: np.ndarray, start: int, count: int) -> np.ndarray:
    """Return where `count` times lie, from the `start`-th on, in the order of (time, place).

    >>> stretch(np.array([5, 3, 5, 9, 3]), 1, 3).tolist()
    [4, 0, 2]
    """
    ends = [start, start + count - 1]
    low, high = np.partition(ticks, ends)[ends]
    near = np.flatnonzero((ticks >= low) & (ticks <= high))
    skipped = start - int(np.count_nonzero(ticks < low))
    order = np.argsort(ticks[near], kind="stable")
    return near[order[skipped : skipped + count]]
