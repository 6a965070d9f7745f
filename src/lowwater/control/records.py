"""Control records: what policies say and operators obey."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Source: TypeAlias = str | int | bool | None
"""The value of a source column: what `per_source` and group-wise punctuation tell apart."""


@dataclass(frozen=True)
class Marks:
    """Low-water marks: every later row has time ≥ its mark (semantics 1).

    `low` holds for all rows; `sources` may add higher ones for single sources.
    """

    low: int | None = None
    sources: dict[Source, int] = field(default_factory=dict)

    def of(self, source: Source) -> int | None:
        """Return the mark of one source."""
        own = self.sources.get(source)
        if own is None or self.low is None:
            return self.low if own is None else own
        return max(own, self.low)

    def raised(self, other: Marks) -> Marks:
        """Return the higher of both, mark by mark. Marks never fall."""
        lows = [m for m in (self.low, other.low) if m is not None]
        sources = dict(self.sources)
        for source, mark in other.sources.items():
            sources[source] = max(mark, sources.get(source, mark))
        return Marks(max(lows, default=None), sources)

    @classmethod
    def least(cls, several: Sequence[Marks]) -> Marks:
        """Return the marks of streams that flow together: what holds for all (OOP A.2.1)."""
        if len(several) == 1:
            return several[0]
        lows = [m.low for m in several]
        low = None if None in lows else min(m for m in lows if m is not None)
        sources = {}
        for source in dict.fromkeys(s for m in several for s in m.sources):
            own = [m.of(source) for m in several]
            if None not in own:
                sources[source] = min(m for m in own if m is not None)
        return cls(low, sources)

    def mapped(self, change: Callable[[int], int]) -> Marks:
        """Return the marks, each of them changed."""
        low = None if self.low is None else change(self.low)
        return Marks(low, {s: change(m) for s, m in self.sources.items()})

    def only_above(self) -> Marks:
        """Return the marks without those of sources that the common mark has passed."""
        low = self.low
        if low is None:
            return self
        return Marks(low, {s: m for s, m in self.sources.items() if m > low})

    def to_json(self) -> dict[str, Any]:
        """Return the marks as JSON."""
        return {"low": self.low, "sources": [[s, m] for s, m in self.sources.items()]}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Marks:
        """Read what `to_json` wrote."""
        return cls(kept["low"], {s: m for s, m in kept["sources"]})  # noqa: C416


@dataclass(frozen=True)
class Control:
    """All that the controller tells a port of an operator in one epoch: today, punctuation."""

    marks: Marks = field(default_factory=Marks)

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to do."""
        return self.marks == Marks()

    def to_bytes(self) -> bytes:
        """Return the record as a packet's payload."""
        return json.dumps({"marks": self.marks.to_json()}).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Control:
        """Read what `to_bytes` wrote."""
        return cls(Marks.from_json(json.loads(payload)["marks"]))

    @classmethod
    def together(cls, records: Iterable[Control]) -> Control:
        """Return one record that says what all say."""
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
    by them. `wall` is the wall clock that `max_ahead` may count from.
    """

    inputs: tuple[Reached, ...] = ()
    ports: tuple[Marks, ...] = ()
    wall: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the standing as JSON."""
        return {
            "inputs": [i.to_json() for i in self.inputs],
            "ports": [p.to_json() for p in self.ports],
            "wall": self.wall,
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Standing:
        """Read what `to_json` wrote."""
        return cls(
            tuple(Reached.from_json(i) for i in kept["inputs"]),
            tuple(Marks.from_json(p) for p in kept["ports"]),
            kept["wall"],
        )


@dataclass(frozen=True)
class Seen:
    """What an epoch showed of a stream's progress; `out` is the mark in force before it."""

    rows: int = 0
    newest: int | None = None
    sources: Mapping[Source, int] = field(default_factory=dict)
    tails: tuple[tuple[int, list[int], list[int]], ...] = ()
    marks: Marks = field(default_factory=Marks)
    out: int | None = None
