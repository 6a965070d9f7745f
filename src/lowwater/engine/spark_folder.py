"""Spark's part of a checkpoint: the offsets of micro-batches, and what its sources have stored.

Each run has a folder of its own there, `spark/OWNER`, to which only the Spark of this run writes.
The entry of an epoch holds the checksum of the offsets that it was read by. So a new owner finds
the folder with these offsets and begins its own folder with copies of them; plans that no epoch has
opened are not copied, and the Spark of a run that lost the checkpoint cannot disturb the new one.
A query is not continued if no folder holds the offsets: Spark would read other rows than the log
expects.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence

from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.checksum import checksum
from lowwater.engine.entry import NO_BATCH, Positions
from lowwater.engine.log import KEPT_EPOCHS
from lowwater.errors import StateError
from lowwater.storage.folder import AtomicFolder

_HEADER_LINES = 2
"""The lines of an offsets file before the lines of the sources: the version, and the settings."""
_COMPACT = ".compact"
"""The ending of a log file of a file source that repeats all earlier files of the log."""


class SparkFolder:
    """The folder in which the Spark of one run stores offsets, commits and logs of its sources."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = AtomicFolder(path)
        self._sums: dict[str, str] = {}  # of logs of file sources, which are written once

    def checksum(self, batch: int) -> str | None:
        """Return the checksum of the offsets of `batch`; None if a part is missing or damaged.

        The logs of file sources up to these offsets are part of it, and what other sources have
        stored at their start.
        """
        content = self._folder.read(f"offsets/{batch}")
        if content is None:
            return None
        try:
            sums = [self._sum(name) for name in self._logs(content)]
        except (ValueError, TypeError):
            return None
        return checksum(b"\n".join([content, *(s.encode() for s in sums)]), batch)

    def holds(self, *positions: Positions | None) -> bool:
        """Return whether the folder holds the offsets that all `positions` were logged with."""
        return all(
            at is None or at.batch == NO_BATCH or self.checksum(at.batch) == at.offsets
            for at in positions
        )

    def _logs(self, offsets: bytes) -> Iterator[str]:
        """Yield the files that sources have stored up to `offsets`; ValueError if one is missing.

        The log of a file source counts from its last compact file on.
        """
        for number, last in enumerate(_log_offsets(offsets)):
            if last is None:
                if self._folder.size(f"sources/{number}/0") is not None:
                    yield f"sources/{number}/0"
                continue
            for log in range(last, -1, -1):
                name = f"sources/{number}/{log}"
                if self._sums.get(name) is None and self._folder.size(name) is None:
                    yield name + _COMPACT  # if it is missing, too, the log is incomplete
                    break
                yield name

    def _sum(self, name: str) -> str:
        if name not in self._sums:
            content = self._folder.read(name)
            if content is None:
                raise ValueError(f"{name} is missing")
            self._sums[name] = checksum(content, name)
        return self._sums[name]

    def files(self, last: int, committed: int) -> dict[str, bytes]:
        """Return {path: content} of the files by which Spark continues after the batch `last`.

        Batches up to `committed` have ended; Spark repeats the others. The batches of all epochs to
        which the query can be rewound are among the files.
        """
        ends = {"offsets": last, "commits": committed}
        for source, end in enumerate(_log_offsets(self._folder.read(f"offsets/{last}") or b"")):
            if end is not None:
                ends[f"sources/{source}"] = end
        # To repeat a batch, Spark also needs the one before it.
        first = dict.fromkeys(("offsets", "commits"), last - KEPT_EPOCHS - 1)
        found = {}
        for path in self._folder.tree():
            folder, _, name = path.rpartition("/")
            number = name.removesuffix(_COMPACT)
            if folder in ends and number.isdigit():
                wanted = first.get(folder, 0) <= int(number) <= ends[folder]
            else:
                wanted = folder not in ends and path.startswith("sources/")
            content = self._folder.read(path) if wanted else None
            if content is not None:
                found[path] = content
        return found

    def write(self, files: dict[str, bytes]) -> None:
        """Write files, given as {path: content}."""
        for path, content in files.items():
            folder, _, name = path.rpartition("/")
            AtomicFolder(f"{self.path}/{folder}".rstrip("/")).write(name, content)


