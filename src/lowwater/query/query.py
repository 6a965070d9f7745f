"""A query: what it means, and how it is handed to a host."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lowwater.aggregates import Aggregate
from lowwater.control import Pace
from lowwater.durations import ticks
from lowwater.errors import SpecError
from lowwater.kernels import WindowPlan
from lowwater.kernels.plan import Numbering
from lowwater.progress import Tracker
from lowwater.query.explain import explain
from lowwater.query.hosting import Clock, Outcome, Outputs, Run, host_named
from lowwater.sinks import Sink
from lowwater.sources import BlockSource, Feed
from lowwater.windows import FOREVER, Axis, Landmark, Sliding, WindowSpec

if TYPE_CHECKING:
    from lowwater.query.stream import Stream

MAX_FOLDED_WINDOWS = 10_000
BEATS_PER_LULL = 4
"""How often in a lull the clock moves a mark, where windows may end anywhere."""
STATE_VERSION = 3
"""Raised when a new version cannot read the checkpoints of an older one."""


@dataclass(frozen=True)
class Query:
    """A window aggregate over a stream, ready to run. Made by `stream.window(...).agg(...)`."""

    stream: Stream
    plan: WindowPlan
    tracker: Tracker

    @classmethod
    def build(
        cls,
        stream: Stream,
        axis: Axis,
        spec: WindowSpec,
        keys: tuple[str, ...],
        aggregates: dict[str, Aggregate],
        *,
        numbering: Numbering | None = None,
        partition: tuple[str, ...] = (),
    ) -> Query:
        """Check all parts against each other and make the plan."""
        tracker = stream.progress.bind(axis, stream.schema)
        plan = WindowPlan(
            stream.schema,
            axis,
            spec,
            keys,
            aggregates,
            source=tracker.source,
            max_ahead=stream.progress.ahead(axis),
            consistent=tracker.consistent,
            tail=tracker.tail,
            mark_when=tracker.mark_when,
            numbering=numbering,
            partition=partition,
        )
        _check(plan)
        return cls(stream, plan, tracker)

    @property
    def pace(self) -> Pace:
        """How marks become punctuations for this query."""
        return Pace(
            self.plan.align,
            partial(final_mark, self.plan.spec),
            by_source=self.plan.sources_close_groups,
            wall=self.stream.progress.clock == "wall",
            grain=0 if self.plan.rounds_marks else self._lull // BEATS_PER_LULL,
        )

    @property
    def _lull(self) -> int:
        lull = self.stream.progress.lull
        return 0 if lull is None else ticks(lull, name="lull")

    @property
    def schema(self) -> pa.Schema:
        """The columns of a result row."""
        return self.plan.result_schema

    def fingerprint(self, shards: int) -> dict[str, Any]:
        """Return what a checkpoint must agree on to be this query's."""
        plan = self.plan
        described: dict[str, Any] = {
            "window": repr(plan.spec),
            "over": f"{plan.axis.column} {plan.axis.type}",
            "group by": [f"{k} {plan.schema.field(k).type}" for k in plan.keys],
            "aggregates": {n: _describe(a) for n, a in plan.aggregates.items()},
            "stream": plan.schema.to_string(show_schema_metadata=False),
            "progress": [type(self.stream.progress).__name__, plan.source],
            "rows": [plan.numbering, plan.partition],
            "shards": shards,
        }
        if self.stream.steps:
            described["before the window"] = [str(step) for step in self.stream.steps]
        digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
        return {"version": STATE_VERSION, "query": described, "digest": digest}

    def explain(self) -> str:
        """Say what the query means and how it will be run."""
        return explain(self.plan, self.stream.progress, self.stream.steps)

    def cql(self, stream: str = "s") -> str:
        """Return the query as text over a stream of that name: what `lw.sql` reads.

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> traffic = lw.stream(feed, time="ts", progress=lw.ordered())
        >>> query = traffic.where("speed > 0").window(range="1 minute").agg(n=lw.count())
        >>> query.cql("traffic")
        'SELECT count(*) AS n FROM traffic [RANGE 1 minute SLIDE 1 minute WATTR ts] WHERE speed > 0'
        """
        from lowwater.cql import text_of

        return text_of(self, stream)

    def run(
        self,
        *,
        epochs: Mapping[Feed, Sequence[Any]] | None = None,
        host: Literal["local", "spark"] | None = None,
        sink: Sink | None = None,
        late: Sink | None = None,
        malformed: Sink | None = None,
        checkpoint: str | None = None,
        clock: Clock | None = None,
        shards: int | None = None,
    ) -> Outcome:
        """Run to the end of a bounded stream, close every window, and return what came out.

        A stream over a feed takes its epochs here, each table exactly one. `host` is "spark", or
        "local" for one process without Spark; by default Spark, and local for a feed. A `clock`
        stands in for the wall clock, in tests. `late` and `malformed` are sinks for these rows.

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> query = (
        ...     lw.stream(feed, time="ts", progress=lw.ordered())
        ...     .window(range="1 minute")
        ...     .agg(n=lw.count())
        ... )
        >>> rows = [("2024-01-01 00:00:10+00", 1.0), ("2024-01-01 00:01:20+00", 2.0)]
        >>> import datetime
        >>> rows = [(datetime.datetime.fromisoformat(t), x) for t, x in rows]
        >>> query.run(epochs={feed: [rows]}).results.column("n").to_pylist()
        [1, 1]
        """
        if shards is not None and (type(shards) is not int or shards < 1):
            raise SpecError(f"shards={shards!r} must be a whole number from 1")
        source = self._source(epochs)
        name = host or ("local" if isinstance(self.stream.source, Feed) else "spark")
        outputs = Outputs(sink, late, malformed)
        return host_named(name).run(
            self, source, outputs, checkpoint=checkpoint, clock=clock, shards=shards
        )

    def start(
        self,
        *,
        sink: Sink,
        checkpoint: str,
        late: Sink | None = None,
        malformed: Sink | None = None,
        trigger: str | None = None,
    ) -> Run:
        """Start the query on Spark and let it run on; `trigger` is the least time between epochs.

        Started again with the same checkpoint, it goes on where it stopped or was killed.
        """
        if isinstance(self.stream.source, Feed):
            raise SpecError("a feed is bounded: use query.run(epochs={feed: [...]})")
        outputs = Outputs(sink, late, malformed)
        return host_named("spark").start(
            self, self.stream.source, outputs, checkpoint=checkpoint, trigger=trigger
        )

    def _source(self, epochs: Mapping[Feed, Sequence[Any]] | None) -> Any:
        source = self.stream.source
        if isinstance(source, Feed):
            if epochs is None or list(epochs) != [source.given]:
                raise SpecError("the stream is a feed: run it with epochs={feed: [table, ...]}")
            return [source.table(t) for t in epochs[source.given]]
        if epochs is not None:
            raise SpecError("epochs= goes with a feed; this stream has a source of its own")
        if isinstance(source, BlockSource):
            return source.bounded()
        return source


