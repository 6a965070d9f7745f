"""Measurements of an epoch: the records from tasks and hosts by which policies decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from lowwater.control.prod import Prod
from lowwater.control.watermark import SourceKey, Watermarks
from lowwater.ticks import BEGIN

Counts: TypeAlias = Mapping[str, int]
"""The number of rows by outcome, such as admitted or late."""
BinCounts: TypeAlias = tuple[tuple[int, int], ...]
"""The non-empty bins of a histogram, each as (number of the bin, count)."""


@dataclass(frozen=True)
class ArrivalCounts:
    """The row counts of a block: by bin of time (`counts`), and by bin of late degree (`late`).

    `first` is the number of the first bin in `counts`. `newest` is the newest time, or None.
    """

    newest: int | None = None
    first: int = 0
    counts: tuple[int, ...] = ()
    late: tuple[int, ...] = ()

    def times(self, width: int, rows: int) -> Iterator[tuple[int, int]]:
        """Yield the bins with rows as intervals of time; bins have `width` ticks.

        If the bins count fewer than all `rows`, also yield the time before the first bin.
        """
        if sum(self.counts) < rows:
            yield BEGIN, self.first * width
        for n, count in enumerate(self.counts, self.first):
            if count:
                yield n * width, (n + 1) * width


@dataclass(frozen=True)
class LatenessSection:
    """The late degrees in a section, a run of a block's rows; `source` None means all sources.

    - `first`, `last`: The running maximum of time at both ends of the section.
    - `largest`: The largest late degree in ticks.
    - `bins`, `counts`: The non-empty bins of late degrees, and the number of rows in each bin.
    """

    source: SourceKey
    first: int
    last: int
    largest: int
    bins: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class InputMeasure:
    """The measurements of one input, by a task for one block or by the host for the whole input.

    - `rows`, `valid`: The number of rows, and of rows with a usable time.
    - `newest`: The newest time.
    - `counts`: {operator: {outcome: number of rows}}, for the operators that read the rows.
    - `sources`: The newest time of each source.
    - `tail`: The last increases of the newest time, as (row numbers among valid rows, times).
    - `marks`: The watermarks that punctuations set.
    - `arrivals`, `late`: Counts of arrivals and late degrees, for policies that learn from them.
    - `prods`: The prods that the rows request, if the input is a stream of prods.
    - `ahead`: The number of rows that are further ahead of the newest time than `max_ahead`.
    - `median`: The median time of a block before which the newest time is unknown, if `max_ahead`
      is a distance.
    - `jumped`: Whether rows were admitted that are further ahead than `max_ahead`.
    - `last`: Whether the input has ended.
    - `waiting`: The number of rows that wait at the source; None if unknown.
    - `behind`: The sum of the late degrees of rows, in ticks.
    - `bad_files`: The number of files that were reported instead of being read.
    - `classes`: The number of rows with a usable time by class of groups, if classes share drops.
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
    ahead: int = 0
    median: int | None = None
    jumped: bool = False
    last: bool = False
    waiting: int | None = None
    behind: int = 0
    bad_files: int = 0
    classes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ShardMeasure:
    """The measurements of one shard of an operator.

    - `cells`, `bytes`: The size of the shard's state.
    - `counts`: The number of rows by outcome, of results, and of pairs that a join made and lost.
    - `closed`, `missed`: (end, count) of rows in closed windows, and of rows that missed windows,
      by the end of the window.
    - `closed_of`, `missed_of`: (source, count) of the same rows.
    - `held`: By held interval, the number of rows that were held in the epoch.
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
class NeededSlack:
    """The slacks with which the parts of an operator's results would have been in time.

    A part is a row in one of its windows, or a pair of a join. It belongs to the port at which its
    row, or the later row of the pair, arrived in the epoch. Bins are those of
    `learners.slack_bins`; bin 0 counts the parts that need no slack.

    - `operator`, `port`: The operator, and the port of the operator.
    - `source`: The source of the rows, if each source has a slack of its own; otherwise None.
    - `made`: The histogram of the slacks that parts of results needed.
    - `lost`: The same for the parts that late rows have lost. Counts from a sample are weighted.
    """

    VERSION: ClassVar[int] = 1
    KIND: ClassVar[str] = "needed slack"

    operator: int
    port: int = 0
    source: SourceKey = None
    made: BinCounts = ()
    lost: BinCounts = ()


@dataclass(frozen=True)
class RouteMeasure:
    """Counts of an operator: rows as {next operator: {outcome: n}}, early results as {prod: n}.

    `ends` are the ends of the windows with early results, by the number of the operator.
    """

    VERSION: ClassVar[int] = 1
    KIND: ClassVar[str] = "route"

    counts: Mapping[int, Counts] = field(default_factory=dict)
    answers: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class WaitingResult:
    """An early result that waits for its final result.

    - `key`, `group`, `hash`: Window and group as text, the group as text, the group's hash.
    - `wid`, `window`: The id and the end of the window.
    - `share`, `rows`: The share and the number of the window's rows that had arrived.
    - `lead`, `at`: The time from the early result to the window's end, in slides, and the clock
      reading at the early result.
    - `raw`, `said`: The aggregates of the arrived rows, and the emitted values.
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

    def to_json(self) -> list[Any]:
        """Return the fields in their order, which is shorter in JSON than an object."""
        *plain, raw, said = vars(self).values()
        return [*plain, list(raw), list(raw.values()), [said[name] for name in raw]]

    @classmethod
    def from_json(cls, written: Sequence[Any]) -> WaitingResult:
        """Return the result that `to_json` wrote."""
        *plain, names, raw, said = written
        return cls(*plain, *(dict(zip(names, v, strict=True)) for v in (raw, said)))


