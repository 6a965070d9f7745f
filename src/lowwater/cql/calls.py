"""The aggregates that a text may call, by name.

A new aggregate is one line here: how it is made of its arguments, which are columns and numbers,
and, where it has more than a column, how its arguments are read off it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from lowwater.aggregates import Aggregate, functions


def _column(aggregate: Any) -> tuple[Any, ...]:
    return () if aggregate.column is None else (aggregate.column,)


def _column_and_share(aggregate: Any) -> tuple[Any, ...]:
    return aggregate.column, aggregate.shares[0]


def _column_and_k(aggregate: Any) -> tuple[Any, ...]:
    return aggregate.column, aggregate.k


def _quantile(column: str, share: Any) -> Aggregate:
    return functions.quantile(column, float(share))


def _top_k(column: str, k: Any) -> Aggregate:
    return functions.top_k(column, int(k))


@dataclass(frozen=True)
class Call:
    """How an aggregate is made of arguments, and which arguments it was made of."""

    make: Callable[..., Aggregate]
    arguments: Callable[[Any], tuple[Any, ...]] = _column
    least: int = 1
    most: int = 1

    def stands_for(self, aggregate: Aggregate) -> tuple[Any, ...] | None:
        """Return the arguments with which this call makes an aggregate, if it does."""
        try:
            given = self.arguments(aggregate)
            return given if self.make(*given) == aggregate else None
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
    "quantile": Call(_quantile, _column_and_share, least=2, most=2),
    "count_distinct": Call(functions.count_distinct),
    "top_k": Call(_top_k, _column_and_k, least=2, most=2),
    "mode": Call(functions.mode),
    "approx_count_distinct": Call(partial(functions.count_distinct, sketch=True)),
    "mean": Call(functions.avg),
    "var_samp": Call(functions.variance),
    "stddev_samp": Call(functions.stddev),
}
"""Names in lower case. The first that stands for an aggregate is how it is printed."""


def call_of(aggregate: Aggregate) -> tuple[str, tuple[Any, ...]] | None:
    """Return the name and the arguments of an aggregate, if a text can call it.

    >>> call_of(functions.max("speed"))
    ('max', ('speed',))
    """
    for name, call in AGGREGATES.items():
        given = call.stands_for(aggregate)
        if given is not None:
            return name, given
    return None
