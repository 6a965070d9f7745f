"""The history of a run for its live page: a bounded number of rows, points and statuses.

The thread of the run adds rows; the thread that polls the run adds statuses. After each epoch, all
additions since the last event are sent to the page as one event.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.engine.need_status import NeedStatus
from lowwater.engine.outputs import finals_emitted
from lowwater.engine.quality_status import QualityStatus
from lowwater.engine.status import Status
from lowwater.sinks.files import jsonable
from lowwater.ticks import spoken
from lowwater.ui.columns import QueryColumns, position

GROUPS = 24
"""The largest number of drawn groups; groups that appear later are only listed."""
WINDOWS = 240
"""The number of newest windows that are drawn for each group."""
MOMENTS = 1_200
"""The number of newest statuses that the charts of progress and accuracy show."""
LATE_POINTS = 300
"""The number of newest late rows that are drawn."""
ROWS = 30
"""The number of newest results, and of newest late rows, that are listed."""
MOMENT = ("measured", "estimated", "at_least", "target", "slack")
"""The metrics of quality that the chart shows over time."""


@dataclass
class Update:
    """The rows and points added since the last event."""

    points: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    late: list[dict[str, Any]]
    late_points: list[list[float]]
    dropped: list[list[float]]


class History:
    """A store of the newest rows and statuses of a run, which returns additions as events."""

    def __init__(self, columns: QueryColumns) -> None:
        self.columns = columns
        self.lock = threading.Lock()
        self.windows: dict[str, dict[float, dict[str, Any]]] = {}
        self.other_groups: set[str] = set()
        self.rows: deque[dict[str, Any]] = deque(maxlen=ROWS)
        self.late: deque[dict[str, Any]] = deque(maxlen=ROWS)
        self.moments: deque[dict[str, Any]] = deque(maxlen=MOMENTS)
        self.status: dict[str, Any] | None = None
        self.late_points: deque[list[float]] = deque(maxlen=LATE_POINTS)
        self.dropped: deque[list[float]] = deque(maxlen=WINDOWS)
        self.settings: dict[str, Any] = {}
        self.number = 0
        self.fresh = Update([], [], [], [], [])

    def take_results(self, rows: pa.Table) -> None:
        """Store the results of an epoch."""
        listed = rows.slice(max(0, len(rows) - ROWS)).to_pylist()
        newest = rows.slice(max(0, len(rows) - GROUPS * WINDOWS)).to_pylist()
        points = [p for row in newest if (p := self.columns.point(row)) is not None]
        with self.lock:
            shown = [self.columns.table_row(row) for row in listed]
            self.rows.extend(shown)
            self.fresh.rows = [*self.fresh.rows, *shown][-ROWS:]
            self.fresh.points += [p for p in points if self._draw(p)]
            # Limit the list: several epochs may pass before the next event.
            self.fresh.points = self.fresh.points[-GROUPS * WINDOWS :]

    def _draw(self, point: dict[str, Any]) -> bool:
        """Store `point` if its group is drawn; return whether the group is drawn."""
        group = point["group"]
        if group not in self.windows:
            if len(self.windows) >= GROUPS:
                if len(self.other_groups) < MOMENTS:
                    self.other_groups.add(group)
                return False
            self.windows[group] = {}
        windows = self.windows[group]
        windows.setdefault(point["end"], {})[point["kind"]] = point
        while len(windows) > WINDOWS:
            del windows[min(windows)]
        return True

    def take_late(self, rows: pa.Table) -> None:
        """Store the late rows of an epoch."""
        wall = time.time()
        listed = rows.slice(max(0, len(rows) - ROWS)).to_pylist()
        with self.lock:
            shown = [self.columns.late_row(row) for row in listed]
            self.late.extend(shown)
            self.fresh.late = [*self.fresh.late, *shown][-ROWS:]
            points = [[wall, row["late by"]] for row in shown if row["late by"] is not None]
            self.late_points.extend(points)
            self.fresh.late_points = [*self.fresh.late_points, *points][-LATE_POINTS:]

    def take_dropped(self, rows: pa.Table) -> None:
        """Store the dropped windows that an epoch reports."""
        listed = rows.slice(max(0, len(rows) - WINDOWS)).column("window").to_pylist()
        ends = [[position(window["end"]), self.columns.slide] for window in listed]
        with self.lock:
            self.dropped.extend(ends)
            self.fresh.dropped = [*self.fresh.dropped, *ends][-WINDOWS:]

    def update(
        self, status: Status, wall: float, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Store `status`; return an event with all additions since the last call."""
        record = {**status_record(status), "results": finals_emitted(self.columns.flow, status)}
        moment = {
            "wall": wall,
            "newest": None if status.newest is None else position(status.newest),
            "watermark": None if status.watermark is None else position(status.watermark),
            "accuracy": {name: a["recent"] for name, a in record["accuracy"].items()},
            "quality": {
                name: {metric: q[metric] for metric in MOMENT}
                for name, q in record["quality"].items()
            },
        }
        with self.lock:
            self.status = record
            self.number += 1
            self.moments.append(moment)
            self.settings = dict(settings or {})
            new, self.fresh = self.fresh, Update([], [], [], [], [])
            return self._event([moment], new)

    def snapshot(self) -> dict[str, Any]:
        """Return the event that a page receives first: the whole history so far."""
        with self.lock:
            windows = [kinds for ends in self.windows.values() for kinds in ends.values()]
            points = [point for kinds in windows for point in kinds.values()]
            rows, late, dropped = list(self.rows), list(self.late), list(self.dropped)
            whole = Update(points, rows, late, list(self.late_points), dropped)
            event = self._event(list(self.moments), whole)
            return {"whole": True, "about": self.columns.about(), **event}

    def _event(self, moments: list[dict[str, Any]], rows: Update) -> dict[str, Any]:
        return {
            "number": self.number,
            "status": self.status,
            "moments": moments,
            "points": rows.points,
            "rows": rows.rows,
            "late": rows.late,
            "latePoints": rows.late_points,
            "dropped": rows.dropped,
            "settings": self.settings,
            "otherGroups": len(self.other_groups),
        }


