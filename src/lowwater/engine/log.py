"""The control log: one entry per epoch, written once and never changed.

Entry n is appended at the end of epoch n. It holds the controller's decisions, which the operators
obey in epoch n+1, and the memory that the controller needs after a restart. The opening of an epoch
is written before the epoch runs: a repeated epoch reads up to the same positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from lowwater.control.context import EpochContext
from lowwater.engine.entry import Entry, Opening, Positions
from lowwater.storage import AtomicFolder

KEPT_ENTRIES = 200
"""The number of newest entries that the log keeps. A restart needs two; people read the others."""


class ControlLog(ABC):
    """A store of the openings and entries of epochs."""

    @abstractmethod
    def read(self, epoch: int) -> Entry | None:
        """Return the entry of `epoch`, None if the log has no such entry."""

    @abstractmethod
    def append(self, entry: Entry) -> Entry:
        """Append `entry` unless its epoch has an entry; return the entry that the log then has."""

    @abstractmethod
    def newest(self) -> Entry | None:
        """Return the entry of the newest epoch, None for an empty log."""

    @abstractmethod
    def open(self, epoch: int, positions: Positions) -> bool:
        """Record the positions up to which an epoch will read; return whether the epoch may run.

        An epoch may not run if it has an entry, or if it was opened with other positions.
        """

    @abstractmethod
    def opened(self, epoch: int) -> Positions | None:
        """Return the positions that `epoch` was opened with, None if it was not opened."""

    def before(self, epoch: int) -> Entry:
        """Return the entry of the previous epoch, whose decisions are in force during `epoch`."""
        return self.read(epoch - 1) or Entry(-1)

    def begin(self, wall: int | None) -> None:
        """Append the entry before the first epoch; `wall` is the wall-clock time, or None."""
        self.append(Entry(-1, standing=EpochContext(wall=wall)))


class MemoryLog(ControlLog):
    """A control log in memory, lost when the process ends."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}

    def read(self, epoch: int) -> Entry | None:  # noqa: D102
        return self._entries.get(epoch)

    def append(self, entry: Entry) -> Entry:  # noqa: D102
        self._entries.pop(entry.epoch - KEPT_ENTRIES, None)
        return self._entries.setdefault(entry.epoch, entry)

    def newest(self) -> Entry | None:  # noqa: D102
        return self._entries[max(self._entries)] if self._entries else None

    def open(self, epoch: int, positions: Positions) -> bool:  # noqa: D102
        return True

    def opened(self, epoch: int) -> Positions | None:  # noqa: D102
        return None


class FolderLog(ControlLog):
    """A control log in a folder, on any file system that Arrow supports."""

    def __init__(self, folder: str) -> None:
        self._folder = AtomicFolder(folder)

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

    def open(self, epoch: int, positions: Positions) -> bool:  # noqa: D102
        if self.read(epoch) is not None:
            return False
        content = Opening(positions).to_bytes()
        first = self._folder.write(_name(epoch, _OPENING), content, once=True)
        return first or self.opened(epoch) == positions

    def opened(self, epoch: int) -> Positions | None:  # noqa: D102
        content = self._folder.read(_name(epoch, _OPENING))
        return None if content is None else Opening.from_bytes(content).positions


_ENTRY, _OPENING = ".json", ".opening"


def _name(epoch: int, ending: str = _ENTRY) -> str:
    return f"{epoch + 1:012d}{ending}"
