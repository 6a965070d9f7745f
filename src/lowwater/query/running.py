"""What can be run: any stream, handed to a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from lowwater.errors import SpecError
from lowwater.query.adapting import refuse_unfed
from lowwater.query.assembly import Assembly, assemble
from lowwater.query.estimates import Estimate
from lowwater.query.explain import explain
from lowwater.query.fingerprint import fingerprint
from lowwater.query.handle import Run
from lowwater.query.hosting import Clock, Outcome, Outputs, host_named
from lowwater.query.leaving import Leaving, leaving, prepare
from lowwater.query.prodding import Prods, prodded
from lowwater.query.shedding import Shed, shedding
from lowwater.query.sidelining import Sidelining, sideline_of, sidelined
from lowwater.sinks import Sink
from lowwater.sources import BlockSource, Feed

HostName = Literal["local", "spark"]
Epochs = Mapping[Feed, Sequence[Any]]
RESULTS = "results"


class Runnable:
    """A stream whose rows a host can produce."""

    @cached_property
    def assembly(self) -> Assembly:
        """The operators and inputs behind the stream."""
        stream: Any = self
        return assemble({RESULTS: stream})

    def explain(self, *, sideline: Sidelining = False, shed: Shed = None) -> str:
        """Say what the query means and how it is run, with `sideline` and `shed` as in `start`."""
        return explain(shedding(self.assembly, shed), sideline_of(sideline))

    def cql(self, *names: str, **streams: Any) -> str:
        """Return the query as text: what `lw.sql` reads.

        `names` are those of the streams it is over, in the order in which they come in; without
        any, they are `s`, or `s1`, `s2` and so on. Given as `name=stream`, a stream is called so
        wherever it is part of the query, the result of operators, too.

        >>> import lowwater as lw
        >>> feed = lw.feed("ts timestamp, speed double")
        >>> traffic = lw.stream(feed, time="ts", progress=lw.ordered())
        >>> query = traffic.where("speed > 0").window(range="1 minute").agg(n=lw.count())
        >>> query.cql("traffic")
        'SELECT count(*) AS n FROM traffic [RANGE 1 minute SLIDE 1 minute WATTR ts] WHERE speed > 0'
        >>> query.cql(traffic=traffic) == query.cql("traffic")
        True
        """
        from lowwater.cql import text_of

        stream: Any = self
        return text_of(stream, names, streams)

    def fingerprint(self, shards: int) -> dict[str, Any]:
        """Return what a checkpoint must agree on to be this query's."""
        return fingerprint(self.assembly, shards)

    def run(
        self,
        *,
        epochs: Epochs | None = None,
        host: HostName | None = None,
        sink: Sink | None = None,
        late: Sink | None = None,
        malformed: Sink | None = None,
        left_out: Sink | None = None,
        checkpoint: str | None = None,
        clock: Clock | None = None,
        shards: int | None = None,
        prods: Prods = None,
        estimate: Estimate = "complete",
        sideline: Sidelining = False,
        shed: Shed = None,
    ) -> Outcome:
        """Run to the end of bounded streams, close every window, and return what came out.

        A stream over a feed takes its epochs here, each table exactly one. `host` is "spark", or
        "local" for one process without Spark; by default Spark, and local for feeds. A `clock`
        stands in for the wall clock, in tests. `late` and `malformed` are sinks for these rows,
        `left_out` is one for windows that were shed. `prods` asks for early results, `sideline`
        puts rows aside and `shed` leaves windows out, as in `start`.

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
        outputs = {RESULTS: Outputs(sink, late, malformed, left_out)}
        chosen = Chosen(epochs, host, checkpoint, clock, shards)
        asked = asked_for(self.assembly, prods, estimate, sideline, shed)
        return run(asked, outputs, chosen)[RESULTS]

    def start(
        self,
        *,
        sink: Sink,
        checkpoint: str,
        late: Sink | None = None,
        malformed: Sink | None = None,
        left_out: Sink | None = None,
        trigger: str | None = None,
        prods: Prods = None,
        estimate: Estimate = "complete",
        sideline: Sidelining = False,
        shed: Shed = None,
    ) -> Run:
        """Start the query on Spark and let it run on; `trigger` is the least time between epochs.

        Started again with the same checkpoint, it goes on where it stopped or was killed. `prods`
        asks for early results of windows that are not complete: `lw.every("10 seconds")`,
        `lw.aggressive(0.25)`, a stream whose rows are prods, or several of them in a list;
        `lw.on_demand()` leaves it to `run.prod()`, which the others allow as well. Early results
        are estimates of the final ones; with `estimate="raw"`, what has arrived.

        `sideline=True` puts rows of a burst aside once their windows have been answered early, and
        works them off later: windows of which no pane is put aside are on time, and all finals
        stay what they are. `lw.sideline(every=3, max_delay="1 minute")` says how.

        `shed=lw.shed(latency="5 seconds", max_gap=10)` leaves whole windows out when the stream
        outruns the machine, as many as it takes; the others are exact. What is left out is told in
        the sink `left_out`.
        """
        outputs = {RESULTS: Outputs(sink, late, malformed, left_out)}
        asked = asked_for(self.assembly, prods, estimate, sideline, shed)
        return start(asked, outputs, checkpoint=checkpoint, trigger=trigger)


def asked_for(
    assembly: Assembly, prods: Prods, estimate: Estimate, sideline: Sidelining, shed: Shed
) -> Assembly:
    """Return a query as a run was asked to have it."""
    parted = sidelined(shedding(assembly, shed, sideline), sideline, prods)
    return prodded(parted, prods, estimate)


class Chosen:
    """How a bounded run was asked for."""

    def __init__(
        self,
        epochs: Epochs | None,
        host: HostName | None,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
    ) -> None:
        if shards is not None and (type(shards) is not int or shards < 1):
            raise SpecError(f"shards={shards!r} must be a whole number from 1")
        self.epochs, self.host, self.checkpoint = epochs, host, checkpoint
        self.clock, self.shards = clock, shards


def run(assembly: Assembly, outputs: Mapping[str, Outputs], chosen: Chosen) -> dict[str, Outcome]:
    """Run to the end of all inputs."""
    refuse_unfed(assembly)
    sources = _sources(assembly, chosen.epochs)
    fed = all(isinstance(s, Feed) for s in assembly.sources)
    name = chosen.host or ("local" if fed else "spark")
    prepare(_ways(assembly), outputs)
    return host_named(name).run(
        assembly,
        sources,
        outputs,
        checkpoint=chosen.checkpoint,
        clock=chosen.clock,
        shards=chosen.shards,
    )


def _ways(assembly: Assembly) -> dict[str, Leaving]:
    """Return what leaves a query."""
    prodded = assembly.prodder is not None
    return leaving(assembly.flow, prodded=prodded, filled=assembly.filled)


def start(
    assembly: Assembly, outputs: Mapping[str, Outputs], *, checkpoint: str, trigger: str | None
) -> Run:
    """Start a run that goes on."""
    refuse_unfed(assembly)
    if any(isinstance(s, Feed) for s in assembly.sources):
        raise SpecError("a feed is bounded: use query.run(epochs={feed: [...]})")
    prepare(_ways(assembly), outputs)
    return host_named("spark").start(
        assembly, list(assembly.sources), outputs, checkpoint=checkpoint, trigger=trigger
    )


def _sources(assembly: Assembly, epochs: Epochs | None) -> list[Any]:
    """Return what the inputs read: for a feed, the epochs that were given."""
    if epochs is not None and not isinstance(epochs, Mapping):
        raise SpecError(
            f"epochs={epochs!r}: say which feed they are of, epochs={{feed: [table, ...]}}"
        )
    given = dict(epochs or {})
    feeds = [s for s in assembly.sources if isinstance(s, Feed)]
    unknown = [feed for feed in given if not any(feed is s for s in feeds)]
    if unknown:
        raise SpecError(f"epochs=: the query does not read {_told(unknown[0])}; leave it out")
    missing = [s for s in feeds if s not in given]
    if missing:
        raise SpecError(
            f"epochs= has none for {_told(missing[0])}, which the query reads; run it with "
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


def _told(feed: Any) -> str:
    """Name a feed by its columns."""
    if not isinstance(feed, Feed):
        return f"a {type(feed).__name__}, only feeds"
    return f"the feed of {', '.join(feed.schema.names)}"
