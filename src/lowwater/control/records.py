"""Control records: what policies say and operators obey."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, TypeAlias

from lowwater.control.arrived import Arrived
from lowwater.control.dropped import Dropped
from lowwater.control.intervals import Stretches, common, joined, without
from lowwater.control.prods import Prod
from lowwater.control.sidelined import Sidelined

Source: TypeAlias = str | int | bool | None
"""The value of a source column: what `per_source` and group-wise punctuation tell apart."""
_BEGINNING = -(2**63)
"""Before all time."""


@dataclass(frozen=True)
class Pair:
    """How far the second of two times is, where results progress on both (OOP 7).

    `second` holds for all rows: their second time is not before it. `joint` holds for both times
    together: no later row has its first time before the one *and* its second before the other.
    """

    second: int
    joint: tuple[int, int]

    def mapped(self, change: Callable[[int], int]) -> Pair:
        """Return the same with each mark changed."""
        return Pair(change(self.second), (change(self.joint[0]), change(self.joint[1])))

    def with_other(self, other: Pair, choose: Callable[[int, int], int]) -> Pair:
        """Return one of both, mark by mark."""
        (a, b), (c, d) = self.joint, other.joint
        return Pair(choose(self.second, other.second), (choose(a, c), choose(b, d)))


@dataclass(frozen=True)
class Marks:
    """Low-water marks: every later row has time ≥ its mark (semantics 1).

    `low` holds for all rows. Beyond it, `sources` may have higher ones for single sources, and
    `ranges` are stretches in which no row will come although some before them may. `pair` goes with
    results that progress on two times. `nominal` is how far the stream itself is, where rows of it
    are put aside: what is late goes by it.
    """

    low: int | None = None
    sources: dict[Source, int] = field(default_factory=dict)
    ranges: Stretches = ()
    pair: Pair | None = None
    nominal: int | None = None

    def of(self, source: Source) -> int | None:
        """Return the mark of one source."""
        own = self.sources.get(source)
        if own is None or self.low is None:
            return self.low if own is None else own
        return max(own, self.low)

    def raised(self, other: Marks) -> Marks:
        """Return the higher of both, mark by mark. Marks never fall."""
        sources = dict(self.sources)
        for source, mark in other.sources.items():
            sources[source] = max(mark, sources.get(source, mark))
        pairs = [p for p in (self.pair, other.pair) if p is not None]
        pair = pairs[0].with_other(pairs[-1], max) if pairs else None
        ranges = joined([*self.ranges, *other.ranges])
        low, nominal = _higher(self.low, other.low), _higher(self.nominal, other.nominal)
        return Marks(low, sources, ranges, pair, nominal).settled()

    @classmethod
    def least(cls, several: Sequence[Marks]) -> Marks:
        """Return the marks of streams that flow together: what holds for all (OOP A.2.1)."""
        found = several[0]
        for other in several[1:]:
            found = found.lowered(other)
        return found

    def lowered(self, other: Marks) -> Marks:
        """Return the lower of both, mark by mark."""
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        sources = {}
        for source in dict.fromkeys((*self.sources, *other.sources)):
            mine, theirs = self.of(source), other.of(source)
            if mine is not None and theirs is not None:
                sources[source] = min(mine, theirs)
        ranges = common(self.complete, other.complete)
        both = self.pair is not None and other.pair is not None
        pair = self.pair.with_other(other.pair, min) if both else None  # type: ignore[union-attr,arg-type]
        return Marks(low, sources, ranges, pair).settled()

    @property
    def complete(self) -> Stretches:
        """All stretches in which no row will come."""
        return self.ranges if self.low is None else joined([(_BEGINNING, self.low), *self.ranges])

    def holding_back(self, held: Iterable[Sidelined]) -> Marks:
        """Return the marks as they are while rows of some stretches are put aside."""
        low = self.low
        if low is None:
            return self
        aside = tuple((s.start, s.end) for s in held)
        first, *rest = without(self.complete, aside)
        return replace(self, low=first[1], ranges=tuple(rest), nominal=low)

    def settled(self) -> Marks:
        """Return the same without ranges that the mark has reached: they are part of it."""
        if self.low is None or not self.ranges:
            return self
        first, *rest = joined([(_BEGINNING, self.low), *self.ranges])
        return replace(self, low=first[1], ranges=tuple(rest))

    def mapped(self, change: Callable[[int], int]) -> Marks:
        """Return the marks, each of them changed; ranges stay as they are."""
        low = None if self.low is None else change(self.low)
        sources = {s: change(m) for s, m in self.sources.items()}
        pair = None if self.pair is None else self.pair.mapped(change)
        return Marks(low, sources, self.ranges, pair)

    def only_above(self) -> Marks:
        """Return the marks without those of sources that the common mark has passed."""
        low = self.low
        if low is None:
            return self
        return replace(self, sources={s: m for s, m in self.sources.items() if m > low})

    def news(self, before: Marks) -> Marks:
        """Return what has risen since."""
        sources = {s: m for s, m in self.sources.items() if m != before.of(s) and m == self.of(s)}
        return Marks(
            self.low if self.low != before.low else None,
            sources,
            self.ranges if self.ranges != before.ranges else (),
            self.pair if self.pair != before.pair else None,
            self.nominal if self.nominal != before.nominal else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the marks as JSON."""
        kept: dict[str, Any] = {
            "low": self.low,
            "sources": [[s, m] for s, m in self.sources.items()],
        }
        if self.ranges:
            kept["ranges"] = self.ranges
        if self.pair is not None:
            kept["pair"] = [self.pair.second, self.pair.joint]
        if self.nominal is not None:
            kept["nominal"] = self.nominal
        return kept

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Marks:
        """Read what `to_json` wrote."""
        pair = kept.get("pair")
        return cls(
            kept["low"],
            {s: m for s, m in kept["sources"]},  # noqa: C416
            tuple((a, b) for a, b in kept.get("ranges", ())),
            None if pair is None else Pair(pair[0], (pair[1][0], pair[1][1])),
            kept.get("nominal"),
        )


