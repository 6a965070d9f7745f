"""Brute force, from the definitions: which windows a row is in, what they hold, what is late.

Nothing here uses Lowwater. `Windows` tests each window by its extent, `simulate` goes row by row
through the epochs as semantics 1 to 4, 8, 11 and 25 tell it, and `AGGREGATES` are SQL's functions
over plain lists.
"""

from __future__ import annotations

import copy
import math
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]
TIME = "t"


# -- windows ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Windows:
    """extent(w) = [origin + w·slide, origin + w·slide + range).

    Landmark windows (range None): [origin or the beginning, (origin or 0) + (w+1)·slide).
    """

    range: int | None
    slide: int
    origin: int | None = None

    def start(self, w: int) -> float:
        if self.range is None:
            return -math.inf if self.origin is None else self.origin
        return (self.origin or 0) + w * self.slide

    def end(self, w: int) -> int:
        if self.range is None:
            return (self.origin or 0) + (w + 1) * self.slide
        return (self.origin or 0) + w * self.slide + self.range

    def holding(self, t: int, newest: int, reached: float = -math.inf) -> list[int]:
        """The windows that hold `t`, by trying all that could.

        Landmark windows stop at that of the newest row, or at the last one that a mark completes.
        """
        base = self.origin or 0
        if self.range is not None:
            low = (t - base - self.range) // self.slide - 2
            tried = range(low, (t - base) // self.slide + 3)
            return [w for w in tried if self.start(w) <= t < self.end(w)]
        stop = max(t, newest)
        top = stop if reached == -math.inf else max(stop, int(reached))
        tried = range((t - base) // self.slide - 2, (top - base) // self.slide + 3)
        last = min(w for w in tried if stop < self.end(w))
        return [
            w
            for w in tried
            if self.start(w) <= t < self.end(w) and (w <= last or self.end(w) <= reached)
        ]


# -- aggregates ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Near:
    """A float that may be off by rounding: 1e-9 of what was added up."""

    value: float
    scale: float

    def matches(self, found: Any) -> bool:
        if not isinstance(found, float):
            return False
        if math.isnan(self.value) or math.isinf(self.value):
            return found == self.value or (math.isnan(found) and math.isnan(self.value))
        return abs(found - self.value) <= 1e-9 * max(self.scale, abs(self.value))


def _present(values: Sequence[Any]) -> list[Any]:
    return [v for v in values if v is not None]


def _float_total(values: Sequence[float]) -> float:
    if any(math.isnan(v) for v in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    return math.fsum(values)


def _sum(values: Sequence[Any]) -> Any:
    there = _present(values)
    if not there:
        return None
    if isinstance(there[0], float):
        return Near(_float_total(there), sum(abs(v) for v in there))
    with localcontext(prec=90):
        return sum(there[1:], there[0])


def _avg(values: Sequence[Any]) -> Any:
    there = _present(values)
    if not there:
        return None
    if isinstance(there[0], Decimal):
        with localcontext(prec=90):
            scale = -there[0].as_tuple().exponent + 4
            return (sum(there) / len(there)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    if isinstance(there[0], float):
        size = len(there)
        return Near(_float_total(there) / size, sum(abs(v) for v in there) / size)
    return Near(sum(there) / len(there), 0.0)


def _variance(values: Sequence[Any]) -> Any:
    there = [float(v) for v in _present(values)]
    if len(there) < 2:
        return None
    if not all(map(math.isfinite, there)):
        return Near(math.nan, 0.0)
    exact = statistics.variance([Fraction(v) for v in there])
    # Rounding of a deviation is relative to the values, not to their spread.
    return Near(float(exact), 1e-6 * max(map(abs, there)) ** 2)


def _stddev(values: Sequence[Any]) -> Any:
    spread = _variance(values)
    if spread is None or math.isnan(spread.value):
        return spread
    return Near(math.sqrt(spread.value), math.sqrt(spread.scale))


def _order(value: Any) -> Any:
    """Spark's order: NaN is the greatest number."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


def _pick(choose: Callable[..., Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda values: choose(_present(values), key=_order, default=None)


AGGREGATES: dict[str, Callable[[Sequence[Any]], Any]] = {
    "count": lambda values: len(_present(values)),
    "sum": _sum,
    "avg": _avg,
    "min": _pick(min),
    "max": _pick(max),
    "variance": _variance,
    "stddev": _stddev,
    "first": lambda values: next(iter(_present(values)), None),
    "last": lambda values: next(iter(_present(values)[::-1]), None),
}
"""Each takes the values of a window in the order of (time, arrival)."""


def _quantile(values: Sequence[Any], q: float | Sequence[float]) -> Any:
    """Spark's `percentile`: of n numbers in order the one at q·(n-1), between its neighbours."""
    there = sorted(_present(values), key=_order)
    if not there:
        return None
    if not isinstance(q, float):
        return [_quantile(values, each) for each in q]
    at = (len(there) - 1) * q
    low, high = math.floor(at), math.ceil(at)
    a, b = float(there[low]), float(there[high])
    return a if low == high or a == b else a + (at - low) * (b - a)


def _top_k(values: Sequence[Any], k: int) -> Any:
    there = _present(values)
    kept = {normal(v): v for v in there}
    counts = Counter(map(normal, there))
    best = sorted(kept, key=lambda v: (-counts[v], _order(kept[v])))
    return [{"value": kept[v], "count": counts[v]} for v in best[:k]] or None


def _mode(values: Sequence[Any]) -> Any:
    best = _top_k(values, 1)
    return best[0]["value"] if best else None


HOLISTIC: dict[str, Callable[..., Any]] = {
    "median": lambda values: _quantile(values, 0.5),
    "quantile": _quantile,
    "count_distinct": lambda values: len(set(map(normal, _present(values)))),
    "top_k": _top_k,
    "mode": _mode,
}
"""Those that keep all values, some with a parameter."""
FUNCTIONS: dict[str, Callable[..., Any]] = {**AGGREGATES, **HOLISTIC}


def same(expected: Any, found: Any) -> bool:
    """Whether a result is the expected one; NaN equals NaN, and no number equals NULL."""
    if isinstance(expected, Near):
        return expected.matches(found)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(
            same(v, found[k]) for k, v in expected.items()
        )
    if isinstance(expected, float) and isinstance(found, float):
        return expected == found or (math.isnan(expected) and math.isnan(found))
    if expected is None or found is None:
        return expected is found
    return type(expected) is type(found) and expected == found


# -- epochs, marks, lateness -----------------------------------------------------------------------


class Rule:
    """A progress policy: marks decided after an epoch act at the end of the next."""

    def says(self, row: Row) -> bool:
        """Whether a row is a punctuation and no data."""
        return False

    def after(self, rows: Sequence[Row]) -> None:
        """Take in an epoch."""
        raise NotImplementedError

    def mark(self, row: Row) -> float:
        """The mark that the controller decides, for a row like this one."""
        raise NotImplementedError

    def prompt(self, row: Row) -> float:
        """The mark that the data themselves bring: it acts at the end of its own epoch."""
        return -math.inf


@dataclass
class Slack(Rule):
    """mark = newest admitted time - span."""

    span: int
    newest: int | None = None

    def after(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.newest = row[TIME] if self.newest is None else max(self.newest, row[TIME])

    def mark(self, row: Row) -> float:
        return -math.inf if self.newest is None else self.newest - self.span


@dataclass
class RowSlack(Rule):
    """mark = the newest time among all rows but the last `rows`."""

    rows: int
    times: list[int] = field(default_factory=list)

    def after(self, rows: Sequence[Row]) -> None:
        self.times += [r[TIME] for r in rows]

    def mark(self, row: Row) -> float:
        return max(self.times[: max(0, len(self.times) - self.rows)], default=-math.inf)


@dataclass
class PerSource(Rule):
    """The minimum over the sources that count; with `own`, a source's own mark for its rows.

    `idle` counts epochs. A source that returns, or comes late, counts once it has caught up.
    """

    column: str
    span: int
    own: bool
    idle: int | None = None
    low: float = -math.inf
    newest: dict[Any, int] = field(default_factory=dict)
    heard: dict[Any, int] = field(default_factory=dict)
    counts: dict[Any, bool] = field(default_factory=dict)
    epoch: int = 0

    def after(self, rows: Sequence[Row]) -> None:
        for row in rows:
            source = row[self.column]
            self.newest[source] = max(row[TIME], self.newest.get(source, row[TIME]))
            self.heard[source] = self.epoch
        for source, newest in self.newest.items():
            if self.heard[source] == self.epoch:
                caught_up = newest - self.span >= self.low
                self.counts[source] = self.counts.get(source, False) or caught_up
            elif self.idle is not None and self.epoch - self.heard[source] >= self.idle:
                self.counts[source] = False
        active = [self.newest[s] - self.span for s, counts in self.counts.items() if counts]
        if active:
            self.low = max(self.low, min(active))
        self.epoch += 1

    def mark(self, row: Row) -> float:
        if not self.own or row[self.column] not in self.newest:
            return self.low
        return max(self.low, self.newest[row[self.column]] - self.span)


@dataclass
class Punctuated(Rule):
    """Rows where `when` is true say that no later row (of the same `by`) is older than they.

    Where the group-by holds `by`, a punctuation closes its groups at once. The minimum over the
    groups, once all that are known have spoken, holds for all; the controller finds it. It stands
    when a group turns up that has said nothing.
    """

    when: str
    by: str | None = None
    own: bool = False
    said: dict[Any, float] = field(default_factory=dict)
    known: set[Any] = field(default_factory=set)
    low: float = -math.inf

    def says(self, row: Row) -> bool:
        return bool(row[self.when])

    def after(self, rows: Sequence[Row]) -> None:
        for row in rows:
            source = row[self.by] if self.by else None
            self.known.add(source)
            if self.says(row):
                self.said[source] = max(row[TIME], self.said.get(source, -math.inf))
        spoken = [self.said.get(s, -math.inf) for s in self.known]
        self.low = max(self.low, min(spoken, default=-math.inf))

    def mark(self, row: Row) -> float:
        return self.low if self.by else self.prompt(row)

    def prompt(self, row: Row) -> float:
        if self.by and not self.own:
            return -math.inf
        return self.said.get(row[self.by] if self.by else None, -math.inf)


@dataclass(frozen=True)
class Late:
    """A row that missed windows `first` to `last`."""

    row: Row
    degree: int
    first: int
    last: int
    admitted: bool


def _no_counts() -> dict[str, int]:
    names = ("in", "admitted", "late", "outside", "malformed", "partly_late")
    return dict.fromkeys(names, 0)


@dataclass
class Story:
    """All that happens to a stream. `held` is (arrival, row, the windows it entered)."""

    counts: dict[str, int] = field(default_factory=_no_counts)
    late: list[Late] = field(default_factory=list)
    malformed: list[Row] = field(default_factory=list)
    held: list[tuple[int, Row, list[int]]] = field(default_factory=list)

    def finals(
        self, keys: Sequence[str], aggregates: Mapping[str, tuple[Any, ...]]
    ) -> dict[tuple[Hashable, ...], dict[str, Any]]:
        """The result of every (window, group) that holds a row."""
        cells: dict[tuple[Hashable, ...], list[tuple[int, int, Row]]] = {}
        for arrival, row, entered in self.held:
            for w in entered:
                cells.setdefault((w, *group(row, keys)), []).append((row[TIME], arrival, row))
        out = {}
        for cell, rows in cells.items():
            ordered = [r for _, _, r in sorted(rows, key=lambda x: x[:2])]
            out[cell] = {
                name: FUNCTIONS[function]([1 if c is None else r[c] for r in ordered], *given)
                for name, (function, c, *given) in aggregates.items()
            }
        return out


def group(row: Row, keys: Sequence[str]) -> tuple[Hashable, ...]:
    """A row's group: NULL is a value, all NaN are one, and so are both zeros."""
    return tuple(normal(row[k]) for k in keys)


def normal(value: Any) -> Hashable:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((k, normal(v)) for k, v in value.items())
    if isinstance(value, list):
        return tuple(normal(v) for v in value)
    return value


def simulate(
    epochs: Iterable[Sequence[Row]],
    windows: Windows,
    rule: Rule,
    *,
    consistent: bool = False,
    max_ahead: int | None = None,
) -> Story:
    """Go through the epochs row by row.

        epoch n        data of n are admitted | the mark decided after n-1 closes windows
        after epoch n  a new mark is decided, to act in n+1

    So a row of epoch n finds closed what the mark decided after n-2 completes. In consistent mode
    a row that is behind the mark over all epochs before its own, for one window, misses all.
    """
    story = Story()
    sorted_out = _set_malformed_aside(epochs, max_ahead, story, rule)
    data = [r for rows in sorted_out for _, r in rows if not rule.says(r)]
    newest = max((r[TIME] for r in data), default=None)
    ended = copy.deepcopy(rule)
    for rows in sorted_out:
        ended.after([row for _, row in rows])
    closed, running = Slack(0), None
    for rows in sorted_out:
        decided = copy.deepcopy(rule)
        for arrival, row in rows:
            if rule.says(row):
                story.counts["in"] -= 1
                continue
            running = row[TIME] if running is None else max(running, row[TIME])
            end = max(ended.mark(row), ended.prompt(row))
            held = windows.holding(row[TIME], newest, end)
            if not held:
                story.counts["outside"] += 1
                continue
            reached = max(closed.mark(row), decided.prompt(row))
            missed = [w for w in held if windows.end(w) <= reached]
            if consistent and windows.end(held[0]) <= decided.mark(row):
                missed = held
            # On landmark windows no row is ever wholly late: later windows hold it.
            late = missed == held and windows.range is not None
            story.counts["late" if late else "admitted"] += 1
            story.counts["partly_late"] += bool(missed) and not late
            if missed:
                degree = running - row[TIME]
                story.late.append(Late(row, degree, missed[0], missed[-1], admitted=not late))
            story.held.append((arrival, row, held[len(missed) :]))
        closed = decided
        rule.after([row for _, row in rows])
    return story


def _set_malformed_aside(
    epochs: Iterable[Sequence[Row]], max_ahead: int | None, story: Story, rule: Rule
) -> list[list[tuple[int, Row]]]:
    """Number the rows and take out those without a time, or too far ahead of earlier epochs.

    The first epoch is measured from its median. An epoch of which most rows are too far ahead is
    admitted.
    """
    out, newest, arrival = [], None, 0
    for rows in epochs:
        limit = math.inf
        times = [r[TIME] for r in rows if r[TIME] is not None and not rule.says(r)]
        if max_ahead is not None and newest is not None:
            limit = newest + max_ahead
            if 2 * sum(t > limit for t in times) > len(times):
                limit = math.inf
        elif max_ahead is not None and times:
            limit = int(statistics.median(times)) + max_ahead
        kept = []
        for row in rows:
            arrival += 1
            story.counts["in"] += 1
            if row[TIME] is None or row[TIME] > limit:
                story.counts["malformed"] += 1
                story.malformed.append(row)
            else:
                kept.append((arrival, row))
        times = [r[TIME] for _, r in kept if not rule.says(r)]
        times += [] if newest is None else [newest]
        newest = max(times, default=None)
        out.append(kept)
    return out
