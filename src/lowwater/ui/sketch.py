"""A small plot of results as SVG, for where no script runs: finals as lines, early as rings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import Any

WIDTH, HEIGHT = 640, 170
LEFT, RIGHT, TOP, BOTTOM = 64, 8, 8, 22
COLOURS = ("#2f86c6", "#d07a1f", "#2f9e77", "#a75fc0")
"""Seen on light and on dark; of more groups the first are drawn."""
Windows = Mapping[float, Mapping[str, Any]]
"""The results of a group by the end of their window, and by their kind."""


@dataclass(frozen=True)
class _Frame:
    """From what is drawn to where."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1)
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return round(LEFT + across * wide, 1), round(TOP + (1 - up) * high, 1)


def sketch(groups: Mapping[str, Windows], value: str, *, timed: bool) -> str:
    """Draw one value of some groups; nothing if there is nothing to draw."""
    shown = dict(list(groups.items())[: len(COLOURS)])
    drawn = {group: list(_points(windows, value)) for group, windows in shown.items()}
    places = [(x, y) for points in drawn.values() for x, y, _ in points]
    if not places:
        return ""
    xs, ys = zip(*places, strict=True)
    frame = _Frame((min(xs), max(xs)), (min(ys), max(ys)))
    finals = sum(kind == "final" for points in drawn.values() for *_, kind in points)
    label = f"{value} of {finals} finals, from {min(ys):.6g} to {max(ys):.6g}"
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    style = 'style="max-width:100%;font:11px sans-serif"'
    parts = [f'<svg {size} role="img" aria-label="{escape(label)}" {style}>']
    parts += _axes(frame, timed=timed)
    for colour, points in zip(COLOURS, drawn.values(), strict=False):
        parts += _group(frame, points, colour)
    return "".join([*parts, "</svg>", _legend(value, list(groups))])


def _points(windows: Windows, value: str) -> Iterator[tuple[float, float, str]]:
    for end in sorted(windows):
        at = windows[end]
        for kind in ("final", "early"):
            found = at[kind]["values"].get(value) if kind in at else None
            if found is not None:
                yield end, found, kind


def _group(frame: _Frame, points: Sequence[tuple[float, float, str]], colour: str) -> Iterator[str]:
    finals = [(x, y) for x, y, kind in points if kind == "final"]
    steps = [b[0] - a[0] for a, b in pairwise(finals)]
    step = min(steps, default=0.0)
    path, last = [], None
    for x, y in finals:
        # Where a window is missing, the line is broken.
        joined = last is not None and x - last <= 1.5 * step
        path.append("{}{} {}".format("L" if joined else "M", *frame.at(x, y)))
        last = x
    yield f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for x, y, kind in points:
        if kind == "early":
            left, top = frame.at(x, y)
            yield f'<circle cx="{left}" cy="{top}" r="3" fill="none" stroke="{colour}"/>'


def _axes(frame: _Frame, *, timed: bool) -> Iterator[str]:
    for y in dict.fromkeys(frame.y):
        _, top = frame.at(frame.x[0], y)
        yield (
            f'<path d="M{LEFT} {top}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".2"/>'
            f'<text x="{LEFT - 6}" y="{top + 4}" text-anchor="end" fill="currentColor">{y:.6g}'
            f"</text>"
        )
    for x, anchor in zip(dict.fromkeys(frame.x), ("start", "end"), strict=False):
        left, _ = frame.at(x, frame.y[0])
        told = _time(x) if timed else f"{x:.6g}"
        yield (
            f'<text x="{left}" y="{HEIGHT - 6}" text-anchor="{anchor}" fill="currentColor">{told}'
            f"</text>"
        )


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def _legend(value: str, groups: Sequence[str]) -> str:
    named = [
        f'<span style="color:{colour}">● {escape(group)}</span>'
        for colour, group in zip(COLOURS, groups, strict=False)
        if group
    ]
    more = len(groups) - len(COLOURS)
    of = f" for {' '.join(named)}" if named else ""
    of += f" and {more} more" if more > 0 else ""
    return f"<div>{escape(value)}{of}, by the end of the window</div>"
