"""The plan of a window aggregate: everything its kernels need to know, fixed when it is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import pyarrow as pa

from lowwater.aggregates import (
    Aggregate,
    Collected,
    Continued,
    Folding,
    MultipleCount,
    Part,
    Partial,
    RowCount,
    Span,
)
from lowwater.control import Marks, Stretches
from lowwater.kernels.flush import Smooth
from lowwater.windows import (
    FOREVER,
    Axis,
    Landmark,
    OneWindow,
    Session,
    Shared,
    SlideByRow,
    Sliding,
    WindowSpec,
)

Keeping = Literal["panes", "windows"]
Numbering = Literal["arrival", "rank"]
NAME = "window_name"
"""The column that tells several windows of a query apart."""
ARRIVAL = "__arrival"
"""The column of row numbers that are given on arrival."""
SECOND = "window_2"
"""The column of the window on a second attribute; on the way there, where it begins, in ticks."""


@dataclass(frozen=True)
class WindowPlan:
    """A window aggregate over one stream.

    `source` names the column whose values have marks of their own; `consistent` makes a late row
    miss all its windows. `numbering` says that the window lies over row numbers, given as rows
    arrive or by rank of the axis; `partition` (some of the keys) that each partition has windows,
    and row numbers, of its own. `second` is a second attribute: rows are grouped by its windows as
    well, which lie as those of the first do (OOP 7). `ranged` windows may close before earlier
    ones, where punctuation says that a stretch of time is complete; so may `sidelined` ones, whose
    rows are put aside in a burst. `revise` is how far (in ticks) the mark may be beyond a window's
    end for late rows to correct its result. `tracked` windows tell how many rows they had, and how
    many they missed, in all or each. Windows whose results lie in `dropped` are left out in the
    epoch at work.
    """

    schema: pa.Schema
    axis: Axis
    spec: WindowSpec
    keys: tuple[str, ...]
    aggregates: dict[str, Aggregate]
    shards: int = 2
    source: str | None = None
    consistent: bool = False
    numbering: Numbering | None = None
    partition: tuple[str, ...] = ()
    name: str | None = None
    second: Axis | None = None
    smooth: Smooth | None = None
    ranged: bool = False
    revise: int = 0
    sidelined: bool = False
    tracked: Literal["rows", "windows"] | None = None
    dropped: Stretches = ()

    word = "window"
    ports = 1

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of the stream."""
        return (self.schema,)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The attribute the windows lie over."""
        return (self.axis,)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of all aggregates, each once, the row count first."""
        wanted = [self.kept(p) for a in self.aggregates.values() for p in a.parts(self.schema)]
        own: list[Part] = [RowCount()]
        if isinstance(self.spec, Session):
            own.append(Span())
        elif self.end_count is not None:
            own.append(self.end_count)
        return tuple(dict.fromkeys([*own, *wanted]))

    def kept(self, part: Part) -> Part:
        """Return the part that stands for one whose states cannot be kept per window here."""
        if not isinstance(part, Folding):
            return part
        if isinstance(self.spec, Landmark):
            return Continued(part)
        return part if self.laid_out else Collected(part)

    def settled(self, part: Part, closed: list[Partial]) -> Partial:
        """Return the content of an aggregate's part in finished windows."""
        kept = self.kept(part)
        found = closed[self.parts.index(kept)]
        return kept.fold(found) if isinstance(kept, Collected | Continued) else found

    def only(self, name: str, window: Sliding) -> WindowPlan:
        """Return the plan as it is for one of several windows, for the rows that are given out."""
        return replace(self, spec=window, name=name)

    @property
    def several(self) -> bool:
        """Whether windows have names."""
        return isinstance(self.spec, Shared) or self.name is not None

    def with_shards(self, shards: int) -> WindowPlan:
        """Return the plan for so many shards, or for one if it can have no more."""
        return replace(self, shards=1 if self.sequential else shards)

    @property
    def window(self) -> OneWindow:
        """The window, where there is one."""
        assert not isinstance(self.spec, Shared)  # noqa: S101
        return self.spec

    @property
    def positioned(self) -> Sliding | Landmark:
        """The window, where it lies where its spec says."""
        assert isinstance(self.spec, Sliding | Landmark)  # noqa: S101
        return self.spec

    @property
    def laid_out(self) -> bool:
        """Whether a row's windows follow from its position: all ids are known beforehand."""
        driven = isinstance(self.spec, SlideByRow | Session)
        return not driven and not self.several and self.numbering is None

    @cached_property
    def end_count(self) -> MultipleCount | None:
        """The part that counts the rows that end a window, where an attribute says which do."""
        spec = self.spec
        if not isinstance(spec, SlideByRow) or spec.slide_on is None:
            return None
        if spec.slide_on == ARRIVAL:
            return MultipleCount(Axis(ARRIVAL, pa.int64()), spec.slide)
        return MultipleCount(Axis(spec.slide_on, self.schema.field(spec.slide_on).type), spec.slide)

    @property
    def ends_part(self) -> int:
        """Which part counts the rows at a position that count towards the end of a window."""
        return 0 if self.end_count is None else 1

    @property
    def counts_ranks(self) -> bool:
        """Whether every so many rows, in the order of position, end a window."""
        return isinstance(self.spec, SlideByRow) and self.end_count is None and self.spec.slide > 1

    @property
    def ends_of_stream(self) -> bool:
        """Whether rows of any group end windows for all groups (WID 3.2: windows, then groups)."""
        return isinstance(self.spec, SlideByRow) and bool(self.keys) and not self.partition

    @property
    def counts_arrivals(self) -> bool:
        """Whether rows get numbers as they arrive."""
        sliding = isinstance(self.spec, SlideByRow) and self.spec.slide_on == ARRIVAL
        return sliding or (self.numbering == "arrival" and not self.partition)

    @property
    def sequential(self) -> bool:
        """Whether one shard must see all rows."""
        return not self.partition and (self.counts_arrivals or self.numbering is not None)

    @property
    def travels_whole(self) -> bool:
        """Whether rows reach the operator as they are, since only it can place them."""
        return self.keeping == "windows" or self.numbering is not None or self.counts_arrivals

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns that say in which shard a row is worked on."""
        return (self.partition if self.numbering is not None else self.keys,)

    @property
    def bounds(self) -> Axis:
        """The attribute that windows begin and end on."""
        return self.axis if self.numbering is None else Axis("row number", pa.int64())

    @property
    def rounds_marks(self) -> bool:
        """Whether windows end at certain positions only, to which marks are rounded."""
        return self.numbering is None and not isinstance(self.spec, SlideByRow | Session)

    def explain(self) -> list[str]:
        """Say what windows there are; the query says the rest."""
        return [f"window      {self.spec}"]

    def usable(self, port: int, marks: Marks) -> Marks:
        """Return marks rounded down to where they close a window: anything finer is of no use.

        Marks of single sources are of use where a source's own mark closes its groups.
        """
        del port
        known = Marks(
            marks.low,
            marks.sources if self.sources_close_groups else {},
            marks.ranges if self.ranged else (),
            None if self.second is None else marks.pair,
        )
        if not self.rounds_marks:
            return known
        return known.mapped(lambda m: m if m >= FOREVER else self._align(m))

    def _align(self, mark: int) -> int:
        lags = (0, self.revise) if self.smooth is None else (0, *self.smooth.lags)
        return max(self.spec.align(mark - lag) + lag for lag in lags)

    def late_by(self, marks: Marks) -> Marks:
        """Return the marks that rows are late by, and that let panes go, when `marks` are reached.

        They are the same, or behind them by as long as results are revised.
        """
        if not self.revise:
            return marks
        return marks.mapped(lambda m: m if m >= FOREVER else m - self.revise)

    def deciding(self, own: Marks) -> Marks:
        """Return the marks that a row must not be behind under consistent slack.

        That results wait to be given out makes no row late.
        """
        return replace(self, smooth=None, revise=0).usable(0, self.late_by(own))

    @property
    def smooth_slices(self) -> int:
        """Into how many parts the groups of a shard are cut."""
        return 1 if self.smooth is None else len(self.smooth.lags)

    def marks_out(self, ports: Sequence[Marks]) -> Mapping[str, Marks]:
        """Return the mark of the results: the least time that a future one can have."""
        if self.numbering is not None:
            return {}
        known = replace(ports[0], ranges=(), pair=None, nominal=None)
        return {"window": known.mapped(self._next_result)}

    def _next_result(self, mark: int) -> int:
        if mark >= FOREVER:
            return FOREVER
        if not self.rounds_marks:
            return mark
        if self.smooth is not None:
            mark -= self.smooth.lags[-1]
        windows = [w for _, w in self.spec.named] if isinstance(self.spec, Shared) else [self.spec]
        return min(int(w.end(w.first_open(mark))) - 1 for w in windows)

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row."""
        return (self.late_schema,)

    @cached_property
    def keeping(self) -> Keeping:
        """What state holds a partial for: each pane, or each window where parts do not combine."""
        return "panes" if all(p.paned for p in self.parts) else "windows"

    @property
    def groups_have_marks(self) -> bool:
        """Whether what is complete differs from group to group."""
        return self.sources_close_groups or self.second is not None

    @property
    def sources_close_groups(self) -> bool:
        """Whether a source's own mark closes its groups."""
        if self.source is None or self.source not in self.keys:
            return False
        return self.numbering is None and not self.ends_of_stream

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row."""
        bounds = self.bounds.bound_type
        return pa.schema(
            [
                pa.field("window", pa.struct([("start", bounds), ("end", bounds)])),
                pa.field("wid", pa.int64()),
                *([pa.field(NAME, pa.string())] if self.several else []),
                *(self.key_field(k) for k in self.keys),
                *(
                    pa.field(name, a.result_type(self.schema))
                    for name, a in self.aggregates.items()
                ),
                pa.field("kind", pa.string()),
            ]
        )

    def key_field(self, key: str) -> pa.Field:
        """Return the column of a key in results."""
        if self.second is None or key != SECOND:
            return self.schema.field(key)
        bounds = self.second.bound_type
        return pa.field(SECOND, pa.struct([("start", bounds), ("end", bounds)]))

    @cached_property
    def late_schema(self) -> pa.Schema:
        """The columns of a late row: the row, how late it was and the windows it missed."""
        bounds = self.bounds.bound_type
        missed = pa.struct(
            [("first", pa.int64()), ("last", pa.int64()), ("start", bounds), ("end", bounds)]
        )
        return pa.schema(
            [
                *self.schema,
                pa.field(free("late_degree", self.schema), pa.int64()),
                *([pa.field(free(NAME, self.schema), pa.string())] if self.several else []),
                pa.field(free("missed", self.schema), missed),
                pa.field(free("admitted", self.schema), pa.bool_()),
            ]
        )


def free(name: str, schema: pa.Schema) -> str:
    """Return a name for a column of ours that no column of the stream has."""
    while name in schema.names:
        name += "_"
    return name
