"""The state of a shard on disk: one segment per epoch that changes it.

A segment is written as a whole. It holds the changed buckets, and an index of all buckets of the
shard, whether in this segment or in an older one, with the checksum of each. The entry of the epoch
names the segment of every shard, with the checksum of the index. Only a segment that an entry names
counts, so a failed or late attempt of a task changes nothing: its segment has a name of its own.

A segment that the newest index no longer needs is kept for `KEPT_EPOCHS` epochs, so that a query
can be rewound. Then the task names it in its measurement, and the owner of the checkpoint deletes
it after the epoch's entry is appended.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lowwater.control.measures import SegmentMeasure
from lowwater.dataflow.graph import Dataflow
from lowwater.engine.checksum import checksum
from lowwater.engine.entry import Entry, SegmentRange
from lowwater.engine.fault_points import reached
from lowwater.engine.log import KEPT_EPOCHS, ControlLog
from lowwater.errors import StateError
from lowwater.storage.folder import AtomicFolder

_ENDING = ".segment"
_FOOTER_BYTES = 8
_LIVE_SHARE = 0.5
"""The smallest share of live bytes in a segment; below it, live buckets move to a new segment."""
PIN_SECONDS = 60
"""A pin of an export counts for this time; the export renews it while it is alive."""
REMEDY = (
    "restore the checkpoint from a backup, rewind it with lowwater state FOLDER --rewind EPOCH, or "
    "start with a new one"
)


@dataclass(frozen=True)
class Attempt:
    """One attempt to run a task: the token of the checkpoint's owner, and a number.

    The number differs between all attempts of all tasks that the owner runs.
    """

    owner: str
    number: int


@dataclass(frozen=True)
class _Place:
    """The place of a bucket: its segment, the first byte, the number of bytes, and the checksum."""

    segment: str
    start: int
    size: int
    checksum: str


@dataclass(frozen=True)
class SegmentIndex:
    """The index of a shard's state: the place of each bucket, and the names of its segments.

    - `sizes`: {name: bytes of buckets} of the segments that hold a bucket.
    - `dropped`: (epoch, name) of segments that the index does not need since this epoch.
    """

    places: Mapping[str, _Place]
    sizes: Mapping[str, int]
    dropped: tuple[tuple[int, str], ...] = ()

    def to_bytes(self) -> bytes:
        """Return the index as JSON."""
        names = list(self.sizes)
        number = {name: n for n, name in enumerate(names)}
        buckets = {
            name: [number[p.segment], p.start, p.size, p.checksum]
            for name, p in self.places.items()
        }
        written = {"buckets": buckets, "segments": list(self.sizes.items())}
        return json.dumps(written | ({"dropped": self.dropped} if self.dropped else {})).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> SegmentIndex:
        """Return the index in `payload`, the JSON that `to_bytes` returned."""
        read = json.loads(payload)
        names = [name for name, _ in read["segments"]]
        places = {
            name: _Place(names[n], start, size, digest)
            for name, (n, start, size, digest) in read["buckets"].items()
        }
        dropped = tuple((epoch, name) for epoch, name in read.get("dropped", ()))
        return cls(places, dict(read["segments"]), dropped)

    @property
    def kept(self) -> set[str]:
        """The names of all segments that the newest epochs need, including dropped segments."""
        return {*self.sizes, *(name for _, name in self.dropped)}


class ShardFolder:
    """The segments of one shard of an operator, in the folder `root` of the checkpoint's state."""

    def __init__(self, root: str, query: str, operator: int, shard: int) -> None:
        self.folder = AtomicFolder(f"{root}/{operator}/{shard}")
        self.identity = query, operator, shard

    def index(self, segment: SegmentRange | None) -> SegmentIndex:
        """Return the index of `segment`, empty for None; raise StateError if it is damaged."""
        if segment is None:
            return SegmentIndex({}, {})
        size = self.folder.size(segment.name)
        if size is None:
            raise StateError(f"{self.path(segment.name)} is missing; {REMEDY}")
        content = b""
        if size > _FOOTER_BYTES:
            footer = self.folder.read_part(segment.name, size - _FOOTER_BYTES, _FOOTER_BYTES)
            length = int.from_bytes(footer, "big")
            if length <= size - _FOOTER_BYTES:
                start = size - _FOOTER_BYTES - length
                content = self.folder.read_part(segment.name, start, length)
        if checksum(content, *self.identity, segment.name) != segment.checksum:
            raise StateError(
                f"{self.path(segment.name)} is damaged: the checksum of its index differs from "
                f"the control log; {REMEDY}"
            )
        return SegmentIndex.from_bytes(content)

    def bucket(self, name: str, place: _Place) -> bytes:
        """Return the bucket `name`; raise StateError if its checksum differs from the index."""
        try:
            content = self.folder.read_part(place.segment, place.start, place.size)
        except FileNotFoundError as missing:
            raise StateError(f"{self.path(place.segment)} is missing; {REMEDY}") from missing
        if checksum(content, *self.identity, place.segment, name) != place.checksum:
            raise StateError(
                f"{self.path(place.segment)} is damaged: the checksum of bucket {name!r} differs; "
                f"{REMEDY}"
            )
        return content

    def segments(self) -> list[str]:
        """Return the names of all segments in the folder, including those of failed attempts."""
        return sorted(n for n in self.folder.names() if n.endswith(_ENDING))

    def path(self, name: str) -> str:
        """Return the path of segment `name`."""
        return self.folder.path(name)


