"""The cells of the table of compatible features: a query for each, and its results by brute force.

Rows carry `t` in seconds. No row is late, so a feature must not change the finals of a window.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pyarrow.compute as pc

import lowwater as lw
from lowwater.planner import compatibility as table
from lowwater.planner import labels as known
from tests.reference.row_windows import Came, every_row, multiples, numbered, slide_by_row
from tests.reference.windows import Windows

SCHEMA = "ts timestamp, t bigint, g string, v bigint, m boolean, s timestamp"
SECOND = 1_000_000
Key = tuple[Any, ...]
Finals = dict[Key, Any]

_TIMES = (0, 3, 1, 4, 6, 5, 9, 8, 12, 11, 14, 13, 17, 19, 18, 22, 24, 23, 29, 31, 30, 38, 41, 40)
WATERMARKS = ("since", "by", "per_source", "consistent", "quality share", "quality error")
EARLY = ("early_every", "early_before", "early accuracy", "early_on_demand", "estimate raw")
ON_WINDOWS = ("allowed_lateness", "flush", "partition_by")
DROPS = {
    "shed": {},
    "shed fill": {"fill": "linear"},
    "fair_by": {"fair_by": "g"},
    "sampled": {"kind": "sampled"},
}


def at(seconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def rows(*, ordered: bool = False) -> list[dict[str, Any]]:
    """Rows in order of arrival, at most 3 seconds out of order."""
    times = sorted(_TIMES) if ordered else _TIMES
    return [{"t": t, "g": "ab"[n % 2], "v": n * 7 % 11} for n, t in enumerate(times)]


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    return (at(row["t"]), row["t"], row["g"], row["v"], False, None)


def epochs_of(features: Iterable[str], times: int = 6) -> list[list[tuple[Any, ...]]]:
    """The epochs of a feed, with the punctuations that its watermark needs."""
    ordered = any(f.startswith("quality") for f in features)
    given = rows(ordered=ordered)
    cut = [given[n : n + times] for n in range(0, len(given), times)]
    epochs = [[_row(row) for row in epoch] for epoch in cut]
    if "since" in features:
        whole = [_row(row) for row in given]
        far = [row for row in whole if row[1] >= 20]
        near = [row for row in whole if row[1] < 20]
        # The later interval is complete first.
        return [
            [*far, (at(60), 60, "a", 0, True, at(20))],
            near,
            [(at(20), 20, "a", 0, True, None)],
        ]
    if "by" in features:
        for n, epoch in enumerate(cut):
            least = min((row["t"] for later in cut[n + 1 :] for row in later), default=42)
            epochs[n] += [(at(least), least, g, 0, True, None) for g in "ab" if epoch]
    return epochs


# -- aggregates ----------------------------------------------------------------------------------


def aggregate(kind: str) -> Any:
    return {
        "decomposable": lambda: lw.sum("v"),
        "holistic": lambda: lw.median("v"),
        "sketch": lambda: lw.count_distinct("v", sketch=True),
        "lift": lambda: lw.aggregate(
            "v", lift=int, combine=lambda a, b: a + b, lower=int, returns="bigint"
        ),
        "init": lambda: lw.aggregate(
            "v", init=int, incr=lambda a, b: a + b, final=int, returns="bigint"
        ),
    }[kind]()


VALUES: dict[str, Callable[[list[int]], Any]] = {
    "decomposable": sum,
    "holistic": lambda values: float(statistics.median(values)),
    "sketch": lambda values: len(set(values)),
    "lift": sum,
    "init": sum,
}


# -- windows -------------------------------------------------------------------------------------

WINDOWS: dict[str, Callable[[], dict[str, Any]]] = {
    "tumbling": lambda: {"range": "10 seconds"},
    "sliding": lambda: {"range": "10 seconds", "slide": "5 seconds"},
    "gaps": lambda: {"range": "5 seconds", "slide": "10 seconds"},
    "named": lambda: {
        "several": lw.windows(x=("10 seconds", "5 seconds"), y=("5 seconds", "5 seconds"))
    },
    "landmark": lambda: {"range": lw.unbounded, "slide": "10 seconds"},
    "arrival": lambda: {"range": lw.rows(4)},
    "rank": lambda: {"range": lw.rows(4), "on": lw.rank("ts")},
    "row": lambda: {"range": "5 seconds", "slide": lw.rows(1)},
    "slide_on": lambda: {"range": "5 seconds", "slide": 3, "slide_on": "t"},
    "session": lambda: {"gap": "4 seconds"},
    "both times": lambda: {"range": "10 seconds", "on": ("ts", "ts_other")},
}
_LAID_OUT = {
    "tumbling": Windows(10, 10),
    "sliding": Windows(10, 5),
    "gaps": Windows(5, 10),
    "landmark": Windows(None, 10),
}


def expected(window: str, kind: str, features: Iterable[str]) -> Finals:  # noqa: C901
    """The finals of a window aggregate by group, from the definitions."""
    given = rows(ordered=any(f.startswith("quality") for f in features))
    partition = ("g",) if "partition_by" in features else ()
    if "since" in features:  # they arrive in another order
        given = [r for r in given if r["t"] >= 20] + [r for r in given if r["t"] < 20]
    came = [Came(row, n, float("-inf")) for n, row in enumerate(given, 1)]
    cells: dict[Key, list[int]] = {}
    if window in _LAID_OUT:
        _put(cells, given, _LAID_OUT[window])
    elif window == "named":
        _put(cells, given, Windows(10, 5), "x")
        _put(cells, given, Windows(5, 5), "y")
    elif window == "both times":
        for a in given:
            for b in given:
                if a["g"] == b["g"] and abs(b["t"] - a["t"]) <= 2:
                    key = (a["t"] // 10, b["t"] // 10 * 10 * SECOND, a["g"])
                    cells.setdefault(key, []).append(a["v"])
    elif window == "session":
        for g in "ab":
            start = last = None
            for row in sorted((r for r in given if r["g"] == g), key=lambda r: r["t"]):
                start = row["t"] if last is None or row["t"] - last >= 4 else start
                last = row["t"]
                cells.setdefault((start * SECOND, g), []).append(row["v"])
    elif window in ("arrival", "rank"):
        found = numbered(came, 4, 4, ("g",), partition, by_rank=window == "rank")
        cells = {key: [r.row["v"] for r in members] for key, members in found.items()}
    else:
        ends = every_row if window == "row" else multiples("t", 3)
        found = slide_by_row(came, 5, ends, ("g",), partition)
        cells = {(w * SECOND, g): [r.row["v"] for r in rs] for (w, g), rs in found.items()}
    return {key: VALUES[kind](values) for key, values in cells.items()}


def _put(
    cells: dict[Key, list[int]], given: list[dict[str, Any]], lies: Windows, *name: str
) -> None:
    newest = max(row["t"] for row in given)
    for row in given:
        for wid in lies.holding(row["t"], newest):
            cells.setdefault((wid, *name, row["g"]), []).append(row["v"])


def finals(results: Any) -> Finals:
    """The finals of a run, by window and group."""
    found: Finals = {}
    for row in results.to_pylist():
        if row["kind"] != "final":
            continue
        named = (row["window_name"],) if "window_name" in row else ()
        second = (_ticks(row["window_2"]["start"]),) if "window_2" in row else ()
        key = (row["wid"], *named, *second, row["g"])
        assert key not in found, f"{key} is final twice"
        found[key] = row["x"]
    return found


def _ticks(time: datetime) -> int:
    return round((time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * SECOND)


# -- cells ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """Features of a query with one kind of window and of aggregate, perhaps over an operator."""

    features: tuple[str, ...]
    window: str = "tumbling"
    aggregate: str = "decomposable"
    operator: str | None = None
    feeds: list[Any] = field(default_factory=list, compare=False)
    shared: dict[str, Any] | None = field(default=None, compare=False)
    """Feeds that several cells read, by their epochs; None if each cell has its own."""

    def __str__(self) -> str:
        words = [*self.features, self.operator or "", self.window, self.aggregate]
        return " × ".join(filter(None, words))

    @property
    def labels(self) -> set[str]:
        found = {self.window, self.aggregate, *self.features}
        found |= {"by"} if "per_source" in self.features else set()
        found |= {self.operator} if self.operator else set()
        below = {"since", "sideline", "quality error"} & set(self.features)
        return found | ({"join"} if self.window == "both times" and below else set())

    @property
    def rules(self) -> list[table.Rule]:
        """The rules of the table that refuse the cell."""
        asked = {*self.features, self.window}
        asked |= {base for one, base in table.KINDS.items() if one in self.features}
        return [
            r for r in table.RULES if r.feature in asked and not {*r.labels}.isdisjoint(self.labels)
        ]

    # -- the query

    def watermark(self) -> Any:
        chosen = {
            "since": lambda: lw.punctuated("m", since="s"),
            "by": lambda: lw.punctuated("m", by="g"),
            "per_source": lambda: lw.per_source("g", lw.slack("4 seconds")),
            "consistent": lambda: lw.slack("4 seconds", mode="consistent"),
            "quality share": lambda: lw.quality(0.95),
            "quality error": lambda: lw.quality(error=0.1),
        }
        named = [f for f in self.features if f in chosen]
        return chosen[named[0]]() if named else lw.slack("4 seconds")

    def stream(self) -> lw.Stream:
        feed = self.feed()
        self.feeds.append(feed)
        return lw.stream(feed, time="ts", watermark=self.watermark())

    def feed(self) -> Any:
        """A feed, or the one that all cells with these epochs read."""
        if self.shared is None:
            return lw.feed(SCHEMA)
        special = [f for f in self.features if f in ("since", "by") or f.startswith("quality")]
        return self.shared.setdefault("".join(special), lw.feed(SCHEMA))

    def query(self) -> lw.Stream:
        """Build the query; the table's error comes from here or from `run`."""
        below = self._below(self.stream())
        if self.operator == "rows":
            return below
        if self.operator in ("second level", "order over results"):
            lower = self._windows(below, {"range": "5 seconds"})
            if self.operator == "order over results":
                return lower.order()
            return lower.window(range="10 seconds").group_by("g").agg(x=lw.sum("x"))
        return self._windows(below, WINDOWS[self.window]())

    def _below(self, stream: lw.Stream) -> lw.Stream:
        joins = {"join": {}, "outer join": {"how": "left"}, "ordered join": {"order": "time"}}
        if self.operator in joins or self.window == "both times":
            words = dict(joins.get(self.operator or "join", {}))
            if self.operator == "ordered join" and "flush" in self.features:
                words["flush"] = lw.slow_flush(max_delay="2 seconds")
            return stream.join(self.stream(), on="g", band=("-2 seconds", "2 seconds"), **words)
        if self.operator == "distinct":
            return stream.distinct()
        if self.operator == "distinct within":
            return stream.distinct("t", "g", within="1 second")
        return stream.order() if self.operator == "order" else stream

    def _windows(self, stream: lw.Stream, words: dict[str, Any]) -> lw.Query:
        words = dict(words)
        several = words.pop("several", None)
        if "allowed_lateness" in self.features:
            words["allowed_lateness"] = "20 seconds"
        if "flush" in self.features:
            words["flush"] = lw.slow_flush(max_delay="2 windows")
        parted = "partition_by" in self.features
        if parted:
            words["partition_by"] = "g"
        windowed = stream.window(several, **words)
        return (windowed if parted else windowed.group_by("g")).agg(x=aggregate(self.aggregate))

    def options(self) -> dict[str, Any]:
        """The options of a run."""
        early = {
            "early_every": lambda: lw.early_every("1 second"),
            "early_before": lambda: lw.early_before(0.5),
            "early accuracy": lambda: lw.early_before(accuracy=0.9),
            "early_on_demand": lw.early_on_demand,
            "estimate raw": lambda: lw.early_every("1 second"),
            "sideline": lambda: lw.early_every("1 second"),
        }
        named = [early[f]() for f in self.features if f in early]
        options: dict[str, Any] = {"early": named or None}
        if "need" in self.features:
            options["need"] = lw.need(fresh="20 seconds", right=0.5, gives=("exact", "right"))
        if "estimate raw" in self.features:
            options["estimate"] = "raw"
        if "sideline" in self.features:
            options["sideline"] = True
        for feature, words in DROPS.items():
            if feature in self.features:
                options["shed"] = lw.shed(share=0.4, max_gap=10, **words)
        return options

    def epochs(self, times: int = 6) -> dict[Any, Any]:
        """The epochs of the cell's feeds, `times` rows in each."""
        return {feed: epochs_of(self.features, times) for feed in self.feeds}

    def expected(self) -> Finals:
        """The finals by brute force."""
        given = rows(ordered=any(f.startswith("quality") for f in self.features))
        if self.operator in ("join", "outer join", "ordered join"):
            pairs = [
                (max(a["t"], b["t"]) if self.operator == "ordered join" else a["t"], a)
                for a in given
                for b in given
                if a["g"] == b["g"] and abs(a["t"] - b["t"]) <= 2
            ]
            found: dict[Key, int] = {}
            for t, row in pairs:
                found[t // 10, row["g"]] = found.get((t // 10, row["g"]), 0) + row["v"]
            return found
        return expected(self.window, self.aggregate, self.features)

    def check(self, results: Any, dropped: Any = None) -> None:
        """Compare the finals of a run with the oracle's; dropped windows have none."""
        if self.operator in ("rows", "order over results"):
            assert len(results)
            return
        found, right = finals(results), self.expected()
        if "sampled" in self.features:  # where all rows were read, the value is exact
            exact = finals(results.filter(pc.equal(results["sampled"], 1.0)))
            assert found.keys() <= right.keys(), str(self)
            assert exact == {key: right[key] for key in exact}, str(self)
            return
        if set(self.features) & set(DROPS):
            gone = {row["wid"] for row in dropped.to_pylist()}
            right = {
                key: value for key, value in right.items() if key in found or key[0] not in gone
            }
        assert found == right, str(self)


def _exclusive(one: str, other: str) -> bool:
    """Whether two features cannot be written together: a stream has one watermark policy."""
    return any(one in group and other in group for group in (WATERMARKS, DROPS))


def cells() -> Iterator[Cell]:
    """Every cell of the table that can be written."""
    for feature in known.FEATURES:
        for window in known.WINDOWS:
            for kind in known.AGGREGATES:
                yield Cell((feature,), window, kind)
        for operator in known.OPERATORS:
            if operator != "rows" or feature not in ON_WINDOWS:
                yield Cell((feature,), operator=operator)
    for one, other in combinations(known.FEATURES, 2):
        if not _exclusive(one, other):
            yield Cell((one, other))
