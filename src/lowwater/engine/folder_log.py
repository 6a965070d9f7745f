"""The control log in a folder: one file per record, named by the record's number.

A record holds the checksum of the record before it. Its number is taken by a put-if-absent, so one
run at most can write it. A run whose checkpoint was claimed by another run finds the next number
taken, and ends.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator

from lowwater.engine.entry import Entry, Opening
from lowwater.engine.log import KEPT_RECORDS, ControlLog
from lowwater.engine.record import (
    Claim,
    Content,
    Record,
    Release,
    SetAside,
    from_bytes,
    live_entries,
    to_bytes,
)
from lowwater.errors import StateError, TakenOverError
from lowwater.storage.folder import AtomicFolder

_ENDING = ".record"
_TAG_DIGITS = 8


class FolderLog(ControlLog):
    """A control log in a folder."""

    def __init__(self, folder: str, query: str) -> None:
        self._folder, self._query = AtomicFolder(folder), query
        self._last: Record | None = None
        self._oldest = self._newest_entry = 0
        self._entry: Entry | None = None
        self._opening: Opening | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read the newest records; raise StateError if a record is missing or damaged."""
        self._last = self._entry = self._opening = None
        released = self.set_aside = False
        for record in self.records():
            self._last = self._last or record
            if isinstance(record.content, Entry):
                self._entry, self._newest_entry = record.content, record.number
                break
            if isinstance(record.content, Opening):
                self._opening, self.tag = record.content, record.checksum[:_TAG_DIGITS]
            self.set_aside |= isinstance(record.content, SetAside)
            # An owner opens an epoch, or releases the checkpoint, only after it has published.
            released |= record.kind in ("opening", "release")
        self.released = released or self._entry is None

    # -- reading -----------------------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """Yield the records from the newest to the oldest; each must be the previous of the next.

        Raise StateError at a record that is missing, damaged or not the previous record.
        """
        expected: Record | None = None
        for number in reversed(self._numbers()):
            record = self._read(number)
            if record is None:  # the owner has just deleted its oldest record
                return
            if expected is not None and expected.previous != record.checksum:
                raise StateError(
                    f"{self._folder.path(_name(number))} is not the record that record "
                    f"{expected.number} followed: one of the two is of another history. {_REMEDY}"
                )
            yield record
            expected = record

    def _numbers(self) -> range:
        """Return the numbers of all records; raise StateError if one in between is missing."""
        found = self._found()
        if not found:
            return range(0)
        numbers = range(min(found), max(found) + 1)
        self._oldest = numbers.start
        for number in numbers:
            # A listing may miss a file that was written meanwhile.
            if number not in found and self._folder.size(_name(number)) is None:
                raise StateError(
                    f"{self._folder.path(_name(number))} is missing, but later records of the "
                    f"control log exist. {_REMEDY}"
                )
        return numbers

    def _read(self, number: int) -> Record | None:
        payload = self._folder.read(_name(number))
        if payload is None:
            return None
        try:
            return from_bytes(payload, number, self._query)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise StateError(
                f"{self._folder.path(_name(number))} is damaged ({problem}). {_REMEDY}"
            ) from problem

    def newest(self) -> Entry | None:  # noqa: D102
        return self._entry

    def read(self, epoch: int) -> Entry | None:  # noqa: D102
        if self._entry is None or epoch >= self._entry.epoch:
            return self._entry if self._entry is not None and self._entry.epoch == epoch else None
        for entry in live_entries(self.records()):
            if entry.epoch <= epoch:
                return entry if entry.epoch == epoch else None
        return None

    def opened(self) -> Opening | None:  # noqa: D102
        return self._opening

    def tags(self) -> dict[int, str]:  # noqa: D102
        tags = {} if self._opening is None else {self._opening.epoch: self.tag}
        return tags | {entry.epoch: entry.tag for entry in live_entries(self.records())}

    # -- writing -----------------------------------------------------------------------------------

    def claim(self, now: int) -> None:  # noqa: D102
        while True:
            self.owner = secrets.token_hex(8)
            claim = Claim(self.owner, socket.gethostname(), os.getpid(), now)
            if self._write(claim):
                self._folder.remove_partial()
                return
            self.refresh()  # another run has written the next record: claim the one after it

    def owned(self) -> bool:  # noqa: D102
        return self._folder.size(_name(self._next)) is None and self._in_step(self._next)

    def release(self) -> None:  # noqa: D102
        if self._write(Release(self.owner)):
            self.released = True

    def append(self, entry: Entry) -> Entry:  # noqa: D102
        if self._entry is not None and entry.epoch <= self._entry.epoch:
            return self.read(entry.epoch) or entry
        return self.rewind(entry)

    def rewind(self, entry: Entry) -> Entry:
        """Append `entry` as the newest one, even if it is an earlier entry of the log."""
        self._must_write(entry)
        self._entry, self._opening, self.released = entry, None, False
        self.set_aside = False
        return entry

    def put_aside(self, epoch: int) -> None:
        """Record that the rows of the opened `epoch` are set aside."""
        self._must_write(SetAside(epoch))
        self.set_aside = True

    def open(self, opening: Opening) -> Opening:  # noqa: D102
        if self._opening is None:
            self.tag = self._must_write(opening).checksum[:_TAG_DIGITS]
            self._opening, self.released = opening, True
        return self._opening

    def check_owner(self) -> None:  # noqa: D102
        if not self.owned():
            self._raise_taken_over()

    def _must_write(self, content: Content) -> Record:
        if not self._write(content):
            self._raise_taken_over()
        assert self._last is not None  # noqa: S101
        return self._last

    def _raise_taken_over(self) -> None:
        by = getattr(self._read(self._next), "content", None)
        who = f"process {by.process} of {by.machine}" if isinstance(by, Claim) else "a run"
        raise TakenOverError(
            f"{who} has taken over this checkpoint, so this run ends; the other run continues "
            f"after epoch {-1 if self._entry is None else self._entry.epoch}"
        )

    @property
    def _next(self) -> int:
        return 0 if self._last is None else self._last.number + 1

    def _write(self, content: Content) -> bool:
        """Write the next record; return False if another run has written it."""
        number, previous = self._next, "" if self._last is None else self._last.checksum
        payload, digest = to_bytes(content, number, self._query, self.owner, previous)
        name = _name(number)
        # After a lost reply of a remote store, the record that exists may be this one.
        if not self._in_step(number) or (
            not self._folder.create(name, payload) and self._folder.read(name) != payload
        ):
            return False
        if not self._in_step(number):
            self._folder.delete(name)
            return False
        self._last = Record(number, content, previous, digest)
        if isinstance(content, Entry):
            self._newest_entry = number
        # A start that fails writes a claim, but no entry; many of them must not delete the newest.
        while self._oldest <= self._newest_entry - KEPT_RECORDS:  # ascending: a crash leaves no gap
            self._folder.delete(_name(self._oldest))
            self._oldest += 1
        return True

    def _in_step(self, number: int) -> bool:
        """Return whether `number` is free because it is new, not because its record was deleted.

        A run may sleep while another one writes and deletes many records. Records are deleted from
        the oldest on, so the record before `number` is then gone, too. The first record is deleted
        only after record KEPT_RECORDS was written.
        """
        if number == 0:
            return all(n < KEPT_RECORDS for n in self._found())
        return self._folder.size(_name(number - 1)) is not None

    def _found(self) -> set[int]:
        """Return the numbers of the records in the folder."""
        names = self._folder.names()
        return {int(n.removesuffix(_ENDING)) for n in names if n.endswith(_ENDING)}


_REMEDY = (
    "Restore the whole checkpoint from a backup, or start with a new one; lowwater state FOLDER "
    "--verify lists all damage"
)


def _name(number: int) -> str:
    return f"{number:012d}{_ENDING}"
