"""Lengths of time and shares as short text, and slacks as text that a policy reads."""

from __future__ import annotations

import math

from lowwater.ticks import TICKS_PER_SECOND
from lowwater.windows.axis import Axis

_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
_NAMES = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)
_WHOLE = 10
"""A length of as many units is written without a fraction."""


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
    text = f"{count:.1f}" if count < _WHOLE else f"{count:.0f}"
    return f"{sign}{text.removesuffix('.0')} {unit}"


def plain_slack(axis: Axis, slack: int) -> int:
    """Return a slack rounded up to two digits of its unit.

    >>> import pyarrow as pa
    >>> axis = Axis("ts", pa.timestamp("us"))
    >>> [setting(axis, plain_slack(axis, ticks)) for ticks in (4_870_354, 7_241_000_000)]
    ['slack 4.9 seconds', 'slack 2.1 hours']
    """
    step = 1
    if axis.kind == "time":
        size = _setting_unit(slack)[1]
        step = size if slack >= _WHOLE * size else max(size // 10, 1)
    step *= int(10 ** max(math.floor(math.log10(max(slack // step, 1))) - 1, 0))
    return -(-slack // step) * step


def setting(axis: Axis, slack: int) -> str:
    """Return a fixed slack as a text for `--watermark`.

    >>> import pyarrow as pa
    >>> axis = Axis("ts", pa.timestamp("us"))
    >>> [setting(axis, ticks) for ticks in (0, 90_000_000, 300_000_000)]
    ['ordered', 'slack 90 seconds', 'slack 5 minutes']
    """
    if not slack:
        return "ordered"
    if axis.kind == "number":
        return f"slack {slack / axis.per_unit:.15g}"
    unit, size = _setting_unit(slack)
    count = f"{slack / size:.15g}"
    return f"slack {count} {unit}{'' if count == '1' else 's'}"


def _setting_unit(slack: int) -> tuple[str, int]:
    """Return (name, ticks) of the unit of a slack: 90 seconds, but 2 minutes."""
    fewest = {size: 2 if size > TICKS_PER_SECOND else 1 for _, size in _NAMES}
    return next(((name, n) for name, n in _NAMES if slack >= fewest[n] * n), _NAMES[-1])


def percent(share: float) -> str:
    """Return a share as text; only a share of 1 is 100 %.

    >>> percent(0.9912), percent(0.99996), percent(1.0)
    ('99.12 %', '99.99 %', '100 %')
    """
    return "100 %" if share == 1 else f"{min(share * 100, 99.99):.2f} %"
