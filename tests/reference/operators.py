"""Operators row by row, from the definitions: how rows, marks and late rows pass through a plan.

Semantics 1 to 3 and 9 to 11, with as little cleverness as possible. Nothing here uses Lowwater.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.reference.windows import FUNCTIONS, TIME, Rule, Windows, group

Row = dict[str, Any]
START = datetime(1970, 1, 1, tzinfo=UTC)
NEVER, ENDED = -math.inf, math.inf


def tick(value: Any) -> int | None:
    """The position of a time; that of a window is its last tick."""
    if isinstance(value, dict):
        end = tick(value["end"])
        return None if end is None else end - 1
    if isinstance(value, datetime):
        return (value - START) // timedelta(microseconds=1)
    return value


# -- inputs and the ways of rows -------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """A row on its way. `degree` is known of rows from outside; `own` binds consistent slack."""

    row: Row
    degree: int | None = None
    own: float | None = None


@dataclass(eq=False)
class Input:
    """A feed with its progress policy. After its last epoch it has ended."""

    feed: Any
    rule: Rule
    consistent: bool = False
    epochs: list[list[Row]] = field(default_factory=list)
    mark: float = NEVER
    prompt: float = NEVER
    newest: int | None = None
    items: list[Item] = field(default_factory=list)
    said: int = 0

    def take(self, n: int, now: int) -> None:
        """Read an epoch; the mark after it is known, too, but acts in the next."""
        self.items, self.said, heard = [], 0, []
        own = self.mark if self.consistent else None
        for row in self.epochs[n] if n < len(self.epochs) else []:
            at = tick(row[TIME])
            if at is not None and self.rule.says(row):
                self.said += 1
            else:
                known = [t for t in (self.newest, at) if t is not None]
                self.newest = max(known, default=None)
                degree = None if at is None else self.newest - at
                self.items.append(Item(row, degree, own))
            if at is not None:
                heard.append({**row, TIME: at})
        self.rule.now = now
        self.rule.after(heard)
        self.prompt = self.rule.prompt({})
        self.mark = max(self.mark, self.rule.mark({}))
        if n >= len(self.epochs) - 1:
            self.mark = ENDED

    def marks(self) -> dict[str, float]:
        return {TIME: self.mark}


@dataclass
class Lull(Rule):
    """After that much silence the mark is newest + silence - lull."""

    inner: Rule
    idle_timeout: int
    newest: int | None = None
    heard: int | None = None
    now: int = 0

    def after(self, rows: Sequence[Any]) -> None:
        self.inner.after(rows)
        for row in rows:
            self.newest = row[TIME] if self.newest is None else max(self.newest, row[TIME])
        if rows or self.heard is None:
            self.heard = self.now

    def mark(self, row: Any) -> float:
        silence = self.now - (self.heard or 0)
        if self.newest is None or silence < self.idle_timeout:
            return self.inner.mark(row)
        return max(self.inner.mark(row), self.newest + silence - self.idle_timeout)


@dataclass(frozen=True)
class Way:
    """Rows of an input or an operator, after some steps: row -> row, or None if it is dropped."""

    origin: Any
    steps: tuple[Callable[[Row], Row | None], ...] = ()

    def after(self, item: Item) -> Iterator[Item]:
        row: Row | None = item.row
        for step in self.steps:
            row = row if row is None else step(row)
        if row is not None:
            yield replace(item, row=row)

    def items(self) -> Iterator[Item]:
        for item in self.origin.items:
            yield from self.after(item)


# -- operators -------------------------------------------------------------------------------------


@dataclass
class Port:
    """Where ways end. `mark` is in force, `next` is what acts in the epoch at work."""

    ways: Sequence[Way]
    on: Any
    mark: Any = NEVER
    next: Any = NEVER

    def decide(self) -> None:
        """Streams that flow together are as far as the slowest."""
        found = [way.origin.marks()[self.on] for way in self.ways]
        least = min(found) if not isinstance(found[0], tuple) else tuple(map(min, *found, found[0]))
        self.next = higher(self.mark, least)

    def prompted(self) -> float:
        """A punctuation in the data acts at once, where no other stream flows in."""
        origin = self.ways[0].origin
        return origin.prompt if len(self.ways) == 1 and isinstance(origin, Input) else NEVER

    def arriving(self, low: float) -> Iterator[tuple[int | None, Item]]:
        """Rows with their positions: from outside first, input by input, then results.

        Results have no order of arrival: they are late by as much as they are behind `low`, the
        mark that was decided last.
        """
        on = self.on[0] if isinstance(self.on, tuple) else self.on
        for way in sorted(self.ways, key=lambda w: not isinstance(w.origin, Input)):
            for item in way.items():
                at = tick(item.row[on])
                if item.degree is None and at is not None:
                    behind = 0 if low == NEVER else max(int(min(low, 2**62)) - at, 0)
                    yield at, replace(item, degree=behind)
                else:
                    yield at, item


def higher(a: Any, b: Any) -> Any:
    return tuple(map(max, a, b)) if isinstance(a, tuple) else max(a, b)


@dataclass(eq=False)
class Operator:
    """What all operators do: count rows, list late ones, then act on the marks."""

    ports: list[Port]
    word = ""
    name: str = ""
    items: list[Item] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    late: list[tuple[int, Row]] = field(default_factory=list)

    def run(self) -> None:
        """Run one epoch: data first, then control."""
        self.items, self.late = [], []
        came = [list(port.arriving(self.usable(port.next))) for port in self.ports]
        sound = []
        for rows in came:
            self.counts["in"] += len(rows)
            self.counts["malformed"] += sum(at is None for at, _ in rows)
            sound.append([(at, item) for at, item in rows if at is not None])
        for port in self.ports:
            port.next = higher(port.next, self._prompt(port))
        results = self.take(sound)
        for port in self.ports:
            port.mark = port.next
        self.counts["results"] += len(results)
        self.items = [Item(row) for row in results]

    def _prompt(self, port: Port) -> Any:
        return port.prompted()

    def usable(self, mark: Any) -> float:
        """What an operator can use of a mark."""
        return mark

    def take(self, came: list[list[tuple[int, Item]]]) -> list[Row]:
        """Take in the rows of each port and return the results of the epoch."""
        raise NotImplementedError

    def verdict(self, port: int, item: Item, *, late: bool, partly: bool = False, **told) -> None:
        self.counts["late" if late else "admitted"] += 1
        self.counts["partly_late"] += partly
        if late or partly:
            shown = {**item.row, "late_degree": item.degree, **told, "admitted": not late}
            self.late.append((port, shown))

    def marks(self) -> Mapping[Any, Any]:
        """The least time that a future result can have, on each of its times."""
        raise NotImplementedError

    def cells(self) -> int | None:
        """How many rows are stored; None where the definitions do not say."""
        return None


@dataclass(eq=False)
class Rows(Operator):
    """No operator: rows leave as they come."""

    word = "rows"

    def take(self, came: list[list[tuple[int, Item]]]) -> list[Row]:
        for _, item in came[0]:
            self.verdict(0, replace(item), late=False)
        return [item.row for _, item in came[0]]


@dataclass(eq=False)
class Aggregate(Operator):
    """A window aggregate; `second` are windows on a second time (OOP 7)."""

    windows: Windows = field(default_factory=lambda: Windows(1, 1))
    keys: tuple[str, ...] = ()
    named: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    second: str | None = None
    open: list[tuple[int, int, Row, set[Any]]] = field(default_factory=list)
    seen: int = 0
    word = "window"

    def __post_init__(self) -> None:
        if self.second is not None:
            self.ports[0].mark = self.ports[0].next = (NEVER,) * 4

    def _prompt(self, port: Port) -> Any:
        return (NEVER,) * 4 if self.second else port.prompted()

    def complete(self, w: Any, mark: Any) -> bool:
        """A pair of windows is complete by either mark, or by the joint one."""
        if self.second is None:
            return self.windows.end(w) <= mark
        (a, b), (first, second, joint_first, joint_second) = map(self.windows.end, w), mark
        return a <= first or b <= second or (a <= joint_first and b <= joint_second)

    def holding(self, at: int, row: Row) -> list[Any]:
        held = self.windows.holding(at, at)
        if self.second is None:
            return held
        other = tick(row[self.second])
        return [(w, v) for w in held for v in self.windows.holding(other, other)]

    def take(self, came: list[list[tuple[int, Item]]]) -> list[Row]:
        mark = self.ports[0].mark
        for at, item in came[0]:
            held = self.holding(at, item.row)
            if not held:
                self.counts["outside"] += 1
                continue
            missed = [w for w in held if self.complete(w, mark)]
            if item.own is not None and self.windows.end(held[0]) <= item.own:
                missed = held
            told = {}
            if missed:
                ends = [m[0] if self.second else m for m in (missed[0], missed[-1])]
                told["missed"] = {
                    "first": ends[0], "last": ends[1],
                    "start": self.windows.start(ends[0]), "end": self.windows.end(ends[1]),
                }  # fmt: skip
            late = missed == held
            self.verdict(0, item, late=late, partly=bool(missed) and not late, **told)
            self.seen += 1
            self.open.append((at, self.seen, item.row, set(held) - set(missed)))
        return self.close(self.ports[0].next)

    def close(self, mark: Any) -> list[Row]:
        cells: dict[Any, list[Any]] = {}
        for at, seen, row, entered in self.open:
            for w in [w for w in entered if self.complete(w, mark)]:
                entered.discard(w)
                cells.setdefault((w, group(row, self.keys)), []).append((at, seen, row))
        self.open = [kept for kept in self.open if kept[3]]
        return [self.result(w, cells[w, key]) for w, key in cells]

    def result(self, w: Any, rows: list[Any]) -> Row:
        ordered = [row for _, _, row in sorted(rows, key=lambda r: r[:2])]
        first, bounds = (w[0] if self.second else w), self.windows
        out: Row = {"window": {"start": bounds.start(first), "end": bounds.end(first)}}
        out["wid"] = first
        if self.second:
            out["window_2"] = {"start": bounds.start(w[1]), "end": bounds.end(w[1])}
        out |= {k: ordered[0][k] for k in self.keys}
        for name, (function, column) in self.named.items():
            values = [1 if column is None else row[column] for row in ordered]
            out[name] = FUNCTIONS[function](values)
        return {**out, "kind": "final"}

    def marks(self) -> dict[str, float]:
        mark = self.ports[0].next
        low = mark[0] if isinstance(mark, tuple) else mark
        if low in (NEVER, ENDED):
            return {"window": low}
        return {"window": min(e for e in self.ends(int(low)) if e > low) - 1}

    def usable(self, mark: Any) -> float:
        """Marks are rounded down to the latest window end."""
        low = mark[0] if isinstance(mark, tuple) else mark
        return low if low in (NEVER, ENDED) else max(e for e in self.ends(int(low)) if e <= low)

    def ends(self, near: int) -> list[int]:
        """Where windows end before and after a position."""
        start, w = self.windows.start(0), self.windows
        found = (near - int(start)) // w.slide
        around = w.range // w.slide + 2
        return [w.end(i) for i in range(found - around, found + around)]


@dataclass(eq=False)
class Distinct(Operator):
    """The first row of each kind. What was let through is known until mark > its time + within."""

    columns: tuple[str, ...] = ()
    within: int = 0
    known: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    word = "distinct"

    def take(self, came: list[list[tuple[int, Item]]]) -> list[Row]:
        port, passed = self.ports[0], []
        for at, item in came[0]:
            kind = group(item.row, self.columns)
            repeats = any(k == kind and abs(at - t) <= self.within for t, k in self.known)
            dead = item.own is not None and at < item.own
            if dead or (at < port.mark and not repeats):
                self.verdict(0, item, late=True)
                continue
            self.verdict(0, item, late=False)
            self.counts["duplicates"] += repeats
            if not repeats:
                passed.append(item.row)
                self.known.append((at, kind))
        self.known = [(t, k) for t, k in self.known if port.next <= t + self.within]
        return passed

    def marks(self) -> dict[str, float]:
        return {self.ports[0].on: self.ports[0].next}

    def cells(self) -> int:
        return len(self.known)


@dataclass(eq=False)
class InOrder(Operator):
    """Rows leave by (time, arrival) once the mark has passed them."""

    held: list[tuple[int, Row]] = field(default_factory=list)
    word = "order"

    def take(self, came: list[list[tuple[int, Item]]]) -> list[Row]:
        port = self.ports[0]
        for at, item in came[0]:
            late = at < port.mark or (item.own is not None and at < item.own)
            self.verdict(0, item, late=late)
            if not late:
                self.held.append((at, item.row))
        leaving = [r for r in self.held if r[0] < port.next]
        self.held = [r for r in self.held if r[0] >= port.next]
        return [row for _, row in sorted(leaving, key=lambda r: r[0])]

    def marks(self) -> dict[str, float]:
        return {self.ports[0].on: self.ports[0].next}

    def cells(self) -> int:
        return len(self.held)


@dataclass
class Stored:
    """A row of a side; one that is `settled` does not leave as unmatched."""

    at: int
    row: Row
    settled: bool


@dataclass(eq=False)
class Join(Operator):
    """other - self in [lo, hi], equal keys. Semantics 9 and 10."""

    on: tuple[str, ...] = ()
    lo: int = 0
    hi: int = 0
    how: str = "inner"
    time: str = "self"
    names: tuple[list[str], list[str]] = ((), ())
    stored: tuple[list[Stored], list[Stored]] = field(default_factory=lambda: ([], []))
    word = "join"

    @property
    def outer(self) -> tuple[bool, bool]:
        return self.how in {"left", "full", "anti"}, self.how in {"right", "full"}

    def take(self, came: list[list[tuple[int, Item]]]) -> list[Row]:
        fresh: tuple[list[Stored], list[Stored]] = ([], [])
        width = self.hi - self.lo
        for side, rows in enumerate(came):
            mark = self.ports[side].mark
            for at, item in rows:
                # A partner at the near end is gone when mark > at, one at the far end `width` on.
                late = mark > at + width or (item.own is not None and at < item.own)
                partly = not late and mark > at
                self.verdict(side, item, late=late, partly=partly)
                if not late:
                    fresh[side].append(Stored(at, item.row, partly))
        return self.pairs(fresh) + self.let_go(fresh)

    def pairs(self, fresh: tuple[list[Stored], list[Stored]]) -> list[Row]:
        found = []
        new = {id(s) for side in fresh for s in side}
        for a in self.stored[0] + fresh[0]:
            for b in self.stored[1] + fresh[1]:
                near = self.lo <= b.at - a.at <= self.hi
                keys = [(a.row[k], b.row[k]) for k in self.on]
                equal = all(x is not None and x == y for x, y in keys)
                if near and equal and (id(a) in new or id(b) in new):
                    a.settled = b.settled = True
                    if self.how != "anti":
                        found.append(self.result(a.row, b.row))
        return found

    def let_go(self, fresh: tuple[list[Stored], list[Stored]]) -> list[Row]:
        found = []
        for side, reach in ((0, self.hi), (1, -self.lo)):
            kept = []
            for s in self.stored[side] + fresh[side]:
                if self.ports[1 - side].next > s.at + reach:
                    if self.outer[side] and not s.settled:
                        found.append(self.result(*((s.row, None) if side == 0 else (None, s.row))))
                elif self.needed(side, s, is_new=s in fresh[side]):
                    kept.append(s)
            self.stored[side][:] = kept
        return found

    def needed(self, side: int, s: Stored, *, is_new: bool) -> bool:
        """Rows that could do nothing any more are not stored in the first place."""
        waits = self.outer[side] and not s.settled
        if not is_new or waits:
            return True
        gives_pairs = self.how != "anti" or side == 1
        return gives_pairs and all(s.row[k] is not None for k in self.on)

    def result(self, a: Row | None, b: Row | None) -> Row:
        if self.how == "anti":
            return dict(a or {})
        mine, theirs = self.names
        out = {n: a[n] if a else b[n] if b and n in self.on else None for n in mine}
        for n in theirs:
            if n not in self.on:
                out[self.renamed(n)] = b[n] if b else None
        if self.time in {"min", "max"}:
            at = [tick(r[p.on]) for r, p in zip((a, b), self.ports, strict=True) if r]
            out[f"time_{self.time}"] = (min if self.time == "min" else max)(at)
        return out

    def renamed(self, name: str) -> str:
        """A column of other whose name self has gets a suffix until no column has it."""
        mine, theirs = self.names
        shown = name
        while shown in mine or (shown != name and shown in theirs):
            shown += "_other"
        return shown

    def marks(self) -> dict[Any, Any]:
        mine, other = (p.next for p in self.ports)
        if NEVER in (mine, other):
            on_self = on_other = latest = NEVER
        else:
            on_self, on_other = min(mine, other - self.hi), min(other, mine + self.lo)
            latest = min(max(mine, mine + self.lo), max(other, other - self.hi))
        latest = min(
            [latest, *(m for m, o in zip((on_self, on_other), self.outer, strict=True) if o)]
        )
        first = self.ports[0].on
        second = self.renamed(self.ports[1].on)
        joint = (mine, other) if NEVER not in (mine, other) else (NEVER, NEVER)
        return {
            first: on_self,
            second: on_other,
            "time_min": min(on_self, on_other),
            "time_max": latest,
            (first, second): (on_self, on_other, *joint),
            (second, first): (on_other, on_self, *reversed(joint)),
        }

    def cells(self) -> int:
        return sum(map(len, self.stored))
