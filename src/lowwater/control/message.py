"""Messages from the controller to the ports of operators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from lowwater.codec import decode, encode
from lowwater.control.completeness import Completeness
from lowwater.control.prod import Prod
from lowwater.control.watermark import Watermarks


@dataclass(frozen=True)
class ControlMessage:
    """The message from the controller to one port in one epoch.

    - `marks`: The watermarks that have risen.
    - `prods`: Requests for early results.
    - `as_if`: The watermarks that the operator assumes while it answers the prods.
    - `arrived`: The completeness that scales early results; None if early results are not scaled.
    - `release`: The number of held rows that each shard releases.
    """

    marks: Watermarks = field(default_factory=Watermarks)
    prods: tuple[Prod, ...] = ()
    as_if: Watermarks = field(default_factory=Watermarks)
    arrived: Completeness | None = None
    release: Mapping[int, int] = field(default_factory=dict)

    @property
    def quiet(self) -> bool:
        """Whether the message has no watermarks, no prods and no releases."""
        return self.marks == Watermarks() and not self.prods and not self.release

    def to_bytes(self) -> bytes:
        """Return the message as a packet's payload."""
        return json.dumps(encode(self)).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> ControlMessage:
        """Return the message that `to_bytes` wrote."""
        return decode(cls, json.loads(payload))

    @classmethod
    def together(cls, records: Iterable[ControlMessage]) -> ControlMessage:
        """Return one message with the highest watermarks of all `records`."""
        return cls(reduce(Watermarks.raised, (record.marks for record in records), Watermarks()))