def _higher(one: int | None, other: int | None) -> int | None:
    return max((m for m in (one, other) if m is not None), default=None)


@dataclass(frozen=True)
class Control:
    """All that the controller tells a port of an operator in one epoch: punctuation, and prods.

    Prods are answered as if the marks `as_if` were in force. `arrived` says which share of the
    rows is expected to be there by then, where answers are to make up for the others. `release`
    says how many rows that were put aside each shard is to work off.
    """

    marks: Marks = field(default_factory=Marks)
    prods: tuple[Prod, ...] = ()
    as_if: Marks = field(default_factory=Marks)
    arrived: Arrived | None = None
    release: Mapping[int, int] = field(default_factory=dict)

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to do."""
        return self.marks == Marks() and not self.prods and not self.release

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON."""
        told: dict[str, Any] = {"marks": self.marks.to_json()}
        if self.prods:
            told["prods"] = [p.to_json() for p in self.prods]
            told["as_if"] = self.as_if.to_json()
            told["arrived"] = None if self.arrived is None else self.arrived.to_json()
        if self.release:
            told["release"] = list(self.release.items())
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Control:
        """Read what `to_json` wrote."""
        marks = Marks.from_json(told["marks"])
        release = dict(told.get("release", ()))
        if "prods" not in told:
            return cls(marks, release=release)
        prods = tuple(Prod.from_json(p) for p in told["prods"])
        arrived = told["arrived"] and Arrived.from_json(told["arrived"])
        return cls(marks, prods, Marks.from_json(told["as_if"]), arrived, release)

    def to_bytes(self) -> bytes:
        """Return the record as a packet's payload."""
        return json.dumps(self.to_json()).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Control:
        """Read what `to_bytes` wrote."""
        return cls.from_json(json.loads(payload))

    @classmethod
    def together(cls, records: Iterable[Control]) -> Control:
        """Return the punctuation of all records."""
        marks = Marks()
        for record in records:
            marks = marks.raised(record.marks)
        return cls(marks)


@dataclass(frozen=True)
class Reached:
    """How far an input has come: the marks its policy has given and its newest admitted time."""

    marks: Marks = field(default_factory=Marks)
    newest: int | None = None
    ended: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"marks": self.marks.to_json(), "newest": self.newest, "ended": self.ended}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Reached:
        """Read what `to_json` wrote."""
        return cls(Marks.from_json(kept["marks"]), kept["newest"], kept["ended"])


@dataclass(frozen=True)
class Standing:
    """What is known of progress when an epoch begins, pinned by the control log (semantics 6).

    `ports` are the marks in force at the ports of all operators: which rows may be late is decided
    by them. `wall` is the wall clock that `max_ahead` may count from. `held` are the stretches of
    time whose rows are put aside, `dropped` says which windows are left out.
    """

    inputs: tuple[Reached, ...] = ()
    ports: tuple[Marks, ...] = ()
    wall: int | None = None
    held: tuple[Sidelined, ...] = ()
    dropped: Dropped = field(default_factory=Dropped)

    def to_json(self) -> dict[str, Any]:
        """Return the standing as JSON."""
        shed = {"dropped": self.dropped.to_json()} if self.dropped else {}
        return {
            "inputs": [i.to_json() for i in self.inputs],
            "ports": [p.to_json() for p in self.ports],
            "wall": self.wall,
            "held": [astuple(h) for h in self.held],
            **shed,
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Standing:
        """Read what `to_json` wrote."""
        return cls(
            tuple(Reached.from_json(i) for i in kept["inputs"]),
            tuple(Marks.from_json(p) for p in kept["ports"]),
            kept["wall"],
            tuple(Sidelined(*h) for h in kept.get("held", ())),
            Dropped.from_json(kept.get("dropped", ((), ()))),
        )


@dataclass(frozen=True)
class Seen:
    """What an epoch showed of a stream's progress; `out` is the mark in force before it.

    `slack` is what was chosen for it, where slack is chosen at run time, `slacks` what was chosen
    for single sources.
    """

    rows: int = 0
    newest: int | None = None
    sources: Mapping[Source, int] = field(default_factory=dict)
    tails: tuple[tuple[int, list[int], list[int]], ...] = ()
    marks: Marks = field(default_factory=Marks)
    out: int | None = None
    slack: int = 0
    slacks: Mapping[Source, int] = field(default_factory=dict)
