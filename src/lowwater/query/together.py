"""Several queries in one run; shared streams and operators run only once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.early.estimates import Estimate
from lowwater.engine.clock import Clock
from lowwater.engine.host import Outcome
from lowwater.engine.pending_outputs import Ahead
from lowwater.engine.restart import Restart
from lowwater.engine.run import Run
from lowwater.errors import SpecError, renamed
from lowwater.logical.nodes import Node
from lowwater.planner.early import Prods
from lowwater.planner.need import Needs
from lowwater.planner.shedding import Shed
from lowwater.planner.sidelining import Sidelining
from lowwater.query.options import Epochs, HostName, RunOptions
from lowwater.query.start import Runnable
from lowwater.query.stream import Stream
from lowwater.query.window_builder import WindowedStream
from lowwater.sinks.sink import Outputs, Sink

Sinks = Mapping[str, Sink]


@dataclass(frozen=True, eq=False)
class Together(Runnable):
    """Several named queries in one run: the result of `lw.together(fast=…, slow=…)`."""

    queries: Mapping[str, Stream]

    @property
    def outputs(self) -> Mapping[str, Node]:
        """The plan nodes of all queries, by the name of the query."""
        return {name: query.node for name, query in self.queries.items()}

    @renamed(prods="early", left_out="dropped")
    def run(
        self,
        *,
        epochs: Epochs | None = None,
        host: HostName | None = None,
        sinks: Sinks | None = None,
        late: Sinks | None = None,
        malformed: Sinks | None = None,
        dropped: Sinks | None = None,
        bad_files: Sinks | None = None,
        checkpoint: str | None = None,
        clock: Clock | None = None,
        shards: int | None = None,
        early: Prods = None,
        estimate: Estimate = "complete",
        sideline: Sidelining = False,
        shed: Shed = None,
        outputs: Ahead | None = None,
        need: Needs = None,
    ) -> dict[str, Outcome]:
        """Run all queries to the end of bounded streams; return each query's outcome by name.

        `sinks`, `late`, `malformed`, `dropped` and `bad_files` map the name of a query to its sink,
        `need` to its need. The other options are as in `query.run`.
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
        return self._run(chosen, self._sinks(sinks, late, malformed, dropped, bad_files))

    @renamed(prods="early", left_out="dropped")
    def start(
        self,
        *,
        sinks: Sinks,
        checkpoint: str,
        host: HostName | None = None,
        late: Sinks | None = None,
        malformed: Sinks | None = None,
        dropped: Sinks | None = None,
        bad_files: Sinks | None = None,
        trigger: str | None = None,
        early: Prods = None,
        estimate: Estimate = "complete",
        sideline: Sidelining = False,
        shed: Shed = None,
        outputs: Ahead | None = None,
        restart: Restart | None = None,
        need: Needs = None,
    ) -> Run:
        """Start all queries as one continuous run, with the options of `query.start`.

        `sinks`, `late`, `malformed`, `dropped` and `bad_files` map the name of a query to its sink.
        """
        silent = [name for name in self.queries if name not in sinks]
        if silent:
            raise SpecError(f"sinks= has no sink for {silent[0]!r}; give one to every query")
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
        return self._start(chosen, self._sinks(sinks, late, malformed, dropped, bad_files))

    def _sinks(self, *kinds: Sinks | None) -> dict[str, Outputs]:
        given = [sinks or {} for sinks in kinds]
        unknown = [name for sinks in given for name in sinks if name not in self.queries]
        if unknown:
            known = ", ".join(self.queries)
            raise SpecError(f"a sink is given for {unknown[0]!r}; the queries are: {known}")
        return {name: Outputs(*(s.get(name) for s in given)) for name in self.queries}


def together(*unnamed: Any, **queries: Any) -> Together:
    """Return several queries as one run; streams that several queries share are read once.

    >>> import lowwater as lw
    >>> feed = lw.feed("ts timestamp, speed double")
    >>> traffic = lw.stream(feed, time="ts", watermark=lw.ordered())
    >>> both = lw.together(
    ...     counts=traffic.window(range="1 minute").agg(n=lw.count()),
    ...     fast=traffic.where("speed > 100"),
    ... )
    >>> outcomes = both.run(epochs={feed: [[]]})
    >>> outcomes["counts"].results.column_names
    ['window', 'wid', 'n', 'kind']
    """
    if unnamed or not queries:
        raise SpecError("together() takes queries by name, for example together(counts=query)")
    for name, query in queries.items():
        if not isinstance(query, Stream):
            kind = type(query).__name__
            windowed = isinstance(query, WindowedStream)
            hint = "name its aggregates with agg(...)" if windowed else "give a stream or a query"
            raise SpecError(f"together({name}=...): a {kind} is not a query; {hint}")
    return Together(queries)
