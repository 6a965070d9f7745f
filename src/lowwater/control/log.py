"""The control log: one entry per epoch, written once, never changed (design: recovery protocol).

Entry n is written at the end of epoch n. It holds what the controller decided, which reaches the
operators in epoch n+1, and all the controller must remember to decide again after a restart. What
an epoch takes in is written before it begins, so that after a crash it takes in the same.
"""

from __future__ import annotations

import json
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from lowwater.control.records import Control, Standing
from lowwater.control.tuning import Tuned, from_json, to_json

KEPT_ENTRIES = 200
"""Older entries are deleted. A restart needs the newest two; the others are for people."""


@dataclass(frozen=True)
class Entry:
    """What the controller decided after an epoch, and what it knew then.

    `control` is for ports by their number, `memory` holds what each input's policy remembers.
    `taken` is how far into its sources the query has come, as the host counts it. `prodding` is
    what is remembered of early results, `adapting` what is remembered of how late rows are, where
    slack is chosen by it. `tuned` are parameters that were changed while the query ran: the entry
    was decided with them.
    """

    epoch: int
    control: Mapping[int, Control] = field(default_factory=dict)
    standing: Standing = field(default_factory=Standing)
    memory: Sequence[Mapping[str, Any]] = ()
    totals: Mapping[str, Any] = field(default_factory=dict)
    ended: bool = False
    taken: Any = None
    prodding: Mapping[str, Any] = field(default_factory=dict)
    adapting: Mapping[str, Any] = field(default_factory=dict)
    tuned: Mapping[str, Tuned] = field(default_factory=dict)

    @property
    def quiet(self) -> bool:
        """Whether operators have nothing to hear."""
        return not self.control

    @property
    def done(self) -> bool:
        """Whether the stream has ended and the operators have heard of it."""
        return self.ended and self.quiet

    def to_bytes(self) -> bytes:
        """Return the entry as JSON."""
        kept = {
            "epoch": self.epoch,
            "control": [[p, c.to_json()] for p, c in self.control.items()],
            "standing": self.standing.to_json(),
            "memory": self.memory,
            "totals": self.totals,
            "ended": self.ended,
            "taken": self.taken,
            "prodding": self.prodding,
            "adapting": self.adapting,
            **({"tuned": to_json(self.tuned)} if self.tuned else {}),
        }
        return json.dumps(kept).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Entry:
        """Read what `to_bytes` wrote."""
        kept = json.loads(payload)
        return cls(
            kept["epoch"],
            {port: Control.from_json(told) for port, told in kept["control"]},
            Standing.from_json(kept["standing"]),
            tuple(kept["memory"]),
            kept["totals"],
            kept["ended"],
            kept["taken"],
            kept["prodding"],
            kept.get("adapting", {}),
            from_json(kept.get("tuned", {})),
        )


@dataclass(frozen=True)
class Opening:
    """What an epoch that has begun takes in, up to where in its source."""

    taken: Any


class ControlLog(ABC):
    """Where entries are kept."""

    @abstractmethod
    def read(self, epoch: int) -> Entry | None:
        """Return the entry of an epoch, if there is one."""

    @abstractmethod
    def append(self, entry: Entry) -> Entry:
        """Write an entry, unless there is one for its epoch: then that one stands."""

    @abstractmethod
    def newest(self) -> Entry | None:
        """Return the entry of the newest epoch."""

    def before(self, epoch: int) -> Entry:
        """Return the entry that was in force when an epoch began."""
        return self.read(epoch - 1) or Entry(-1)

    def begin(self, wall: int | None) -> None:
        """Write down the wall clock at which the stream began, for its first epoch to go by."""
        self.append(Entry(-1, standing=Standing(wall=wall)))


