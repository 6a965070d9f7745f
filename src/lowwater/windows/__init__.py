"""What a window is: specs, windows / extent / wids, panes, and the axis they lie on."""

from lowwater.windows.axis import LIMIT, Axis, WindowTime, read_times
from lowwater.windows.driven import (
    Arrival,
    Rank,
    RowCount,
    Session,
    SlideByRow,
    arrival,
    rank,
    rows,
)
from lowwater.windows.meaning import (
    Extent,
    OneWindow,
    WindowClass,
    WindowSpec,
    classify,
    describe,
    extent,
    wids,
    windows,
)
from lowwater.windows.shared import Shared
from lowwater.windows.spec import (
    FOREVER,
    MAX_SLIDES_PER_RANGE,
    Landmark,
    Sliding,
    Unbounded,
    unbounded,
)

__all__ = [
    "FOREVER",
    "LIMIT",
    "MAX_SLIDES_PER_RANGE",
    "Arrival",
    "Axis",
    "Extent",
    "Landmark",
    "OneWindow",
    "Rank",
    "RowCount",
    "Session",
    "Shared",
    "SlideByRow",
    "Sliding",
    "Unbounded",
    "WindowClass",
    "WindowSpec",
    "WindowTime",
    "arrival",
    "classify",
    "describe",
    "extent",
    "rank",
    "read_times",
    "rows",
    "unbounded",
    "wids",
    "windows",
]