class ShardState(Mapping[str, bytes]):
    """The buckets of one shard before an epoch; a bucket is read when the kernel needs it."""

    def __init__(self, folder: ShardFolder, before: SegmentRange | None) -> None:
        self.folder, self._before = folder, before
        self._index = folder.index(before)

    def __getitem__(self, name: str) -> bytes:
        return self.folder.bucket(name, self._index.places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.places)

    def __len__(self) -> int:
        return len(self._index.places)

    def write(
        self, changes: Mapping[str, bytes | None], epoch: int, attempt: Attempt
    ) -> SegmentMeasure:
        """Write the segment of an epoch, and return the measurement that names it."""
        index, folder = self._index, self.folder
        kept = {name: place for name, place in index.places.items() if name not in changes}
        fresh = {name: content for name, content in changes.items() if content is not None}
        for bucket in self._sparse(kept):
            fresh[bucket] = self[bucket]
            del kept[bucket]
        name = f"{epoch:012d}-{attempt.owner}-{attempt.number}{_ENDING}"
        start = 0
        for bucket, content in fresh.items():
            digest = checksum(content, *folder.identity, name, bucket)
            kept[bucket] = _Place(name, start, len(content), digest)
            start += len(content)
        used = {place.segment for place in kept.values()}
        sizes = {n: size for n, size in index.sizes.items() if n in used} | {name: start}
        # The segment that held the previous index is needed by the previous epochs, too.
        old = {*index.sizes, *([] if self._before is None else [self._before.name])}
        past = {n for _, n in index.dropped}
        dropped = [*index.dropped, *((epoch, n) for n in sorted(old - used - past))]
        unused = [n for since, n in dropped if since <= epoch - KEPT_EPOCHS and n not in used]
        written = SegmentIndex(kept, sizes, tuple(d for d in dropped if d[1] not in unused))
        footer = written.to_bytes()
        parts = (*fresh.values(), footer, len(footer).to_bytes(_FOOTER_BYTES, "big"))
        folder.folder.write(name, b"".join(parts))
        reached("segment")
        _, operator, shard = folder.identity
        digest = checksum(footer, *folder.identity, name)
        return SegmentMeasure(operator, shard, name, digest, tuple(unused))

    def _sparse(self, kept: Mapping[str, _Place]) -> list[str]:
        """Return the names of the buckets in segments whose bytes are mostly no longer in use."""
        live: Counter[str] = Counter()
        for place in kept.values():
            live[place.segment] += place.size
        sizes = self._index.sizes
        sparse = {n for n, size in live.items() if size < sizes[n] * _LIVE_SHARE}
        return [name for name, place in kept.items() if place.segment in sparse]