def _log_offsets(offsets: bytes) -> list[int | None]:
    """Return for each source its last log in a file of offsets; None if it does not read files."""
    found: list[int | None] = []
    for line in offsets.decode().splitlines()[_HEADER_LINES:]:
        offset = json.loads(line) if line.startswith("{") else {}
        found.append(int(offset["logOffset"]) if "logOffset" in offset else None)
    return found


def folders(checkpoint: Checkpoint) -> list[str]:
    """Return the names of the folders of all runs that have not been deleted."""
    return sorted({path.partition("/")[0] for path in AtomicFolder(checkpoint.spark).tree()})


def delete_folders(checkpoint: Checkpoint, owners: Sequence[str]) -> None:
    """Delete the folders of these owners."""
    for owner in owners:
        AtomicFolder(checkpoint.spark_of(owner)).delete_tree()


def check_offsets(checkpoint: Checkpoint, *positions: Positions | None) -> None:
    """Raise StateError unless a folder holds the offsets that `positions` were logged with."""
    _holders(checkpoint, *positions)


def offset_files(checkpoint: Checkpoint, positions: Positions | None) -> dict[str, bytes]:
    """Return {path: content} of the files by which Spark continues after `positions`."""
    if positions is None or positions.batch == NO_BATCH:
        return {}
    for folder in _holders(checkpoint, positions):
        files = folder.files(positions.batch, positions.batch)
        if _are_whole(files, positions.batch) and folder.holds(positions):
            return files
    raise _missing(checkpoint, positions)


def begin_folder(
    checkpoint: Checkpoint,
    owner: str,
    query: str,
    newest: Positions | None,
    opened: Positions | None,
) -> SparkFolder:
    """Make the folder of the run `owner`, from which its Spark continues the query with this id.

    Spark repeats the batch of an `opened` epoch. Raise StateError unless a folder holds the offsets
    of the newest and the opened epoch.
    """
    own, at = SparkFolder(checkpoint.spark_of(owner)), opened or newest
    own.write({"metadata": json.dumps({"id": str(uuid.uuid5(uuid.NAMESPACE_OID, query))}).encode()})
    if at is None or at.batch == NO_BATCH:
        return own
    committed = NO_BATCH if newest is None else newest.batch
    for folder in _holders(checkpoint, newest, opened):
        files = folder.files(at.batch, committed)
        own.write(files)
        if _are_whole(files, at.batch) and own.holds(newest, opened):
            return own
    raise _missing(checkpoint, at)  # the last owner has deleted them meanwhile


def _holders(checkpoint: Checkpoint, *positions: Positions | None) -> list[SparkFolder]:
    """Return the folders that hold the offsets of all `positions`; raise StateError if none do."""
    all_of_them = [SparkFolder(checkpoint.spark_of(owner)) for owner in folders(checkpoint)]
    found = [folder for folder in all_of_them if folder.holds(*positions)]
    expected = [p for p in positions if p is not None and p.batch != NO_BATCH]
    if expected and not found:
        raise _missing(checkpoint, expected[-1])
    return found


def _are_whole(files: dict[str, bytes], batch: int) -> bool:
    """Return whether Spark can continue after `batch`: it is committed, or can be repeated."""
    return f"commits/{batch}" in files or batch == 0 or f"offsets/{batch - 1}" in files


def _missing(checkpoint: Checkpoint, positions: Positions) -> StateError:
    return StateError(
        f"{checkpoint.spark}/*/offsets/{positions.batch}, or a log of a file source beside it, is "
        f"missing or differs from the control log, so Spark would read other rows; restore the "
        f"whole checkpoint from a backup, or start with a new one"
    )
