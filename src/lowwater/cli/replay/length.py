"""Lengths of time and shares as short text, and slacks as text that a policy reads."""

from __future__ import annotations

import math

from lowwater.ticks import TICKS_PER_SECOND, spoken
from lowwater.windows.axis import Axis

_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
_DIGITS = 2


def short(ticks: float | None, *, timed: bool = True, per_unit: int = 1) -> str:
    """Return a length in its largest unit, with two digits; "–" for None.

    >>> [short(t) for t in (6_263_790, 260_000_000, -1_500, 0, None)]
    ['6.3 s', '4.3 min', '−1.5 ms', '0 s', '–']
    """
    if ticks is None:
        return "–"
    if not timed:
        return f"{ticks / per_unit:.3g}".replace("-", "−")
    seconds = abs(ticks) / TICKS_PER_SECOND
    sign = "−" if ticks < 0 else ""
    if seconds < _UNITS[-1][1] / 2:
        return "0 s"
    unit, size = next((u for u in _UNITS if seconds >= u[1]), _UNITS[-1])
    count = seconds / size
    text = f"{count:.1f}" if count < 10**_DIGITS / 10 else f"{count:.0f}"
    return f"{sign}{text.removesuffix('.0')} {unit}"


def two_digits(ticks: int) -> int:
    """Return `ticks` rounded up to two digits.

    >>> two_digits(4_870_354), two_digits(7), two_digits(0)
    (4900000, 7, 0)
    """
    if ticks < 10**_DIGITS:
        return ticks
    unit = int(10 ** (math.floor(math.log10(ticks)) - 1))
    return -(-ticks // unit) * unit


def setting(axis: Axis, slack: int) -> str:
    """Return a fixed slack as a text for `--watermark`.

    >>> import pyarrow as pa
    >>> axis = Axis("ts", pa.timestamp("us"))
    >>> [setting(axis, ticks) for ticks in (0, 4_900_000, 300_000_000)]
    ['ordered', 'slack 4.9 seconds', 'slack 5 minutes']
    """
    if not slack:
        return "ordered"
    if axis.kind == "number":
        return f"slack {slack / axis.per_unit:g}"
    decimals = slack % TICKS_PER_SECOND and slack > TICKS_PER_SECOND
    text = f"{slack / TICKS_PER_SECOND:g} seconds" if decimals else spoken(slack)
    return f"slack {text}"


def percent(share: float) -> str:
    """Return a share as text; only a share of 1 is 100 %.

    >>> percent(0.9912), percent(0.99996), percent(1.0)
    ('99.12 %', '99.99 %', '100 %')
    """
    return "100 %" if share == 1 else f"{min(share * 100, 99.99):.2f} %"
