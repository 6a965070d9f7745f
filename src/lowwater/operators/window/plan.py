"""The plan of a window aggregate: everything its kernels need to know, fixed when it is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, cast

import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns
from lowwater.aggregates.accumulators.builtin import MultipleCount, RowCount, Span
from lowwater.aggregates.aggregate import Aggregate
from lowwater.aggregates.user_functions import FoldAccumulator, ResumableFold, ValueList
from lowwater.control.watermark import Watermarks
from lowwater.intervals import Intervals
from lowwater.operators.late import late_schema
from lowwater.operators.operator import GradualFlush
from lowwater.operators.window.answers import WindowAnswers
from lowwater.operators.window.explain import Keeping, Numbering
from lowwater.ticks import END
from lowwater.windows.axis import Axis
from lowwater.windows.common_panes import Shared
from lowwater.windows.landmark import Landmark
from lowwater.windows.row_windows import ARRIVAL, RowWindow
from lowwater.windows.session import SessionWindow
from lowwater.windows.sliding import SingleWindow, Sliding, Ticks, WindowSpec

NAME = "window_name"
"""The column that tells several windows of a query apart."""
SECOND = "window_2"
"""The column of the window on a second attribute; on the way there, where it begins, in ticks."""


@dataclass(frozen=True)
class WindowPlan(WindowAnswers):
    """A window aggregate over one stream.

    `source` names the column whose values have watermarks of their own. `consistent` makes a late
    row miss all its windows. `numbering` puts the windows over row numbers, in the order of arrival
    or by rank of the axis. With `partition` (some of the keys) each partition has its own windows
    and row numbers. `second` is a second attribute: rows are grouped by its windows as well, which
    have the same range (OOP 7). `ranged` windows may close before earlier ones, when punctuation
    completes an interval of time; so may `sidelined` ones, whose rows are held in a burst. `revise`
    is how far (in ticks) the watermark may pass a window's end for late rows to revise its result.
    `tracked` windows count the rows they had and missed, in all or for each window. The kernel
    drops windows whose results lie in `dropped`.
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
    flush: GradualFlush | None = None
    ranged: bool = False
    revise: int = 0
    sidelined: bool = False
    tracked: Literal["rows", "windows"] | None = None
    dropped: Intervals = ()

    word = "window"
    ports = 1

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:  # type: ignore[override]
        """The columns of the stream."""
        return (self.schema,)

    @property
    def axes(self) -> tuple[Axis, ...]:  # type: ignore[override]
        """The attribute the windows lie over."""
        return (self.axis,)

    @cached_property
    def parts(self) -> tuple[Accumulator, ...]:  # type: ignore[override]
        """The parts of all aggregates, each once, the row count first."""
        wanted = [self.kept(p) for a in self.aggregates.values() for p in a.parts(self.schema)]
        own: list[Accumulator] = [RowCount()]
        if isinstance(self.spec, SessionWindow):
            own.append(Span())
        elif self.end_count is not None:
            own.append(self.end_count)
        return tuple(dict.fromkeys([*own, *wanted]))

    def kept(self, part: Accumulator) -> Accumulator:
        """Return the accumulator that state holds for `part`: one that combines where necessary."""
        if not isinstance(part, FoldAccumulator):
            return part
        if isinstance(self.spec, Landmark):
            return ResumableFold(part)
        return part if self.laid_out else ValueList(part)

    def settled(self, part: Accumulator, closed: list[AccumulatorColumns]) -> AccumulatorColumns:
        """Return the content of an aggregate's part in finished windows."""
        kept = self.kept(part)
        content = closed[self.parts.index(kept)]
        return kept.fold(content) if isinstance(kept, ValueList | ResumableFold) else content

    def only(self, name: str, window: Sliding) -> WindowPlan:
        """Return the plan of one of several windows, which describes its late rows."""
        return replace(self, spec=window, name=name)

    @property
    def several(self) -> bool:
        """Whether windows have names."""
        return isinstance(self.spec, Shared) or self.name is not None

    @property
    def window(self) -> SingleWindow:
        """The window of a plan that has only one."""
        assert self.spec.kind != "named"  # noqa: S101
        return cast("SingleWindow", self.spec)

    @property
    def positioned(self) -> Sliding | Landmark:
        """The window of a plan whose spec fixes where windows lie."""
        assert isinstance(self.spec, Sliding | Landmark)  # noqa: S101
        return self.spec

    @property
    def layout(self) -> str:
        """The layout of the windows on panes, by its name in the window kernel."""
        return self.spec.kind if self.numbering is None else "numbered"

    @property
    def laid_out(self) -> bool:
        """Whether a row's windows follow from its position: all ids are known beforehand."""
        return not self.spec.driven and not self.several and self.numbering is None

    @cached_property
    def end_count(self) -> MultipleCount | None:
        """The part that counts the rows that end a window, if an attribute chooses them."""
        spec = self.spec
        if not isinstance(spec, RowWindow) or spec.slide_on is None:
            return None
        return MultipleCount(self.slide_axis, spec.slide)

    @property
    def ends_part(self) -> int:
        """The place of the part that counts the rows which may end a window at a position."""
        return 0 if self.end_count is None else 1

    @property
    def counts_ranks(self) -> bool:
        """Whether every `slide`-th row, in the order of position, ends a window."""
        return isinstance(self.spec, RowWindow) and self.end_count is None and self.spec.slide > 1

    @property
    def ends_of_stream(self) -> bool:
        """Whether rows of any group end windows for all groups (WID 3.2: windows, then groups)."""
        return isinstance(self.spec, RowWindow) and bool(self.keys) and not self.partition

    @property
    def counts_arrivals(self) -> bool:
        """Whether rows get numbers as they arrive."""
        return self.spec.slide_on == ARRIVAL or (self.numbering == "arrival" and not self.partition)

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
        """The columns that choose the shard of a row."""
        return (self.partition if self.numbering is not None else self.keys,)

    @property
    def bounds(self) -> Axis:  # type: ignore[override]
        """The attribute that windows begin and end on."""
        return self.axis if self.numbering is None else Axis("row number", pa.int64())

    @property
    def rounds_marks(self) -> bool:
        """Whether windows end at certain positions only, to which watermarks are rounded."""
        return self.numbering is None and not self.spec.driven

    def usable(self, port: int, marks: Watermarks) -> Watermarks:
        """Return watermarks rounded down to where they close a window.

        Watermarks of single sources remain if a source's own watermark closes its groups.
        """
        known = Watermarks(
            marks.low,
            marks.sources if self.sources_close_groups else {},
            marks.ranges if self.ranged else (),
            None if self.second is None else marks.pair,
        )
        if not self.rounds_marks:
            return known
        return known.mapped(lambda m: m if m >= END else self._align(m))

    def _align(self, mark: int) -> int:
        lags = (0, self.revise) if self.flush is None else (0, *self.flush.lags)
        return max(self.spec.align(mark - lag) + lag for lag in lags)

    def late_by(self, marks: Watermarks) -> Watermarks:
        """Return the watermarks that judge lateness and evict panes when `marks` are in force.

        They are behind `marks` by the allowed lateness.
        """
        if not self.revise:
            return marks
        return marks.mapped(lambda m: m if m >= END else m - self.revise)

    def deciding(self, own: Watermarks) -> Watermarks:
        """Return the watermarks that a row must not be behind under consistent slack.

        Results that wait to be emitted make no row late.
        """
        return replace(self, flush=None, revise=0).usable(0, self.late_by(own))

    def panes_of(self, window: Sliding, first: Ticks, end: Ticks) -> tuple[Ticks, Ticks]:
        """Return the panes [low, high) in state of the windows from `first` to before `end`.

        Where state is per window, these are the ids of the windows themselves.
        """
        if self.keeping == "windows":
            return first, end
        step = window.panes_per_slide
        return first * step, (end - 1) * step + window.panes

    def marks_out(self, ports: Sequence[Watermarks]) -> Mapping[str, Watermarks]:
        """Return the watermark of the results: the least time that a future one can have."""
        if self.numbering is not None:
            return {}
        known = replace(ports[0], ranges=(), pair=None, nominal=None)
        return {"window": known.mapped(self._next_result)}

    def _next_result(self, mark: int) -> int:
        if mark >= END:
            return END
        if not self.rounds_marks:
            return mark
        if self.flush is not None:
            mark -= self.flush.lags[-1]
        return min(int(w.end(w.first_open(mark))) - 1 for w in self.spec.scheduled)

    @cached_property
    def keeping(self) -> Keeping:  # type: ignore[override]
        """Whether state holds a partial for each pane or, if parts do not combine, each window."""
        return "panes" if all(p.paned for p in self.parts) else "windows"

    @cached_property
    def groups_have_marks(self) -> bool:
        """Whether groups have watermarks of their own."""
        return self.sources_close_groups or self.second is not None

    @cached_property
    def sources_close_groups(self) -> bool:  # type: ignore[override]
        """Whether a source's own watermark closes its groups."""
        if self.source is None or self.source not in self.keys:
            return False
        return self.numbering is None and not self.ends_of_stream

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row."""
        bounds = self.bounds.bound_type
        window = pa.field("window", pa.struct([("start", bounds), ("end", bounds)]))
        named = [pa.field(NAME, pa.string())] if self.several else []
        keys = [self.key_field(k) for k in self.keys]
        values = [pa.field(n, a.result_type(self.schema)) for n, a in self.aggregates.items()]
        kind = pa.field("kind", pa.string())
        return pa.schema([window, pa.field("wid", pa.int64()), *named, *keys, *values, kind])

    @property
    def group_keys(self) -> Mapping[str, pa.DataType]:
        """The keys of groups and their types."""
        return {key: self.key_field(key).type for key in self.keys}

    def key_field(self, key: str) -> pa.Field:
        """Return the column of a key in results."""
        if self.second is None or key != SECOND:
            return self.schema.field(key)
        bounds = self.second.bound_type
        return pa.field(SECOND, pa.struct([("start", bounds), ("end", bounds)]))

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row."""
        return (self.late_schema,)

    @cached_property
    def late_schema(self) -> pa.Schema:
        """The columns of a late row: the row, how late it was and the windows it missed."""
        ids, bounds = pa.int64(), self.bounds.bound_type
        missed = pa.struct([("first", ids), ("last", ids), ("start", bounds), ("end", bounds)])
        named = [pa.field(NAME, pa.string())] if self.several else []
        return late_schema(self.schema, [*named, pa.field("missed", missed)])
