"""Streams and the sentence that builds a query: stream, window, group_by, agg."""

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
    """Rows that arrive over time: those of a source, or the results of operators."""

    node: Node

    @classmethod
    def of(cls, source: Any, time: str, watermark: WatermarkPolicy | None) -> Stream:
        """Return the stream of a source."""
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
        """The column of the event time."""
        return self.node.time

    @property
    def times(self) -> tuple[Axis, ...] | None:
        """The columns of results that have a watermark; None where a policy decides."""
        return self.node.times

    def axis(self, column: Any) -> Axis:
        """Return a column as a window attribute; raise SpecError if it has no watermark."""
        return self.node.axis(column)

    @property
    def jointly(self) -> Mapping[str, int]:
        """The columns that hold the two times of a join, each with its side."""
        return paired_times(self.node)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The filters and columns since the source, or since the last operator."""
        return steps_of(self.node)

    @property
    def outputs(self) -> Mapping[str, Node]:
        """The node whose rows leave a run."""
        return {RESULTS: self.node}

    def where(self, condition: str) -> Stream:
        """Keep the rows for which a Spark SQL condition is true; the query ignores the others.

        Progress is measured before it: that time has passed shows in all rows, and punctuation is
        heard whether it would pass or not. Over a DataFrame Spark evaluates the condition,
        elsewhere DuckDB, where the rows are read. (A filter on the DataFrame itself, before
        `lw.stream`, is cheaper where few rows are left, and hides the others altogether.)

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> traffic = lw.stream(feed, time="ts", watermark=lw.ordered())
        >>> query = traffic.where("speed > 0").window(range="1 minute").agg(n=lw.count())
        >>> print(query.explain().splitlines()[0])
        rows        where speed > 0
        """
        return self.after(Where(condition))

    def with_columns(self, **columns: str) -> Stream:
        """Add columns, or replace some, by Spark SQL: `with_columns(kmh="speed * 1.6")`.

        All expressions read the columns as they were before.
        """
        if not columns:
            raise SpecError("with_columns() needs a column, for example kmh='speed * 1.6'")
        return self.after(WithColumns(tuple(columns.items())))

    def select(self, *columns: str, **named: str) -> Stream:
        """Give exactly these columns, by Spark SQL: `select("ts", "speed", kmh="speed * 1.6")`.

        `"*"` stands for all columns. The time column, by this or another name, and what the
        progress policy reads must be among them.
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
        """Let streams of the same columns flow together (OOP A.2.1).

        Nothing waits and nothing is sorted: the union is as far as the slowest of its streams. One
        that falls silent holds the others back until its own `idle_timeout` has passed.

        >>> import lowwater as lw
        >>> feeds = [lw.feed("ts timestamp, n int") for _ in range(2)]
        >>> a, b = (lw.stream(f, time="ts", watermark=lw.ordered()) for f in feeds)
        >>> a.union(b).window(range="1 minute").agg(n=lw.count()).schema.names
        ['window', 'wid', 'n', 'kind']
        """
        return Stream(unite((self.node, *(_node_of("union", other) for other in others))))

    def distinct(self, *columns: str, within: Any = None) -> Stream:
        """Keep the first row of each kind: of rows that agree in `columns` (by default in all).

        Rows repeat each other if their times are at most `within` apart; by default, equal. A row
        that was emitted is remembered until the watermark has passed it, so that late repetitions
        are recognised; a row behind the watermark that repeats nothing remembered is late.
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
        """Join with another stream: equal keys, times near each other (OOP 5.3).

        Rows join on arrival, whatever their order. A row is kept until the other stream's watermark
        shows that no partner can come any more.

        Parameters
        ----------
        on
            The columns that must be equal: a name, several, or {name here: name there}. Without
            any, all rows near in time join.
        band
            The least and the greatest `other - self`, `("-2 seconds", "3 seconds")`, both included;
            or `lw.same_window("10 seconds")`.
        how
            "inner", "left", "right", "full", or "anti": the rows of this stream without a partner.
            Rows without a partner come out when none can come any more.
        time
            What the result progresses on: the time of "self" or of "other", the "min" or "max" of
            both (a column of its own), or "both", each by itself. Both times stay in the result.
        order
            "time" gives results in the order of their time, by default "max" of both (QDJ 4): each
            waits for the watermarks of both streams, and rows behind them are dropped.
        suffix
            What a column of the other stream gets whose name is taken.
        flush
            `lw.slow_flush(max_delay="10 seconds")` gives rows without a partner out over a while,
            instead of all at once; with `lw.same_window`, also "2 windows". Pairs do not wait.
        quality
            0.95 gives both streams the progress `lw.quality(0.95)`: the smallest slack by which
            that share of the pairs comes out. They are then made without `watermark=`. To say more,
            `lw.quality(0.95, interval="5 seconds")`.

        >>> import lowwater as lw
        >>> feeds = [lw.feed("ts timestamp, key int, x double") for _ in range(2)]
        >>> a, b = (lw.stream(f, time="ts", watermark=lw.ordered()) for f in feeds)
        >>> a.join(b, on="key", band=("-2 seconds", "3 seconds")).schema.names
        ['ts', 'key', 'x', 'ts_other', 'x_other']
        """
        mine, theirs = with_quality(self.node, _node_of("join", other), quality)
        return Stream(join(mine, theirs, JoinArgs(on, band, how, time, order, suffix, flush)))

    def order(self, by: Literal["time"] = "time") -> Stream:
        """Emit rows in the order of their time: each waits until the watermark has passed it.

        Total order has its price: every row waits for the slowest, in one shard.
        """
        if by != "time":
            raise SpecError(f"order({by!r}) is unknown; a stream has one order, 'time'")
        return Stream(in_order(self.node))

    def after(self, step: Step) -> Stream:
        """Return the stream after a filter, or with other columns."""
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
        """Cut the stream into windows of `range` that start every `slide` (by default `range`).

        Parameters
        ----------
        several
            `lw.windows(hour=("1 hour", "1 minute"), day=("1 day", "1 minute"))`: several windows at
            once, on common panes; results say in `window_name` which one they are of.
        range, slide
            Durations over time, numbers over numbers, `lw.rows(n)` over rows.
            `range=lw.unbounded` gives landmark windows, which reach back to the beginning.
            `slide=lw.rows(1)` gives a window that ends at every row.
        on
            The attribute the windows lie over: a column (by default the stream's time),
            `lw.arrival` for the order in which rows arrive, `lw.rank("ts")` for the order of a
            column. On both times of a join, `("ts", "ts_other")`, each result is for a window of
            the one and a window of the other (`window_2`).
        slide_on
            What a `slide` in rows counts: rows as they arrive (by default), `lw.rank("ts")`, or a
            column whose multiples of `slide` end a window.
        partition_by
            Columns by which the stream is parted before it is cut: each partition has windows, and
            row numbers, of its own.
        origin
            A point where a window starts; by default 1970-01-01 or 0, as in Spark's `window()`.
        gap
            Instead of `range` and `slide`: sessions, which end when no row comes for this time.
        flush
            `lw.slow_flush(max_delay="2 windows")` gives the results of windows with very many
            groups out over a while, instead of all at once.
        allowed_lateness
            How far the watermark may pass a window's end, "1 hour", for late rows to revise its
            result: it comes again, its `kind` "revised". By default finals are final.

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
        >>> found = counted.agg(n=lw.count()).run(epochs={feed: epochs})
        >>> [(row["wid"], row["n"], row["kind"]) for row in found.results.to_pylist()]
        [(0, 1, 'final'), (0, 2, 'revised'), (1, 2, 'final'), (4, 2, 'final')]
        >>> found.late.column("t").to_pylist()
        [8]
        """
        words = WindowArgs(range, slide, on, slide_on, origin, gap)
        parts = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        parts = tuple(dict.fromkeys(parts))
        for column in parts:
            groupable("partition_by", column, self.schema)
        if several is not None:
            made = several.make(words, self.node)
        else:
            made = make_window(words, self.node, partitioned=bool(parts))
        return WindowedStream(
            query=Query,
            of=self.node,
            axis=made.axis,
            spec=made.spec,
            keys=parts,
            numbering=made.numbering,
            partition=parts,
            second=made.second,
            flush=flush,
            allowed_lateness=allowed_lateness,
        )


@dataclass(frozen=True, eq=False)
class Query(Stream):
    """A window aggregate over a stream, ready to run. Made by `stream.window(...).agg(...)`.

    Its results are a stream, too. Their time is `window`: the last tick of a result's window.
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
    """Return the node of another stream; raise SpecError if it is not one."""
    if not isinstance(other, Stream):
        raise SpecError(f"{word}({other!r}): give another stream")
    return other.node
