"""Window aggregates and joins over out-of-order streams, on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lowwater.aggregates.functions import (
    aggregate,
    avg,
    count,
    count_distinct,
    first,
    frequent_items,
    hll,
    kll,
    last,
    max,
    median,
    min,
    mode,
    quantile,
    stddev,
    sum,
    top_k,
    variance,
)
from lowwater.early.estimates import estimates
from lowwater.early.policies import early_before, early_every, early_on_demand
from lowwater.engine.clock import VirtualClock
from lowwater.engine.host import Outcome
from lowwater.engine.restart import restart
from lowwater.engine.run import Run
from lowwater.engine.status import Status
from lowwater.errors import (
    CqlError,
    HostError,
    LowwaterError,
    PlanError,
    ResultOverflowError,
    ShedWarning,
    SinkError,
    SpecError,
    StateError,
    renamed,
)
from lowwater.needs.statement import Need, need
from lowwater.operators.window.class_drops import fair_class
from lowwater.planner.flush import lazy_flush, slow_flush
from lowwater.query.join_args import same_window
from lowwater.query.stream import Query, Stream
from lowwater.query.together import Together, together
from lowwater.query.window_args import NamedWindows
from lowwater.shedding.policy import shed
from lowwater.sidelining.policy import sideline
from lowwater.sinks.console import to_console
from lowwater.sinks.files import to_csv, to_json, to_parquet
from lowwater.sinks.postgres import to_postgres
from lowwater.sinks.sink import to_callback, to_memory
from lowwater.sources.feed import feed
from lowwater.sources.files import files
from lowwater.sources.replay import replay
from lowwater.watermarks.functions import (
    adaptive,
    ordered,
    pd_controller,
    per_source,
    punctuated,
    quality,
    slack,
)
from lowwater.windows.landmark import Landmark, unbounded
from lowwater.windows.row_windows import RowWindow, arrival, rank, rows
from lowwater.windows.semantics import extent, wids, window_ids
from lowwater.windows.session import SessionWindow
from lowwater.windows.sliding import Sliding

if TYPE_CHECKING:
    from lowwater.watermarks.policy import WatermarkPolicy

__version__ = "0.1.0"


@renamed(progress="watermark")
def stream(source: Any, *, time: str, watermark: WatermarkPolicy | None = None) -> Stream:
    """Return a stream that reads the rows of `source`.

    Parameters
    ----------
    source
        A streaming DataFrame, `lw.files(...)`, `lw.replay(...)` or `lw.feed(...)`.
    time
        The column of event time: a timestamp, or any ordered number.
    watermark
        The policy that computes the watermark: `lw.slack("10 seconds")`, `lw.ordered()`,
        `lw.quality(0.95)`, `lw.adaptive()`, `lw.pd_controller(0.95)`, `lw.punctuated(...)` or
        `lw.per_source(...)`. Omit it if a join of the stream has `quality=`, or if the query runs
        with `need=`.
    """
    if type(source).__module__.startswith("pyspark."):
        source = import_module("lowwater.spark.dataframe_source").from_dataframe(source)
    if not hasattr(source, "schema"):
        raise SpecError(
            f"source={source!r} is not a stream; give a streaming DataFrame, lw.files(...), "
            f"lw.replay(...) or lw.feed(...)"
        )
    return Stream.of(source, time, watermark)


def windows(**named: Any) -> NamedWindows:
    """Return several named windows for one query; each is a range, or a pair (range, slide).

    >>> windows(hour=("1 hour", "1 minute"), day=("1 day", "1 minute")).named["day"]
    ('1 day', '1 minute')
    """
    return NamedWindows(named)


def sql(text: str, /, **streams: Stream) -> Stream:
    """Return the query that a CQL text describes; FROM may name the given `streams`.

    The result is a `Query` if the text ends with windows, and a `Stream` if other steps follow the
    windows. docs/cql.md has the grammar. A mistake raises `CqlError`, which shows its place.

    >>> import lowwater as lw
    >>> feed = lw.feed("ts timestamp, segment int, speed double")
    >>> query = lw.sql(
    ...     "SELECT segment, max(speed) AS fastest "
    ...     "FROM traffic [RANGE 300 seconds SLIDE 60 seconds WATTR ts] GROUP BY segment",
    ...     traffic=lw.stream(feed, time="ts", watermark=lw.ordered()),
    ... )
    >>> query.schema.names
    ['window', 'wid', 'segment', 'fastest', 'kind']
    """
    from lowwater.cql.build.query import query_of

    return query_of(text, streams)


def dashboard(run: Run, **options: Any) -> Any:
    """Serve a live page about `run` on this machine; the `url` of the result contains a token.

    `port=` is a free network port by default; `controls=True` lets the page request early results.
    """
    return import_module("lowwater.ui").dashboard(run, **options)


def spark_session(**settings: str) -> Any:
    """Return a SparkSession tuned for short epochs; `settings` are added to its configuration."""
    return import_module("lowwater.spark.session").spark_session(**settings)


_RENAMED = {
    "Session": "SessionWindow", "SlideByRow": "RowWindow", "aggressive": "early_before",
    "callback": "to_callback", "console": "to_console", "csv": "to_csv", "every": "early_every",
    "json": "to_json", "memory": "to_memory", "on_demand": "early_on_demand",
    "parquet": "to_parquet", "pd": "pd_controller", "postgres": "to_postgres",
    "session": "spark_session",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        raise AttributeError(f"lowwater.{name} is now lowwater.{_RENAMED[name]}")
    raise AttributeError(f"module 'lowwater' has no attribute {name!r}")


__all__ = [
    "CqlError", "HostError", "Landmark", "LowwaterError", "Need", "Outcome", "PlanError", "Query",
    "ResultOverflowError", "RowWindow", "Run", "SessionWindow", "ShedWarning", "SinkError",
    "Sliding", "SpecError", "StateError", "Status", "Stream", "Together", "VirtualClock",
    "adaptive", "aggregate", "arrival", "avg", "count", "count_distinct", "dashboard",
    "early_before", "early_every", "early_on_demand", "estimates", "extent", "fair_class", "feed",
    "files", "first", "frequent_items", "hll", "kll", "last", "lazy_flush", "max", "median",
    "min", "mode", "need", "ordered", "pd_controller", "per_source", "punctuated", "quality",
    "quantile", "rank", "replay", "restart", "rows", "same_window", "shed", "sideline", "slack",
    "slow_flush", "spark_session", "sql", "stddev", "stream", "sum", "to_callback", "to_console",
    "to_csv", "to_json", "to_memory", "to_parquet", "to_postgres", "together", "top_k",
    "unbounded", "variance", "wids", "window_ids", "windows",
]  # fmt: skip
