"""The records of the control log, each in a file: a line about the record, then its content.

The first line names the record's number, kind, query and owner, the checksum of the previous
record, and a checksum over all of these and the content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from lowwater.codec import decode, encode
from lowwater.engine.checksum import checksum
from lowwater.engine.entry import Entry, Opening
from lowwater.engine.log import KEPT_EPOCHS
from lowwater.ticks import END


@dataclass(frozen=True)
class Claim:
    """The record of a run that takes over a checkpoint: the run's token, machine and process."""

    VERSION: ClassVar[int] = 1

    owner: str
    machine: str = ""
    process: int = 0
    started: int = 0


@dataclass(frozen=True)
class Release:
    """The record of a run that stopped in order, after it had published all outputs."""

    VERSION: ClassVar[int] = 1

    owner: str


@dataclass(frozen=True)
class SetAside:
    """The record that the rows of an opened epoch are malformed on purpose: no operator sees them.

    It holds for every attempt of the epoch.
    """

    VERSION: ClassVar[int] = 1

    epoch: int


Content: TypeAlias = Claim | Opening | Entry | Release | SetAside
KINDS: dict[str, type[Any]] = {
    "claim": Claim,
    "opening": Opening,
    "entry": Entry,
    "release": Release,
    "set aside": SetAside,
}
_NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True)
class Record:
    """A record of the log: its number and content, the previous record's checksum, and its own."""

    number: int
    content: Content
    previous: str
    checksum: str

    @property
    def kind(self) -> str:
        """The kind of record, one of `KINDS`."""
        return _NAMES[type(self.content)]


def live_entries(records: Iterable[Record]) -> Iterator[Entry]:
    """Yield the entries among `records`, newest first, without epochs that a rewind abandoned."""
    next_epoch = END
    for record in records:
        if isinstance(record.content, Entry) and record.content.epoch < next_epoch:
            next_epoch = record.content.epoch
            yield record.content


def kept_entries(records: Iterable[Record]) -> Iterator[Entry]:
    """Yield the live entries, newest first, whose state is kept.

    The owner deletes state by the newest epoch that it has reached. A rewind does not bring deleted
    state back.
    """
    reached, next_epoch = -1, END
    for record in records:
        entry = record.content
        if not isinstance(entry, Entry):
            continue
        reached = max(reached, entry.epoch)
        if entry.epoch >= next_epoch:
            continue
        if entry.epoch < reached - KEPT_EPOCHS:
            return
        next_epoch = entry.epoch
        yield entry


def to_bytes(
    content: Content, number: int, query: str, owner: str, previous: str
) -> tuple[bytes, str]:
    """Return a record as a line of JSON about it and a line with its content, and its checksum."""
    kind, body = _NAMES[type(content)], json.dumps(encode(content)).encode()
    digest = checksum(body, query, number, kind, owner, previous)
    head = {
        "number": number,
        "kind": kind,
        "query": query,
        "owner": owner,
        "previous": previous,
        "checksum": digest,
    }
    return json.dumps(head).encode() + b"\n" + body, digest


def from_bytes(payload: bytes, number: int, query: str) -> Record:
    """Return the record in `payload`; raise ValueError unless number, query and checksum fit."""
    line, _, body = payload.partition(b"\n")
    head = json.loads(line)
    if head["query"] != query:
        raise ValueError(f"it belongs to query {head['query']}, not to {query}")
    identity = query, number, head["kind"], head["owner"], head["previous"]
    if head["checksum"] != checksum(body, *identity):
        raise ValueError("its checksum differs from its content")
    content = decode(KINDS[head["kind"]], json.loads(body))
    return Record(number, content, head["previous"], head["checksum"])
