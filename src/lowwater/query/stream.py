"""Streams, and the methods that build a query from them: where, join, window and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from lowwater.errors import SpecError, renamed, unknown_name
from lowwater.expressions.evaluate import column_text
from lowwater.expressions.steps import Select, Step, Where, WithColumns
from lowwater.logical.build import read, unite
from lowwater.logical.build import step as add_step
from lowwater.logical.nodes import Apply, Node, paired_times, steps_of
from lowwater.operators.join.plan import How, Time
from lowwater.operators.window.plan import WindowPlan
from lowwater.planner.flush import Flush
from lowwater.query.combine import distinct, in_order, join
from lowwater.query.join_args import JoinArgs, Order, with_quality
from lowwater.query.start import RESULTS, SingleQuery
from lowwater.query.window_args import NamedWindows, WindowArgs, make_window
from lowwater.query.window_builder import WindowedStream, groupable
from lowwater.watermarks.policy import NoPolicy, WatermarkPolicy
from lowwater.windows.axis import Axis
from lowwater.windows.row_windows import Arrival, Rank


@dataclass(frozen=True, eq=False)
class Stream(SingleQuery):
    """A stream of rows that arrive over time: rows of a source, or results of operators."""

    node: Node

    @classmethod
    def of(cls, source: Any, time: str, watermark: WatermarkPolicy | None) -> Stream:
        """Return the stream of `source`, with its time column and its watermark policy."""
        policy = NoPolicy() if watermark is None else watermark
        if not isinstance(policy, WatermarkPolicy):
            raise SpecError(
                f"watermark={policy!r} is not a policy; give lw.slack('10 seconds'), "
                f"lw.ordered(), lw.quality(0.95), lw.adaptive(), lw.punctuated(...) or "
                f"lw.per_source(...)"
            )
        return Stream(read(source, time, policy))

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        return self.node.schema

    @property
    def time(self) -> str:
        """The name of the event-time column."""
        return self.node.time

    @property
    def times(self) -> tuple[Axis, ...] | None:
        """For results of operators, the time columns that have a watermark; for a source, None."""
        return self.node.times

    def axis(self, column: Any) -> Axis:
        """Return a column as a window attribute (axis); raise SpecError if it has no watermark."""
        return self.node.axis(column)

    @property
    def jointly(self) -> Mapping[str, int]:
        """The two time columns of a join result, as {column: side}; side 0 is self, 1 is other."""
        return paired_times(self.node)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The filters and computed columns since the source, or since the last operator."""
        return steps_of(self.node)

    @property
    def outputs(self) -> Mapping[str, Node]:
        """The plan node of the only output."""
        return {RESULTS: self.node}

    def where(self, condition: str) -> Stream:
        """Return the stream with only the rows for which a Spark SQL condition is true.

        The filter does not affect the watermark. All rows and punctuations advance it, even those
        that the filter removes. Spark evaluates the condition on a DataFrame, DuckDB on other
        sources. A filter on the DataFrame itself, before `lw.stream`, is cheaper if few rows
        remain, but then the other rows do not advance the watermark.

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> traffic = lw.stream(feed, time="ts", watermark=lw.ordered())
        >>> query = traffic.where("speed > 0").window(range="1 minute").agg(n=lw.count())
        >>> print(query.explain().splitlines()[0])
        rows        where speed > 0
        """
        return self.after(Where(condition))

    def with_columns(self, **columns: str) -> Stream:
        """Return the stream with columns added or replaced: `with_columns(kmh="speed * 1.6")`.

        The expressions are Spark SQL, and read the columns of this stream.
        """
        if not columns:
            raise SpecError("with_columns() needs a column, for example kmh='speed * 1.6'")
        return self.after(WithColumns(tuple(columns.items())))

    def select(self, *columns: str, **named: str) -> Stream:
        """Return the stream with only these columns: `select("ts", "speed", kmh="speed * 1.6")`.

        `"*"` means all columns; expressions are Spark SQL. The selection must include the time
        column, which may be renamed, and the columns that the watermark policy reads.
        """
        if not columns and not named:
            raise SpecError("select() needs a column, for example 'ts'")
        every = [c for word in columns for c in (self.schema.names if word == "*" else [word])]
        for column in every:
            if column not in self.schema.names:
                raise unknown_name("column", column, self.schema.names)
        taken = [(column, column_text(column)) for column in every]
        return self.after(Select((*taken, *named.items())))

    def union(self, *others: Stream) -> Stream:
        """Return one stream with the rows of several streams that have equal columns (OOP A.2.1).

        Rows do not wait and are not sorted. The watermark is the lowest of the streams' watermarks.
        An idle stream holds the watermark back until its `idle_timeout` has passed.

        >>> import lowwater as lw
        >>> feeds = [lw.feed("ts timestamp, n int") for _ in range(2)]
        >>> a, b = (lw.stream(f, time="ts", watermark=lw.ordered()) for f in feeds)
        >>> a.union(b).window(range="1 minute").agg(n=lw.count()).schema.names
        ['window', 'wid', 'n', 'kind']
        """
        return Stream(unite((self.node, *(_node_of("union", other) for other in others))))

    def distinct(self, *columns: str, within: Any = None) -> Stream:
        """Return the stream without duplicates.

        Two rows are duplicates if they have equal `columns` (by default all columns), and times at
        most `within` apart (by default equal times). The row that arrives first is emitted, and
        stays in state until the watermark has passed it. A row behind the watermark is late, unless
        it duplicates a row in state.
        """
        return Stream(distinct(self.node, columns, within))

    @renamed(smooth="flush")
    def join(
        self,
        other: Stream,
        *,
        on: str | Sequence[str] | Mapping[str, str] | None = None,
        band: Any,
        how: How = "inner",
        time: Time | None = None,
        order: Order = "free",
        suffix: str = "_other",
        flush: Flush | None = None,
        quality: float | WatermarkPolicy | None = None,
    ) -> Stream:
        """Return the join with another stream: pairs with equal keys and near times (OOP 5.3).

        Rows join on arrival, in any order. A row stays in state until the other stream's watermark
        guarantees that no further partner will arrive.

        Parameters
        ----------
        on
            The key columns: a name, several names, or {name in this stream: name in `other`}.
            With None, all rows near in time join.
        band
            `("-2 seconds", "3 seconds")`: the smallest and the largest difference of times, `other`
            minus self, both allowed. Or `lw.same_window("10 seconds")`.
        how
            "inner", "left", "right", "full", or "anti": the rows of this stream without a partner.
            Rows without a partner are emitted when no partner can arrive any more.
        time
            The event time of a result: the time of "self" or "other", the "min" or "max" of both
            times (in a new column), or "both" times. Results keep the time columns of both rows.
        order
            "time" emits results in the order of their time (QDJ 4); for inner joins, the default of
            `time` is then "max". Results wait for both watermarks, and late rows are not joined.
        suffix
            The suffix of those columns of `other` whose names exist in this stream, too.
        flush
            `lw.slow_flush(max_delay="10 seconds")` spreads the rows without a partner over time
            instead of emitting all at once. With `lw.same_window`, `max_delay` may be "2 windows".
            Pairs are not delayed.
        quality
            0.95 gives both streams the watermark policy `lw.quality(0.95)`: the smallest slack that
            finds this share of the pairs. Both streams must then be built without `watermark=`.
            `lw.quality(0.95, by="sensor")` sets more options.

        >>> import lowwater as lw
        >>> feeds = [lw.feed("ts timestamp, key int, x double") for _ in range(2)]
        >>> a, b = (lw.stream(f, time="ts", watermark=lw.ordered()) for f in feeds)
        >>> a.join(b, on="key", band=("-2 seconds", "3 seconds")).schema.names
        ['ts', 'key', 'x', 'ts_other', 'x_other']
        """
        mine, theirs = with_quality(self.node, _node_of("join", other), quality)
        return Stream(join(mine, theirs, JoinArgs(on, band, how, time, order, suffix, flush)))

    def order(self, by: Literal["time"] = "time") -> Stream:
        """Return the stream sorted by time; a row is emitted when the watermark passes it.

        The total order needs one shard, and every row waits for the slowest input.
        """
        if by != "time":
            raise SpecError(f"order({by!r}) is unknown; write order('time'), the only order")
        return Stream(in_order(self.node))

    def after(self, step: Step) -> Stream:
        """Return the stream after `step`, a filter or a change of columns."""
        return Stream(add_step(self.node, step))

    @renamed(smooth="flush", revise_for="allowed_lateness")
    def window(
        self,
        several: NamedWindows | None = None,
        *,
        range: Any = None,
        slide: Any = None,
        on: str | tuple[str, str] | Rank | Arrival | None = None,
        slide_on: str | Rank | Arrival | None = None,
        partition_by: str | Sequence[str] = (),
        origin: Any = None,
        gap: Any = None,
        flush: Flush | None = None,
        allowed_lateness: Any = None,
    ) -> WindowedStream[Query]:
        """Return the stream with windows of length `range` that start every `slide`.

        Parameters
        ----------
        several
            `lw.windows(hour=("1 hour", "1 minute"), day=("1 day", "1 minute"))`: several windows at
            once, on common panes; the column `window_name` of the results names the window.
        range, slide
            Durations on a time column, numbers on a numeric column, `lw.rows(n)` for row windows.
            `slide` is by default equal to `range`.
            `range=lw.unbounded` makes landmark windows, which start at the beginning of the stream.
            `slide=lw.rows(1)` makes a window that ends at every row.
        on
            The window attribute: a column (by default the stream's time), `lw.arrival` for the
            arrival order of rows, `lw.rank("ts")` for the order of a column. With both times of a
            join, `("ts", "ts_other")`, a result has one window per time: `window` and `window_2`.
        slide_on
            How `slide=lw.rows(n)` counts rows: by arrival (the default), or by `lw.rank("ts")`.
            Or a column: then each row whose value is a multiple of `slide` ends a window.
        partition_by
            Columns that partition the stream before windows are formed: each partition has its own
            windows and row numbers.
        origin
            A point where a window starts; by default 1970-01-01 or 0, as in Spark's `window()`.
        gap
            The gap of session windows, instead of `range` and `slide`: rows less than `gap`
            apart are in the same session.
        flush
            `lw.slow_flush(max_delay="2 windows")` spreads the results of windows with many groups
            over time, instead of emitting all at once.
        allowed_lateness
            How far the watermark may pass a window's end, such as "1 hour", before late rows are no
            longer accepted. Until then, late rows cause the result to be emitted again, with the
            `kind` "revised". By default, results are not revised.

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> traffic = lw.stream(feed, time="ts", watermark=lw.ordered())
        >>> traffic.window(range="5 minutes", slide=lw.rows(1)).spec
        RowWindow(range=300000000, slide=1, slide_on=None)

        >>> feed = lw.feed("t bigint")
        >>> counted = lw.stream(feed, time="t", watermark=lw.ordered()).window(
        ...     range=10, allowed_lateness=20
        ... )
        >>> epochs = [[(5,), (12,)], [(13,)], [(7,)], [(45,)], [(46,)], [(8,)]]
        >>> outcome = counted.agg(n=lw.count()).run(epochs={feed: epochs})
        >>> [(row["wid"], row["n"], row["kind"]) for row in outcome.results.to_pylist()]
        [(0, 1, 'final'), (0, 2, 'revised'), (1, 2, 'final'), (4, 2, 'final')]
        >>> outcome.late.column("t").to_pylist()
        [8]
        """
        args = WindowArgs(range, slide, on, slide_on, origin, gap)
        named = [partition_by] if isinstance(partition_by, str) else partition_by
        parts = tuple(dict.fromkeys(named))
        for column in parts:
            groupable("partition_by", column, self.schema)
        if several is not None:
            window = several.make(args, self.node)
        else:
            window = make_window(args, self.node, partitioned=bool(parts))
        return WindowedStream(
            query=Query,
            of=self.node,
            axis=window.axis,
            spec=window.spec,
            keys=parts,
            numbering=window.numbering,
            partition=parts,
            second=window.second,
            flush=flush,
            allowed_lateness=allowed_lateness,
        )


@dataclass(frozen=True, eq=False)
class Query(Stream):
    """A window aggregate that is ready to run: the result of `stream.window(...).agg(...)`.

    A query is again a stream; the time of a row is the last tick of its `window`.
    """

    node: Apply

    @property
    def plan(self) -> WindowPlan:
        """The plan of the window aggregate."""
        plan = self.node.plan
        assert isinstance(plan, WindowPlan)  # noqa: S101
        return plan

    @property
    def stream(self) -> Stream:
        """The stream that the query reads."""
        return Stream(self.node.of[0])


def _node_of(word: str, other: Any) -> Node:
    """Return the node of `other`; raise SpecError unless `other` is a stream."""
    if not isinstance(other, Stream):
        raise SpecError(f"{word}({other!r}) needs a stream; give another stream or query")
    return other.node
