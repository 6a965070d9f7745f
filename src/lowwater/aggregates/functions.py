"""The aggregate functions of the public API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lowwater.aggregates.aggregate import Aggregate, Overflow
from lowwater.aggregates.builtin import Avg, Count, Extremum, FirstOrLast, Spread, Sum
from lowwater.aggregates.holistic import CountDistinct, Mode, Quantile, TopK
from lowwater.aggregates.sketch_sizes import FrequentItems, Hll, Kll
from lowwater.aggregates.state_pickle import StateCode, StatePickle
from lowwater.aggregates.user_functions import FoldAccumulator, PartialAccumulator, UserDefined
from lowwater.errors import SpecError
from lowwater.schema import parse_type


def count(column: str | None = None) -> Aggregate:
    """Return the number of rows, or of the values of `column` that are not NULL."""
    return Count(column)


def sum(column: str, *, overflow: Overflow = "null") -> Aggregate:
    """Return the sum of `column`: exact for integers and decimals; NULL if all values are NULL.

    A sum of integers beyond the range of bigint, or of decimals beyond 38 digits, is NULL, and
    `status().overflows` counts it. With `overflow="fail"`, it stops the query instead.
    """
    return Sum(column, _overflow(overflow))


def avg(column: str, *, overflow: Overflow = "null") -> Aggregate:
    """Return the mean of `column`: right even if the sum is beyond the range of its type.

    A mean of decimals may need more than 38 digits; `overflow` is as for `sum`.
    """
    return Avg(column, _overflow(overflow))


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
    """Return the first value of `column` in the order of event time; NULLs are skipped."""
    return FirstOrLast(column, last=False)


def last(column: str) -> Aggregate:
    """Return the last value of `column` in the order of event time; NULLs are skipped."""
    return FirstOrLast(column, last=True)


def median(column: str, *, sketch: bool | Kll = False) -> Aggregate:
    """Return the median of `column`: the same as `quantile(column, 0.5)`."""
    return Quantile(column, (0.5,), many=False, sketch=_accuracy("median", sketch, Kll))


def quantile(column: str, q: float | Sequence[float], *, sketch: bool | Kll = False) -> Aggregate:
    """Return the quantile `q` (0 to 1) of `column`; for a list of `q`, a list of quantiles.

    The result is a double, interpolated like Spark's `percentile`: the number at index q·(n-1)
    of n sorted numbers, counted from 0. NaN is the greatest number. An exact quantile keeps all
    values of a window in state.

    With `sketch=True`, or `sketch=kll(k=400)`, state is a KLL sketch of about 3·k values. With
    k=200, in 99 % of cases, the result is the exact quantile for some number in q ± 0.0133. It is
    exact for up to k values, and for q=0 and q=1. A KLL sketch is random and cannot be seeded: an
    epoch that runs again may return another result within this error.

    >>> import lowwater as lw
    >>> feed = lw.feed("t bigint, ms double")
    >>> query = (
    ...     lw.stream(feed, time="t", watermark=lw.ordered())
    ...     .window(range=10)
    ...     .agg(mid=lw.median("ms"), tail=lw.quantile("ms", [0.75, 1]))
    ... )
    >>> rows = [(1, 30.0), (2, 10.0), (3, 20.0), (4, 90.0), (5, None)]
    >>> query.run(epochs={feed: [rows]}).results.select(["mid", "tail"]).to_pylist()
    [{'mid': 25.0, 'tail': [45.0, 90.0]}]
    """
    given: Any = q
    many = isinstance(q, Sequence | np.ndarray) and not isinstance(given, str)
    shares: tuple[Any, ...] = tuple(given) if many else (given,)
    if not shares:
        raise SpecError("q=[] asks for nothing; give shares from 0 to 1")
    for share in shares:
        if not _is_share(share):
            raise SpecError(f"q={share!r} must be a share from 0 to 1: 0.5 is the median")
    accuracy = _accuracy("quantile", sketch, Kll)
    return Quantile(column, tuple(map(float, shares)), many=many, sketch=accuracy)


def count_distinct(column: str, *, sketch: bool | Hll = False) -> Aggregate:
    """Return the number of distinct values of `column`, without NULL.

    All NaN are one value, as are 0.0 and -0.0. An exact count keeps all distinct values of a window
    in state. With `sketch=True`, or `sketch=hll(lg_k=14)`, state is a HyperLogLog sketch: 4 kB and
    a standard error of 1.6 % for lg_k=12. The result does not depend on the order of rows.
    """
    return CountDistinct(column, _accuracy("count_distinct", sketch, Hll))


def top_k(column: str, k: int, *, sketch: bool | FrequentItems = False) -> Aggregate:
    """Return the `k` most frequent values of `column` and their counts, the most frequent first.

    The result is a list of structs (value, count); equal counts are sorted by value. An exact list
    keeps all distinct values of a window in state.

    With `sketch=True`, or `sketch=frequent_items(lg_k=12)`, state has at most 0.75·2^lg_k values.
    With lg_k=10 a count is too high by at most 0.34 % of the number of values in the window. Values
    with counts up to this error may be missing, so the list may have fewer than k values, or be
    NULL. Windows with up to 768 distinct values are exact.

    >>> import lowwater as lw
    >>> feed = lw.feed("t bigint, word string")
    >>> windowed = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10)
    >>> rows = [(t, word) for t, word in enumerate("to be or not to be".split())]
    >>> windowed.agg(top=lw.top_k("word", 2)).run(epochs={feed: [rows]}).results["top"].to_pylist()
    [[{'value': 'be', 'count': 2}, {'value': 'to', 'count': 2}]]
    """
    accuracy = _accuracy("top_k", sketch, FrequentItems)
    if type(k) is not int or k < 1:
        raise SpecError(f"k={k!r} must be a whole number, 1 or more")
    if accuracy is not None and k > accuracy.capacity:
        raise SpecError(
            f"k={k} is too large: the sketch keeps at most {accuracy.capacity} values; take a "
            f"larger one, for example sketch=lw.frequent_items(lg_k={(2 * k).bit_length()})"
        )
    return TopK(column, k, accuracy)


def mode(column: str, *, sketch: bool | FrequentItems = False) -> Aggregate:
    """Return the most frequent value of `column`; of several such values, the least.

    With a sketch, the counts are estimates: see `top_k`.
    """
    return Mode(column, _accuracy("mode", sketch, FrequentItems))


def kll(k: int = 200) -> Kll:
    """Return the size of a sketch for quantiles: the larger `k` (8 to 65535), the more exact.

    The error of `q` in `quantile` is about ±0.0133 for k=200, ±0.0068 for k=400, ±0.0035 for k=800.
    """
    return Kll(k)


def hll(lg_k: int = 12) -> Hll:
    """Return the size of a sketch for distinct counts: 2^lg_k bytes, `lg_k` from 4 to 21.

    The standard error is 3.24 % for lg_k=10, 1.62 % for lg_k=12, 0.81 % for lg_k=14.
    """
    return Hll(lg_k)


def frequent_items(lg_k: int = 10) -> FrequentItems:
    """Return the size of a sketch for frequent values: 0.75·2^lg_k values, `lg_k` from 3 to 21.

    A count is too high by at most 1.37 % of all values for lg_k=8, 0.34 % for lg_k=10, 0.09 % for
    lg_k=12.
    """
    return FrequentItems(lg_k)


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
    extrapolate: Callable[[Any, float], Any] | None = None,
    state: StateCode | None = None,
) -> Aggregate:
    """Return a user-defined aggregate of the columns `of`, with results of type `returns`.

    With `lift`, `combine` (associative) and `lower`, windows share one state per pane. With `init`,
    `incr` and `final` (DROP 2.2), every window has its own state, so each row costs range/slide
    calls of `incr`. The functions receive values in arrival order: the values of one column without
    NULLs, the values of several columns as tuples. `extrapolate(value, completeness)` returns the
    expected final result for an early result.

    State may contain plain data: numbers, text, times, lists, dicts, sets and numpy arrays. If it
    contains objects of other classes, name these classes as `state`; a checkpoint with any other
    class is refused. `state="any"` allows all classes: reading such state can run any code.

    >>> product = aggregate(
    ...     "x", lift=float, combine=lambda a, b: a * b, lower=float, returns="double"
    ... )
    """
    columns = (of,) if isinstance(of, str) else tuple(of)
    if not columns:
        raise SpecError("of=() names no column to aggregate; name at least one, for example of='x'")
    kind = parse_type(returns) if isinstance(returns, str) else returns
    given: dict[str, Any] = {"lift": lift, "combine": combine, "lower": lower}
    given |= {"init": init, "incr": incr, "final": final, "extrapolate": extrapolate}
    for name, function in given.items():
        if function is not None and not callable(function):
            raise SpecError(f"{name}={function!r} is not a function; give a callable")
    pickle = StatePickle.of(columns, state, [lift, combine, init, incr])
    if lift and combine and lower and not (init or incr or final):
        part = PartialAccumulator(columns, lift, combine, pickle)
        return UserDefined(part, lower, kind, extrapolate)
    if init and incr and final and not (lift or combine or lower):
        folding = FoldAccumulator(columns, init, incr, pickle)
        return UserDefined(folding, final, kind, extrapolate)
    named = ", ".join(f"{name}=" for name, function in given.items() if function) or "no function"
    raise SpecError(
        f"lw.aggregate() has {named}, but needs lift=, combine= and lower=, or init=, incr= and "
        f"final=; give all three of one set and none of the other"
    )


_Accuracy = TypeVar("_Accuracy", Kll, Hll, FrequentItems)


def _accuracy(function: str, sketch: Any, kind: type[_Accuracy]) -> _Accuracy | None:
    if sketch is False:
        return None
    if sketch is True:
        return kind()
    if isinstance(sketch, kind):
        return sketch
    name = {Kll: "kll(k=200)", Hll: "hll(lg_k=12)", FrequentItems: "frequent_items(lg_k=10)"}[kind]
    raise SpecError(f"sketch={sketch!r} does not go with {function}; give True, or lw.{name}")


def _overflow(chosen: Overflow) -> Overflow:
    if chosen not in ("null", "fail"):
        raise SpecError(f"overflow={chosen!r} is unknown; write 'null' or 'fail'")
    return chosen


def _is_share(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating)
    return number and type(value) is not bool and 0 <= value <= 1
