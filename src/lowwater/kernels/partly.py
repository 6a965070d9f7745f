"""Cells of rows that missed windows which are still open.

Where rows are put aside, windows stay open longer than the stream itself would keep them. A row
that has missed such a window must not enter it, although it is in one of its panes. Its cells are
kept apart, by the first window that it has not missed, until all that it has missed are closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lowwater.aggregates import Part
from lowwater.kernels.cells import Cells, Packed, merge

_NAMES = "partly"


@dataclass
class Partly:
    """Cells apart: those under `since` are part of windows from that one on."""

    packs: dict[int, Packed]
    before: frozenset[int]

    @classmethod
    def read(cls, state: Mapping[str, bytes]) -> Partly:
        """Read them from the state."""
        known = json.loads(state[_NAMES]) if _NAMES in state else []
        return cls({n: Packed.from_bytes(state[_name(n)]) for n in known}, frozenset(known))

    def __bool__(self) -> bool:
        return bool(self.packs)

    def add(self, since: int, cells: Packed, parts: Sequence[Part]) -> None:
        """Take in cells of windows from `since` on."""
        known = [self.packs[since]] if since in self.packs else []
        self.packs[since] = merge([*known, cells], parts).pack(parts)

    def cut(self, first: int, end: int) -> Iterator[tuple[int, int, list[Packed]]]:
        """Yield stretches of the windows `first` to before `end`, and the cells that each adds."""
        at = first
        for stop in [*sorted(n for n in self.packs if first < n < end), end]:
            yield at, stop, [p for n, p in sorted(self.packs.items()) if n <= at]
            at = stop

    def take(self, since: int) -> Packed:
        """Take cells out: they are as any others."""
        return self.packs.pop(since)

    def changes(self) -> dict[str, bytes | None]:
        """Return what is to be written."""
        if not self.packs and not self.before:
            return {}
        gone: dict[str, bytes | None] = {_name(n): None for n in self.before - set(self.packs)}
        kept: dict[str, bytes | None] = {_name(n): p.to_bytes() for n, p in self.packs.items()}
        names = json.dumps(sorted(self.packs)).encode() if self.packs else None
        return {**gone, **kept, _NAMES: names}


def with_more(cells: Cells, more: Sequence[Packed], parts: Sequence[Part]) -> Cells:
    """Return cells with others merged into them."""
    return merge([cells.pack(parts), *more], parts) if more else cells


def _name(since: int) -> str:
    return f"{_NAMES}/{since}"
