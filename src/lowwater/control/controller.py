"""The controller: after every epoch it learns what the epoch showed and writes down what follows.

It decides from the entry of the epoch before and from the epoch's measurements, from nothing else;
so an epoch that is run again after a crash is decided the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lowwater.control.log import ControlLog, Entry
from lowwater.control.records import Control, Marks, Seen, Source, Standing
from lowwater.errors import HostError

ACCOUNTS = ("admitted", "late", "outside", "malformed", "shed", "sidelined")
"""Where a row can have gone; their sum is the number of rows that came in (semantics 3)."""
TALLIES = ("in", *ACCOUNTS, "partly_late", "punctuations", "contradicted", "results")


class ProgressTracker(Protocol):
    """What the controller asks of a progress policy."""

    mark_when: str | None

    def begin(self) -> dict[str, Any]:
        """Return the memory of a stream that has not begun."""

    def advance(
        self, memory: Mapping[str, Any], seen: Seen, now: int
    ) -> tuple[dict[str, Any], Marks]:
        """Return the new memory and the marks after an epoch."""


@dataclass(frozen=True)
class Pace:
    """How marks become punctuations that a query can use.

    `align` rounds a mark down to where it closes a window: anything finer is not sent. `final`
    gives, from the newest time, the mark that ends the stream. Where windows may end anywhere, the
    clock alone moves a mark only by `grain`, and only while something is open.
    """

    align: Callable[[int], int]
    final: Callable[[int | None], int]
    by_source: bool = False
    wall: bool = False
    grain: int = 0


class Controller:
    """Turns the measurements of epochs into entries of the control log."""

    def __init__(self, log: ControlLog, tracker: ProgressTracker, pace: Pace) -> None:
        self.log, self.tracker, self.pace = log, tracker, pace

    def begin(self, now: int) -> None:
        """Open the log of a stream that has not begun."""
        self.log.begin(now if self.pace.wall else None)

    def decide(
        self,
        epoch: int,
        measures: Iterable[Mapping[str, Any]],
        now: int,
        *,
        ending: bool = False,
        taken: Any = None,
    ) -> Entry:
        """Write the entry of an epoch, or return the one that stands."""
        standing = self.log.read(epoch)
        if standing is not None:
            return standing
        before = self.log.before(epoch)
        measured = list(measures)
        seen = seen_in(measured, before)
        memory, raw = self.tracker.advance(before.memory or self.tracker.begin(), seen, now)
        newest = _latest(before.standing.newest, seen.newest)
        ending = ending or before.ended or any(m.get("last") for m in measured)
        marks = before.standing.marks.raised(self._punctuations(raw))
        if not seen.rows and seen.marks == Marks() and not self._worth_it(before, marks):
            marks = before.standing.marks
        if ending:
            marks = marks.raised(Marks(self.pace.final(newest)))
        entry = Entry(
            epoch,
            Control(_risen(before.standing.marks, marks)),
            Standing(marks.only_above(), newest, now if self.pace.wall else None),
            memory,
            self._totals(before, measured),
            ended=ending,
            taken=taken,
        )
        return self.log.append(entry)

    def foresee(self, entry: Entry, measures: Iterable[Mapping[str, Any]], now: int) -> Entry:
        """Return `entry` as it would be if some blocks more had been an epoch of their own.

        What decides over the next block then does not depend on how blocks are cut into epochs.
        """
        memory, raw = self.tracker.advance(
            entry.memory or self.tracker.begin(), seen_in(measures, entry), now
        )
        marks = entry.standing.marks.raised(self._punctuations(raw)).only_above()
        return replace(entry, memory=memory, standing=replace(entry.standing, marks=marks))

    def due(self, entry: Entry, now: int) -> bool:
        """Say whether, after `entry`, the wall clock alone would close a window."""
        if entry.ended or not _something_open(entry):
            return False
        _, raw = self.tracker.advance(entry.memory, seen_in((), entry), now)
        marks = entry.standing.marks.raised(self._punctuations(raw))
        return self._worth_it(entry, marks) and _risen(entry.standing.marks, marks) != Marks()

    def _worth_it(self, before: Entry, marks: Marks) -> bool:
        """Say whether marks that no row has moved may be sent."""
        if not self.pace.grain:
            return True
        low, moved = before.standing.marks.low, marks.low
        far = moved is not None and (low is None or moved - low >= self.pace.grain)
        return _something_open(before) and (far or marks.sources != before.standing.marks.sources)

    def _punctuations(self, raw: Marks) -> Marks:
        low = None if raw.low is None else self.pace.align(raw.low)
        if not self.pace.by_source:
            return Marks(low)
        return Marks(low, {s: self.pace.align(m) for s, m in raw.sources.items()})

    def _totals(self, before: Entry, measured: list[Mapping[str, Any]]) -> dict[str, Any]:
        fresh = {t: sum(m.get(t, 0) for m in measured) for t in TALLIES}
        if self.tracker.mark_when is not None:
            fresh["contradicted"] = fresh["late"] + fresh["partly_late"]
        found = sum(fresh[a] for a in ACCOUNTS)
        if found != fresh["in"]:
            raise HostError(
                f"rows do not balance after epoch {before.epoch + 1}: {fresh['in']} came in, "
                f"{found} are accounted for ({', '.join(f'{a} {fresh[a]}' for a in ACCOUNTS)})"
            )
        totals = {t: before.totals.get(t, 0) + n for t, n in fresh.items()}
        shards = dict(before.totals.get("shards", {}))
        for m in measured:
            if "shard" in m:
                _, _, rows = shards.get(str(m["shard"]), (0, 0, 0))
                shards[str(m["shard"])] = m["cells"], m["bytes"], rows + m["admitted"] + m["late"]
        return {**totals, "shards": shards}


def seen_in(measured: Iterable[Mapping[str, Any]], before: Entry) -> Seen:
    """Bring together what the blocks of an epoch showed, in arrival order."""
    rows, newest, marks = 0, None, Marks()
    sources: dict[Source, int] = {}
    tails = []
    for m in measured:
        rows += m.get("in", 0)
        newest = _latest(newest, m.get("newest"))
        for source, at in m.get("sources", ()):
            sources[source] = max(at, sources.get(source, at))
        if "tail" in m:
            tails.append((m["in"] - m["malformed"], *m["tail"]))
        if "marks" in m:
            marks = marks.raised(Marks.from_json(m["marks"]))
    return Seen(rows, newest, sources, tuple(tails), marks, before.standing.marks.low)


def _something_open(entry: Entry) -> bool:
    return any(cells for cells, *_ in entry.totals.get("shards", {}).values())


def _latest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _risen(before: Marks, after: Marks) -> Marks:
    low = after.low if after.low != before.low else None
    sources = {s: m for s, m in after.sources.items() if m != before.of(s) and m == after.of(s)}
    return Marks(low, sources)
