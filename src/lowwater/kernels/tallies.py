"""Counts by group that outlive windows: how many rows a partition has had, and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.kernels.cells import whole
from lowwater.kernels.groups import group_rows
from lowwater.kernels.packets import packed, unpacked
from lowwater.kernels.ranges import places

_COUNT = "__count"


@dataclass(frozen=True)
class Tallies:
    """A count for each group."""

    keys: pa.Table
    count: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def read(cls, state: Mapping[str, bytes], name: str, keys: Sequence[str]) -> Tallies:
        """Read what `to_bytes` wrote; without it every count is 0."""
        kept = state.get(name)
        if kept is None:
            return cls(pa.table({}), np.zeros(0, np.int64), tuple(keys))
        table = unpacked(kept)
        count = table.column(_COUNT).combine_chunks().to_numpy()
        return cls(table.drop_columns([_COUNT]), count, tuple(keys))

    def to_bytes(self) -> bytes:
        """Return the counts as bytes."""
        count = pa.array(self.count)
        keyed = self.keys.append_column(_COUNT, count) if self.names else pa.table({_COUNT: count})
        return packed(keyed)

    def of(self, keys: pa.Table, groups: int) -> np.ndarray:
        """Return the counts of groups, 0 for those not seen before."""
        mine, theirs, found = self._places(keys, groups)
        count = np.zeros(found, np.int64)
        count[mine] = self.count
        return np.asarray(count[theirs])

    def plus(self, keys: pa.Table, more: np.ndarray) -> Tallies:
        """Return the counts with those of some groups raised."""
        mine, theirs, found = self._places(keys, len(more))
        count = np.zeros(found, np.int64)
        count[mine] = self.count
        np.add.at(count, theirs, more)
        if not self.names:
            return Tallies(self.keys, count, self.names)
        both = self._both(keys)
        chosen = np.empty(found, np.int64)
        place = np.concatenate([mine, theirs])
        chosen[place[::-1]] = np.arange(len(place) - 1, -1, -1)
        return Tallies(both.take(pa.array(chosen)), count, self.names)

    def numbered(self, table: pa.Table) -> tuple[np.ndarray, Tallies]:
        """Number rows on, each group from where it is: (number of each row, the counts after)."""
        keys = [whole(table.column(k)) for k in self.names]
        code, chosen = group_rows(keys, len(table))
        order = np.argsort(code, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order], _ = places(code[order])
        names = pa.table([k.take(pa.array(chosen)) for k in keys], list(self.names))
        number = self.of(names, len(chosen))[code] + place
        return number, self.plus(names, np.bincount(code, minlength=len(chosen)))

    def _both(self, keys: pa.Table) -> pa.Table:
        wanted = keys.select(list(self.names))
        return pa.concat_tables([self.keys, wanted]) if len(self.keys) else wanted

    def _places(self, keys: pa.Table, groups: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Number the groups of both sides: (mine, theirs, how many there are)."""
        if not self.names:
            return np.zeros(len(self.count), np.int64), np.zeros(groups, np.int64), 1
        columns = [whole(c) for c in self._both(keys).columns]
        code, chosen = group_rows(columns, len(self.count) + groups)
        return code[: len(self.count)], code[len(self.count) :], len(chosen)
