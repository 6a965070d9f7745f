"""The memory of `lw.files`: which files it has taken, and which of them have changed.

A position of `lw.files` lists the files of its epoch, with sizes and times of modification. The
files of earlier epochs are remembered as stamps of 16 bytes: a hash of the name, and a hash of size
and time. The newest stamps are part of the position. Older stamps are in segments, files of the
checkpoint that are never changed; the position has their names, which are checksums.

A stamp is forgotten when its file is older than `max_file_age` and no longer in the folder.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from lowwater.codec import Json
from lowwater.errors import StateError
from lowwater.storage.folder import AtomicFolder

_NAME_BYTES, _SIGN_BYTES = 12, 4
_STAMP_BYTES = _NAME_BYTES + _SIGN_BYTES
SEGMENT_STAMPS = 1024
"""The number of stamps in a position from which on they become a segment."""
_NANOSECONDS = 1_000_000_000


class FoundFile(NamedTuple):
    """A file of a listing: its name, its size, and its time of modification in nanoseconds."""

    name: str
    size: int
    modified: int


class ReportedFile(NamedTuple):
    """A file that is not read, the reason, and its size and time of modification."""

    name: str
    reason: str
    size: int
    modified: int


@dataclass(frozen=True)
class Segment:
    """A stored sequence of stamps; `newest` is the newest time of modification of its files."""

    digest: str
    newest: int


@dataclass(frozen=True)
class FilePosition:
    """A position of `lw.files`.

    Attributes
    ----------
    files, reports
        The files that the epoch reads, and those that it only reports.
    recent
        Stamps of files of earlier epochs, in base64.
    segments, dropped
        Stored stamps of earlier epochs, and segments whose stamps are forgotten or moved.
    newest
        The newest time of modification of a file that was taken, but not after the system clock.
    last
        The greatest name of a file that was taken.
    backlog
        Whether files of the first listing are left: they are read however old they are.
    """

    files: tuple[FoundFile, ...] = ()
    reports: tuple[ReportedFile, ...] = ()
    recent: str = ""
    segments: tuple[Segment, ...] = ()
    dropped: tuple[Segment, ...] = ()
    newest: int = 0
    last: str = ""
    backlog: bool = True

    def to_json(self) -> Json:
        """Return the position as a JSON value."""
        return {
            "files": [list(f) for f in self.files],
            "reports": [list(r) for r in self.reports],
            "recent": self.recent,
            "segments": [[s.digest, s.newest] for s in self.segments],
            "dropped": [[s.digest, s.newest] for s in self.dropped],
            "newest": self.newest,
            "last": self.last,
            "backlog": self.backlog,
        }

    @classmethod
    def from_json(cls, written: Json) -> FilePosition:
        """Return the position from its JSON value; raise StateError for another value."""
        try:
            return cls(
                tuple(FoundFile(*f) for f in written["files"]),
                tuple(ReportedFile(*r) for r in written["reports"]),
                written["recent"],
                tuple(Segment(*s) for s in written["segments"]),
                tuple(Segment(*s) for s in written["dropped"]),
                written["newest"],
                written["last"],
                written["backlog"],
            )
        except (KeyError, TypeError) as problem:
            raise StateError(
                f"the position of lw.files in the checkpoint cannot be read: {problem!r}; it was "
                f"written by another version or is damaged: start with a new checkpoint"
            ) from problem


def name_hash(name: str) -> bytes:
    """Return the hash by which the name of a file is remembered."""
    return blake2b(name.encode("utf-8", "surrogateescape"), digest_size=_NAME_BYTES).digest()


def sign(size: int, modified: int) -> bytes:
    """Return the hash by which a change of a file is found."""
    return blake2b(f"{size} {modified}".encode(), digest_size=_SIGN_BYTES).digest()


def _stamps(files: Iterable[FoundFile | ReportedFile]) -> bytes:
    return b"".join(name_hash(f.name) + sign(f.size, f.modified) for f in files)


def _split(stamps: bytes) -> Iterable[tuple[bytes, bytes]]:
    for at in range(0, len(stamps), _STAMP_BYTES):
        yield stamps[at : at + _NAME_BYTES], stamps[at + _NAME_BYTES : at + _STAMP_BYTES]


@dataclass
class TakenFiles:
    """The stamps of all files that were taken up to a position, and the newest listing.

    `folder` is where segments are stored; without it, all stamps stay in the positions.
    """

    folder: str | None = None
    at: Json = None
    """The position that `signs` belong to."""
    next: Json = None
    """The end of an epoch that begins at `at`."""
    segments: tuple[Segment, ...] = ()
    """The segments of `at`. When the next position lacks one of them, `signs` are read again."""
    signs: dict[bytes, bytes] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Names of files in the folder that have a stamp: a listing need not hash them again."""
    listing: list[FoundFile] = field(default_factory=list)
    checked: float = 0.0
    """When the files that were taken were last compared with their stamps."""

    def __reduce__(self) -> tuple[type[TakenFiles], tuple[()]]:
        return TakenFiles, ()  # executors read files, but never choose them

    def load(self, written: Json) -> FilePosition:
        """Make `signs` those of all files that were taken up to a position; return the position."""
        position = FilePosition.from_json(written)
        if self.at is written or self.at == written:
            return position
        follows = self.next is not None and self.next == written
        if not follows:
            self.listing, self.checked = [], 0.0
        if not follows or not set(self.segments) <= set(position.segments):
            self.signs, self.names = {}, set()
            for segment in position.segments:
                self.signs.update(_split(read_segment(segment, self.folder)))
            self.signs.update(_split(b64decode(position.recent)))
        self.segments = position.segments
        self.signs.update(_split(_stamps([*position.files, *position.reports])))
        self.at = written
        return position

    def taken(self, name: str) -> bool:
        """Return whether a file of this name was taken or reported."""
        if name in self.names:
            return True
        if name_hash(name) not in self.signs:
            return False
        self.names.add(name)
        return True

    def changed(self, found: FoundFile) -> bool:
        """Return whether a file that was taken had another size or time then."""
        return self.signs.get(name_hash(found.name)) != sign(found.size, found.modified)

    def after(
        self,
        start: FilePosition,
        files: Sequence[FoundFile],
        reports: Sequence[ReportedFile],
        *,
        backlog: bool,
        max_age: int | None,
        present: Callable[[], Iterable[str]],
    ) -> Json:
        """Return the position after the epoch that takes `files`, which begins at `start`.

        `max_age` is in nanoseconds; `present()` returns the names of the files in the folder.
        """
        recent = b64decode(start.recent) + _stamps([*start.files, *start.reports])
        segments, dropped = start.segments, start.dropped
        if self.folder is not None and len(recent) >= SEGMENT_STAMPS * _STAMP_BYTES:
            segments, dropped = self._spill(start, recent, max_age, present)
            recent = b""
        now = time.time_ns()
        end = FilePosition(
            tuple(files),
            tuple(reports),
            b64encode(recent).decode(),
            segments,
            dropped,
            max([start.newest, *(min(f.modified, now) for f in files)]),
            max([start.last, *(f.name for f in files)]),
            backlog,
        )
        self.next = end.to_json()
        return self.next

    def _spill(
        self,
        start: FilePosition,
        recent: bytes,
        max_age: int | None,
        present: Callable[[], Iterable[str]],
    ) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        """Store `recent` as a segment, with what is left of old segments; return all segments."""
        oldest = -1 if max_age is None else start.newest - max_age
        kept, gone, moved = [], [], b""
        old = [s for s in start.segments if s.newest < oldest]
        here = {name_hash(name) for name in present()} if old else set()
        for segment in start.segments:
            if segment not in old:
                kept.append(segment)
                continue
            stamps = read_segment(segment, self.folder)
            left = b"".join(n + s for n, s in _split(stamps) if n in here)
            if 2 * len(left) > len(stamps):
                kept.append(segment)
            else:
                gone.append(segment)
                moved += left
        kept.append(self._store(moved + recent, start.newest))
        dropped = (*start.dropped, *gone)
        # An older entry of the log may need a segment: it stays for twice the age.
        over = [s for s in dropped if max_age is not None and s.newest < oldest - max_age]
        for segment in over:
            AtomicFolder(str(self.folder)).delete(_file(segment.digest))
        return tuple(kept), tuple(s for s in dropped if s not in over)

    def _store(self, stamps: bytes, newest: int) -> Segment:
        digest = blake2b(stamps, digest_size=16).hexdigest()
        AtomicFolder(str(self.folder)).write(_file(digest), stamps)
        return Segment(digest, newest)


def read_segment(segment: Segment, folder: str | None) -> bytes:
    """Return the stamps of a segment; raise StateError if its file is missing or altered."""
    name = _file(segment.digest)
    stamps = None if folder is None else AtomicFolder(folder).read(name)
    if stamps is None or blake2b(stamps, digest_size=16).hexdigest() != segment.digest:
        state = "is missing" if stamps is None else "was altered"
        raise StateError(
            f"{folder}/{name}: this file of the checkpoint {state}: it lists files that lw.files "
            f"has taken; restore the checkpoint, or start with a new one"
        )
    return stamps


def stamp_files(position: Json, folder: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the segments of stamps in `folder` that a position needs.

    Raise StateError for one that is missing or altered. Other sources' positions need none.
    """
    if isinstance(position, dict) and "segments" in position:
        for segment in FilePosition.from_json(position).segments:
            yield _file(segment.digest), read_segment(segment, folder)


def _file(digest: str) -> str:
    return f"taken-{digest}"


def nanoseconds(microseconds: int) -> int:
    """Return a length in microseconds (ticks) in nanoseconds."""
    return microseconds * (_NANOSECONDS // 1_000_000)
