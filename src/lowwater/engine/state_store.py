"""The state of a shard on disk: one segment per epoch.

A segment is written as a whole at the end of an epoch. It holds the changed buckets, and an index
of all buckets of the shard, whether in this segment or in an older segment. An epoch reads its
state from the index of the newest segment of an earlier epoch. So a repeated epoch reads the same
state, whatever a failed attempt has written. After an epoch, segments are deleted if neither the
state before the epoch nor the state after the epoch refers to them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lowwater.dataflow.graph import Dataflow
from lowwater.errors import StateError
from lowwater.storage import AtomicFolder

_ENDING = ".segment"
_FOOTER_BYTES = 8
_LIVE_SHARE = 0.5
"""The smallest share of live bytes in a segment; below it, live buckets move to a new segment."""


@dataclass(frozen=True)
class _Place:
    """The place of a bucket: the epoch of its segment, the first byte and the number of bytes."""

    segment: int
    start: int
    size: int


class ShardState(Mapping[str, bytes]):
    """The buckets of one shard before an epoch; a bucket is read when the kernel needs it."""

    def __init__(self, root: str, shard: int, epoch: int) -> None:
        self._folder = AtomicFolder(f"{root}/{shard}")
        self._epoch = epoch
        self._known = _segments(self._folder)
        self._base = max((n for n in self._known if n < epoch), default=None)
        self._places, self._sizes = self._index()

    def _index(self) -> tuple[dict[str, _Place], dict[int, int]]:
        if self._base is None:
            return {}, {}
        with self._folder.open(_name(self._base)) as file:
            size = file.size()
            file.seek(size - _FOOTER_BYTES)
            length = int.from_bytes(file.read(_FOOTER_BYTES), "big")
            if not 0 < length <= size - _FOOTER_BYTES:
                raise StateError(
                    f"the state segment of epoch {self._base} is damaged; start the query with a "
                    f"new checkpoint"
                )
            file.seek(size - _FOOTER_BYTES - length)
            kept = json.loads(file.read(length))
        places = {name: _Place(*place) for name, place in kept["buckets"].items()}
        return places, {int(segment): n for segment, n in kept["sizes"].items()}

    def __getitem__(self, name: str) -> bytes:
        place = self._places[name]
        with self._folder.open(_name(place.segment)) as file:
            file.seek(place.start)
            return bytes(file.read(place.size))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Write the segment of the epoch: the changed buckets, and references to all others."""
        kept = {name: place for name, place in self._places.items() if name not in changes}
        fresh = {name: content for name, content in changes.items() if content is not None}
        for name in self._sparse(kept):
            fresh[name] = self[name]
            del kept[name]
        start = 0
        for name, content in fresh.items():
            kept[name] = _Place(self._epoch, start, len(content))
            start += len(content)
        used = {place.segment for place in kept.values()}
        sizes = {n: size for n, size in self._sizes.items() if n in used} | {self._epoch: start}
        index = {
            "buckets": {name: [p.segment, p.start, p.size] for name, p in kept.items()},
            "sizes": sizes,
        }
        footer = json.dumps(index).encode()
        length = len(footer).to_bytes(_FOOTER_BYTES, "big")
        self._folder.write(_name(self._epoch), b"".join((*fresh.values(), footer, length)))
        before = {place.segment for place in self._places.values()} | {self._base}
        for unused in self._known - before - used - {self._epoch}:
            self._folder.delete(_name(unused))

    def _sparse(self, kept: Mapping[str, _Place]) -> list[str]:
        """Return the names of the buckets in segments whose bytes are mostly no longer in use."""
        live: Counter[int] = Counter()
        for place in kept.values():
            live[place.segment] += place.size
        sparse = {n for n, size in live.items() if size < self._sizes[n] * _LIVE_SHARE}
        return [name for name, place in kept.items() if place.segment in sparse]


def _name(epoch: int) -> str:
    return f"{epoch:012d}{_ENDING}"


def _segments(folder: AtomicFolder) -> set[int]:
    """Return the epoch numbers of the segments in a folder."""
    return {int(n.removesuffix(_ENDING)) for n in folder.names() if n.endswith(_ENDING)}


def discard_segments(root: str, flow: Dataflow, after: int) -> None:
    """Delete the segments of epochs later than `after`, of all shards of all operators."""
    for number, operator in enumerate(flow.operators):
        for shard in range(operator.plan.shards):
            folder = AtomicFolder(f"{root}/{number}/{shard}")
            folder.remove_partial()
            for epoch in _segments(folder):
                if epoch > after:
                    folder.delete(_name(epoch))