def accuracy_record(status: Status) -> dict[str, dict[str, Any]]:
    """Return the accuracy of early values as {column: {measure: value}}."""
    names = ("count", "recent", "mean", "worst")
    return {c: {n: getattr(a, n) for n in names} for c, a in status.accuracy.items()}


def status_record(status: Status) -> dict[str, Any]:
    """Return `status` in the types of JSON."""
    record = {
        "epoch": status.epoch,
        "counts": dict(status.counts),
        "balanced": status.balanced,
        "watermark": status.watermark,
        "newest": status.newest,
        "ended": status.ended and not status.cells,
        "cells": status.cells,
        "bytes": status.state_bytes,
        "rate": status.rows_per_second,
        "prods": dict(status.prods),
        "accuracy": accuracy_record(status),
        "quality": {name: _quality(q) for name, q in status.quality.items()},
        "needs": {name: need_text(one) for name, one in status.needs.items()},
        "dropped": dict(status.dropped),
        "overflows": status.overflows,
        "restarts": status.restarts,
        "failure": status.last_failure,
        "failed": status.failed,
    }
    return {name: jsonable(value) for name, value in record.items()}


def need_text(need: NeedStatus) -> str:
    """Return what a need has promised and kept, as one line."""
    kept = {n: "–" if share is None else f"{100 * share:.1f} %" for n, share in need.kept.items()}
    times = {n: need.promised[n] for n in ("fresh", "exact") if n in need.promised}
    within = {n: spoken(round(time.total_seconds() * 1e6)) for n, time in times.items()}
    parts = [f"first answers within {within['fresh']}: {kept['fresh']}"]
    if "error" in need.promised:
        parts.append(f"with an error of at most {need.promised['error']:g}: {kept['share']}")
    else:
        parts.append(f"right: {kept['right']}")
    parts += [f"finals within {within['exact']}: {kept['exact']}"] if "exact" in within else []
    parts += [f"windows dropped: {n:,}"] if (n := need.given_up["windows"]) else []
    return "; ".join([*parts, *(f"limited by {text}" for text in need.limited_by)])


def _quality(quality: QualityStatus) -> dict[str, Any]:
    """Return the status of a quality target as a record, with the largest of its slacks."""
    names = ("target", "measured", "estimated", "at_least", "overall", "kind", "met")
    record = {name: getattr(quality, name) for name in names}
    slack = max(map(position, quality.slack.values()), default=None)
    points = [[point.completeness, position(point.wait)] for point in quality.frontier]
    return {**record, "slack": slack, "warnings": list(quality.warnings), "frontier": points}
