"""The methods that run a query on a host."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

from lowwater.early.estimates import Estimate
from lowwater.engine.clock import Clock
from lowwater.engine.host import Outcome, host_named
from lowwater.engine.outputs import plan_writers, prepare
from lowwater.engine.pending_outputs import Ahead
from lowwater.engine.restart import Restart, RestartedRun
from lowwater.engine.run import Run
from lowwater.errors import SpecError, renamed
from lowwater.logical.nodes import Node
from lowwater.planner.assemble import assemble, check
from lowwater.planner.early import Prods
from lowwater.planner.explain import explain, feature_lines
from lowwater.planner.fingerprint import fingerprint
from lowwater.planner.need import Needs, need_lines, need_parts, watermark_of
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.planner.quality import refuse_unfed
from lowwater.planner.shedding import Shed, shedding
from lowwater.planner.sidelining import Sidelining, sideline_of
from lowwater.query.options import Epochs, HostName, RunOptions
from lowwater.sinks.sink import Outputs, Sink
from lowwater.sources.feed import Feed
from lowwater.sources.source import BlockSource

RESULTS = "results"
"""The name of the only output of a query that runs alone."""


class Runnable:
    """One or more queries that a host runs together, each with a named output."""

    @property
    def outputs(self) -> Mapping[str, Node]:
        """The plan node of each output, by the name of the output."""
        raise NotImplementedError

    @cached_property
    def assembly(self) -> PhysicalPlan:
        """The physical plan with the inputs and operators of all outputs."""
        return assemble(self.outputs)

    def planned(self, options: RunOptions) -> PhysicalPlan:
        """Return the physical plan of a run with `options`."""
        return options.plan(self._assembled(options.need))

    def _assembled(self, need: Needs) -> PhysicalPlan:
        """Return the plan of the outputs; a need supplies missing watermarks."""
        default = watermark_of(need)
        if default is None:
            return self.assembly
        need_parts(check(self.outputs), need)  # before the watermark does not fit
        return assemble(self.outputs, default)

    def explain(
        self,
        *,
        sideline: Sidelining = False,
        shed: Shed = None,
        features: bool = False,
        early: Prods = None,
        need: Needs = None,
    ) -> str:
        """Return a description of the plan as text, with the other options as in `start`.

        `features=True` adds the features that the query supports, and why it refuses the others.
        """
        assembly = self._assembled(need)
        parts = need_parts(assembly, need, sideline=sideline)
        text = explain(shedding(assembly, shed), sideline_of(sideline))
        more = feature_lines(assembly) if features else []
        return "\n".join([text, *need_lines(assembly, parts, early, shed), *more])

    def fingerprint(self, shards: int) -> dict[str, Any]:
        """Return the query description that a checkpoint stores and compares at a restart."""
        return fingerprint(self.assembly, shards)

    def _run(self, options: RunOptions, sinks: Mapping[str, Outputs]) -> dict[str, Outcome]:
        """Run to the end of all inputs; return the outcome of each output by name."""
        assembly = self.planned(options)
        refuse_unfed(assembly)
        sources = _sources(assembly, options.epochs)
        fed = all(isinstance(s, Feed) for s in assembly.sources)
        prepare(plan_writers(assembly), sinks)
        host = host_named(options.host or ("local" if fed else "spark"))
        return host.run(
            assembly,
            sources,
            sinks,
            checkpoint=options.checkpoint,
            clock=options.clock,
            shards=options.shards,
            ahead=options.outputs,
        )

    def _start(self, options: RunOptions, sinks: Mapping[str, Outputs]) -> Run:
        """Start a continuous run."""
        if options.checkpoint is None:
            raise SpecError("checkpoint=None: start() needs a folder, checkpoint='/path'")
        begin = partial(
            start,
            self.planned(options),
            sinks,
            checkpoint=options.checkpoint,
            trigger=options.trigger,
            host=options.host,
            ahead=options.outputs,
        )
        return begin() if options.restart is None else RestartedRun(begin, options.restart)


class SingleQuery(Runnable):
    """A query with one output."""

    def sql(self, *names: str, **streams: Any) -> str:
        """Return the query as text, in the language that `lw.sql` reads.

        `names` are the names of the query's source streams, in order; by default `s`, or `s1`,
        `s2` and so on. `name=stream` names any stream of the query, even results of operators.

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> traffic = lw.stream(feed, time="ts", watermark=lw.ordered())
        >>> query = traffic.where("speed > 0").window(range="1 minute").agg(n=lw.count())
        >>> query.sql("traffic")
        'SELECT count(*) AS n FROM traffic [RANGE 1 minute SLIDE 1 minute WATTR ts] WHERE speed > 0'
        >>> query.sql(traffic=traffic) == query.sql("traffic")
        True
        """
        from lowwater.cql.print.query import text_of

        return text_of(self.outputs[RESULTS], names, streams)

    @renamed(prods="early", left_out="dropped")
    def run(
        self,
        *,
        epochs: Epochs | None = None,
        host: HostName | None = None,
        sink: Sink | None = None,
        late: Sink | None = None,
        malformed: Sink | None = None,
        dropped: Sink | None = None,
        bad_files: Sink | None = None,
        checkpoint: str | None = None,
        clock: Clock | None = None,
        shards: int | None = None,
        early: Prods = None,
        estimate: Estimate = "complete",
        sideline: Sidelining = False,
        shed: Shed = None,
        outputs: Ahead | None = None,
        need: Needs = None,
    ) -> Outcome:
        """Run to the end of bounded streams, close every window, and return the results.

        `epochs` maps each feed to its tables; each table is one epoch. `host` is "spark", or
        "local" for one process without Spark; the default is local if all streams are feeds.
        `clock` replaces the wall clock in tests. The sinks `late`, `malformed`, `dropped` and
        `bad_files` receive late rows, malformed rows, dropped windows, and files that were not
        read. For `need`, `early`, `estimate`, `sideline`, `shed` and `outputs`, see `start`.

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> query = (
        ...     lw.stream(feed, time="ts", watermark=lw.ordered())
        ...     .window(range="1 minute")
        ...     .agg(n=lw.count())
        ... )
        >>> rows = [("2024-01-01 00:00:10+00", 1.0), ("2024-01-01 00:01:20+00", 2.0)]
        >>> import datetime
        >>> rows = [(datetime.datetime.fromisoformat(t), x) for t, x in rows]
        >>> query.run(epochs={feed: [rows]}).results.column("n").to_pylist()
        [1, 1]
        """
        chosen = RunOptions(
            early,
            estimate,
            sideline,
            shed,
            host,
            checkpoint,
            epochs,
            clock,
            shards,
            None,
            outputs,
            need=need,
        )
        return self._run(chosen, {RESULTS: Outputs(sink, late, malformed, dropped, bad_files)})[
            RESULTS
        ]

    @renamed(prods="early", left_out="dropped")
    def start(
        self,
        *,
        sink: Sink,
        checkpoint: str,
        host: HostName | None = None,
        late: Sink | None = None,
        malformed: Sink | None = None,
        dropped: Sink | None = None,
        bad_files: Sink | None = None,
        trigger: str | None = None,
        early: Prods = None,
        estimate: Estimate = "complete",
        sideline: Sidelining = False,
        shed: Shed = None,
        outputs: Ahead | None = None,
        restart: Restart | None = None,
        need: Needs = None,
    ) -> Run:
        """Start the query as a continuous run; `trigger` is the shortest time between epochs.

        `host` is "spark", the default, or "local" for one process without Spark. If the query is
        started again with the same checkpoint, it continues where it stopped or was killed.

        `need=lw.need(fresh="30 seconds", right=0.98)` is one statement of how soon and how right
        answers must be; it sets watermarks, early results and drops that nothing else sets.

        `early` requests early results of open windows: `lw.early_every("10 seconds")`,
        `lw.early_before(0.25)`, a stream whose rows are prods, or a list of these. `run.prod()`
        requests more early results; with `lw.early_on_demand()`, nothing else does. Early
        results estimate the finals; with `estimate="raw"` they aggregate only the rows so far.

        `sideline=True` holds the rows of a burst once their windows have an early result, and
        releases the rows later. Windows without held rows stay on time, and no final changes.
        `lw.sideline(every=3, max_delay="1 minute")` sets the pace of the release. With
        `lw.sideline(newest_first="10 seconds")`, it also holds the older windows of a backlog.

        `shed=lw.shed(latency="5 seconds", max_gap=10)` drops whole windows under overload; the
        other windows stay exact. The sink `dropped` receives the dropped windows, the sink
        `bad_files` the files that could not be read.

        If the checkpoint was rewound or restored, sinks may hold epochs that the checkpoint does
        not have. Then the start is refused, unless `outputs="truncate"` removes these epochs or
        `outputs="keep"` leaves them, so that their rows may come twice.

        With `restart=lw.restart(times=3, within="10 minutes")`, a run that fails starts again.
        """
        chosen = RunOptions(
            early,
            estimate,
            sideline,
            shed,
            host,
            checkpoint,
            trigger=trigger,
            outputs=outputs,
            restart=restart,
            need=need,
        )
        return self._start(chosen, {RESULTS: Outputs(sink, late, malformed, dropped, bad_files)})


def start(
    assembly: PhysicalPlan,
    sinks: Mapping[str, Outputs],
    *,
    checkpoint: str | None,
    trigger: str | None = None,
    host: HostName | None = None,
    clock: Clock | None = None,
    ahead: Ahead | None = None,
) -> Run:
    """Start a continuous run of a plan; `clock` replaces the wall clock for recordings.

    Only the local host allows `checkpoint=None`: state and control log are then in memory.
    """
    refuse_unfed(assembly)
    if any(isinstance(s, Feed) for s in assembly.sources):
        raise SpecError(
            "start() runs a stream that continues, but a feed is bounded: use "
            "query.run(epochs={feed: [...]})"
        )
    prepare(plan_writers(assembly), sinks)
    chosen, sources = host_named(host or "spark"), list(assembly.sources)
    return chosen.start(
        assembly,
        sources,
        sinks,
        checkpoint=checkpoint,
        trigger=trigger,
        clock=clock,
        ahead=ahead,
    )


def _sources(assembly: PhysicalPlan, epochs: Epochs | None) -> list[Any]:
    """Return the source of each input; the source of a feed is its list of tables in `epochs`."""
    if epochs is not None and not isinstance(epochs, Mapping):
        raise SpecError(f"epochs={epochs!r}: name the feed, epochs={{feed: [table, ...]}}")
    given = dict(epochs or {})
    feeds = [s for s in assembly.sources if isinstance(s, Feed)]
    unknown = [feed for feed in given if not any(feed is s for s in feeds)]
    if unknown:
        raise SpecError(f"epochs=: the query does not read {_feed_text(unknown[0])}; leave it out")
    missing = [s for s in feeds if s not in given]
    if missing:
        raise SpecError(
            f"epochs= has none for {_feed_text(missing[0])}, which the query reads; run it with "
            f"epochs={{feed: [table, ...]}}"
        )
    return [
        [s.table(t) for t in given[s]]
        if isinstance(s, Feed)
        else s.bounded()
        if isinstance(s, BlockSource)
        else s
        for s in assembly.sources
    ]


def _feed_text(feed: Any) -> str:
    """Return text that names a feed by its columns."""
    if not isinstance(feed, Feed):
        return f"a {type(feed).__name__}, only feeds"
    return f"the feed of {', '.join(feed.schema.names)}"
