"""The plan of a window aggregate: all settings of its kernel, fixed when the query is built."""

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
from lowwater.control.drop import ClassDrops, SampledRows
from lowwater.control.watermark import Watermarks
from lowwater.intervals import Intervals
from lowwater.operators.late import free, late_schema
from lowwater.operators.operator import GradualFlush
from lowwater.operators.window.answers import WindowAnswers
from lowwater.operators.window.explain import Keeping, Numbering
from lowwater.operators.window.value_bound import compared
from lowwater.ticks import END
from lowwater.watermarks.adaptive.policies import ValueBound
from lowwater.windows.axis import Axis
from lowwater.windows.common_panes import Shared
from lowwater.windows.landmark import Landmark
from lowwater.windows.row_windows import ARRIVAL, RowWindow
from lowwater.windows.session import SessionWindow
from lowwater.windows.sliding import SingleWindow, Sliding, Ticks, WindowSpec

NAME = "window_name"
"""The result column with the name of the window, if a query has several windows."""
SAMPLED = "sampled"
"""The result column with the share of the window's rows that was read."""
SECOND = "window_2"
"""The column with the window on a second attribute; state stores only the window's start."""


@dataclass(frozen=True)
class WindowPlan(WindowAnswers):
    """The plan of a window aggregate over one stream.

    `axis` is the window attribute. `source` names the column whose values each have their own
    watermark. `consistent` makes a late row miss all its windows. With `numbering`, windows are
    intervals of row numbers, in arrival order or by rank. With `partition` (some of the keys), each
    partition has its own windows and row numbers. `second` is a second window attribute: rows are
    also grouped by windows of the same range on this attribute (OOP 7). With `ranged`, windows may
    close out of order, when punctuation completes an interval of time. With `sidelined`, windows
    may also close out of order because rows are held. `revise` is the allowed lateness in ticks.
    With `tracked`, the kernel counts the rows in closed windows and the rows that missed windows,
    in total or by window. With `bound`, it compares results with what late rows add to them. The
    kernel drops windows whose results have times in `dropped`, and in `dropped_classes` those of
    single classes of groups. It weights sums over `samples`, of which a share of the rows was read;
    with `shows_rate`, results have a column with that share.
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
    bound: ValueBound | None = None
    dropped: Intervals = ()
    dropped_classes: tuple[ClassDrops, ...] = ()
    samples: tuple[SampledRows, ...] = ()
    shows_rate: bool = False

    word = "window"
    ports = 1

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:  # type: ignore[override]
        """The columns of the input stream."""
        return (self.schema,)

    @property
    def axes(self) -> tuple[Axis, ...]:  # type: ignore[override]
        """The window attribute (axis): the column that range and slide are measured on."""
        return (self.axis,)

    @cached_property
    def parts(self) -> tuple[Accumulator, ...]:  # type: ignore[override]
        """The row count, then all other accumulators (parts) of the plan, without repeats."""
        wanted = [self.kept(p) for a in self.aggregates.values() for p in a.parts(self.schema)]
        own: list[Accumulator] = [RowCount()]
        if isinstance(self.spec, SessionWindow):
            own.append(Span())
        elif self.end_count is not None:
            own.append(self.end_count)
        return tuple(dict.fromkeys([*own, *wanted]))

    def kept(self, part: Accumulator) -> Accumulator:
        """Return the accumulator to store: `part`, or a `ResumableFold` or `ValueList` of it."""
        if not isinstance(part, FoldAccumulator):
            return part
        if isinstance(self.spec, Landmark):
            return ResumableFold(part)
        return part if self.laid_out else ValueList(part)

    def settled(self, part: Accumulator, closed: list[AccumulatorColumns]) -> AccumulatorColumns:
        """Return the content of the accumulator `part` in closed windows."""
        kept = self.kept(part)
        content = closed[self.parts.index(kept)]
        return kept.fold(content) if isinstance(kept, ValueList | ResumableFold) else content

    def only(self, name: str, window: Sliding) -> WindowPlan:
        """Return the plan with only the window `name`, for the late rows of this window."""
        return replace(self, spec=window, name=name)

    @property
    def books_quality(self) -> bool:  # type: ignore[override]
        """Whether the kernel counts the rows of each window, and those that missed it."""
        return self.tracked == "windows" or self.bound is not None

    @property
    def compared(self) -> str:  # type: ignore[override]
        """What a bound on the error of results compares, in words."""
        return "" if self.bound is None else compared(self.aggregates, self.schema, self.bound)

    @property
    def several(self) -> bool:
        """Whether windows have names, because the query has several windows."""
        return isinstance(self.spec, Shared) or self.name is not None

    @property
    def window(self) -> SingleWindow:
        """The spec of the windows, if the plan has no named windows."""
        assert self.spec.kind != "named"  # noqa: S101
        return cast("SingleWindow", self.spec)

    @property
    def positioned(self) -> Sliding | Landmark:
        """The spec of sliding or landmark windows, whose bounds follow from their ids."""
        assert isinstance(self.spec, Sliding | Landmark)  # noqa: S101
        return self.spec

    @property
    def layout(self) -> str:
        """The name of the layout that the window kernel uses."""
        return self.spec.kind if self.numbering is None else "numbered"

    @property
    def laid_out(self) -> bool:
        """Whether the ids of a row's windows follow from its time alone."""
        return not self.spec.driven and not self.several and self.numbering is None

    @cached_property
    def end_count(self) -> MultipleCount | None:
        """The accumulator that counts rows at which windows end; None if no column selects them."""
        spec = self.spec
        if not isinstance(spec, RowWindow) or spec.slide_on is None:
            return None
        return MultipleCount(self.slide_axis, spec.slide)

    @property
    def ends_part(self) -> int:
        """The index in `parts` of the accumulator that counts rows at which windows may end."""
        return 0 if self.end_count is None else 1

    @property
    def counts_ranks(self) -> bool:
        """Whether every `slide`-th row by rank ends a window."""
        return isinstance(self.spec, RowWindow) and self.end_count is None and self.spec.slide > 1

    @property
    def ends_of_stream(self) -> bool:
        """Whether a row of one group ends windows of all groups (WID 3.2)."""
        return isinstance(self.spec, RowWindow) and bool(self.keys) and not self.partition

    @property
    def counts_arrivals(self) -> bool:
        """Whether the operator numbers the rows in arrival order."""
        return self.spec.slide_on == ARRIVAL or (self.numbering == "arrival" and not self.partition)

    @property
    def sequential(self) -> bool:
        """Whether a single shard must process all rows, in order to number them."""
        return not self.partition and (self.counts_arrivals or self.numbering is not None)

    @property
    def travels_whole(self) -> bool:
        """Whether ingest sends rows instead of cells, because it cannot aggregate the rows."""
        return self.keeping == "windows" or self.numbering is not None or self.counts_arrivals

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns that choose the shard of a row."""
        return (self.partition if self.numbering is not None else self.keys,)

    @property
    def bounds(self) -> Axis:  # type: ignore[override]
        """The attribute of window bounds: the window attribute, or the row number."""
        return self.axis if self.numbering is None else Axis("row number", pa.int64())

    @property
    def rounds_marks(self) -> bool:
        """Whether window ends are known in advance, so that watermarks are rounded down to them."""
        return self.numbering is None and not self.spec.driven

    def usable(self, port: int, marks: Watermarks) -> Watermarks:
        """Return `marks`, rounded down to times at which a window closes.

        Watermarks of single sources are kept only if they close the groups of their source.
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
        """Return the watermarks that decide which rows are late and which panes are evicted.

        They are the watermarks in force, `marks`, minus the allowed lateness.
        """
        if not self.revise:
            return marks
        return marks.mapped(lambda m: m if m >= END else m - self.revise)

    def deciding(self, own: Watermarks) -> Watermarks:
        """Return the watermarks that decide which rows are late under consistent slack.

        They are computed from the input's watermarks, `own`; a gradual flush does not affect them.
        """
        return replace(self, flush=None, revise=0).usable(0, self.late_by(own))

    def panes_of(self, window: Sliding, first: Ticks, end: Ticks) -> tuple[Ticks, Ticks]:
        """Return the panes [low, high) that the windows `first <= wid < end` consist of.

        If a cell covers a whole window instead of a pane, `first` and `end` are returned unchanged.
        """
        if self.keeping == "windows":
            return first, end
        step = window.panes_per_slide
        return first * step, (end - 1) * step + window.panes

    def marks_out(self, ports: Sequence[Watermarks]) -> Mapping[str, Watermarks]:
        """Return {"window": watermarks of the results}, the smallest times of future results."""
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
        """`panes` if each cell covers a pane, or `windows` if some parts do not combine."""
        return "panes" if all(p.paned for p in self.parts) else "windows"

    @cached_property
    def groups_have_marks(self) -> bool:
        """Whether different groups may have different watermarks."""
        return self.sources_close_groups or self.second is not None

    @cached_property
    def sources_close_groups(self) -> bool:  # type: ignore[override]
        """Whether the watermark of a source closes the windows of this source's groups."""
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
        known = [pa.field("wid", pa.int64()), *named, *keys, *values]
        return pa.schema([window, *known, *self._rate([f.name for f in known]), kind])

    def _rate(self, names: Sequence[str]) -> list[pa.Field]:
        """Return the column with the share of rows that was read, or none."""
        return [pa.field(free(SAMPLED, names), pa.float64())] if self.shows_rate else []

    @property
    def group_keys(self) -> Mapping[str, pa.DataType]:
        """The columns of `group_by`, as {column: type}."""
        return {key: self.key_field(key).type for key in self.keys}

    def key_field(self, key: str) -> pa.Field:
        """Return the result column of a key."""
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
        """The columns of a late row: its own columns, its late degree and its missed windows."""
        ids, bounds = pa.int64(), self.bounds.bound_type
        missed = pa.struct([("first", ids), ("last", ids), ("start", bounds), ("end", bounds)])
        named = [pa.field(NAME, pa.string())] if self.several else []
        return late_schema(self.schema, [*named, pa.field("missed", missed)])
