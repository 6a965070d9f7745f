"""What the load shedder remembers from epoch to epoch, as the control log holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from lowwater.control.measures import GapMemory
from lowwater.shedding.coin import Place, Rule
from lowwater.shedding.fair import FairMemory
from lowwater.shedding.load_model import LoadMemory


@dataclass(frozen=True)
class DroppedInterval:
    """An interval of result times whose drop is final, for the output `dropped`.

    - `start`, `end`: The interval.
    - `share`, `load`: The share of windows to drop and the load, both at the time of the decision.
    - `reason`: The cause: a fixed share, a bound on latency or on state, or a query that is shut
      down.
    - `operator`: The operator of the query that was shut down; None if all queries are affected.
    - `number`: The class of groups that is affected; None for all groups.
    """

    start: int
    end: int
    share: float
    load: float | None
    reason: Literal["share", "latency", "memory", "closed"]
    operator: int | None = None
    number: int | None = None


@dataclass(frozen=True)
class ShedMemory:
    """The memory of the shedder.

    - `load`: The memory of the load model.
    - `slot_bytes`: The mean state of a slot that is kept, in bytes; None if unknown.
    - `too_large`: Whether the last share is that of the bound on state.
    - `place`: The state of the decisions after all begun slots; None before the first row.
    - `until`, `rule`: The first slot without a decision, and the rule of the decisions.
    - `stride`: The number of slots that a recent epoch advanced.
    - `windows`: The number of windows dropped so far.
    - `news`: The dropped intervals that became final in the last epoch.
    - `finals`: {operator: final results that gap filling needs}.
    - `fair`: The memory of fair shares; None if windows are dropped for all groups alike.
    - `first`: The first slot of row times that has not begun, if rows are sampled.
    """

    VERSION: ClassVar[int] = 2

    load: LoadMemory = field(default_factory=LoadMemory)
    slot_bytes: float | None = None
    too_large: bool = False
    place: Place | None = None
    until: int = 0
    rule: Rule | None = None
    stride: float = 0.0
    windows: int = 0
    news: tuple[DroppedInterval, ...] = ()
    finals: Mapping[int, GapMemory] = field(default_factory=dict)
    fair: FairMemory | None = None
    first: int | None = None