@dataclass(frozen=True)
class StateFolder:
    """The state of a query in the folder `root` of its checkpoint."""

    root: str
    query: str

    def shard(self, operator: int, shard: int) -> ShardFolder:
        """Return the segments of one shard of an operator."""
        return ShardFolder(self.root, self.query, operator, shard)

    def recover(self, places: Iterable[tuple[int, int]], log: ControlLog) -> None:
        """Check the state of the shards `places` after the newest entry; delete what none needs.

        Raise StateError if a segment is missing or damaged, or belongs to a later epoch, unless
        that epoch is the next one and was opened.
        """
        newest, opened = log.newest() or Entry(-1), log.opened() is not None
        present = {place: set(self.shard(*place).segments()) for place in places}
        log.check_owner()  # all files that were listed before are of this owner, or older
        named = {(s.operator, s.start): s for s in newest.segments}
        last = max(newest.epoch + (1 if opened else 0), newest.abandoned)
        left: list[tuple[ShardFolder, str]] = []
        for place, found in present.items():
            folder = self.shard(*place)
            for name in found:
                if epoch_of(name) > last:
                    raise StateError(
                        f"{folder.path(name)} is of epoch {epoch_of(name)}, but the control log "
                        f"ends at epoch {last}: its last records are missing; {REMEDY}"
                    )
            index = folder.index(named.get(place))
            for name in sorted({*index.sizes} - found):
                raise StateError(f"{folder.path(name)} is missing; {REMEDY}")
            left += [(folder, name) for name in found - index.kept]
        pinned = self._is_pinned()
        if pinned and any(epoch_of(name) > newest.epoch + opened for _, name in left):
            raise StateError(
                f"{self.root}: after a rewind, the state of later epochs must be deleted, but an "
                f"export reads it; start the query when the export has ended. An export that was "
                f"killed counts for {PIN_SECONDS} seconds"
            )
        for folder, name in () if pinned else left:
            folder.folder.delete(name)
        for place in present:
            self.shard(*place).folder.remove_partial()

    def delete(self, measured: Iterable[SegmentMeasure]) -> None:
        """Delete the segments that are named as unused, unless an export has pinned the state.

        What is left then, the next start of the query deletes.
        """
        named = [one for one in measured if one.unused]
        for one in () if not named or self._is_pinned() else named:
            folder = self.shard(one.operator, one.shard).folder
            for name in one.unused:
                folder.delete(name)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep every segment in place, for as long as the context is open and the process lives."""
        pins, name = AtomicFolder(f"{self.root}/pins"), secrets.token_hex(8)
        ended = threading.Event()

        def renew() -> None:
            pins.write(name, str(time.time()).encode())

        def keep() -> None:
            while not ended.wait(PIN_SECONDS / 3):
                renew()

        renew()
        keeper = threading.Thread(target=keep, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()
            pins.delete(name)

    def _is_pinned(self) -> bool:
        """Return whether an export that is alive has pinned the state."""
        pins = AtomicFolder(f"{self.root}/pins")
        times = [pins.read(name) for name in pins.names()]
        return any(float(t) > time.time() - PIN_SECONDS for t in times if t)


def shards_of(flow: Dataflow) -> list[tuple[int, int]]:
    """Return the (operator, shard) of all shards of a dataflow."""
    return [(n, s) for n, o in enumerate(flow.operators) for s in range(o.plan.shards)]


def segments_after(
    before: Sequence[SegmentRange], written: Iterable[SegmentMeasure]
) -> tuple[SegmentRange, ...]:
    """Return the segments `before` an epoch, replaced by those that the epoch has `written`."""
    after = {(s.operator, s.start): s for s in before}
    for one in written:
        new = SegmentRange(one.operator, one.shard, one.shard + 1, one.name, one.checksum)
        after[one.operator, one.shard] = new
    return tuple(after[key] for key in sorted(after))


def epoch_of(name: str) -> int:
    """Return the epoch that wrote the segment `name`.

    >>> epoch_of("000000000012-8f0c-3.segment")
    12
    """
    return int(name.partition("-")[0])
