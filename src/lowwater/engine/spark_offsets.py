"""Spark's part of a checkpoint: the offsets of a micro-batch, and the logs of its file sources.

The entry of an epoch holds their checksum. So a query is not continued if Spark's part is missing,
is older than the control log, or was altered: Spark would read other rows than the log expects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.checksum import checksum
from lowwater.engine.entry import NO_BATCH, Positions
from lowwater.errors import StateError
from lowwater.storage import AtomicFolder

_HEADER_LINES = 2
"""The lines of an offsets file before the lines of the sources: the version, and the settings."""


def offsets_checksum(folder: Checkpoint, batch: int) -> str | None:
    """Return the checksum of Spark's offsets of `batch`; None if a part is missing or damaged."""
    content = AtomicFolder(f"{folder.spark}/offsets").read(str(batch))
    if content is None:
        return None
    try:
        sources = _log_offsets(content)
    except (ValueError, TypeError):
        return None
    logs = [_source_log(folder, *source) for source in sources.items()]
    present = [log for log in logs if log is not None]
    if len(present) < len(logs):
        return None
    return checksum(b"".join([content, *present]), batch)


def _log_offsets(content: bytes) -> dict[int, int]:
    """Return {source: last batch in its log} of the file sources in a file of offsets."""
    found = {}
    for number, line in enumerate(content.decode().splitlines()[_HEADER_LINES:]):
        offset = json.loads(line) if line.startswith("{") else None
        if isinstance(offset, dict) and "logOffset" in offset:
            found[number] = int(offset["logOffset"])
    return found


def _source_log(folder: Checkpoint, number: int, batch: int) -> bytes | None:
    """Return the log of a file source for the files up to `batch`; None if it is missing."""
    if batch < 0:
        return b""
    logs = AtomicFolder(f"{folder.spark}/sources/{number}")
    found = logs.read(str(batch))
    return logs.read(f"{batch}.compact") if found is None else found


def check_offsets(folder: Checkpoint, positions: Positions | None) -> None:
    """Raise StateError unless Spark's offsets are those that `positions` were logged with."""
    try:
        json.loads(AtomicFolder(folder.spark).read("metadata") or b"{}")
    except ValueError as problem:
        raise StateError(
            f"{folder.spark}/metadata is damaged ({problem}); restore the whole checkpoint from a "
            f"backup, or start with a new one"
        ) from problem
    if positions is None or positions.batch == NO_BATCH:
        return
    if offsets_checksum(folder, positions.batch) != positions.offsets:
        raise StateError(
            f"{folder.spark}/offsets/{positions.batch}, or a log of a file source in "
            f"{folder.spark}/sources, is missing or differs from the control log, so Spark would "
            f"read other rows; restore the whole checkpoint from a backup, or start with a new one"
        )


def discard_offsets(folder: Checkpoint, positions: Positions | None) -> None:
    """Delete Spark's records of all micro-batches after `positions`, so that Spark repeats them."""
    batch = NO_BATCH if positions is None else positions.batch
    for part in ("commits", "offsets"):  # a batch with offsets and without a commit is repeated
        _discard(AtomicFolder(f"{folder.spark}/{part}"), batch)
    content = AtomicFolder(f"{folder.spark}/offsets").read(str(batch)) or b""
    for number, last in _log_offsets(content).items():
        _discard(AtomicFolder(f"{folder.spark}/sources/{number}"), last)


def _discard(folder: AtomicFolder, last: int) -> None:
    """Delete the files of `folder` whose numbers are greater than `last`, the largest first."""
    numbered = {n: int(n.removesuffix(".compact")) for n in folder.names() if n[0].isdigit()}
    for name in sorted(numbered, key=lambda n: -numbered[n]):
        if numbered[name] > last:
            folder.delete(name)
            folder.delete(f".{name}.crc")


def offset_files(folder: Checkpoint, positions: Positions | None) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) of the files by which Spark continues after `positions`."""
    if positions is None or positions.batch == NO_BATCH:
        return
    offsets = AtomicFolder(f"{folder.spark}/offsets")
    content = offsets.read(str(positions.batch)) or b""
    yield f"offsets/{positions.batch}", content
    for part, name in (("commits", str(positions.batch)), ("", "metadata")):
        found = AtomicFolder(f"{folder.spark}/{part}".rstrip("/")).read(name)
        if found is not None:
            yield f"{part}/{name}".lstrip("/"), found
    for number, last in _log_offsets(content).items():
        logs = AtomicFolder(f"{folder.spark}/sources/{number}")
        for name in logs.names():
            if name[0].isdigit() and int(name.removesuffix(".compact")) <= last:
                yield f"sources/{number}/{name}", logs.read(name) or b""
