"""Records of the control log: one opening and one entry per epoch, as versioned JSON.

Some fields are empty in this version: they reserve a place in the format for checksums of the
chain, the token of the owner and segments by range of key groups.
"""

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
from lowwater.errors import StateError
from lowwater.shedding.shedder import ShedMemory
from lowwater.sidelining.sideliner import SidelineMemory
from lowwater.watermarks.adaptive.adapter import AdapterMemory

NO_BATCH = -1
"""The micro-batch before the first."""


@dataclass(frozen=True)
class Positions:
    """How far a query has read: the position of each block source by input, and Spark's batch."""

    inputs: Mapping[int, Json] = field(default_factory=dict)
    batch: int = NO_BATCH


@dataclass(frozen=True)
class Opening:
    """What an epoch reads, recorded before it runs.

    `owner` is the token of the run that opened it, `previous` the checksum of the record before.
    """

    VERSION: ClassVar[int] = 1

    positions: Positions
    owner: str = ""
    previous: str = ""

    def to_bytes(self) -> bytes:
        """Return the opening as JSON."""
        return json.dumps(encode(self)).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Opening:
        """Read what `to_bytes` wrote."""
        return decode(cls, _json(payload))


@dataclass(frozen=True)
class OutputTable:
    """One table of an epoch for a sink: the query's output, the kind of its rows, their number."""

    output: str
    kind: str
    rows: int
    checksum: str = ""


@dataclass(frozen=True)
class SegmentRange:
    """The segment of state of one operator that holds the key groups `[start, end)`."""

    operator: int
    start: int
    end: int
    name: str
    checksum: str = ""


@dataclass(frozen=True)
class ShardAccount:
    """The state of a shard after an epoch, and the rows that it has received so far."""

    cells: int = 0
    bytes: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Accounts:
    """Counts since the query began.

    Attributes
    ----------
    inputs
        Rows of each input.
    operators
        Rows of each operator by outcome; see `accounts.TALLIES`.
    shards
        The account of each shard, by (operator, shard).
    """

    inputs: tuple[int, ...] = ()
    operators: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    shards: Mapping[tuple[int, int], ShardAccount] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The rows of all inputs."""
        return sum(self.inputs)

    def of(self, operator: int) -> list[ShardAccount]:
        """Return the accounts of an operator's shards."""
        return [account for (number, _), account in self.shards.items() if number == operator]


@dataclass(frozen=True)
class Entry:
    """What the controller decided after an epoch, and what it needs to decide the next.

    Attributes
    ----------
    control
        The message to each port, by number, for the next epoch.
    standing
        The context of the next epoch.
    memory
        The memory of each input's watermark policy.
    accounts
        Counts since the query began.
    ended
        Whether all inputs have ended.
    positions
        How far the query has read; None before its first epoch.
    early, adapting, sideline, shed
        The memory of early results, adaptive slack, sidelining and load shedding; empty for a
        query without them.
    overrides
        Parameters that were retuned. The entry was decided with them.
    clock
        The reading of the clock at which the epoch was decided.
    outputs
        The tables that the epoch has for its sinks.
    segments
        The segments of state that the next epoch reads. Not filled yet.
    owner, previous
        The token of the run that wrote the entry, and the checksum of the record before it. Not
        filled yet.
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
    overrides: Mapping[str, Override] = field(default_factory=dict)
    clock: int | None = None
    outputs: tuple[OutputTable, ...] = ()
    segments: tuple[SegmentRange, ...] = ()
    owner: str = ""
    previous: str = ""

    @property
    def quiet(self) -> bool:
        """Whether the entry has no message to a port."""
        return not self.control

    @property
    def done(self) -> bool:
        """Whether the streams have ended and the operators have received their end."""
        return self.ended and self.quiet

    def to_bytes(self) -> bytes:
        """Return the entry as JSON."""
        return json.dumps(encode(self)).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Entry:
        """Read what `to_bytes` wrote; raise StateError for another version or a damaged entry."""
        return decode(cls, _json(payload))


def _json(payload: bytes) -> Json:
    try:
        return json.loads(payload)
    except ValueError as error:
        raise StateError(
            f"a record of the control log is not JSON ({error}): the checkpoint is damaged; start "
            f"with a new checkpoint"
        ) from error
