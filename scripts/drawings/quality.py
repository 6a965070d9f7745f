"""How a slack follows from a target: by how late rows are (QDJ)."""

from __future__ import annotations

import random

from scripts.drawings.canvas import Sheet

SHARES = (46, 21, 11.5, 7, 4.5, 3, 2, 1.5, 1.2, 0.9, 0.7, 0.4, 0.3)
"""Of a hundred rows, how many are late by 0, 1, 2 … steps."""
ENOUGH = 7
"""The number of bars, from the first, that hold 95 of a hundred rows."""
WORSE = range(12, 21)
"""The steps in which rows are later."""
LEFT, BAR, GROUND = 52, 21, 226
RIGHT, WIDE = 410, 270


def draw() -> Sheet:
    """Draw the late degrees with the slack they ask for, and slack over time."""
    sheet = Sheet(
        "Slack from a target",
        "On the left how late rows are: 95 of 100 are less late than the slack that is chosen. On "
        "the right late degrees over time: when they grow, the slack follows.",
        height=306,
    )
    _histogram(sheet)
    _over_time(sheet)
    words = "You say 0.95. The slack is the smallest that gives it, and follows the stream."
    sheet.text((LEFT, 284), words, "muted")
    return sheet


def _histogram(sheet: Sheet) -> None:
    sheet.text((LEFT, 28), "how late rows are", "muted")
    for number, share in enumerate(SHARES):
        height = share * 3.7
        kind = ("area-blue", "line-blue") if number < ENOUGH else ("area-orange", "line-orange")
        place = (LEFT + number * BAR, GROUND - height), (BAR, height)
        sheet.box(*place, kind[0], outline=kind[1], round=0)
    edge = LEFT + ENOUGH * BAR
    sheet.line([(edge, GROUND), (edge, 84)], "line-green", width=2.5)
    sheet.text((edge + 8, 94), "slack", "tone-green")
    sheet.text((edge - 10, 126), "95 % in time", "small tone-blue", anchor="end")
    sheet.text((edge + 8, 196), "5 % late", "small tone-orange")
    sheet.arrow((LEFT, GROUND), (LEFT + 13 * BAR + 16, GROUND))
    sheet.text((LEFT + 13 * BAR + 16, GROUND + 20), "late degree", "small muted", anchor="end")


def _over_time(sheet: Sheet) -> None:
    sheet.text((RIGHT, 28), "late degrees, and the slack in force", "muted")
    coins, slack, line = random.Random(5), 42.0, []  # noqa: S311  # a picture, no secret
    for step in range(30):
        scale = 44 if step in WORSE else 14
        for _ in range(6):
            late = min(coins.expovariate(1 / scale), 165)
            at = (RIGHT + (step + coins.random()) * WIDE / 30, GROUND - late)
            sheet.dot(at, "tone-orange" if late > slack else "tone-blue", radius=2)
        line += [
            (RIGHT + step * WIDE / 30, GROUND - slack),
            (RIGHT + (step + 1) * WIDE / 30, GROUND - slack),
        ]
        slack += (3.0 * scale - slack) * (0.5 if scale > slack / 3 else 0.25)
    sheet.line(line, "line-green", width=2.5)
    sheet.arrow((RIGHT, GROUND), (RIGHT + WIDE + 10, GROUND))
    sheet.arrow((RIGHT, GROUND), (RIGHT, 46))
    sheet.text((RIGHT + WIDE + 10, GROUND + 20), "time", "small muted", anchor="end")