def _check(plan: WindowPlan) -> None:
    """Refuse what does not fit together, before anything runs."""
    _ = plan.parts, plan.result_schema
    spec = plan.spec
    if isinstance(spec, Landmark):
        if plan.consistent:
            raise SpecError(
                "slack(mode='consistent') drops a late row from all its windows, and on landmark "
                "windows no row is late for all; take mode='generous'"
            )
        unbounded = [n for n, a in plan.aggregates.items() if _grows(a, plan)]
        if unbounded:
            raise SpecError(
                f"{unbounded[0]}=... keeps all values of a window, and a landmark window has all "
                f"there ever were; take a sketch, for example lw.quantile(..., sketch=True)"
            )
    elif (
        isinstance(spec, Sliding)
        and plan.keeping == "windows"
        and spec.range // spec.slide > MAX_FOLDED_WINDOWS
    ):
        raise SpecError(
            f"an aggregate by init/incr/final is kept per window, and range is "
            f"{spec.range // spec.slide:,} slides: each row would cost as many steps. The limit is "
            f"{MAX_FOLDED_WINDOWS:,}; define it by lift/combine/lower, or take a larger slide"
        )


def _grows(aggregate: Aggregate, plan: WindowPlan) -> bool:
    return not all(part.bounded for part in aggregate.parts(plan.schema))


def final_mark(spec: WindowSpec, newest: int | None) -> int:
    """Return the mark that ends a stream: every window that holds a row closes (semantics 11)."""
    if isinstance(spec, Landmark) and newest is not None:
        return int(spec.end(spec.first(newest)))
    return FOREVER


def _describe(aggregate: Aggregate) -> str:
    return repr(aggregate).split(" at 0x")[0]
