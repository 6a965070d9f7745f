"""What the page shows of a run: the newest of everything, bounded however long it goes on.

Rows come from the run's own thread, statuses from the one that looks at it; what is new since the
last epoch leaves as one event.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.query import Status, given_out
from lowwater.query.quality import Delivered
from lowwater.sinks.text import jsonable
from lowwater.ui.describing import Described, position

GROUPS = 24
"""So many groups are drawn: the first that come. Of others, rows are listed only."""
WINDOWS = 240
"""So many windows of a group are drawn: the newest."""
MOMENTS = 1_200
"""So many looks at the marks and the accuracy are remembered."""
LATE_MARKS = 300
"""So many of the newest late rows are drawn."""
ROWS = 30
"""So many of the newest results, and of the newest late rows, are listed."""


@dataclass
class Fresh:
    """What came since the last epoch that was told."""

    points: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    late: list[dict[str, Any]]
    late_marks: list[list[float]]
    shed: list[list[float]]


class History:
    """Remembers a run, and says what is new."""

    def __init__(self, described: Described) -> None:
        self.described = described
        self.lock = threading.Lock()
        self.windows: dict[str, dict[float, dict[str, Any]]] = {}
        self.other_groups: set[str] = set()
        self.rows: deque[dict[str, Any]] = deque(maxlen=ROWS)
        self.late: deque[dict[str, Any]] = deque(maxlen=ROWS)
        self.moments: deque[dict[str, Any]] = deque(maxlen=MOMENTS)
        self.status: dict[str, Any] | None = None
        self.late_marks: deque[list[float]] = deque(maxlen=LATE_MARKS)
        self.shed: deque[list[float]] = deque(maxlen=WINDOWS)
        self.settings: dict[str, Any] = {}
        self.fresh = Fresh([], [], [], [], [])

    def take_results(self, rows: pa.Table) -> None:
        """Take the results of an epoch."""
        listed = rows.slice(max(0, len(rows) - ROWS)).to_pylist()
        newest = rows.slice(max(0, len(rows) - GROUPS * WINDOWS)).to_pylist()
        points = [p for row in newest if (p := self.described.point(row)) is not None]
        with self.lock:
            shown = [self.described.listed(row) for row in listed]
            self.rows.extend(shown)
            self.fresh.rows = [*self.fresh.rows, *shown][-ROWS:]
            self.fresh.points += [p for p in points if self._draw(p)]
            # Nobody may be looking while epochs go by.
            self.fresh.points = self.fresh.points[-GROUPS * WINDOWS :]

    def _draw(self, point: dict[str, Any]) -> bool:
        """Put a point where it belongs; say whether its group is one that is drawn."""
        group = point["group"]
        if group not in self.windows:
            if len(self.windows) >= GROUPS:
                if len(self.other_groups) < MOMENTS:
                    self.other_groups.add(group)
                return False
            self.windows[group] = {}
        mine = self.windows[group]
        mine.setdefault(point["end"], {})[point["kind"]] = point
        while len(mine) > WINDOWS:
            del mine[min(mine)]
        return True

    def take_late(self, rows: pa.Table) -> None:
        """Take the late rows of an epoch."""
        wall = time.time()
        listed = rows.slice(max(0, len(rows) - ROWS)).to_pylist()
        with self.lock:
            shown = [self.described.late_row(row) for row in listed]
            self.late.extend(shown)
            self.fresh.late = [*self.fresh.late, *shown][-ROWS:]
            marks = [[wall, row["late by"]] for row in shown if row["late by"] is not None]
            self.late_marks.extend(marks)
            self.fresh.late_marks = [*self.fresh.late_marks, *marks][-LATE_MARKS:]

    def take_shed(self, rows: pa.Table) -> None:
        """Take the windows that an epoch tells were left out."""
        listed = rows.slice(max(0, len(rows) - WINDOWS)).column("window").to_pylist()
        ends = [[position(window["end"]), self.described.slide] for window in listed]
        with self.lock:
            self.shed.extend(ends)
            self.fresh.shed = [*self.fresh.shed, *ends][-WINDOWS:]

    def note(
        self, status: Status, wall: float, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Take down where the run stands; return what is new since the last time."""
        told = {**told_status(status), "results": given_out(self.described.flow, status)}
        moment = {
            "wall": wall,
            "newest": known(status.newest),
            "lwm": known(status.lwm),
            "accuracy": {name: a["recent"] for name, a in told["accuracy"].items()},
            "quality": {
                name: {figure: q[figure] for figure in ("measured", "estimated", "target", "slack")}
                for name, q in told["quality"].items()
            },
        }
        with self.lock:
            self.status = told
            self.moments.append(moment)
            self.settings = dict(settings or {})
            new, self.fresh = self.fresh, Fresh([], [], [], [], [])
            return {
                "status": told,
                "moments": [moment],
                "points": new.points,
                "rows": new.rows,
                "late": new.late,
                "lateMarks": new.late_marks,
                "shed": new.shed,
                "settings": self.settings,
                "otherGroups": len(self.other_groups),
            }

    def whole(self) -> dict[str, Any]:
        """Return all that is remembered, for a page that has just been opened."""
        with self.lock:
            points = [
                p for mine in self.windows.values() for at in mine.values() for p in at.values()
            ]
            return {
                "whole": True,
                "about": self.described.about(),
                "status": self.status,
                "moments": list(self.moments),
                "points": points,
                "rows": list(self.rows),
                "late": list(self.late),
                "lateMarks": list(self.late_marks),
                "shed": list(self.shed),
                "settings": self.settings,
                "otherGroups": len(self.other_groups),
            }


def told_status(status: Status) -> dict[str, Any]:
    """Return a status in the types of JSON."""
    told: dict[str, Any] = jsonable(
        {
            "epoch": status.epoch,
            "counts": dict(status.counts),
            "balanced": status.balanced,
            "lwm": status.lwm,
            "newest": status.newest,
            "ended": status.ended and not status.cells,
            "cells": status.cells,
            "bytes": status.state_bytes,
            "rate": status.rows_per_second,
            "prods": dict(status.prods),
            "accuracy": {
                name: {"count": a.count, "recent": a.recent, "mean": a.mean, "worst": a.worst}
                for name, a in status.accuracy.items()
            },
            "quality": {name: _quality(q) for name, q in status.quality.items()},
            "shed": dict(status.shed),
        }
    )
    return told


def _quality(found: Delivered) -> dict[str, Any]:
    """Return what a target came to; of several slacks, the largest."""
    return {
        "target": found.target,
        "measured": found.measured,
        "estimated": found.estimated,
        "overall": found.overall,
        "kind": found.kind,
        "met": found.met,
        "slack": max(map(position, found.slack.values()), default=None),
        "warnings": list(found.warnings),
    }


def known(value: Any) -> float | None:
    """Return a position on an axis, if there is one yet."""
    return None if value is None else position(value)
