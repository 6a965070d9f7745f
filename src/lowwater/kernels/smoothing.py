"""Smooth closing: a window of very many groups is given out over several epochs (OOP 6).

The groups of a shard are cut into slices by a hash of their keys, and each slice is closed by a
mark of its own, some way behind the mark in force: slice 0 at once, the last after nearly the whole
delay. So results come out evenly as time goes on, in amounts that do not stop the stream. What is
late is decided by the mark in force alone: a window that waits to be given out takes no more rows.

A *lazy* flush waits longer, as long as there is room: slices are given out when what is kept
exceeds a number of cells, or else in the second half of the delay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows
from lowwater.control import Marks
from lowwater.kernels.aggregate import META, Meta, Step, WindowEpoch
from lowwater.kernels.cells import Cells, Packed
from lowwater.kernels.groups import shard_of
from lowwater.kernels.lifting import lift
from lowwater.windows import FOREVER


class SmoothEpoch(WindowEpoch):
    """An epoch of windows that are given out slice by slice."""

    def advance(self, fresh: list[Packed], rows: list[Rows], marks: Marks) -> None:
        """Let each slice take in its part, and close what its own mark completes."""
        parts = self._apart(fresh + [lift(self.plan, r) for r in rows])
        slices = self._slices()
        due = [self._due(marks, number) for number in range(len(slices))]
        for number, one in enumerate(slices):
            if parts[number] or due[number] != one.meta.marks:
                self._take(one, parts[number], due[number])
        self._make_room(slices, marks)
        kept = [one.meta.to_json() for one in slices]
        held = {"marks": marks.to_json(), "slices": kept}
        self.out.changes[META] = json.dumps(held).encode()
        for one in slices:
            for bucket in one.meta.buckets:
                self.kept_cells += bucket.cells
                self.kept_bytes += bucket.size

    def _slices(self) -> list[_Slice]:
        kept = self.state.get(META)
        count = self.plan.smooth_slices
        metas = [None] * count if kept is None else json.loads(kept)["slices"]
        plain = replace(self.plan, smooth=None)
        found = []
        for number, meta in enumerate(metas):
            one = _Slice(plain, self.shard, _Part(self.state, f"{number}/"))
            one.meta = Meta.from_json(meta)
            one.number = number
            found.append(one)
        return found

    def _due(self, marks: Marks, number: int) -> Marks:
        """Return the mark that closes a slice."""
        smooth = self.plan.smooth
        assert smooth is not None  # noqa: S101
        lag, spec = smooth.lags[number], self.plan.positioned
        return marks.mapped(lambda m: m if m >= FOREVER else spec.align(m - lag))

    def _take(self, one: _Slice, fresh: list[Packed], marks: Marks) -> None:
        one.out = Step()
        one.advance(fresh, [], one.meta.marks.raised(marks))
        for name, content in one.out.changes.items():
            if name != META:
                self.out.changes[f"{one.number}/{name}"] = content
        self.out.emissions += [replace(p, seq=len(self.out.emissions)) for p in one.out.emissions]
        self.counts["results"] += one.counts["results"]
        one.counts["results"] = 0

    def _make_room(self, slices: list[_Slice], marks: Marks) -> None:
        """Give out what waits, slice by slice, while more is kept than there is room for."""
        smooth = self.plan.smooth
        if smooth is None or smooth.room is None:
            return
        room = smooth.room // self.plan.shards
        for one in slices:
            if sum(s.meta.buckets.cells for s in slices) <= room:
                return
            if one.meta.marks != marks:
                self._take(_again(one, self), [], marks)

    def _apart(self, packs: list[Packed]) -> list[list[Packed]]:
        """Return the cells of each slice."""
        count = self.plan.smooth_slices
        parts: list[list[Packed]] = [[] for _ in range(count)]
        for packed in packs:
            keys = [packed.keys.column(k).combine_chunks() for k in self.plan.keys]
            among = shard_of(keys, packed.groups, self.plan.shards * count)
            for number, part in _sliced(packed, among // self.plan.shards, count):
                parts[number].append(part)
        return parts


def _sliced(packed: Packed, number: np.ndarray, count: int) -> Iterator[tuple[int, Packed]]:
    """Cut cells by the slice of their groups, which are put in order once for all slices."""
    by_slice = np.argsort(number.astype(np.uint8), kind="stable")
    place = np.empty(packed.groups, np.int64)
    place[by_slice] = np.arange(packed.groups)
    first = np.searchsorted(number[by_slice], np.arange(count + 1))
    of_cell = number[packed.code].astype(np.uint8)
    order = np.argsort(of_cell, kind="stable")
    start = np.searchsorted(of_cell[order], np.arange(count + 1))
    keys = packed.keys.take(pa.array(by_slice))
    code, pane = place[packed.code][order], packed.pane[order]
    columns = [c.take(pa.array(order)) for c in packed.columns]
    for i, (low, high) in enumerate(pairwise(start.tolist())):
        if high > low:
            groups = int(first[i + 1] - first[i])
            mine = keys.slice(int(first[i]), groups)
            cut = [c.slice(low, high - low) for c in columns]
            yield i, Packed(mine, groups, code[low:high] - first[i], pane[low:high], cut)


def _again(one: _Slice, whole: SmoothEpoch) -> _Slice:
    """Return a slice as it is after what it did in this epoch, ready to close more."""
    changed = {
        name.removeprefix(f"{one.number}/"): content
        for name, content in whole.out.changes.items()
        if name.startswith(f"{one.number}/")
    }
    one.state = _Changed(one.state, changed)
    return one


class _Slice(WindowEpoch):
    """The groups of one slice. What was given out is dropped at once, for room counts."""

    number: int = 0

    def fold(self, cells: Cells, after: Marks) -> tuple[Cells, np.ndarray]:
        """Drop the cells of windows that have been given out."""
        kept = self.still_needed(cells.pane, self.group_open(cells, after)[cells.code])
        return cells.take(kept), np.unique(cells.pane[~kept])


@dataclass(frozen=True)
class _Part(Mapping[str, bytes]):
    """The part of a state whose names begin alike."""

    whole: Mapping[str, bytes]
    prefix: str

    def __getitem__(self, name: str) -> bytes:
        return self.whole[self.prefix + name]

    def __iter__(self) -> Iterator[str]:
        found = (name for name in self.whole if name.startswith(self.prefix))
        return (name.removeprefix(self.prefix) for name in found)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class _Changed(Mapping[str, bytes]):
    """A state with changes that are not written yet."""

    before: Mapping[str, bytes]
    changes: Mapping[str, bytes | None]

    def __getitem__(self, name: str) -> bytes:
        found = self.changes[name] if name in self.changes else self.before[name]
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        kept = (name for name in self.before if name not in self.changes)
        return iter([*kept, *(n for n, c in self.changes.items() if c is not None)])

    def __len__(self) -> int:
        return sum(1 for _ in self)
