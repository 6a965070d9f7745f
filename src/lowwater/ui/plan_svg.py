"""The plan of a query as SVG: inputs on the left, outputs on the right."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape
from textwrap import wrap

from lowwater.dataflow.graph import Dataflow, Input, Operator
from lowwater.operators.window.plan import WindowPlan

_WIDE, _HIGH, _GAP_X, _GAP_Y, _EDGE = 230, 84, 60, 22, 8
_LETTERS, _LINES = 34, 3


@dataclass(frozen=True)
class Box:
    """A box of the picture: its column, its heading, and the lines below the heading."""

    column: int
    head: str
    lines: tuple[str, ...] = ()
    kind: str = "operator"


def picture(flow: Dataflow) -> str:
    """Return `flow` as SVG, in the colours of the page."""
    boxes, arrows = _layout(flow)
    places = _places(boxes)
    wide = max(x for x, _ in places) + _WIDE + _EDGE
    high = max(y for _, y in places) + _HIGH + _EDGE
    label = "; ".join(f"{boxes[a].head} to {boxes[b].head}" for a, b, _ in arrows)
    parts = [_arrow(places[a], places[b], steps) for a, b, steps in arrows]
    parts += [_box(box, place) for box, place in zip(boxes, places, strict=True)]
    return (
        f'<svg class="plan" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        f'role="img" aria-label="{escape(f"Plan: {label}")}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        f"{''.join(parts)}</svg>"
    )


def _layout(flow: Dataflow) -> tuple[list[Box], list[tuple[int, int, str]]]:
    """Return the boxes, and the arrows as (index of first box, index of second box, label)."""
    boxes = [
        Box(0, f"input {n + 1}" if len(flow.inputs) > 1 else "input", _input_lines(i), "end")
        for n, i in enumerate(flow.inputs)
    ]
    first = len(boxes)
    boxes += [Box(1 + o.level, o.name, _operator_lines(o)) for o in flow.operators]
    last = flow.levels + 1
    arrows = [
        (n, first + r.operator, "; ".join(map(str, r.steps)) if len(i.routes) > 1 else "")
        for n, i in enumerate(flow.inputs)
        for r in i.routes
    ]
    arrows += [
        (first + n, first + r.operator, "; ".join(map(str, r.steps)))
        for n, o in enumerate(flow.operators)
        for r in o.routes
    ]
    for output in flow.outputs:
        boxes.append(Box(last, output.name, (), "end"))
        label = "; ".join(map(str, output.steps))
        arrows.append((first + output.operator, len(boxes) - 1, label))
    return boxes, arrows


def _input_lines(start: Input) -> tuple[str, ...]:
    """Return the lines of an input: its time column, and the steps for all its rows."""
    common = start.routes[0].steps if len(start.routes) == 1 else ()
    return (f"by {start.axis.column}", *map(str, (*start.before, *common)))


def _operator_lines(operator: Operator) -> tuple[str, ...]:
    plan = operator.plan
    if not isinstance(plan, WindowPlan):
        return tuple(" ".join(line.split()) for line in plan.explain()[:2])
    by = f"by {', '.join(plan.keys)}" if plan.keys else ", ".join(plan.aggregates)
    words, comma, slide = plan.window_text.partition(", slide")
    return (words, slide and f"{comma[2:]}{slide}", by)


def _places(boxes: list[Box]) -> list[tuple[int, int]]:
    """Return the top left corner of each box; each column is centred vertically."""
    columns = [box.column for box in boxes]
    counts = Counter(columns)
    most = max(counts.values())
    places = []
    for number, column in enumerate(columns):
        free = (most - counts[column]) * (_HIGH + _GAP_Y) // 2
        row = columns[:number].count(column)
        x = _EDGE + column * (_WIDE + _GAP_X)
        places.append((x, _EDGE + free + row * (_HIGH + _GAP_Y)))
    return places


def _box(box: Box, place: tuple[int, int]) -> str:
    x, y = place
    middle = x + _WIDE // 2
    texts = [part for line in box.lines for part in wrap(line, _LETTERS)]
    if len(texts) > _LINES:
        texts = [*texts[: _LINES - 1], f"{texts[_LINES - 1][: _LETTERS - 1]}…"]
    lines = [
        f'<text x="{middle}" y="{y + 40 + 16 * n}">{escape(t)}</text>' for n, t in enumerate(texts)
    ]
    head_at = y + (22 if box.lines else _HIGH // 2 + 5)
    return (
        f'<g class="{box.kind}"><rect x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" rx="6"/>'
        f'<text class="head" x="{middle}" y="{head_at}">{escape(box.head)}</text>'
        f"{''.join(lines)}<title>{escape('; '.join(box.lines))}</title></g>"
    )


def _arrow(start: tuple[int, int], end: tuple[int, int], label: str) -> str:
    x1, y1 = start[0] + _WIDE, start[1] + _HIGH // 2
    x2, y2 = end[0] - 2, end[1] + _HIGH // 2
    half = (x1 + x2) // 2
    line = f'<path class="arrow" d="M{x1} {y1}C{half} {y1} {half} {y2} {x2} {y2}"/>'
    if not label:
        return line
    middle = (y1 + y2) // 2 - 6
    step = f'<text class="step" x="{half}" y="{middle}">…</text>'
    return f"<g>{line}{step}<title>{escape(label)}</title></g>"
