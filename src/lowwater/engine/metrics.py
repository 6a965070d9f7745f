"""The metrics of a run for monitoring systems: totals, and values for each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from lowwater.dataflow.graph import Dataflow
from lowwater.engine.accounts import ACCOUNTS
from lowwater.engine.outputs import finals_emitted
from lowwater.engine.status import Status
from lowwater.operators.window.plan import WindowPlan
from lowwater.windows.sliding import Sliding

GONE = tuple(a for a in ACCOUNTS if a != "sidelined")
"""The final outcomes of a row; a held row has a final outcome only after its release."""
EPOCH_COUNTS = ("in", *ACCOUNTS, "partly_late", "results", "early", "dropped_windows")
EPOCH_MEASURES = (
    "open_windows", "cells", "state_bytes", "lag", "slack", "quality", "quality_estimated",
    "quality_target", "accuracy",
)  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """One metric, as in Prometheus; a counter never decreases. `says` is the help text."""

    name: str
    kind: Literal["counter", "gauge"]
    says: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def metrics(flow: Dataflow, status: Status) -> Iterator[Metric]:
    """Yield the metrics of a run up to its newest epoch."""
    yield Metric("epochs", "counter", "Epochs that have ended.", status.epoch + 1)
    yield Metric("rows_in", "counter", "Rows received.", status["in"])
    yield Metric("bad_files", "counter", "Files that were not read.", status.bad_files)
    yield Metric("jumps", "counter", "Epochs admitted beyond max_ahead.", status.jumps)
    for account in GONE:
        says = "Rows by outcome; with the held rows they add up to the rows received."
        yield Metric("rows", "counter", says, status[account], {"outcome": account})
    yield Metric("sidelined_rows", "gauge", "Rows that are held.", status["sidelined"])
    partly = "Rows that missed some of their windows and entered others."
    yield Metric("rows_partly_late", "counter", partly, status["partly_late"])
    yield Metric("results", "counter", "Final results.", finals_emitted(flow, status))
    says = "Sums and means that are NULL because they do not fit their type."
    yield Metric("overflows", "counter", says, status.overflows)
    yield Metric("restarts", "counter", "Restarts after a failure.", status.restarts)
    yield from _of_prods(status)
    yield from _of_progress(flow, status)
    yield from _of_quality(status)
    yield from _of_shedding(status)


def _of_prods(status: Status) -> Iterator[Metric]:
    if status.prods:
        yield Metric("early_results", "counter", "Early results.", status.prods["early"])
        yield Metric("prods", "counter", "Prods that were requested.", status.prods["asked"])
    for name, one in status.accuracy.items():
        says = "Accuracy of recent early results, from 0 to 1."
        yield Metric("accuracy_ratio", "gauge", says, one.recent, {"aggregate": name})


def _of_progress(flow: Dataflow, status: Status) -> Iterator[Metric]:
    timed = isinstance(status.newest, datetime)
    ending = "_timestamp_seconds" if timed else ""
    for name, says, value in (
        ("watermark", "The watermark: later rows with an older time are late.", status.watermark),
        ("newest_event", "The newest time of a row.", status.newest),
    ):
        if value is not None:
            yield Metric(f"{name}{ending}", "gauge", says, _number(value))
    lag, waiting = lag_of(status), open_windows(flow, status)
    if lag is not None:
        says = "Distance of the watermark from the newest time."
        yield Metric("lag_seconds" if timed else "lag", "gauge", says, lag)
    if waiting is not None:
        yield Metric(
            "open_windows", "gauge", "Windows that have begun and are not closed.", waiting
        )
    yield Metric("state_cells", "gauge", "Partial aggregates and stored rows.", status.cells)
    yield Metric("state_bytes", "gauge", "Bytes of state.", status.state_bytes)
    if status.rows_per_second is not None:
        says = "Rows of the newest epoch over its duration."
        yield Metric("rows_per_second", "gauge", says, status.rows_per_second)
    yield Metric("ended", "gauge", "1 if the streams have ended.", int(status.ended))


def _of_quality(status: Status) -> Iterator[Metric]:
    for operator, one in status.quality.items():
        for kind in ("measured", "estimated", "at_least", "overall"):
            value = getattr(one, kind)
            if value is not None:
                says = "Results produced over results due, from 0 to 1."
                labels = {"operator": operator, "kind": kind}
                yield Metric("quality_ratio", "gauge", says, value, labels)
        if one.target is not None:
            says = "The quality target, from 0 to 1."
            yield Metric("quality_target_ratio", "gauge", says, one.target, {"operator": operator})
        if one.buffer is not None:
            name = "buffer_seconds" if isinstance(one.buffer, timedelta) else "buffer"
            says = "The mean slack of recent results, and for joins the wait for the other stream."
            yield Metric(name, "gauge", says, _number(one.buffer), {"operator": operator})
        if one.wait is not None:
            name = "wait_seconds" if isinstance(one.wait, timedelta) else "wait"
            says = "The mean distance of the newest time from the end of a window that is closed."
            yield Metric(name, "gauge", says, _number(one.wait), {"operator": operator})
        for stream, slack in one.slack.items():
            name = "slack_seconds" if isinstance(slack, timedelta) else "slack"
            says = "The slack of an input for the results of an operator."
            labels = {"operator": operator, "input": stream}
            yield Metric(name, "gauge", says, _number(slack), labels)


def _of_shedding(status: Status) -> Iterator[Metric]:
    dropped = status.dropped
    if not dropped:
        return
    yield Metric("dropped_windows", "counter", "Windows dropped.", dropped["windows"])
    yield Metric("dropped_ratio", "gauge", "Share of windows being dropped.", dropped["share"])
    if dropped["load"] is not None:
        yield Metric("load_ratio", "gauge", "Arriving work over capacity.", dropped["load"])


def of_epoch(flow: Dataflow, before: Status | None, after: Status) -> dict[str, float | None]:
    """Return the metrics of one epoch: its counts, and the state and quality after it."""
    known = {} if before is None else _counts(flow, before)
    counts = {name: n - known.get(name, 0) for name, n in _counts(flow, after).items()}
    quality = next(iter(after.quality.values()), None)
    accuracy = min((a.recent for a in after.accuracy.values()), default=None)
    slacks = [] if quality is None else [_number(s) for s in quality.slack.values()]
    return {
        **counts,
        "open_windows": open_windows(flow, after),
        "cells": after.cells,
        "state_bytes": after.state_bytes,
        "lag": lag_of(after),
        "slack": max(slacks, default=None),
        "quality": None if quality is None else quality.measured,
        "quality_estimated": None if quality is None else quality.estimated,
        "quality_target": None if quality is None else quality.target,
        "accuracy": accuracy,
    }


def _counts(flow: Dataflow, status: Status) -> dict[str, int]:
    more = {
        "results": finals_emitted(flow, status),
        "early": status.prods.get("early", 0),
        "dropped_windows": status.dropped.get("windows", 0),
    }
    return {name: more[name] if name in more else status[name] for name in EPOCH_COUNTS}


def open_windows(flow: Dataflow, status: Status) -> int | None:
    """Return the number of open sliding windows that directly read an input; None if unknown."""
    plan = flow.operators[flow.outputs[0].operator].plan
    direct = flow.outputs[0].operator in flow.front
    if not isinstance(plan, WindowPlan) or not direct or not isinstance(plan.spec, Sliding):
        return None
    if not status.cells:
        return 0
    if status.newest is None or status.watermark is None or plan.numbering is not None:
        return None
    newest, mark = (plan.axes[0].point(v, name="time") for v in (status.newest, status.watermark))
    return max(0, int(plan.spec.last(newest)) - int(plan.spec.first(mark)) + 1)


def lag_of(status: Status) -> float | None:
    """Return newest time minus watermark, in seconds for timestamps; None if either is unknown."""
    if status.watermark is None or status.newest is None:
        return None
    return _number(status.newest) - _number(status.watermark)


def _number(value: Any) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    return value.total_seconds() if isinstance(value, timedelta) else float(value)
