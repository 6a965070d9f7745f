"""A checkpoint: Spark's own, the control log, the state, and the query they belong to."""

from __future__ import annotations

import json
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
    """The folders of a checkpoint."""

    root: str

    @classmethod
    def at(cls, path: str) -> Checkpoint:
        """Return the checkpoint at a path, which means the same to executors elsewhere."""
        local = path.removeprefix("file://")
        return cls(local if "://" in local else str(Path(local).absolute()))

    @property
    def remote(self) -> bool:
        """Whether it is anywhere but on a local disk."""
        return "://" in self.root

    @property
    def spark(self) -> str:
        """Where Spark keeps offsets and commits."""
        return f"{self.root}/spark"

    @property
    def control(self) -> str:
        """Where the control log is."""
        return f"{self.root}/control"

    @property
    def state(self) -> str:
        """Where the shards keep their state."""
        return f"{self.root}/state"

    @property
    def source(self) -> str:
        """Where a source keeps what it must read again."""
        return f"{self.root}/source"

    @property
    def outputs(self) -> str:
        """Where tables wait until their epoch's entry is written."""
        return f"{self.root}/outputs"

    def log(self) -> FolderLog:
        """Return the control log."""
        return FolderLog(self.control)

    def claim(self, assembly: PhysicalPlan, shards: int) -> int:
        """Take the checkpoint for a query, or refuse it; return the number of its shards."""
        folder = AtomicFolder(self.root)
        kept = folder.read(_NAME)
        if kept is None:
            if folder.names():
                raise StateError(
                    f"checkpoint={self.root!r} holds files that are not of a checkpoint; "
                    f"name an empty or new folder"
                )
            folder.write(_NAME, json.dumps(fingerprint(assembly, shards), indent=1).encode())
            return shards
        found = json.loads(kept)
        shards = found["query"]["shards"]
        wanted = fingerprint(assembly, shards)
        if found["version"] != wanted["version"]:
            raise StateError(
                f"checkpoint={self.root!r} was written by state version {found['version']}, this "
                f"is version {wanted['version']}: run it out with the older Lowwater, or start "
                f"with a new checkpoint"
            )
        if found["digest"] != wanted["digest"]:
            raise StateError(
                f"checkpoint={self.root!r} belongs to another query: "
                f"{_difference(found['query'], wanted['query'])}. Start the changed query with a "
                f"new checkpoint, or go back to the old one"
            )
        return int(shards)


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return the differences of two descriptions as text, each down to the part that differs."""
    # As it is read back: a tuple is written as a list.
    return "; ".join(_differences(found, json.loads(json.dumps(wanted)), "its"))


def _differences(found: Any, wanted: Any, what: str) -> list[str]:
    if found == wanted:
        return []
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        said = [json.dumps(v, ensure_ascii=False) for v in (found, wanted)]
        return [f"{what} is {said[0]}, not {said[1]}"]
    names = dict.fromkeys([*wanted, *found])
    told = [_differences(found.get(n), wanted.get(n), f"{what} {n}") for n in names]
    return [one for some in told for one in some]
