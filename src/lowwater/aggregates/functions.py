"""The aggregate functions of the public API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lowwater.aggregates.spec import (
    Aggregate,
    Avg,
    ByTime,
    Count,
    Extremum,
    Spread,
    Sum,
    UserDefined,
)
from lowwater.aggregates.user import Combining, Folding
from lowwater.errors import SpecError
from lowwater.schemas import parse_type


def count(column: str | None = None) -> Aggregate:
    """Count rows, or the values of `column` that are not NULL."""
    return Count(column)


def sum(column: str) -> Aggregate:
    """Sum up `column`: exactly for integers and decimals; NULL when there is no value."""
    return Sum(column)


def avg(column: str) -> Aggregate:
    """Return the mean of `column`."""
    return Avg(column)


def min(column: str) -> Aggregate:
    """Return the least value of `column`; NaN counts as the greatest number, as in Spark."""
    return Extremum(column, greatest=False)


def max(column: str) -> Aggregate:
    """Return the greatest value of `column`; NaN counts as the greatest number, as in Spark."""
    return Extremum(column, greatest=True)


def variance(column: str) -> Aggregate:
    """Return the sample variance of `column`."""
    return Spread(column, root=False)


def stddev(column: str) -> Aggregate:
    """Return the sample standard deviation of `column`."""
    return Spread(column, root=True)


def first(column: str) -> Aggregate:
    """Return the value of `column` at the first time of the window that has one."""
    return ByTime(column, last=False)


def last(column: str) -> Aggregate:
    """Return the value of `column` at the last time of the window that has one."""
    return ByTime(column, last=True)


def aggregate(
    of: str | Sequence[str],
    *,
    returns: str | pa.DataType,
    lift: Callable[[Any], Any] | None = None,
    combine: Callable[[Any, Any], Any] | None = None,
    lower: Callable[[Any], Any] | None = None,
    init: Callable[[], Any] | None = None,
    incr: Callable[[Any, Any], Any] | None = None,
    final: Callable[[Any], Any] | None = None,
) -> Aggregate:
    """Define an aggregate, in one of two ways.

    `lift`, `combine`, `lower` (`combine` associative): kept per pane and shared by all windows
    that overlap it. `init`, `incr`, `final` (DROP 2.2): for functions that do not combine; kept
    per window, so that each row costs range/slide steps. Values come in arrival order. One column
    gives its values without NULLs, several give tuples.

    >>> product = aggregate(
    ...     "x", lift=float, combine=lambda a, b: a * b, lower=float, returns="double"
    ... )
    """
    columns = (of,) if isinstance(of, str) else tuple(of)
    if not columns:
        raise SpecError("of=() names no column; an aggregate is defined over at least one")
    kind = parse_type(returns) if isinstance(returns, str) else returns
    given: dict[str, Any] = {"lift": lift, "combine": combine, "lower": lower}
    given |= {"init": init, "incr": incr, "final": final}
    for name, function in given.items():
        if function is not None and not callable(function):
            raise SpecError(f"{name}={function!r} is no function")
    if lift and combine and lower and not (init or incr or final):
        return UserDefined(Combining(columns, lift, combine), lower, kind)
    if init and incr and final and not (lift or combine or lower):
        return UserDefined(Folding(columns, init, incr), final, kind)
    raise SpecError(
        "an aggregate is defined by lift=, combine= and lower=, or by init=, incr= and final=; "
        "give one of the two sets whole"
    )
