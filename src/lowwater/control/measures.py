"""Measurements of an epoch: tasks and hosts send them, and policies decide by nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from lowwater.control.prod import Prod
from lowwater.control.watermark import SourceKey, Watermarks

Counts: TypeAlias = Mapping[str, int]
"""Rows by outcome."""


@dataclass(frozen=True)
class ArrivalCounts:
    """The rows of a block per bin of event time, from bin `first` on, and per bin of late degree.

    `newest` is the newest time among them; None without rows.
    """

    newest: int | None = None
    first: int = 0
    counts: tuple[int, ...] = ()
    late: tuple[int, ...] = ()


@dataclass(frozen=True)
class LatenessSection:
    """The late degrees of a section of a block, of one source or of all (None).

    - `first`, `last`: The running maximum of time at both ends of the section.
    - `largest`: The largest late degree.
    - `bins`, `counts`: The bins of late degrees that have rows, and the number of their rows.
    """

    source: SourceKey
    first: int
    last: int
    largest: int
    bins: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class InputMeasure:
    """The measurements of a block of an input, or of an input as the host reads it.

    - `rows`, `valid`: The number of rows, and of rows with a usable time.
    - `newest`: The newest time.
    - `counts`: Rows by outcome at the operators that the rows reach.
    - `sources`: The newest time of each source.
    - `tail`: The last steps of the running maximum of time: places among valid rows, and times.
    - `marks`: The watermarks that punctuations state.
    - `arrivals`, `late`: Counts of arrivals and late degrees, for the policies that learn them.
    - `prods`: The rows of a stream of prods.
    - `last`: Whether the input has ended.
    - `waiting`: The number of rows that wait at the source, where it is known.
    """

    VERSION: ClassVar[int] = 1
    KIND: ClassVar[str] = "input"

    input: int
    rows: int = 0
    valid: int = 0
    newest: int | None = None
    counts: Mapping[int, Counts] = field(default_factory=dict)
    sources: Mapping[SourceKey, int] = field(default_factory=dict)
    tail: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    marks: Watermarks | None = None
    arrivals: ArrivalCounts | None = None
    late: tuple[LatenessSection, ...] = ()
    prods: tuple[Prod, ...] = ()
    last: bool = False
    waiting: int | None = None


@dataclass(frozen=True)
class ShardMeasure:
    """The measurements of one shard of an operator.

    - `cells`, `bytes`: The size of its state.
    - `counts`: Rows by outcome, results, and the pairs that a join under a target made and lost.
    - `closed`, `missed`: Rows in closed windows, and rows that missed them, by window id.
    - `closed_of`, `missed_of`: The same by source.
    - `held`: Rows that were held, by held interval.
    """

    VERSION: ClassVar[int] = 1
    KIND: ClassVar[str] = "shard"

    shard: int
    cells: int = 0
    bytes: int = 0
    counts: Counts = field(default_factory=dict)
    closed: tuple[tuple[int, int], ...] = ()
    missed: tuple[tuple[int, int], ...] = ()
    closed_of: tuple[tuple[SourceKey, int], ...] = ()
    missed_of: tuple[tuple[SourceKey, int], ...] = ()
    held: tuple[tuple[int, int], ...] = ()
    operator: int = 0


@dataclass(frozen=True)
class RouteMeasure:
    """The rows by outcome at the operators behind another, and the early rows by prod."""

    VERSION: ClassVar[int] = 1
    KIND: ClassVar[str] = "route"

    counts: Mapping[int, Counts] = field(default_factory=dict)
    answers: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WaitingResult:
    """An early result that waits for its final result.

    - `key`, `group`, `hash`: Its window and group, its group, and the hash of the group.
    - `wid`, `window`: The number and the end of its window.
    - `share`, `rows`: The share of the window's rows that had arrived, and their number.
    - `lead`, `at`: How far before the end of the window it was emitted, in slides; the clock at
      that moment.
    - `raw`, `said`: The aggregates of the rows that had arrived, and the values that were emitted.
    """

    key: str
    group: str
    hash: int
    wid: int
    window: int
    share: float
    rows: float
    lead: float
    at: int
    raw: Mapping[str, float]
    said: Mapping[str, float]


@dataclass(frozen=True)
class EarlyNews:
    """The finals that early results of an operator waited for, by key, and new early results."""

    finals: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    early: tuple[WaitingResult, ...] = ()


@dataclass(frozen=True)
class GapMemory:
    """The last two finals of each group, and the squared errors of interpolation by aggregate.

    A final is its window id and its values; an error is a weighted sum and its weight.
    """

    groups: Mapping[str, tuple[tuple[int, tuple[float | None, ...]], ...]] = field(
        default_factory=dict
    )
    error: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class EpochMeasure:
    """The measurements of a whole epoch.

    - `early`: The number of early results.
    - `learned`: By operator, the news that its early results are judged by.
    - `finals`: By operator, the finals that gap filling remembers.
    - `took`: The duration of the epoch in ticks.
    """

    VERSION: ClassVar[int] = 1
    KIND: ClassVar[str] = "epoch"

    early: int = 0
    learned: Mapping[int, EarlyNews] = field(default_factory=dict)
    finals: Mapping[int, GapMemory] | None = None
    took: int | None = None


Measure: TypeAlias = InputMeasure | ShardMeasure | RouteMeasure | EpochMeasure
KINDS: Mapping[str, type[Measure]] = {
    kind.KIND: kind for kind in (InputMeasure, ShardMeasure, RouteMeasure, EpochMeasure)
}


@dataclass(frozen=True)
class Measures:
    """All measurements of an epoch, in arrival order."""

    inputs: tuple[InputMeasure, ...] = ()
    shards: tuple[ShardMeasure, ...] = ()
    routes: tuple[RouteMeasure, ...] = ()
    epoch: tuple[EpochMeasure, ...] = ()

    @classmethod
    def of(cls, records: Iterable[Measure]) -> Measures:
        """Return the measurements by kind."""
        every = list(records)
        return cls(
            tuple([m for m in every if isinstance(m, InputMeasure)]),
            tuple([m for m in every if isinstance(m, ShardMeasure)]),
            tuple([m for m in every if isinstance(m, RouteMeasure)]),
            tuple([m for m in every if isinstance(m, EpochMeasure)]),
        )

    def __bool__(self) -> bool:
        return bool(self.inputs or self.shards or self.routes or self.epoch)

    def of_input(self, number: int) -> list[InputMeasure]:
        """Return the measurements of one input."""
        return [m for m in self.inputs if m.input == number]

    def of_operator(self, number: int) -> list[ShardMeasure]:
        """Return the measurements of one operator's shards."""
        return [m for m in self.shards if m.operator == number]

    def rows(self, number: int) -> int:
        """Return the number of rows of one input."""
        return sum(m.rows for m in self.inputs if m.input == number)

    def counts(self) -> Iterator[tuple[int, Counts]]:
        """Yield operators with counts of rows that reached them."""
        for block in self.inputs:
            yield from block.counts.items()
        for route in self.routes:
            yield from route.counts.items()
