"""The rows of an epoch that fails again and again: set aside, so that the query goes on."""

from __future__ import annotations

import time

from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.folder_log import FolderLog
from lowwater.errors import SpecError


def set_aside(root: str, epoch: int) -> None:
    """Record in the checkpoint at `root` that all rows of `epoch` are malformed.

    A run of the query that is still alive ends at its next epoch. Raise SpecError unless `epoch`
    has begun and not ended.
    """
    checkpoint = Checkpoint.at(root)
    stored = checkpoint.stored()
    if stored is None:
        raise SpecError(f"{root!r} is not a checkpoint of Lowwater; name the folder of one")
    log = checkpoint.log(stored.id)
    _must_be_open(log, epoch)  # refuse a wrong epoch before the claim ends a run that is alive
    log.claim(time.time_ns() // 1_000)
    _must_be_open(log, epoch)
    log.put_aside(epoch)


def _must_be_open(log: FolderLog, epoch: int) -> None:
    """Raise SpecError unless `epoch` has begun and not ended, and its rows are not set aside."""
    opening, newest = log.opened(), log.newest()
    if opening is None:
        ended = "none has ended" if newest is None or newest.epoch < 0 else f"{newest.epoch} ended"
        raise SpecError(
            f"--set-aside {epoch}: no epoch of this checkpoint was interrupted ({ended}), so start "
            f"the query. The rows of an ended epoch are in its results; only --rewind removes them"
        )
    if opening.epoch != epoch:
        raise SpecError(
            f"--set-aside {epoch}: only the rows of the interrupted epoch can be set aside, and "
            f"that is epoch {opening.epoch}; write --set-aside {opening.epoch}"
        )
    if log.set_aside:
        raise SpecError(f"--set-aside {epoch}: its rows are set aside already; start the query")
