"""What happens when more rows come than can be worked on: whole windows are dropped (DROP)."""

from __future__ import annotations

from scripts.drawings.canvas import Sheet

LOADS = (0.6, 0.7, 0.65, 1.5, 2.1, 2.3, 2.2, 1.9, 1.4, 0.8, 0.6, 0.7)
KEPT = (True, True, True, True, False, False, True, False, True, True, True, True)
LEFT, WIDTH, GROUND, CAPACITY = 60, 50, 178, 56


def draw() -> Sheet:
    """Draw the load of each window, the capacity, and which windows are dropped."""
    sheet = Sheet(
        "Whole windows are dropped",
        "Twelve windows, side by side. In six of them more rows arrive than the machine can work "
        "on. Three of the six are dropped; all others are exact.",
        height=336,
    )
    sheet.text((LEFT, 28), "rows that arrive", "muted")
    for number, (load, kept) in enumerate(zip(LOADS, KEPT, strict=True)):
        _window(sheet, number, load, kept=kept)
    sheet.line(
        [(LEFT - 8, GROUND - CAPACITY), (LEFT + 12 * WIDTH + 8, GROUND - CAPACITY)], dash="6 4"
    )
    sheet.text(
        (LEFT + 12 * WIDTH + 8, GROUND - CAPACITY - 8), "capacity", "small muted", anchor="end"
    )
    sheet.line([(LEFT - 8, GROUND), (LEFT + 12 * WIDTH + 8, GROUND)])
    _legend(sheet)
    return sheet


def _window(sheet: Sheet, number: int, load: float, *, kept: bool) -> None:
    left, height = LEFT + number * WIDTH, load * CAPACITY
    bar = (left + 8, GROUND - height), (WIDTH - 16, height)
    if kept:
        sheet.box(*bar, "area-blue", outline="line-blue", round=0)
        sheet.box((left + 3, 194), (WIDTH - 6, 34), "area-blue", outline="line-blue")
        sheet.text((left + WIDTH / 2, 216), "exact", "small", anchor="middle")
    else:
        sheet.box(*bar, "area", outline="line", dash="3 3", round=0)
        sheet.box((left + 3, 194), (WIDTH - 6, 34), "sheet", outline="line-orange", dash="4 3")
        sheet.text((left + WIDTH / 2, 216), "shed", "small tone-orange", anchor="middle")
    sheet.text((left + WIDTH / 2, 246), f"wid {number}", "small muted", anchor="middle")


def _legend(sheet: Sheet) -> None:
    first, last = LEFT + 4 * WIDTH, LEFT + 6 * WIDTH
    sheet.line(
        [(first + 3, 254), (first + 3, 262), (last - 3, 262), (last - 3, 254)], "line-orange"
    )
    sheet.text(
        ((first + last) / 2, 278), "never more than max_gap", "small tone-orange", anchor="middle"
    )
    words = "Decided before a window begins: its rows cost nothing."
    sheet.text((LEFT, 312), words, "muted")
