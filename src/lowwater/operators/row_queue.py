"""The row queue: rows that wait in state, and are removed in the order of (time, arrival).

The queue takes whole buckets from a row store without reading or writing them. Flagged rows of such
a bucket do not belong to the queue and are not counted. Removing rows from the front rewrites
nothing: removed rows and flagged rows are deleted when the last row of their bucket is removed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowwater.operators.row_store import RowBucket, RowStore, StoredRows


class RowQueue(RowStore):
    """The queue of the waiting rows of one port of one shard."""

    @property
    def rows(self) -> int:
        """The number of waiting rows."""
        return sum(waiting_in(b) for b in self.all)

    def take_over(self, store: RowStore, limit: int) -> None:
        """Move the buckets of `store` whose times are all before `limit` to the queue.

        If only some times of a bucket are before `limit`, its rows without a flag before `limit`
        move if they are at least half of the bucket.
        """
        for bucket in [b for b in store.all if b.low < limit]:
            if bucket.high < limit:
                store.all.remove(bucket)
                self._take(bucket)
            else:
                self._take_most(store, bucket, limit)

    def _take(self, bucket: RowBucket) -> None:
        """Append `bucket` to the queue, or delete it if none of its rows waits."""
        self.all.append(bucket)
        if not waiting_in(bucket):
            self._delete(bucket)

    def _take_most(self, store: RowStore, bucket: RowBucket, limit: int) -> None:
        """Move the rows without a flag before `limit`, if they are at least half of `bucket`."""
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

    def add(self, rows: StoredRows) -> None:
        """Add `rows`, which arrived after all rows in the queue."""
        if len(rows) and self.all and self.all[0].left and rows.ticks.min() <= self.all[0].high:
            # `left` counts removed rows from the front, so no row may be added among them.
            front = self.all[0]
            rest = self._portion(front, waiting_in(front))
            self._delete(front)
            self._create(rest)
            self.all.sort(key=lambda b: b.low)
        super().add(rows)

    def _create(self, rows: StoredRows) -> None:
        """Divide the rows without a flag into new buckets, and write these."""
        super()._create(rows.where(~rows.flags))

    def before(self, limit: int) -> int:
        """Return the number of waiting rows with times before `limit`."""
        count = sum(waiting_in(b) for b in self.all if b.high < limit)
        for bucket in [b for b in self.all if b.low < limit <= b.high]:
            rows = self.read(bucket)
            early = int(np.count_nonzero(~rows.flags & (rows.ticks < limit)))
            count += max(0, early - bucket.left)
        return count

    def first(self, count: int) -> list[StoredRows]:
        """Remove the first `count` waiting rows by (time, arrival), and return them by bucket."""
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

    def _portion(self, bucket: RowBucket, count: int) -> StoredRows:
        """Return the first `count` waiting rows of `bucket`."""
        rows = self.read(bucket)
        if bucket.raised:
            queued = np.flatnonzero(~rows.flags)
            return rows.take(queued[run_of(rows.ticks[queued], bucket.left, count)])
        return rows.take(run_of(rows.ticks, bucket.left, count))


def waiting_in(bucket: RowBucket) -> int:
    """Return the number of waiting rows in `bucket`."""
    return bucket.rows - bucket.raised - bucket.left


def run_of(ticks: np.ndarray, start: int, count: int) -> np.ndarray:
    """Return the elements `[start : start + count]` of a stable argsort of `ticks`.

    >>> run_of(np.array([5, 3, 5, 9, 3]), 1, 3).tolist()
    [4, 0, 2]
    """
    ends = [start, start + count - 1]
    low, high = np.partition(ticks, ends)[ends]
    near = np.flatnonzero((ticks >= low) & (ticks <= high))
    skipped = start - int(np.count_nonzero(ticks < low))
    order = np.argsort(ticks[near], kind="stable")
    return near[order[skipped : skipped + count]]
