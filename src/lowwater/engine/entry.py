"""The contents of the control log's records: one opening and one entry per epoch, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lowwater.codec import Json, decode, encode
from lowwater.control.context import EpochContext
from lowwater.control.message import ControlMessage
from lowwater.control.retune import Override
from lowwater.early.prodder import EarlyMemory
from lowwater.needs.memory import NeedMemory
from lowwater.shedding.shed_memory import ShedMemory
from lowwater.sidelining.sideliner import SidelineMemory
from lowwater.watermarks.adaptive.adapter import AdapterMemory

NO_BATCH = -1
"""The value of `Positions.batch` before the first micro-batch."""


@dataclass(frozen=True)
class Positions:
    """How far a query has read: {input: position} of block sources, and Spark's last batch.

    `offsets` is the checksum of Spark's offsets of that batch.
    """

    inputs: Mapping[int, Json] = field(default_factory=dict)
    batch: int = NO_BATCH
    offsets: str | None = None


@dataclass(frozen=True)
class Opening:
    """The positions up to which an epoch reads, and the clock when it was opened, in ticks.

    An opening is written before the epoch runs. A repeated epoch uses the opening that it has.
    """

    VERSION: ClassVar[int] = 1

    epoch: int
    positions: Positions
    clock: int = 0


@dataclass(frozen=True)
class OutputTable:
    """A record of one table for a sink: the output's name, the kind and the number of rows."""

    output: str
    kind: str
    rows: int


@dataclass(frozen=True)
class PendingFile:
    """The file with the output tables of an epoch: its name and checksum."""

    name: str
    checksum: str


@dataclass(frozen=True)
class SegmentRange:
    """The state segment of one operator that holds the key groups `[start, end)`.

    A shard is one key group. `checksum` is the checksum of the segment's index.
    """

    operator: int
    start: int
    end: int
    name: str
    checksum: str


@dataclass(frozen=True)
class ShardAccount:
    """The size of a shard's state after an epoch, and the number of rows it has received so far."""

    cells: int = 0
    bytes: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Accounts:
    """Counts of rows since the query began.

    Attributes
    ----------
    inputs
        Number of rows of each input.
    operators
        Number of rows of each operator, by outcome; see `accounts.TALLIES`.
    shards
        The account of each shard, by (operator, shard).
    bad_files
        Number of files of each input that were reported instead of being read.
    """

    inputs: tuple[int, ...] = ()
    operators: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    shards: Mapping[tuple[int, int], ShardAccount] = field(default_factory=dict)
    bad_files: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows of all inputs."""
        return sum(self.inputs)

    def of(self, operator: int) -> list[ShardAccount]:
        """Return the accounts of all shards of `operator`."""
        return [account for (number, _), account in self.shards.items() if number == operator]


@dataclass(frozen=True)
class Entry:
    """The decisions of the controller after an epoch, and its memory for the next decisions.

    Attributes
    ----------
    control
        The message to each port for the next epoch, by port number.
    standing
        The context of the next epoch.
    memory
        The memory of each input's watermark policy.
    accounts
        Counts of rows since the query began.
    ended
        Whether all inputs have ended.
    positions
        The positions up to which the query has read; None before its first epoch.
    early, adapting, sideline, shed, need
        The memory of early results, adaptive slack, sidelining, load shedding and needs; empty for
        a query without them.
    overrides
        The retuned parameters. They are in force for the entry's decisions, too.
    clock
        The time of the decisions, as the clock reads it.
    outputs, pending
        The tables that the epoch writes to sinks, and the file of the checkpoint that holds them.
    tag
        The tag of the epoch's opening, by which sinks recognise the epoch.
    segments
        The segments of state that the next epoch reads.
    abandoned
        After a rewind to this entry, the last epoch before the rewind; otherwise -1.
    """

    VERSION: ClassVar[int] = 1

    epoch: int
    control: Mapping[int, ControlMessage] = field(default_factory=dict)
    standing: EpochContext = field(default_factory=EpochContext)
    memory: tuple[Any, ...] = ()
    accounts: Accounts = field(default_factory=Accounts)
    ended: bool = False
    positions: Positions | None = None
    early: EarlyMemory | None = None
    adapting: AdapterMemory | None = None
    sideline: SidelineMemory | None = None
    shed: ShedMemory | None = None
    need: NeedMemory | None = None
    overrides: Mapping[str, Override] = field(default_factory=dict)
    clock: int | None = None
    outputs: tuple[OutputTable, ...] = ()
    pending: PendingFile | None = None
    tag: str = ""
    segments: tuple[SegmentRange, ...] = ()
    abandoned: int = -1

    @property
    def quiet(self) -> bool:
        """Whether the entry has no message to a port."""
        return not self.control

    @property
    def done(self) -> bool:
        """Whether all inputs have ended and no control is left for the operators."""
        return self.ended and self.quiet

    def to_bytes(self) -> bytes:
        """Return the entry as JSON."""
        return json.dumps(encode(self)).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Entry:
        """Return the entry in `payload`; raise StateError if it has another version."""
        return decode(cls, json.loads(payload))
