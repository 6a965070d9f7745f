"""What a window is: specs, windows / extent / wids, panes, and the axis they lie on."""

from lowwater.windows.axis import LIMIT, Axis, read_times
from lowwater.windows.meaning import Extent, classify, extent, wids, windows
from lowwater.windows.spec import (
    FOREVER,
    MAX_SLIDES_PER_RANGE,
    Landmark,
    Sliding,
    Unbounded,
    WindowSpec,
    describe,
    unbounded,
)

__all__ = [
    "FOREVER",
    "LIMIT",
    "MAX_SLIDES_PER_RANGE",
    "Axis",
    "Extent",
    "Landmark",
    "Sliding",
    "Unbounded",
    "WindowSpec",
    "classify",
    "describe",
    "extent",
    "read_times",
    "unbounded",
    "wids",
    "windows",
]