class MemoryLog(ControlLog):
    """A log that lasts as long as the process."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}

    def read(self, epoch: int) -> Entry | None:  # noqa: D102
        return self._entries.get(epoch)

    def append(self, entry: Entry) -> Entry:  # noqa: D102
        self._entries.pop(entry.epoch - KEPT_ENTRIES, None)
        return self._entries.setdefault(entry.epoch, entry)

    def newest(self) -> Entry | None:  # noqa: D102
        return self._entries[max(self._entries)] if self._entries else None


class FolderLog(ControlLog):
    """A log in a folder of files, on any file system that Arrow reaches."""

    def __init__(self, folder: str) -> None:
        self._folder = Folder(folder)

    def read(self, epoch: int) -> Entry | None:  # noqa: D102
        payload = self._folder.read(_name(epoch))
        return None if payload is None else Entry.from_bytes(payload)

    def append(self, entry: Entry) -> Entry:  # noqa: D102
        if not self._folder.write(_name(entry.epoch), entry.to_bytes(), once=True):
            return self.read(entry.epoch) or entry
        for ending in (_ENTRY, _OPENING):
            self._folder.delete(_name(entry.epoch - KEPT_ENTRIES, ending))
        return entry

    def newest(self) -> Entry | None:  # noqa: D102
        names = [n for n in self._folder.names() if n.endswith(_ENTRY)]
        return self.read(int(max(names).removesuffix(_ENTRY)) - 1) if names else None

    def open(self, epoch: int, taken: Any) -> bool:
        """Write down what an epoch takes in, before it begins.

        Say whether it does: not if it has begun with something else, or has ended.
        """
        if self.read(epoch) is not None:
            return False
        content = json.dumps({"taken": taken}).encode()
        won = self._folder.write(_name(epoch, _OPENING), content, once=True)
        return won or self.opened(epoch) == Opening(taken)

    def opened(self, epoch: int) -> Opening | None:
        """Return what an epoch that has begun takes in, None if it has not begun."""
        kept = self._folder.read(_name(epoch, _OPENING))
        return None if kept is None else Opening(json.loads(kept)["taken"])


_ENTRY, _OPENING = ".json", ".opening"


def _name(epoch: int, ending: str = _ENTRY) -> str:
    return f"{epoch + 1:012d}{ending}"


_ATOMIC_PUTS = ("s3", "gcs", "abfs")


class Folder:
    """A folder of small files that appear whole or not at all.

    On a local disk a file is written aside, synced and renamed; an object store's put is atomic by
    itself.
    """

    def __init__(self, path: str) -> None:
        self._files, self._root = _resolve(path)

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if there is no such file."""
        if self._files is None:
            try:
                return Path(self._root, name).read_bytes()
            except FileNotFoundError:
                return None
        info = self._files.get_file_info(f"{self._root}/{name}")
        if info.type == pafs.FileType.NotFound:
            return None
        with self._files.open_input_stream(info.path) as stream:
            return bytes(stream.read())

    def open(self, name: str) -> pa.NativeFile:
        """Open a file that is there, to read parts of it."""
        if self._files is None:
            return pa.OSFile(str(Path(self._root, name)))
        return self._files.open_input_file(f"{self._root}/{name}")

    def write(self, name: str, content: bytes, *, once: bool = False) -> bool:
        """Write a file; `once` leaves one that is there alone. Say whether it was written."""
        if once and self.read(name) is not None:
            return False
        if self._files is not None:
            self._put(name, content)
            return True
        target = Path(self._root, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.tmp")
        with aside.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if not once:
            aside.replace(target)
            return True
        try:  # unlike a rename, a link never replaces what another process has written meanwhile
            os.link(aside, target)
        except FileExistsError:
            return False
        finally:
            aside.unlink()
        return True

    def _put(self, name: str, content: bytes) -> None:
        """Write a file elsewhere: where a put is not atomic, a move is."""
        assert self._files is not None  # noqa: S101
        self._files.create_dir(self._root, recursive=True)
        target = f"{self._root}/{name}"
        aside = target if self._files.type_name in _ATOMIC_PUTS else f"{self._root}/.{name}.tmp"
        with self._files.open_output_stream(aside) as stream:
            stream.write(content)
        if aside != target:
            self._files.move(aside, target)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        if self._files is None:
            Path(self._root, name).unlink(missing_ok=True)
        elif self._files.get_file_info(f"{self._root}/{name}").type == pafs.FileType.File:
            self._files.delete_file(f"{self._root}/{name}")

    def names(self) -> list[str]:
        """Return the names of the files in the folder."""
        if self._files is None:
            root = Path(self._root)
            return [p.name for p in root.iterdir() if p.name[0] != "."] if root.is_dir() else []
        selector = pafs.FileSelector(self._root, allow_not_found=True)
        found = [i.base_name for i in self._files.get_file_info(selector)]
        return [name for name in found if name[0] != "."]


def _resolve(path: str) -> tuple[pafs.FileSystem | None, str]:
    if "://" not in path:
        return None, str(Path(path.removeprefix("file:")).absolute())
    if path.startswith("file://"):
        return None, path.removeprefix("file://")
    files, root = pafs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", path))
    return files, root
