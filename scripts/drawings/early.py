"""A result before a window is complete, and the final one after it (PROD)."""

from __future__ import annotations

from scripts.drawings.canvas import Sheet

COUNTS = ((0, 0), (0.5, 90), (1, 205), (1.5, 330), (2, 460), (2.5, 590), (3, 730), (3.5, 865))
LATER = ((4, 1004), (4.5, 1120), (5, 1215), (5.3, 1250), (5.6, 1262), (6.4, 1262))
"""How many rows of the window are in, by the minute."""
ASKED, RAW, EARLY, LOW, HIGH = 4.0, 1004, 1240, 1167, 1328
CLOSED, FINAL = 5.9, 1262
LEFT, BOTTOM = 76, 300


def x(minute: float) -> float:
    """Return where a minute is."""
    return LEFT + minute * 90


def y(count: float) -> float:
    """Return where a count is."""
    return BOTTOM - count * 0.165


def draw() -> Sheet:
    """Draw the rows that are in, the early result and the final one."""
    sheet = Sheet(
        "An early result",
        "The count of a window of five minutes as its rows come in. After four minutes it is asked "
        "for: 1,004 rows are in, the estimate is 1,240, from 1,167 to 1,328. The final count, "
        "1,262, comes two minutes later.",
        height=376,
    )
    sheet.box((x(0), 40), (x(5) - x(0), BOTTOM - 40), "area", round=0)
    sheet.text((x(0) + 10, 60), "window [12:00, 12:05)", "small muted")
    _axes(sheet)
    sheet.line([(x(m), y(n)) for m, n in (*COUNTS, *LATER)], "line-blue", width=2.5)
    sheet.text((x(2.2), y(420)), "rows that are in", "small tone-blue")
    _answers(sheet)
    return sheet


def _axes(sheet: Sheet) -> None:
    sheet.arrow((x(0), BOTTOM), (x(6.7), BOTTOM))
    sheet.arrow((x(0), BOTTOM), (x(0), 34))
    sheet.text((x(0), 24), "count", "small muted", anchor="middle")
    for minute in range(7):
        sheet.text((x(minute), BOTTOM + 20), f"12:{minute:02d}", "small muted", anchor="middle")
    for count in (500, 1000):
        sheet.text((x(0) - 10, y(count) + 4), f"{count:,}", "small muted", anchor="end")
    words = "The early row carries its expected accuracy. The exact row follows."
    sheet.text((LEFT, 356), words, "muted")


def _answers(sheet: Sheet) -> None:
    sheet.line([(x(ASKED), BOTTOM), (x(ASKED), y(EARLY))], "line-orange", dash="4 4")
    sheet.line([(x(ASKED), y(LOW)), (x(ASKED), y(HIGH))], "line-orange", width=2.5)
    for end in (LOW, HIGH):
        sheet.line([(x(ASKED) - 7, y(end)), (x(ASKED) + 7, y(end))], "line-orange", width=2.5)
    sheet.dot((x(ASKED), y(EARLY)), "tone-orange", radius=6)
    sheet.dot((x(ASKED), y(RAW)), "tone-blue")
    sheet.text((x(ASKED) - 14, y(EARLY) - 2), "early: 1,240", "tone-orange", anchor="end")
    sheet.text((x(ASKED) - 14, y(EARLY) + 14), "1,167 to 1,328", "small muted", anchor="end")
    sheet.text((x(ASKED) + 10, y(RAW) + 18), "1,004 are in", "small tone-blue")
    sheet.text((x(ASKED) + 8, BOTTOM - 10), "prod", "small tone-orange")
    sheet.line([(x(CLOSED), BOTTOM), (x(CLOSED), y(FINAL))], "line-green", dash="4 4")
    sheet.dot((x(CLOSED), y(FINAL)), "tone-green", radius=6)
    sheet.text((x(CLOSED), y(FINAL) - 14), "final: 1,262", "tone-green", anchor="middle")
    sheet.text((x(CLOSED) - 8, BOTTOM - 10), "window closes", "small tone-green", anchor="end")
