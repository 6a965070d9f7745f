"""The control log: a sequence of numbered records, each written once and never changed.

| record | written | meaning |
|---|---|---|
| claim | when a run starts | the run owns the checkpoint from now on |
| opening | before an epoch runs | the epoch reads up to these positions, in every attempt |
| entry | at the end of an epoch | the controller's decisions, and the state they belong to |
| release | when a run stops in order | the outputs of the last entry are published |
| set aside | by `lowwater state --set-aside` | the rows of the opened epoch are malformed |
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from lowwater.control.context import EpochContext
from lowwater.engine.entry import Entry, Opening

KEPT_EPOCHS = 20
"""The number of newest epochs whose state is kept, so that a query can be rewound to their ends."""
KEPT_RECORDS = 400
"""The number of records before the newest entry that the log keeps, for `lowwater state`."""


class ControlLog(ABC):
    """A store of the records of a query. `newest` and `opened` are those of the last records."""

    owner: str = ""
    """The token of the run that writes the log; empty for a reader."""
    tag: str = ""
    """The tag of the opened epoch, from the checksum of its opening."""
    released: bool = True
    """Whether the outputs of the newest entry are published for certain."""
    set_aside: bool = False
    """Whether the rows of the opened epoch are set aside, so that no operator receives them."""

    @abstractmethod
    def claim(self, now: int) -> None:
        """Become the owner of the log; any other run fails at its next record."""

    def owned(self) -> bool:
        """Return whether no other run has claimed the log since `claim`."""
        return True

    def check_owner(self) -> None:  # noqa: B027
        """Raise TakenOverError if another run has claimed the log."""

    @abstractmethod
    def release(self) -> None:
        """Record that the run ends in order and has published all outputs."""

    @abstractmethod
    def newest(self) -> Entry | None:
        """Return the entry of the newest epoch; None if the log has no entry."""

    @abstractmethod
    def read(self, epoch: int) -> Entry | None:
        """Return the entry of `epoch`; None if the log has no such entry."""

    @abstractmethod
    def append(self, entry: Entry) -> Entry:
        """Append `entry` unless its epoch has an entry; return the entry that the log then has.

        Raise TakenOverError if another run has taken over the log.
        """

    @abstractmethod
    def open(self, opening: Opening) -> Opening:
        """Record the opening of the next epoch; return the opening that the epoch then has."""

    @abstractmethod
    def tags(self) -> dict[int, str]:
        """Return {epoch: tag} of the epochs in the log, including the opened epoch."""

    @abstractmethod
    def opened(self) -> Opening | None:
        """Return the opening of the epoch after the newest entry; None if it was not opened."""

    def before(self, epoch: int) -> Entry:
        """Return the entry of the previous epoch, whose decisions are in force during `epoch`."""
        return self.read(epoch - 1) or Entry(-1)

    def begin(self, standing: EpochContext) -> None:
        """Append the entry before the first epoch, unless the log has entries."""
        if self.newest() is None:
            self.append(Entry(-1, standing=standing))


class MemoryLog(ControlLog):
    """A control log in memory, lost when the process ends; all its epochs have the same `tag`."""

    def __init__(self, tag: str = "") -> None:
        self._entries: dict[int, Entry] = {}
        self.tag = tag

    def claim(self, now: int) -> None:  # noqa: D102
        del now

    def release(self) -> None:  # noqa: D102
        pass

    def newest(self) -> Entry | None:  # noqa: D102
        return self._entries[max(self._entries)] if self._entries else None

    def read(self, epoch: int) -> Entry | None:  # noqa: D102
        return self._entries.get(epoch)

    def append(self, entry: Entry) -> Entry:  # noqa: D102
        self._entries.pop(entry.epoch - KEPT_RECORDS, None)
        return self._entries.setdefault(entry.epoch, entry)

    def open(self, opening: Opening) -> Opening:  # noqa: D102
        return opening

    def tags(self) -> dict[int, str]:  # noqa: D102
        return {}

    def opened(self) -> Opening | None:  # noqa: D102
        return None
