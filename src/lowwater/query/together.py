"""Several queries in one run: what they have in common is read, and computed, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lowwater.errors import SpecError
from lowwater.query.assembly import Assembly, assemble
from lowwater.query.estimates import Estimate
from lowwater.query.explain import explain
from lowwater.query.handle import Run
from lowwater.query.hosting import Clock, Outcome, Outputs
from lowwater.query.prodding import Prods
from lowwater.query.running import Chosen, Epochs, HostName, asked_for, run, start
from lowwater.query.shedding import Shed, shedding
from lowwater.query.sidelining import Sidelining, sideline_of
from lowwater.query.stream import Stream
from lowwater.query.windowed import Windowed
from lowwater.sinks import Sink

Sinks = Mapping[str, Sink]


@dataclass(frozen=True, eq=False)
class Together:
    """Queries by name that run as one. Made by `lw.together(fast=…, slow=…)`."""

    queries: Mapping[str, Stream]

    @cached_property
    def assembly(self) -> Assembly:
        """The operators and inputs behind all queries."""
        return assemble(self.queries)

    def explain(self, *, sideline: Sidelining = False, shed: Shed = None) -> str:
        """Say what the queries mean and how they run, with `sideline` and `shed` as in `start`."""
        return explain(shedding(self.assembly, shed), sideline_of(sideline))

    def run(
        self,
        *,
        epochs: Epochs | None = None,
        host: HostName | None = None,
        sinks: Sinks | None = None,
        late: Sinks | None = None,
        malformed: Sinks | None = None,
        left_out: Sinks | None = None,
        checkpoint: str | None = None,
        clock: Clock | None = None,
        shards: int | None = None,
        prods: Prods = None,
        estimate: Estimate = "complete",
        sideline: Sidelining = False,
        shed: Shed = None,
    ) -> dict[str, Outcome]:
        """Run all queries to the end of bounded streams; return what came out of each by name.

        Sinks are given by the name of their query. The rest is as for one query.
        """
        chosen = Chosen(epochs, host, checkpoint, clock, shards)
        outputs = self._outputs(sinks, late, malformed, left_out)
        return run(asked_for(self.assembly, prods, estimate, sideline, shed), outputs, chosen)

    def start(
        self,
        *,
        sinks: Sinks,
        checkpoint: str,
        late: Sinks | None = None,
        malformed: Sinks | None = None,
        left_out: Sinks | None = None,
        trigger: str | None = None,
        prods: Prods = None,
        estimate: Estimate = "complete",
        sideline: Sidelining = False,
        shed: Shed = None,
    ) -> Run:
        """Start all queries on Spark, as one streaming query, and let them run on."""
        silent = [name for name in self.queries if name not in sinks]
        if silent:
            raise SpecError(f"sinks= names none for {silent[0]!r}; give one to every query")
        outputs = self._outputs(sinks, late, malformed, left_out)
        asked = asked_for(self.assembly, prods, estimate, sideline, shed)
        return start(asked, outputs, checkpoint=checkpoint, trigger=trigger)

    def _outputs(self, *kinds: Sinks | None) -> dict[str, Outputs]:
        given = [sinks or {} for sinks in kinds]
        unknown = [name for sinks in given for name in sinks if name not in self.queries]
        if unknown:
            known = ", ".join(self.queries)
            raise SpecError(f"a sink is given for {unknown[0]!r}; the queries are: {known}")
        return {name: Outputs(*(s.get(name) for s in given)) for name in self.queries}


def together(*unnamed: Any, **queries: Any) -> Together:
    """Run several queries as one: streams they share are read once.

    >>> import lowwater as lw
    >>> feed = lw.feed("ts timestamp, speed double")
    >>> traffic = lw.stream(feed, time="ts", progress=lw.ordered())
    >>> both = lw.together(
    ...     counts=traffic.window(range="1 minute").agg(n=lw.count()),
    ...     fast=traffic.where("speed > 100"),
    ... )
    >>> found = both.run(epochs={feed: [[]]})
    >>> found["counts"].results.column_names
    ['window', 'wid', 'n', 'kind']
    """
    if unnamed or not queries:
        raise SpecError("together() takes queries by name, for example together(counts=query)")
    for name, query in queries.items():
        if not isinstance(query, Stream):
            kind = type(query).__name__
            hint = "; name its aggregates with agg(...)" if isinstance(query, Windowed) else ""
            raise SpecError(f"together({name}=...): a {kind} is no stream and no query{hint}")
    return Together(queries)
