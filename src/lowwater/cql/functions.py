"""The aggregates that a CQL text may call, by name.

To add an aggregate, add a `Call` to AGGREGATES with the function that makes the aggregate. If the
aggregate has arguments besides a column, also pass the function that returns its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from lowwater.aggregates import functions
from lowwater.aggregates.aggregate import Aggregate


def _column(aggregate: Any) -> tuple[Any, ...]:
    return () if aggregate.column is None else (aggregate.column,)


@dataclass(frozen=True)
class Call:
    """A CQL function that makes an aggregate; it has at least `least`, at most `most` arguments."""

    make: Callable[..., Aggregate]
    arguments: Callable[[Any], tuple[Any, ...]] = _column
    least: int = 1
    most: int = 1

    def arguments_of(self, aggregate: Aggregate) -> tuple[Any, ...] | None:
        """Return the arguments for which `make` returns `aggregate`; None if no arguments do."""
        try:
            arguments = self.arguments(aggregate)
            return arguments if self.make(*arguments) == aggregate else None
        except (AttributeError, TypeError):
            return None


AGGREGATES: dict[str, Call] = {
    "count": Call(functions.count, least=0),
    "sum": Call(functions.sum),
    "avg": Call(functions.avg),
    "min": Call(functions.min),
    "max": Call(functions.max),
    "variance": Call(functions.variance),
    "stddev": Call(functions.stddev),
    "first": Call(functions.first),
    "last": Call(functions.last),
    "median": Call(functions.median),
    "quantile": Call(
        lambda column, share: functions.quantile(column, float(share)),
        lambda aggregate: (aggregate.column, aggregate.shares[0]),
        least=2,
        most=2,
    ),
    "count_distinct": Call(functions.count_distinct),
    "top_k": Call(
        lambda column, k: functions.top_k(column, int(k)),
        lambda aggregate: (aggregate.column, aggregate.k),
        least=2,
        most=2,
    ),
    "mode": Call(functions.mode),
    "approx_count_distinct": Call(partial(functions.count_distinct, sketch=True)),
    "mean": Call(functions.avg),
    "var_samp": Call(functions.variance),
    "stddev_samp": Call(functions.stddev),
}
"""The functions of CQL by name, in lower case. Of several names, the first is printed."""


def call_of(aggregate: Aggregate) -> tuple[str, tuple[Any, ...]] | None:
    """Return the CQL name and the arguments of `aggregate`; None if CQL has no name for it.

    >>> call_of(functions.max("speed"))
    ('max', ('speed',))
    """
    calls = ((name, call.arguments_of(aggregate)) for name, call in AGGREGATES.items())
    return next(((name, arguments) for name, arguments in calls if arguments is not None), None)
