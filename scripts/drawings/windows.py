"""Which windows a row belongs to: a matter of its time alone (WID)."""

from __future__ import annotations

from scripts.drawings.canvas import Sheet

MINUTE, LEFT = 60, 70
ROWS = (0.6, 1.5, 3.3, 2.5, 4.7, 6.4, 5.6, 7.7, 9.2)
"""When each row happened, in the order in which they arrive."""
RANGE, SLIDE = 4, 2
CHOSEN = 4


def at(minute: float) -> float:
    """Return where a minute is on the sheet."""
    return LEFT + minute * MINUTE


def draw() -> Sheet:
    """Draw rows, the windows over them and the panes below."""
    sheet = Sheet(
        "Windows and their ids",
        "Nine rows on a time axis, numbered in the order they arrive. Windows of 4 minutes slide "
        "by 2. The row at 4.7 belongs to windows 1 and 2, whenever it arrives.",
        height=352,
    )
    _rows(sheet)
    for wid in range(4):
        _window(sheet, wid)
    _panes(sheet)
    sheet.line([(at(ROWS[CHOSEN]), 66), (at(ROWS[CHOSEN]), 262)], "line-orange", dash="4 4")
    sheet.dot((at(ROWS[CHOSEN]), 55), "tone-orange", radius=11, label="5")
    return sheet


def _rows(sheet: Sheet) -> None:
    sheet.text((LEFT, 28), "rows, numbered as they arrive", "muted")
    sheet.text((690, 28), "wids(row 5) = {1, 2}", "tone-orange", anchor="end")
    sheet.arrow((LEFT - 20, 84), (690, 84))
    for minute in range(0, 11, 2):
        sheet.line([(at(minute), 80), (at(minute), 88)])
        sheet.text((at(minute), 102), f"12:{minute:02d}", "small muted", anchor="middle")
    for number, minute in enumerate(ROWS, 1):
        sheet.dot((at(minute), 55), "tone-blue", radius=11, label=str(number))


def _window(sheet: Sheet, wid: int) -> None:
    start, y = wid * SLIDE, 118 + wid * 36
    inside = start <= ROWS[CHOSEN] < start + RANGE
    kind, outline = ("area-orange", "line-orange") if inside else ("area", "line")
    sheet.box((at(start), y), (RANGE * MINUTE, 26), kind, outline=outline)
    words = f"wid {wid}  [12:{start:02d}, 12:{start + RANGE:02d})"
    if start + RANGE / 2 <= ROWS[CHOSEN]:  # beside the line through the row
        sheet.text((at(start) + 10, y + 18), words, "small")
    else:
        sheet.text((at(start + RANGE) - 10, y + 18), words, "small", anchor="end")


def _panes(sheet: Sheet) -> None:
    for pane in range(5):
        count = sum(pane * SLIDE <= minute < (pane + 1) * SLIDE for minute in ROWS)
        sheet.box((at(pane * SLIDE), 276), (SLIDE * MINUTE, 28), "area-blue", outline="line-blue")
        sheet.text((at(pane * SLIDE + 1), 295), f"pane: n = {count}", "small", anchor="middle")
    words = "A row is added to one pane. A window is the panes it covers, put together."
    sheet.text((LEFT, 330), words, "muted")
