"""Spark's part of a checkpoint: the offsets of a micro-batch, and the logs of its file sources.

The entry of an epoch holds their checksum. So a query is not continued if Spark's part is missing,
is older than the control log, or was altered: Spark would read other rows than the log expects.
"""

from __future__ import annotations

import json

from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.checksum import checksum
from lowwater.engine.entry import NO_BATCH, Positions
from lowwater.errors import StateError
from lowwater.storage import AtomicFolder

_HEADER_LINES = 2
"""The lines of an offsets file before the lines of the sources: the version, and the settings."""


def offsets_checksum(folder: Checkpoint, batch: int) -> str | None:
    """Return the checksum of Spark's offsets of `batch`; None if a part of them is missing."""
    content = AtomicFolder(f"{folder.spark}/offsets").read(str(batch))
    if content is None:
        return None
    logs = []
    for number, line in enumerate(content.decode().splitlines()[_HEADER_LINES:]):
        offset = json.loads(line) if line.startswith("{") else None
        if isinstance(offset, dict) and "logOffset" in offset:
            log = _source_log(folder, number, int(offset["logOffset"]))
            if log is None:
                return None
            logs.append(log)
    return checksum(b"".join([content, *logs]), batch)


def _source_log(folder: Checkpoint, number: int, batch: int) -> bytes | None:
    """Return the log of a file source for the files up to `batch`; None if it is missing."""
    if batch < 0:
        return b""
    logs = AtomicFolder(f"{folder.spark}/sources/{number}")
    found = logs.read(str(batch))
    return logs.read(f"{batch}.compact") if found is None else found


def check_offsets(folder: Checkpoint, positions: Positions | None) -> None:
    """Raise StateError unless Spark's offsets are those that `positions` were logged with."""
    if positions is None or positions.batch == NO_BATCH:
        return
    if offsets_checksum(folder, positions.batch) != positions.offsets:
        raise StateError(
            f"{folder.spark}/offsets/{positions.batch}, or a log of a file source in "
            f"{folder.spark}/sources, is missing or differs from the control log, so Spark would "
            f"read other rows; restore the whole checkpoint from a backup, or start with a new one"
        )
