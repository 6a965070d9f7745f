"""The folders of a checkpoint, and the query description that a checkpoint stores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowwater.engine.log import FolderLog
from lowwater.errors import StateError
from lowwater.planner.fingerprint import fingerprint
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.storage import AtomicFolder

_NAME = "lowwater.json"


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
        """The folder of Spark's offsets and commits."""
        return f"{self.root}/spark"

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

    def log(self) -> FolderLog:
        """Return the control log of the checkpoint."""
        return FolderLog(f"{self.root}/control")

    def claim(self, assembly: PhysicalPlan, shards: int) -> int:
        """Return the checkpoint's number of shards; a new checkpoint stores the query and `shards`.

        Raise StateError if the checkpoint belongs to another query or to another state version.
        """
        folder = AtomicFolder(self.root)
        written = folder.read(_NAME)
        if written is None:
            if folder.names():
                raise StateError(
                    f"checkpoint={self.root!r} holds files that are not of a checkpoint; "
                    f"name an empty folder, or one that does not exist yet"
                )
            folder.write(_NAME, json.dumps(fingerprint(assembly, shards), indent=1).encode())
            return shards
        stored = json.loads(written)
        shards = stored["query"]["shards"]
        wanted = fingerprint(assembly, shards)
        if stored["version"] != wanted["version"]:
            raise StateError(
                f"checkpoint={self.root!r} was written in state version {stored['version']}, but "
                f"this Lowwater reads version {wanted['version']}; finish the query with the older "
                f"Lowwater, or start with a new checkpoint"
            )
        if stored["digest"] != wanted["digest"]:
            raise StateError(
                f"checkpoint={self.root!r} belongs to another query: "
                f"{_difference(stored['query'], wanted['query'])}. Start the changed query with a "
                f"new checkpoint, or go back to the old one"
            )
        return int(shards)


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
