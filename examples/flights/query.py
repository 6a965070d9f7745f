"""The query of the demo."""

from __future__ import annotations

from typing import Any

import lowwater as lw
from lowwater.ticks import Duration


def delays(source: Any, *, slack: Duration) -> lw.Query:
    """Departure delays per airport over 3 hours, every 10 minutes, by scheduled departure."""
    return (
        lw.stream(source, time="scheduled", watermark=lw.slack(slack))
        .window(range="3 hours", slide="10 minutes")
        .group_by("origin")
        .agg(flights=lw.count(), delay=lw.avg("dep_delay"), worst=lw.max("dep_delay"))
    )
