"""The search for partners: rows are sorted by (key, time) as one int64, then binary-searched."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.operators.group_codes import code_column, compact, whole
from lowwater.operators.join.band import PartnerRange
from lowwater.operators.join.ordered_plan import OrderedJoinPlan
from lowwater.operators.join.plan import OTHER, SELF, JoinPlan
from lowwater.operators.row_store import RowBucket, StoredRows
from lowwater.ticks import FIRST_TICK, LAST_TICK

_FEW = 1 << 16


def key_codes(plan: JoinPlan, mine: pa.Table, theirs: pa.Table) -> np.ndarray:
    """Return a code for the key of each row: first the rows of self, then the rows of other.

    Equal keys have equal codes. As in Spark, NaN equals NaN and −0.0 equals 0.0. NULL has a code,
    too, although a row with a NULL key has no partner (`has_keys`). Codes may have gaps: if many
    rows are stored, closing the gaps would cost more than the rest of the join.
    """
    n = len(mine) + len(theirs)
    codes, bound = np.zeros(n, np.int64), 1
    for pair in plan.on:
        sides = zip((mine, theirs), pair, strict=True)
        both = [whole(t.column(name)).cast(plan.key_type(pair)) for t, name in sides]
        more, width = code_column(pa.concat_arrays(both))
        codes, bound = codes * width + more, bound * width
        if bound > max(4 * n, _FEW):
            codes, distinct = compact(codes, bound)
            bound = len(distinct)
    return codes


def has_keys(plan: JoinPlan, port: int, table: pa.Table) -> np.ndarray:
    """Return a mask of the rows without a NULL key: as in SQL, NULL equals nothing."""
    present = np.ones(len(table), bool)
    for pair in plan.on:
        column = whole(table.column(pair[port]))
        if column.null_count:
            present &= column.is_valid().to_numpy(zero_copy_only=False)
    return present


_ROOM = 1 << 62


class SortedRows:
    """Rows sorted by (code, tick, arrival): the rows with indices `rows` in `codes` and `ticks`."""

    def __init__(self, codes: np.ndarray, ticks: np.ndarray, rows: np.ndarray) -> None:
        mine, at = codes[rows], ticks[rows]
        groups = int(codes.max(initial=-1)) + 1
        low, high = int(at.min(initial=LAST_TICK)), int(at.max(initial=FIRST_TICK))
        self._known: np.ndarray | None = None
        self._low, self._high, self._width = low, high, high - low + 2
        if not FIRST_TICK < low <= high < LAST_TICK or self._width * groups >= _ROOM:
            # The times are too far apart for one int64, so they are numbered in order.
            self._known = np.unique(at)
            self._width = len(self._known) + 2
        key = mine * self._width + self._upto(at)
        order = np.argsort(key, kind="stable")
        self.order = rows[order]
        """The indices of the rows, sorted."""
        self.key = key[order]
        """The (code, time) of each row in `order`, as one number."""

    def _since(self, at: np.ndarray) -> np.ndarray:
        """Return the number that `key` contains for the first known time ≥ `at`."""
        if self._known is not None:
            return np.searchsorted(self._known, at)
        return np.asarray(np.clip(at, self._low, self._high + 1) - self._low)

    def _upto(self, at: np.ndarray) -> np.ndarray:
        """Return the number in `key` for the last known time ≤ `at`, or −1 if no time is ≤ `at`."""
        if self._known is not None:
            return np.searchsorted(self._known, at, "right") - 1
        return np.asarray(np.clip(at, self._low - 1, self._high) - self._low)

    def between(
        self, codes: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the places (start, end) in `order` of each code's rows at times [first, last]."""
        if not len(self.key):
            none = np.zeros(len(codes), np.int64)
            return none, none
        base = codes * self._width
        start = np.searchsorted(self.key, base + self._since(first))
        return start, np.searchsorted(self.key, base + self._upto(last), "right")

    def begins(self) -> np.ndarray:
        """Return the first place in `order` of each distinct (code, time)."""
        return np.flatnonzero(np.diff(self.key, prepend=-1))

    def only(self, chosen: np.ndarray) -> SortedRows:
        """Return only the sorted rows for which the mask `chosen` is true."""
        some = copy(self)
        inside = chosen[self.order]
        some.order, some.key = self.order[inside], self.key[inside]
        return some


def reached(
    buckets: Sequence[RowBucket], reach: PartnerRange, partners: np.ndarray
) -> list[RowBucket]:
    """Return the buckets whose rows may join with rows at the times `partners`.

    Buckets are sorted by time, and so are the partner ranges of their rows.
    """
    if not buckets or not len(partners):
        return []
    low = reach.first(np.array([b.low for b in buckets], np.int64))
    high = reach.last(np.array([b.high for b in buckets], np.int64))
    first, end = np.searchsorted(high, partners), np.searchsorted(low, partners, "right")
    met = first < end
    n = len(buckets) + 1
    begin, stop = (np.bincount(at[met], minlength=n) for at in (first, end))
    hits = np.cumsum(begin - stop)[:-1] > 0
    return [b for b, hit in zip(buckets, hits.tolist(), strict=True) if hit]


@dataclass(frozen=True)
class JoinSides:
    """Rows of both sides that may join, with their key codes; `others` sorts the rows of other."""

    rows: tuple[StoredRows, StoredRows]
    codes: tuple[np.ndarray, np.ndarray]
    others: SortedRows

    @classmethod
    def of(cls, plan: OrderedJoinPlan, mine: StoredRows, theirs: StoredRows) -> JoinSides:
        """Return the rows `mine` of self and `theirs` of other, with common key codes."""
        mine_codes, codes = np.split(key_codes(plan, mine.table, theirs.table), [len(mine)])
        others = SortedRows(codes, theirs.ticks, np.arange(len(theirs)))
        return cls((mine, theirs), (mine_codes, codes), others)

    def met(
        self, plan: OrderedJoinPlan, since: int, until: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows of self with pairs in [since, until), and the places of their partners."""
        mine = self.rows[SELF]
        first, last, some = plan.due(mine.ticks, since, until)
        probes = np.flatnonzero(some & has_keys(plan, SELF, mine.table))
        start, end = self.others.between(self.codes[SELF][probes], first[probes], last[probes])
        met = end > start
        return probes[met], start[met], end[met]

    def unmatched(self, plan: OrderedJoinPlan, port: int, since: int, until: int) -> StoredRows:
        """Return the rows of a side with times in [since, until) that have no partner."""
        rows, reach = self.rows[port], plan.reaches[port]
        there = np.flatnonzero((rows.ticks >= since) & (rows.ticks < until))
        partners = self.others
        if port == OTHER:
            mine = self.rows[SELF]
            partners = SortedRows(self.codes[SELF], mine.ticks, np.arange(len(mine)))
        at = rows.ticks[there]
        start, end = partners.between(self.codes[port][there], reach.first(at), reach.last(at))
        keyed = has_keys(plan, port, rows.table)[there]
        return rows.take(there[~(keyed & (end > start))]).in_order()
