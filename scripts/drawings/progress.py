"""How a watermark moves while rows come out of order, and what it closes (OOP)."""

from __future__ import annotations

from scripts.drawings.canvas import Sheet

ROWS = (0.5, 1.2, 0.8, 2.0, 3.1, 2.4, 1.7, 4.0, 4.8, 3.7, 5.6, 6.4, 3.0, 7.0, 6.5, 8.1, 7.4, 9.0)
"""The times of rows, in the order in which they arrive."""
SLACK, RANGE = 2.0, 4.0
LEFT, STEP, BOTTOM, HEIGHT = 84, 27, 330, 28


def x(number: float) -> float:
    """Return where the nth row to arrive is."""
    return LEFT + 20 + number * STEP


def y(time: float) -> float:
    """Return where a time is."""
    return BOTTOM - time * HEIGHT


def draw() -> Sheet:
    """Draw rows by arrival and time, with the newest time and the watermark."""
    sheet = Sheet(
        "Progress by punctuation",
        "Rows by order of arrival and by time. The watermark follows the newest time at a "
        "distance, the slack. When it reaches the end of a window, the window closes; a row below "
        "it that comes afterwards is late.",
        height=392,
    )
    sheet.box((LEFT, y(RANGE)), (580, RANGE * HEIGHT), "area", round=0)
    sheet.text((LEFT + 570, BOTTOM - 10), "window [12:00, 12:04)", "small muted", anchor="end")
    sheet.text((LEFT + 10, y(2 * RANGE) + 18), "window [12:04, 12:08)", "small muted")
    _axes(sheet)
    _lines(sheet)
    for number, time in enumerate(ROWS):
        late = time < max(ROWS[:number], default=0) - SLACK
        sheet.dot((x(number), y(time)), "tone-orange" if late else "tone-blue")
    sheet.text((x(12) + 10, y(ROWS[12]) + 18), "late: its window is closed,", "small tone-orange")
    sheet.text((x(12) + 10, y(ROWS[12]) + 33), "it comes out as a late row", "small tone-orange")
    return sheet


def _axes(sheet: Sheet) -> None:
    sheet.arrow((LEFT, BOTTOM), (LEFT + 590, BOTTOM))
    sheet.arrow((LEFT, BOTTOM), (LEFT, 40))
    sheet.text((LEFT + 590, BOTTOM + 24), "order of arrival", "small muted", anchor="end")
    sheet.text((LEFT, 28), "time of the row", "small muted", anchor="middle")
    for minute in (0, 4, 8):
        sheet.text((LEFT - 10, y(minute) + 4), f"12:{minute:02d}", "small muted", anchor="end")
    sheet.line([(LEFT, y(8)), (LEFT + 580, y(8))], dash="2 4", width=1)
    sheet.text(
        (LEFT, BOTTOM + 44),
        "No row is sorted or buffered: only the watermark waits.",
        "muted",
    )


def _lines(sheet: Sheet) -> None:
    newest, top = [], 0.0
    for number, time in enumerate(ROWS):
        newest += [(x(number), top), (x(number), max(top, time))]
        top = max(top, time)
    newest.append((x(len(ROWS)), top))
    sheet.line([(a, y(t)) for a, t in newest], dash="5 4")
    marks = [(a, y(max(t - SLACK, 0))) for a, t in newest]
    sheet.line(marks, "line-green", width=2.5)
    sheet.text((x(18) + 8, y(top) + 4), "newest", "small muted")
    sheet.text((x(18) + 8, y(top - SLACK) + 4), "watermark", "small tone-green")
    middle = x(17.5)
    sheet.arrow((middle, y(top) + 3), (middle, y(top - SLACK) - 3))
    sheet.text((middle + 8, y(top - SLACK / 4) + 4), "slack", "small muted")
    sheet.dot((x(11), y(RANGE)), "tone-green", radius=6)
    sheet.text((x(11) + 12, y(RANGE) + 15), "the window closes", "small tone-green")
