"""Times and lengths of time as a person writes them."""

from __future__ import annotations

from datetime import datetime

import pandas as pd


def when(at: datetime | None) -> str:
    """Return a time as a person writes it."""
    return "–" if at is None else f"{at:%a} {at.day:2d} {at:%b %H:%M}"


def span(length: pd.Timedelta) -> str:
    """Return a length of time as a person says it.

    >>> span(pd.Timedelta(minutes=95)), span(pd.Timedelta(hours=2)), span(pd.Timedelta(minutes=-20))
    ('1 h 35 min', '2 h', '-20 min')
    """
    sign = "-" if length < pd.Timedelta(0) else ""
    hours, minutes = divmod(round(abs(length).total_seconds() / 60), 60)
    parts = [f"{hours} h"] * (hours > 0) + [f"{minutes} min"] * (minutes > 0 or not hours)
    return sign + " ".join(parts)
