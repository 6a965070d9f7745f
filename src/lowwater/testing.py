"""Tools to test a query: feeds, a virtual clock, and a run that returns each epoch's outputs.

A test decides three things that a live stream leaves to chance: which rows arrive together (an
epoch of a feed), the time of the clock in each epoch (`VirtualClock`), and when the streams end
(after the last epoch of the test). With the same epochs, every run emits the same results, late
rows and watermarks.

>>> from lowwater.testing import feed, play
>>> import lowwater as lw
>>> cars = feed("t bigint, speed double")
>>> query = (
...     lw.stream(cars, time="t", watermark=lw.slack(5)).window(range=10).agg(top=lw.max("speed"))
... )
>>> first, second, third, end = play(
...     query, {cars: [[(1, 60.0), (17, 50.0)], [(26, 70.0)], [(3, 90.0)]]}
... )
>>> first.results, first.watermark
([], 10)
>>> [(row["window"]["end"], row["top"]) for row in second.results], second.watermark
([(10, 60.0)], 20)
>>> [(row["t"], row["late_degree"]) for row in third.late]
[(3, 23)]
>>> [(row["window"]["end"], row["top"]) for row in end.results]
[(30, 70.0)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.early.estimates import Estimate
from lowwater.engine.clock import Clock, VirtualClock
from lowwater.engine.outputs import plan_writers
from lowwater.errors import SpecError
from lowwater.local.host import LocalEpochs, blocks_of, until_the_end
from lowwater.planner.early import Prods
from lowwater.planner.need import Needs
from lowwater.planner.shedding import Shed
from lowwater.planner.sidelining import Sidelining
from lowwater.query.options import RunOptions
from lowwater.query.start import RESULTS, Runnable
from lowwater.sinks.sink import Memory, Outputs
from lowwater.sources.feed import Feed, feed

__all__ = ["Clock", "EpochOutput", "Feed", "VirtualClock", "feed", "play"]

Row = dict[str, Any]


@dataclass(frozen=True)
class EpochOutput:
    """Everything that a query emitted in one epoch.

    Attributes
    ----------
    epoch
        The number of the epoch, from 0.
    results, late, malformed, dropped
        The rows of each output, as dictionaries in the order in which the query emitted them.
    watermark
        The watermark at the operator that emits the results, at the end of the epoch: a value of
        the time column, rounded down to a point at which a window can close. It is None before the
        first watermark, and from the end of the streams on.
    """

    epoch: int
    results: list[Row]
    late: list[Row]
    malformed: list[Row]
    dropped: list[Row]
    watermark: Any


def play(
    query: Runnable,
    epochs: Mapping[Feed, Sequence[Any]],
    *,
    clock: Clock | None = None,
    shards: int = 1,
    early: Prods = None,
    estimate: Estimate = "complete",
    sideline: Sidelining = False,
    shed: Shed = None,
    need: Needs = None,
) -> list[EpochOutput]:
    """Run a query over epochs of rows on the local host; return the outputs of each epoch.

    Parameters
    ----------
    query
        A stream or query over feeds only.
    epochs
        The epochs of every feed. An epoch is a table, a DataFrame, or a list of rows; a row is a
        dictionary, or a tuple with a value for each column. A feed with fewer epochs ends earlier.
    clock
        The clock that policies read, by default a `VirtualClock` that starts in 1970 and advances
        by one second per epoch.
    shards
        The number of shards that the groups are divided into.
    early, estimate, sideline, shed, need
        As in `query.run`.

    Returns
    -------
    list
        One `EpochOutput` for each epoch, and one more: after the last epoch the streams end and
        every open window closes.

    >>> sensors = feed("t bigint, sensor string")
    >>> import lowwater as lw
    >>> rows = lw.stream(sensors, time="t", watermark=lw.ordered()).where("sensor = 'a'")
    >>> [output.results for output in play(rows, {sensors: [[(1, "a"), (2, "b")]]})]
    [[{'t': 1, 'sensor': 'a'}], []]
    """
    options = RunOptions(early, estimate, sideline, shed, shards=shards, need=need)
    plan = query.planned(options).with_shards(shards)
    _check(plan.sources, epochs)
    local = LocalEpochs(plan, clock or VirtualClock())
    writer = plan_writers(plan)[RESULTS]
    sinks = [Memory() for _ in range(4)]
    inputs = [blocks_of([source.table(rows) for rows in epochs[source]]) for source in plan.sources]
    outputs = []
    for epoch, (blocks, last) in enumerate(until_the_end(inputs)):
        writer.write(epoch, local.run(blocks, last=last), Outputs(*sinks))
        results, late, malformed, dropped = (
            sink.epochs.get(epoch, pa.table({})).to_pylist() for sink in sinks
        )
        watermark = local.status(writer.operators).watermark
        outputs.append(EpochOutput(epoch, results, late, malformed, dropped, watermark))
    return outputs


def _check(sources: Iterable[Any], epochs: Mapping[Feed, Sequence[Any]]) -> None:
    """Raise SpecError unless the `sources` of the query are exactly the feeds in `epochs`."""
    known = list(sources)
    if not all(isinstance(source, Feed) for source in known):
        raise SpecError(
            "play() runs queries over feeds only, but this one reads another source; "
            "build it over feed(...), or run it with query.run(host='local')"
        )
    if {*known} != {*epochs}:
        raise SpecError(
            f"epochs= has rows for {len(epochs)} feeds, but the query reads {len({*known})}; "
            f"give epochs for each feed of the query and for no other"
        )
