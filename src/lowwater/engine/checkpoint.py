"""The folders of a checkpoint, and the query description that a checkpoint stores."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowwater.engine.checksum import checksum as checksum_of
from lowwater.engine.folder_log import FolderLog
from lowwater.errors import StateError
from lowwater.planner.fingerprint import STATE_VERSION, fingerprint
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.storage.folder import AtomicFolder

NAME = "lowwater.json"
"""The file of a checkpoint that describes its query."""


@dataclass(frozen=True)
class StoredQuery:
    """The description of a query in its checkpoint: a random id, and the query's fingerprint."""

    id: str
    fingerprint: Mapping[str, Any]

    @property
    def shards(self) -> int:
        """The number of shards of each operator."""
        return int(self.fingerprint["query"]["shards"])

    def to_bytes(self) -> bytes:
        """Return the description as JSON with a checksum."""
        described = {"id": self.id, **self.fingerprint}
        return json.dumps({**described, "checksum": _sum(described)}, indent=1).encode()

    @classmethod
    def from_bytes(cls, written: bytes, path: str) -> StoredQuery:
        """Return the description in `written`; raise StateError if it is damaged or too old."""
        try:
            described = json.loads(written)
            version = described.get("version")
        except (ValueError, AttributeError) as problem:
            raise StateError(f"{path} is damaged ({problem}); {_REMEDY}") from problem
        if version != STATE_VERSION and isinstance(version, int):
            raise StateError(
                f"{path} has state version {version}, but this Lowwater reads version "
                f"{STATE_VERSION}; finish the query with the Lowwater that wrote it, or start with "
                f"a new checkpoint"
            )
        checksum = described.pop("checksum", None)
        if checksum != _sum(described):
            raise StateError(f"{path} is damaged: its checksum differs; {_REMEDY}")
        return cls(described.pop("id"), described)


_REMEDY = "restore it from a backup, or start with a new checkpoint"


def _sum(described: Mapping[str, Any]) -> str:
    return checksum_of(json.dumps(described, sort_keys=True).encode(), NAME)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint folder, with the paths of its subfolders."""

    root: str

    @classmethod
    def at(cls, path: str) -> Checkpoint:
        """Return the checkpoint at `path`; executors read it, too, so the path becomes absolute."""
        local = path.removeprefix("file://")
        return cls(local if "://" in local else str(Path(local).absolute()))

    @property
    def remote(self) -> bool:
        """Whether the checkpoint is on a remote file system."""
        return "://" in self.root

    @property
    def spark(self) -> str:
        """The folder of Spark's offsets and commits, with a folder of its own for each owner."""
        return f"{self.root}/spark"

    def spark_of(self, owner: str) -> str:
        """Return the folder to which the Spark of the run `owner` writes."""
        return f"{self.spark}/{owner}"

    @property
    def state(self) -> str:
        """The folder of the state segments of all shards."""
        return f"{self.root}/state"

    @property
    def source(self) -> str:
        """The folder of stored input rows, which a restart reads again."""
        return f"{self.root}/source"

    @property
    def outputs(self) -> str:
        """The folder of output tables that are not yet written to their sinks."""
        return f"{self.root}/outputs"

    def log(self, query: str) -> FolderLog:
        """Return the control log of the checkpoint, which belongs to the query with this id."""
        return FolderLog(f"{self.root}/control", query)

    def stored(self) -> StoredQuery | None:
        """Return the query that the checkpoint belongs to; None for a new checkpoint.

        Raise StateError if its description is damaged.
        """
        folder = AtomicFolder(self.root)
        written = folder.read(NAME)
        if written is None:
            if names := folder.names():
                problem = (
                    f"has no {NAME}: it is damaged; restore it from a backup"
                    if "control" in names
                    else "holds files that are not of a checkpoint"
                )
                raise StateError(
                    f"checkpoint={self.root!r} {problem}, or name an empty folder, or one that "
                    f"does not exist yet"
                )
            return None
        return StoredQuery.from_bytes(written, folder.path(NAME))

    def belongs_to(self, assembly: PhysicalPlan, shards: int) -> StoredQuery:
        """Return the stored query, which must equal `assembly`; a new checkpoint stores it.

        `shards` is the number of shards of a new checkpoint. Raise StateError if the checkpoint
        belongs to another query or to another state version.
        """
        stored = self.stored()
        if stored is None:
            new = StoredQuery(secrets.token_hex(8), fingerprint(assembly, shards))
            if AtomicFolder(self.root).create(NAME, new.to_bytes()):
                return new
            stored = self.stored()
            assert stored is not None  # noqa: S101
        wanted = fingerprint(assembly, stored.shards)
        if stored.fingerprint["digest"] != wanted["digest"]:
            raise StateError(
                f"checkpoint={self.root!r} belongs to another query: "
                f"{_difference(stored.fingerprint['query'], wanted['query'])}. Start the changed "
                f"query with a new checkpoint, or go back to the old one"
            )
        return stored


def _difference(stored: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return a text that names the fields in which two query descriptions differ, with values."""
    as_read = json.loads(json.dumps(wanted))  # JSON turns tuples into lists
    return "; ".join(_differences(stored, as_read, "its"))


def _differences(stored: Any, wanted: Any, path: str) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for name in dict.fromkeys([*wanted, *stored]):
            yield from _differences(stored.get(name), wanted.get(name), f"{path} {name}")
    elif stored != wanted:
        texts = [json.dumps(v, ensure_ascii=False) for v in (stored, wanted)]
        yield f"{path} is {texts[0]}, not {texts[1]}"
