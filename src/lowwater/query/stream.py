"""Streams and the sentence that builds a query: stream, window, group_by, agg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.kernels.joins import How, Time
from lowwater.kernels.passing import PassPlan
from lowwater.progress import Progress, Unsaid
from lowwater.query.combining import Joining, Order, distinct, in_order, join, united
from lowwater.query.nodes import Leaf, Node, Operated, Stepped, United
from lowwater.query.pairing import paired_times
from lowwater.query.running import Runnable
from lowwater.query.smoothing import Flush
from lowwater.query.targets import with_quality
from lowwater.query.windowed import Windowed, groupable
from lowwater.query.windowing import NamedWindows, Words, make_window
from lowwater.sources import BlockSource, Feed, Select, Step, Where, WithColumns
from lowwater.sources.expressions import column_text
from lowwater.sources.steps import Transform, called_after
from lowwater.windows import Arrival, Axis, Rank


@dataclass(frozen=True, eq=False)
class Stream(Runnable):
    """Rows that come over time: of a source, or the results of operators.

    `time` is the column that says when a row happened. `times` are the columns that progress, where
    that is not for a policy to say: the results of operators have them. `source` names the column
    whose values have marks of their own.
    """

    node: Node
    schema: pa.Schema
    time: str
    times: tuple[Axis, ...] | None = None

    @classmethod
    def of(cls, source: Any, time: str, progress: Progress | None) -> Stream:
        """Make a stream of a source."""
        progress = Unsaid() if progress is None else progress
        if not isinstance(progress, Progress):
            raise SpecError(
                f"progress={progress!r} is no policy; give lw.slack('10 seconds'), "
                f"lw.ordered(), lw.quality(0.95), lw.adaptive(), lw.punctuated(...) or "
                f"lw.per_source(...)"
            )
        _refuse_hidden(source.schema)
        made = Stream(Leaf(source, progress), source.schema, time)
        made.axis(time)
        return made

    def axis(self, column: Any) -> Axis:
        """Return a column as an attribute that windows can lie over."""
        if column not in self.schema.names:
            raise unknown_name("column", column, self.schema.names)
        if self.times is None:
            return Axis(column, self.schema.field(column).type)
        found = [a for a in self.times if a.column == column]
        if not found:
            raise SpecError(
                f"{column!r} does not progress in this stream, so no window over it could close; "
                f"these columns do: {', '.join(a.column for a in self.times) or '(none)'}"
            )
        return found[0]

    @property
    def jointly(self) -> Mapping[str, int]:
        """The columns that are the times of a join, which progress together, and their sides."""
        return paired_times(self)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The filters and columns since the source, or since the last operator."""
        if isinstance(self.node, Stepped):
            return (*self.node.of.steps, self.node.step)
        return self.node.steps if isinstance(self.node, Leaf) else ()

    def where(self, condition: str) -> Stream:
        """Keep the rows for which a Spark SQL condition is true; others are no rows of the query.

        Progress is measured before it: that time has passed shows in all rows, and punctuation is
        heard whether it would pass or not. Over a DataFrame Spark evaluates the condition,
        elsewhere DuckDB, where the rows are read. (A filter on the DataFrame itself, before
        `lw.stream`, is cheaper where few rows are left, and hides the others altogether.)

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> traffic = lw.stream(feed, time="ts", progress=lw.ordered())
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
        that falls silent holds the others back until its own `lull` or `idle` lets go.

        >>> import lowwater as lw
        >>> feeds = [lw.feed("ts timestamp, n int") for _ in range(2)]
        >>> a, b = (lw.stream(f, time="ts", progress=lw.ordered()) for f in feeds)
        >>> a.union(b).window(range="1 minute").agg(n=lw.count()).schema.names
        ['window', 'wid', 'n', 'kind']
        """
        return united((self, *others))

    def distinct(self, *columns: str, within: Any = None) -> Stream:
        """Keep the first row of each kind: of rows that agree in `columns` (by default in all).

        Rows repeat each other if their times are at most `within` apart; by default, equal. A row
        that was let through is remembered until the mark has passed it, so that late repetitions
        stay repetitions; a row behind the mark that repeats nothing remembered is late.
        """
        return distinct(self, columns, within)

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
        smooth: Flush | None = None,
        quality: float | Progress | None = None,
    ) -> Stream:
        """Join with another stream: equal keys, times near each other (OOP 5.3).

        Rows join on arrival, whatever their order. A row is kept until the other stream's mark says
        that no partner can come any more.

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
            waits for the marks of both streams, and what is behind them by then is dropped.
        suffix
            What a column of the other stream gets whose name is taken.
        smooth
            `lw.slow_flush(max_delay="10 seconds")` gives rows without a partner out over a while,
            instead of all at once; with `lw.same_window`, also "2 windows". Pairs do not wait.
        quality
            0.95 gives both streams the progress `lw.quality(0.95)`: the smallest slack by which
            that share of the pairs comes out. They are then made without `progress=`. To say more,
            `lw.quality(0.95, track="5 seconds")`.

        >>> import lowwater as lw
        >>> feeds = [lw.feed("ts timestamp, key int, x double") for _ in range(2)]
        >>> a, b = (lw.stream(f, time="ts", progress=lw.ordered()) for f in feeds)
        >>> a.join(b, on="key", band=("-2 seconds", "3 seconds")).schema.names
        ['ts', 'key', 'x', 'ts_other', 'x_other']
        """
        mine, theirs = with_quality(self, other, quality)
        return join(mine, theirs, Joining(on, band, how, time, order, suffix, smooth))

    def order(self, by: Literal["time"] = "time") -> Stream:
        """Give rows in the order of their time, by holding each until the mark has passed it.

        Total order has its price: every row waits for the slowest, in one shard.
        """
        if by != "time":
            raise SpecError(f"order({by!r}) is unknown; a stream has one order, 'time'")
        return in_order(self)

    def collected(self) -> Stream:
        """Return the stream as the result of an operator that only gives it out."""
        plan = PassPlan(self.schema, self.axis(self.time))
        return Stream(Operated(plan, (self,)), self.schema, self.time, ())

    def after(self, step: Step) -> Stream:
        """Return the stream after a step."""
        node = self.node
        if isinstance(node, United):
            return united(tuple(stream.after(step) for stream in node.of))
        if isinstance(node, Leaf) and not isinstance(node.source, BlockSource | Feed):
            source = node.source.transformed(step)
            leaf = Leaf(source, node.progress, (*node.steps, step))
            return self._checked(Stream(leaf, source.schema, self._time_after(step)))
        transform = Transform.of(step, self.schema)
        times = self.times
        if times is not None:
            origins = [(n, transform.origin(n)) for n in transform.schema.names]
            times = tuple(replace(a, column=n) for a in times for n, o in origins if o == a.column)
        node = Stepped(self, step, transform)
        return self._checked(Stream(node, transform.schema, self._time_after(step), times))

    def _time_after(self, step: Step) -> str:
        """Return what the time is called after a step, which must not leave it out."""
        found = called_after(step, self.time)
        if found is None:
            raise SpecError(f"{step}: the column {self.time!r}, the stream's time, must stay")
        return found

    @staticmethod
    def _checked(made: Stream) -> Stream:
        """Return the stream after a step, if it can have it."""
        _refuse_hidden(made.schema)
        made.axis(made.time)
        return made

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
        smooth: Flush | None = None,
        revise_for: Any = None,
    ) -> Windowed:
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
            Instead of `range` and `slide`: sessions, which end when no row comes for so long.
        smooth
            `lw.slow_flush(max_delay="2 windows")` gives the results of windows with very many
            groups out over a while, instead of all at once.
        revise_for
            How far the mark may be beyond a window's end, "1 hour", for late rows to correct its
            result: it comes again, its `kind` "revised". By default finals are final.

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> traffic = lw.stream(feed, time="ts", progress=lw.ordered())
        >>> traffic.window(range="5 minutes", slide=lw.rows(1)).spec
        SlideByRow(range=300000000, slide=1, slide_on=None)

        >>> feed = lw.feed("t bigint")
        >>> counted = lw.stream(feed, time="t", progress=lw.ordered()).window(
        ...     range=10, revise_for=20
        ... )
        >>> epochs = [[(5,), (12,)], [(13,)], [(7,)], [(45,)], [(46,)], [(8,)]]
        >>> found = counted.agg(n=lw.count()).run(epochs={feed: epochs})
        >>> [(row["wid"], row["n"], row["kind"]) for row in found.results.to_pylist()]
        [(0, 1, 'final'), (0, 2, 'revised'), (1, 2, 'final'), (4, 2, 'final')]
        >>> found.late.column("t").to_pylist()
        [8]
        """
        words = Words(range, slide, on, slide_on, origin, gap)
        parts = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        parts = tuple(dict.fromkeys(parts))
        for column in parts:
            groupable("partition_by", column, self.schema)
        if several is not None:
            made = several.make(words, self)
        else:
            made = make_window(words, self, partitioned=bool(parts))
        how = (made.numbering, parts, made.second, smooth, revise_for)
        return Windowed(self, made.axis, made.spec, parts, *how)


def _refuse_hidden(schema: pa.Schema) -> None:
    hidden = [n for n in schema.names if n.startswith("__")]
    if hidden:
        raise SpecError(f"column {hidden[0]!r}: names that begin with '__' are Lowwater's own")
