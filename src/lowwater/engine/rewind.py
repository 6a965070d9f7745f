"""The rewind of a checkpoint: an earlier epoch becomes the newest one again."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.entry import Entry
from lowwater.engine.folder_log import FolderLog
from lowwater.engine.record import kept_entries
from lowwater.engine.spark_folder import check_offsets
from lowwater.engine.state_store import StateFolder
from lowwater.engine.verify import problems_of_state
from lowwater.errors import SpecError, StateError


@dataclass(frozen=True)
class Rewound:
    """The end of a rewind: the newest epoch before it, and the newest epoch now."""

    before: int
    now: int


def rewind(root: str, epoch: int) -> Rewound:
    """Rewind the checkpoint at `root` to the end of `epoch`, and return what has changed.

    A run of the query that is still alive ends at its next epoch. Raise SpecError if the epoch is
    not kept, StateError if its state is damaged.
    """
    checkpoint = Checkpoint.at(root)
    stored = checkpoint.stored()
    if stored is None:
        raise SpecError(f"{root!r} is not a checkpoint of Lowwater; name the folder of one")
    log = checkpoint.log(stored.id)
    _entry(log, epoch)  # refuse a wrong epoch before the claim ends a run that is alive
    log.claim(time.time_ns() // 1_000)
    newest, entry = log.newest() or Entry(-1), _entry(log, epoch)
    check_offsets(checkpoint, entry.positions)
    for problem in problems_of_state(StateFolder(checkpoint.state, stored.id), entry):
        raise StateError(f"epoch {epoch} cannot be restored: {problem}")
    abandoned = max(newest.abandoned, newest.epoch + (log.opened() is not None))
    log.rewind(replace(entry, pending=None, abandoned=abandoned))
    return Rewound(newest.epoch, epoch)


def _entry(log: FolderLog, epoch: int) -> Entry:
    """Return the entry of `epoch`; raise SpecError unless the query can be rewound to it."""
    kept: list[int] = []
    for entry in kept_entries(log.records()):
        if entry.epoch == epoch >= 0:
            return entry
        kept += [entry.epoch] if entry.epoch >= 0 else []
    if not kept:
        raise SpecError("no epoch of this checkpoint has ended, so it cannot be rewound")
    raise SpecError(
        f"epoch {epoch} is not kept: this checkpoint can be rewound to the epochs {kept[-1]} to "
        f"{kept[0]}; an earlier state needs a savepoint (lowwater state --export)"
    )
