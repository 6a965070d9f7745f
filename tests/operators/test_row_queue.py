"""The queue of rows that wait, against a plain list of them."""

from __future__ import annotations

import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lowwater.operators.batch import TICK
from lowwater.operators.row_queue import RowQueue, waiting_in
from lowwater.operators.row_store import RowStore, StoredRows
from tests.operators.row_kernels import small_buckets
from tests.strategies import examples


class Model:
    """A store of rows and a queue behind it, each beside a list; between steps all is bytes."""

    def __init__(self, seed):
        self.drawn, self.numbered, self.limit = random.Random(seed), 0, 0
        self.state, self.kept = {}, [None, None]
        self.stored, self.queued = [], []  # (tick, number, flag), and (tick, number)

    def step(self):
        """Do one thing to the store or the queue."""
        changes = {}
        store = RowStore(0, self.state, changes, self.kept[0])
        queue = RowQueue(1, self.state, changes, self.kept[1])
        self.drawn.choice([self.store, self.move, self.join, self.take, self.take])(store, queue)
        self.state = {n: c for n, c in {**self.state, **changes}.items() if c is not None}
        self.kept = [store.to_json(), queue.to_json()]
        self.check(queue)

    def rows(self, low, high, flagged):
        """New rows with times in [low, high]."""
        count = self.drawn.choice([0, 1, 2, 5, 12])
        ticks = [self.drawn.randint(low, high) for _ in range(count)]
        numbers = range(self.numbered, self.numbered + count)
        self.numbered += count
        flags = [flagged and self.drawn.random() < 0.4 for _ in ticks]
        table = pa.table({TICK: pa.array(ticks, pa.int64()), "n": pa.array(numbers, pa.int64())})
        return StoredRows.of(table, pa.array(flags, pa.bool_()).to_numpy(zero_copy_only=False))

    def store(self, store, queue):
        rows = self.rows(self.limit, self.limit + 12, flagged=True)
        store.add(rows)
        self.stored += zip(*(c.to_pylist() for c in rows.table.columns), rows.flags, strict=True)

    def move(self, store, queue):
        """Rows before a time go from the store to the queue."""
        self.limit += self.drawn.randint(0, 8)
        queue.take_over(store, self.limit)
        for rest in store.cut(self.limit, wanted=True):
            queue.add(rest.where(~rest.flags))
        self.queued += [(t, n) for t, n, flag in self.stored if t < self.limit and not flag]
        self.stored = [s for s in self.stored if s[0] >= self.limit]

    def join(self, store, queue):
        """Rows join the queue that were never stored, anywhere in it."""
        rows = self.rows(self.limit - 15, self.limit - 1, flagged=False)
        queue.add(rows)
        self.queued += zip(*(c.to_pylist() for c in rows.table.columns), strict=True)

    def take(self, store, queue):
        self.queued.sort()
        count = self.drawn.randint(0, min(9, len(self.queued)))
        taken = [r for part in queue.first(count) for r in part.table.to_pylist()]
        assert [(r[TICK], r["n"]) for r in taken] == self.queued[:count]
        self.queued = self.queued[count:]

    def check(self, queue):
        assert queue.rows == len(self.queued)
        for limit in range(self.limit - 16, self.limit + 1, 3):
            assert queue.before(limit) == sum(t < limit for t, _ in self.queued)
        assert all(waiting_in(b) > 0 for b in queue.all)
        for before, after in zip(queue.all, queue.all[1:], strict=False):
            assert before.high < after.low
        if not self.queued and not self.stored:
            assert self.state == {}


@examples(150)
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 30))
def test_a_queue_gives_rows_back_by_time_and_arrival(seed, bucket, steps):
    model = Model(seed)
    with small_buckets(bucket):
        for _ in range(steps):
            model.step()