@dataclass(frozen=True)
class EarlyNews:
    """The finals that early results of an operator waited for, by key, and new early results."""

    finals: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    early: tuple[WaitingResult, ...] = ()


@dataclass(frozen=True)
class GapMemory:
    """The last two finals of each group, and the latest interpolation errors by aggregate.

    A final is (window id, values).
    """

    groups: Mapping[str, tuple[tuple[int, tuple[float | None, ...]], ...]] = field(
        default_factory=dict
    )
    error: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class AnsweredWindows:
    """The ends of the windows of which an epoch emitted early results or finals, in ticks."""

    early: tuple[int, ...] = ()
    finals: tuple[int, ...] = ()


@dataclass(frozen=True)
class EpochMeasure:
    """The measurements of a whole epoch.

    - `early`: The number of early results.
    - `learned`: By operator, new early results, and the finals of waiting early results.
    - `finals`: By operator, the finals that gap filling remembers.
    - `took`: The duration of the epoch in ticks.
    - `answers`: By operator with a need, the windows that the epoch answered.
    - `run`: The number of epochs that the process had completed before, if durations are measured.
    """

    VERSION: ClassVar[int] = 1
    KIND: ClassVar[str] = "epoch"

    early: int = 0
    learned: Mapping[int, EarlyNews] = field(default_factory=dict)
    finals: Mapping[int, GapMemory] | None = None
    took: int | None = None
    answers: Mapping[int, AnsweredWindows] = field(default_factory=dict)
    run: int | None = None


@dataclass(frozen=True)
class SegmentMeasure:
    """The state segment that a shard wrote in an epoch: its name, and the checksum of its index.

    `unused` are the names of older segments of the shard that nothing needs any more.
    """

    VERSION: ClassVar[int] = 1
    KIND: ClassVar[str] = "segment"

    operator: int
    shard: int
    name: str
    checksum: str
    unused: tuple[str, ...] = ()


Measure: TypeAlias = (
    InputMeasure | ShardMeasure | NeededSlack | RouteMeasure | EpochMeasure | SegmentMeasure
)
_CLASSES = (InputMeasure, ShardMeasure, NeededSlack, RouteMeasure, EpochMeasure, SegmentMeasure)
KINDS: Mapping[str, type[Measure]] = {kind.KIND: kind for kind in _CLASSES}


@dataclass(frozen=True)
class Measures:
    """All measurements of an epoch by kind, in arrival order."""

    inputs: tuple[InputMeasure, ...] = ()
    shards: tuple[ShardMeasure, ...] = ()
    routes: tuple[RouteMeasure, ...] = ()
    epoch: tuple[EpochMeasure, ...] = ()
    segments: tuple[SegmentMeasure, ...] = ()
    needed: tuple[NeededSlack, ...] = ()

    @classmethod
    def of(cls, records: Iterable[Measure]) -> Measures:
        """Return `records` grouped by kind."""
        every = list(records)
        return cls(
            tuple([m for m in every if isinstance(m, InputMeasure)]),
            tuple([m for m in every if isinstance(m, ShardMeasure)]),
            tuple([m for m in every if isinstance(m, RouteMeasure)]),
            tuple([m for m in every if isinstance(m, EpochMeasure)]),
            tuple([m for m in every if isinstance(m, SegmentMeasure)]),
            tuple([m for m in every if isinstance(m, NeededSlack)]),
        )

    def __bool__(self) -> bool:
        return bool(self.inputs or self.shards or self.routes or self.epoch)

    def of_input(self, number: int) -> list[InputMeasure]:
        """Return the measurements of input `number`."""
        return [m for m in self.inputs if m.input == number]

    def of_operator(self, number: int) -> list[ShardMeasure]:
        """Return the measurements of the shards of operator `number`."""
        return [m for m in self.shards if m.operator == number]

    def needed_slacks(self, operator: int) -> list[NeededSlack]:
        """Return the needed slacks at the ports of an operator."""
        return [m for m in self.needed if m.operator == operator]

    def rows(self, number: int) -> int:
        """Return the number of rows of input `number`."""
        return sum(m.rows for m in self.inputs if m.input == number)

    def counts(self) -> Iterator[tuple[int, Counts]]:
        """Yield (operator, row counts by outcome) for the rows of each block and route."""
        for block in self.inputs:
            yield from block.counts.items()
        for route in self.routes:
            yield from route.counts.items()
