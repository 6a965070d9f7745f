"""What needed slacks count from: the watermarks that ports would have if all slacks were 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lowwater.codec import decode
from lowwater.control.context import InputProgress, SlackReference
from lowwater.control.report import InputReport
from lowwater.control.watermark import Watermarks
from lowwater.dataflow.graph import Dataflow
from lowwater.engine.entry import Entry
from lowwater.watermarks.tracker import Gauge


def memories(gauges: Sequence[Gauge], entry: Entry) -> list[Any]:
    """Return the memory of each input's watermark policy in an entry."""
    trackers = [gauge.tracker for gauge in gauges]
    if not entry.memory:
        return [tracker.begin() for tracker in trackers]
    pairs = zip(trackers, entry.memory, strict=True)
    return [decode(tracker.memory_type, written) for tracker, written in pairs]


def newest_at_ports(
    flow: Dataflow,
    gauges: Sequence[Gauge],
    inputs: Sequence[InputProgress],
    remembered: Sequence[Any],
    reports: Sequence[InputReport],
) -> tuple[Watermarks, ...]:
    """Return the watermarks of all ports after the epoch of `reports` if all slacks were 0.

    `inputs` and `remembered` are the progress and the memory of each input before the epoch.
    """
    each = zip(gauges, inputs, remembered, reports, strict=True)
    progress = [
        replace(known, marks=known.marks.raised(gauge.tracker.reached(memory, report)))
        for gauge, known, memory, report in each
    ]
    ports = list(flow.reach(progress, rounded=False))
    for number, operator in enumerate(flow.operators):
        mine = [flow.numbers[number, port] for port in range(operator.plan.ports)]
        for port, marks in zip(mine, operator.plan.acting([ports[m] for m in mine]), strict=True):
            ports[port] = marks
    return tuple(ports)


def slack_references(
    flow: Dataflow, gauges: Sequence[Gauge], before: Entry, ports: Iterable[int]
) -> dict[int, SlackReference]:
    """Return what the needed slacks of the epoch after next to the entry `before` count from."""
    if not ports:
        return {}
    inputs = before.standing.inputs or [InputProgress() for _ in gauges]
    silent = [InputReport() for _ in gauges]
    newest = newest_at_ports(flow, gauges, inputs, memories(gauges, before), silent)
    acting = before.standing.ports or [Watermarks() for _ in newest]
    return {port: SlackReference(newest[port], acting[port]) for port in ports}
