"""Savepoints: the state, the newest entry and the positions of a query as one file.

A savepoint is a zip archive with these members, each with a checksum in the first:

| member | content |
|---|---|
| `savepoint.json` | the query's fingerprint, the entry, and the checksum of every other member |
| `state/OPERATOR/SHARD/N` | a bucket of a shard's state |
| `source/INPUT/...` | what an input has stored about files that it has read |
| `spark/...` | Spark's offsets, commits and logs of file sources |

An imported checkpoint is a query with an id of its own, so it does not write to the outputs of the
original query, unless the sinks have `existing="append"`.
"""

from __future__ import annotations

import json
import secrets
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowwater.codec import decode, encode
from lowwater.engine.checkpoint import NAME, Checkpoint, StoredQuery
from lowwater.engine.checksum import checksum
from lowwater.engine.entry import Entry, Positions, SegmentRange
from lowwater.engine.spark_folder import SparkFolder, offset_files
from lowwater.engine.state_store import Attempt, ShardState, StateFolder, segments_after
from lowwater.errors import SpecError, StateError
from lowwater.sources.stdin import last_spooled
from lowwater.sources.taken_files import stamp_files
from lowwater.storage.folder import AtomicFolder

VERSION = 1
_MANIFEST = "savepoint.json"
_DAMAGE = (
    OSError, EOFError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""The errors that `zipfile` raises for a damaged archive, and those of a damaged member."""


@dataclass(frozen=True)
class Savepoint:
    """The end of an export: the epoch whose state was written, and the size of the file.

    `set_aside` is whether the rows of the next epoch are set aside; the file does not hold this.
    """

    epoch: int
    bytes: int
    set_aside: bool


def write_savepoint(root: str, target: Path) -> Savepoint:
    """Write a savepoint of the checkpoint at `root` to the file `target`.

    The query may run meanwhile: its owner does not delete state while a pin is in the checkpoint.
    """
    checkpoint = Checkpoint.at(root)
    stored = checkpoint.stored()
    if stored is None:
        raise SpecError(f"{root!r} is not a checkpoint of Lowwater; name the folder of one")
    if target.exists():
        raise SpecError(f"{str(target)!r} exists; name a file that does not exist yet")
    state = StateFolder(checkpoint.state, stored.id)
    with state.pinned():
        log = checkpoint.log(stored.id)
        entry = log.newest()
        if entry is None or entry.epoch < 0:
            raise SpecError("no epoch of this checkpoint has ended, so it has nothing to export")
        aside = target.with_name(f".{target.name}.tmp")
        sums: dict[str, str] = {}
        buckets: dict[str, str] = {}
        with zipfile.ZipFile(aside, "w") as archive:
            for member, content, bucket in _members(checkpoint, state, entry):
                archive.writestr(member, content)
                sums[member] = checksum(content, member)
                if bucket is not None:
                    buckets[member] = bucket
            manifest = {
                "version": VERSION,
                "fingerprint": stored.fingerprint,
                "entry": encode(entry),
                "buckets": buckets,
                "checksums": sums,
            }
            text = json.dumps(manifest, sort_keys=True).encode()
            archive.writestr(_MANIFEST, checksum(text, _MANIFEST).encode() + b"\n" + text)
        aside.replace(target)
    return Savepoint(entry.epoch, target.stat().st_size, log.set_aside)


def _members(
    checkpoint: Checkpoint, state: StateFolder, entry: Entry
) -> Iterator[tuple[str, bytes, str | None]]:
    """Yield (name, content, name of the bucket) of the members of a savepoint."""
    for segment in entry.segments:
        shard = ShardState(state.shard(segment.operator, segment.start), segment)
        for number, bucket in enumerate(shard):
            yield f"state/{segment.operator}/{segment.start}/{number}", shard[bucket], bucket
    for number, position in (entry.positions or Positions()).inputs.items():
        folder = f"{checkpoint.source}/{number}"
        for name, content in (*stamp_files(position, folder), *last_spooled(position, folder)):
            yield f"source/{number}/{name}", content, None
    for name, content in offset_files(checkpoint, entry.positions).items():
        yield f"spark/{name}", content, None


def read_savepoint(source: Path, root: str) -> int:
    """Make a checkpoint at `root`, an empty or new folder, from the savepoint `source`.

    Return the epoch after which the query continues. Raise StateError if the file is damaged.
    """
    checkpoint = Checkpoint.at(root)
    if AtomicFolder(checkpoint.root).names():
        raise SpecError(f"{root!r} is not empty; name an empty folder, or one that does not exist")
    try:
        with zipfile.ZipFile(source) as archive:
            return _Import(archive, _manifest(archive), checkpoint).run()
    except _DAMAGE as problem:
        raise StateError(
            f"{str(source)!r} is not an intact savepoint ({problem}); export it again, or restore "
            f"it from a backup"
        ) from problem


def _manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    digest, _, text = archive.read(_MANIFEST).partition(b"\n")
    if digest.decode() != checksum(text, _MANIFEST):
        raise ValueError("the checksum of its manifest differs")
    manifest: dict[str, Any] = json.loads(text)
    if manifest["version"] != VERSION:
        raise ValueError(f"it has version {manifest['version']}, this Lowwater reads {VERSION}")
    return manifest


@dataclass(frozen=True)
class _Import:
    """The import of one savepoint into a new checkpoint."""

    archive: zipfile.ZipFile
    manifest: dict[str, Any]
    checkpoint: Checkpoint

    def run(self) -> int:
        """Write the checkpoint, and return the epoch after which the query continues."""
        root = self.checkpoint.root
        entry = decode(Entry, self.manifest["entry"])
        stored = StoredQuery(secrets.token_hex(8), self.manifest["fingerprint"])
        segments = self._write_state(stored.id, entry)
        for member in self.manifest["checksums"]:
            if member.startswith("source/"):
                folder, _, name = member.rpartition("/")
                AtomicFolder(f"{root}/{folder}").write(name, self._content(member))
        log = self.checkpoint.log(stored.id)
        log.claim(time.time_ns() // 1_000)
        of_spark = [m for m in self.manifest["checksums"] if m.startswith("spark/")]
        files = {member.removeprefix("spark/"): self._content(member) for member in of_spark}
        SparkFolder(self.checkpoint.spark_of(log.owner)).write(files)
        log.append(replace(entry, segments=segments, pending=None, outputs=(), tag=""))
        log.release()
        AtomicFolder(root).write(NAME, stored.to_bytes())  # last: now it is a checkpoint
        return entry.epoch

    def _write_state(self, query: str, entry: Entry) -> tuple[SegmentRange, ...]:
        """Write the state, one segment per shard, and return the segments."""
        shards: dict[tuple[int, int], dict[str, bytes | None]] = {}
        for segment in entry.segments:
            shards[segment.operator, segment.start] = {}
        for member, bucket in self.manifest["buckets"].items():
            _, operator, shard, _ = member.split("/")
            shards[int(operator), int(shard)][bucket] = self._content(member)
        state, written = StateFolder(self.checkpoint.state, query), []
        for number, (place, buckets) in enumerate(shards.items()):
            empty = ShardState(state.shard(*place), None)
            written.append(empty.write(buckets, entry.epoch, Attempt("import", number)))
        return segments_after((), written)

    def _content(self, member: str) -> bytes:
        """Return a member of the savepoint; raise ValueError if its checksum differs."""
        content = self.archive.read(member)
        if checksum(content, member) != self.manifest["checksums"].get(member):
            raise ValueError(f"the checksum of {member} differs")
        return content
