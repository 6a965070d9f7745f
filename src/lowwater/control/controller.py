"""The controller: after every epoch it learns what the epoch showed and writes down what follows.

It decides from the entry of the epoch before and from the epoch's measurements, from nothing else;
so an epoch that is run again after a crash is decided the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowwater.control.accounts import totals
from lowwater.control.aside import Aside, Backlog, Sideliner
from lowwater.control.dropped import Loaded, Shed, Shedder
from lowwater.control.log import ControlLog, Entry
from lowwater.control.policies import Adapter, Flow, Gauge, Known, Prodder
from lowwater.control.prods import Prod
from lowwater.control.records import Control, Marks, Reached, Seen, Standing
from lowwater.control.seeing import latest, seen_in
from lowwater.control.tuning import Retuning, Tuned, in_force, settled

SIDELINE, SHED = "sideline", "shed"
"""Under which names an entry remembers what is put aside, and what is left out."""


class Controller:
    """Turns the measurements of epochs into entries of the control log."""

    def __init__(
        self,
        log: ControlLog,
        gauges: Sequence[Gauge],
        flow: Flow,
        prodder: Prodder | None = None,
        sideliner: Sideliner | None = None,
        *,
        adapter: Adapter | None = None,
        shedder: Shedder | None = None,
    ) -> None:
        self.log, self.gauges, self.flow = log, gauges, flow
        self.prodder, self.sideliner = prodder, sideliner
        self.adapter, self.shedder = adapter, shedder

    def begin(self, now: int) -> None:
        """Open the log of a query that has not begun."""
        self.log.begin(self._wall(now))

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters that can be changed while the query runs, by name."""
        known = (self.prodder, self.adapter, self.shedder)
        return {n: v for one in known if one is not None for n, v in one.settings.items()}

    def tuned(self, tuned: Mapping[str, Tuned]) -> Controller:
        """Return a controller that decides with parameters as they were changed."""
        return self.having(in_force(tuned, self.settings))

    def having(self, values: Mapping[str, Any]) -> Controller:
        """Return a controller that decides with other parameters."""
        if not values:
            return self
        prodder, adapter, shedder = (
            None if one is None else one.tuned(values)
            for one in (self.prodder, self.adapter, self.shedder)
        )
        return Controller(
            self.log,
            self.gauges,
            self.flow,
            prodder,  # type: ignore[arg-type]  # each is what it was
            self.sideliner,
            adapter=adapter,  # type: ignore[arg-type]
            shedder=shedder,  # type: ignore[arg-type]
        )

    def decide(
        self,
        epoch: int,
        measures: Iterable[Mapping[str, Any]],
        now: int,
        *,
        ending: bool = False,
        taken: Any = None,
        asked: Sequence[Prod | Retuning] = (),
    ) -> Entry:
        """Write the entry of an epoch, or return the one that stands.

        `asked` are prods that came from outside, and new values of parameters.
        """
        standing = self.log.read(epoch)
        if standing is not None:
            return standing
        before = self.log.before(epoch)
        tuned = settled(before.tuned, asked, self.settings, epoch)
        prods = [one for one in asked if isinstance(one, Prod)]
        entry = self.tuned(tuned)._decided(  # noqa: SLF001
            before, epoch, list(measures), now, ending=ending, asked=prods
        )
        return self.log.append(replace(entry, taken=taken, tuned=tuned))

    def _decided(
        self,
        before: Entry,
        epoch: int,
        measured: Sequence[Mapping[str, Any]],
        now: int,
        *,
        ending: bool,
        asked: Sequence[Prod],
    ) -> Entry:
        """Return the entry of an epoch."""
        memory, inputs, adapting = self._advance(before, measured, now, ending=ending)
        aside = self._put_aside(before, inputs, measured, now)
        shed = self._left_out(before, inputs, measured, now)
        known = self._ports(before)
        found = self.flow.reach(inputs, aside.held)
        ports = [old.raised(new) for old, new in zip(known, found, strict=True)]
        in_force = tuple(p.only_above() for p in ports)
        entry = Entry(
            epoch,
            aside.told(_risen(known, ports)),
            Standing(tuple(inputs), in_force, self._wall(now), aside.held, shed.dropped),
            tuple(memory),
            totals(before, measured, len(self.gauges), self.flow.contradictable),
            ended=all(i.ended for i in inputs),
            adapting=adapting,
        )
        entry = self._prodded(entry, before, measured, now, asked)
        for name, memory_of in ((SIDELINE, aside.memory), (SHED, shed.memory)):
            if memory_of:
                entry = replace(entry, prodding={**entry.prodding, name: memory_of})
        return entry

    def _left_out(
        self,
        before: Entry,
        inputs: Sequence[Reached],
        measured: Sequence[Mapping[str, Any]],
        now: int,
    ) -> Shed:
        """Return which windows are left out from the next epoch on.

        Rows of what was left out are gone: it stays so, whether or not anybody still decides.
        """
        standing = before.standing
        if self.shedder is None:
            return Shed(standing.dropped)
        known = Loaded(inputs, measured, now, standing.ports, standing.dropped)
        return self.shedder.advance(before.prodding.get(SHED, {}), known)

    def _put_aside(
        self,
        before: Entry,
        inputs: Sequence[Reached],
        measured: Sequence[Mapping[str, Any]],
        now: int,
    ) -> Aside:
        """Return what is put aside, and worked off, in the next epoch."""
        if self.sideliner is None:
            return Aside()
        answered = next((c.prods for c in before.control.values() if c.prods), ())
        known = Backlog(
            inputs,
            measured,
            now,
            self.flow.reach(inputs),
            before.standing.held,
            answered,
            before.prodding,
            all(i.ended for i in inputs),
        )
        return self.sideliner.advance(before.prodding.get(SIDELINE, {}), known)

    def _prodded(
        self,
        entry: Entry,
        before: Entry,
        measured: Sequence[Mapping[str, Any]],
        now: int,
        asked: Sequence[Prod],
    ) -> Entry:
        """Return an entry with the prods that are due, for all ports."""
        if self.prodder is None:
            return entry
        inputs = entry.standing.inputs
        known = Known(inputs, measured, now, asked, open=_something_open(entry), ended=entry.ended)
        memory, prods = self.prodder.advance(before.prodding, known)
        if not prods:
            return replace(entry, prodding=memory)
        as_if = self.flow.as_if_ended(inputs, prods)
        arrived = self.flow.foreseen(self.prodder.foreseen(memory, now))
        control = {
            port: replace(
                entry.control.get(port, Control()),
                prods=prods,
                as_if=as_if[port],
                arrived=arrived[port],
            )
            for port in range(len(as_if))
        }
        return replace(entry, prodding=memory, control=control)

    def foresee(self, entry: Entry, measured: Mapping[str, Any]) -> Entry:
        """Return `entry` as it would be if a block more of an input had been an epoch of its own.

        What decides over the next block then does not depend on how blocks are cut into epochs.
        """
        tuned = self.tuned(entry.tuned)
        memory, inputs, adapting = tuned._advance(entry, [measured], now=0)  # noqa: SLF001
        standing = replace(entry.standing, inputs=tuple(inputs))
        return replace(entry, memory=tuple(memory), standing=standing, adapting=adapting)

    def due(self, entry: Entry, now: int) -> bool:
        """Say whether, after `entry`, the wall clock alone would close a window or ask for one."""
        if entry.ended or not _something_open(entry):
            return False
        return self.tuned(entry.tuned)._due(entry, now)  # noqa: SLF001

    def _due(self, entry: Entry, now: int) -> bool:
        if self.prodder is not None and self.prodder.due(
            entry.prodding, Known(entry.standing.inputs, (), now)
        ):
            return True
        if self.sideliner is not None and self.sideliner.due(entry.prodding.get(SIDELINE, {})):
            return True
        _, inputs, _ = self._advance(entry, (), now)
        known = self._ports(entry)
        found = self.flow.reach(inputs, entry.standing.held)
        ports = [old.raised(new) for old, new in zip(known, found, strict=True)]
        return bool(_risen(known, ports))

    def _wall(self, now: int) -> int | None:
        return now if any(g.wall for g in self.gauges) else None

    def _ports(self, before: Entry) -> Sequence[Marks]:
        if before.standing.ports:
            return before.standing.ports
        return [Marks() for _ in self.flow.reach(self._inputs(before))]

    def _inputs(self, before: Entry) -> Sequence[Reached]:
        return before.standing.inputs or [Reached() for _ in self.gauges]

    def _advance(
        self,
        before: Entry,
        measured: Sequence[Mapping[str, Any]],
        now: int,
        *,
        ending: bool = False,
    ) -> tuple[list[dict[str, Any]], list[Reached], dict[str, Any]]:
        """Return what the policies remember, how far the inputs are, what slacks are chosen by."""
        memory, reached = [], []
        every, adapting = self._seen(before, measured)
        for number, (gauge, known, seen) in enumerate(
            zip(self.gauges, self._inputs(before), every, strict=True)
        ):
            tracker = gauge.tracker
            remembered = before.memory[number] if before.memory else tracker.begin()
            kept, raw = tracker.advance(remembered, seen, now)
            marks = known.marks.raised(raw).only_above()
            by_clock = not seen.rows and seen.marks == Marks()
            if by_clock and not _worth_it(gauge.grain, before, known.marks, marks):
                marks = known.marks
            last = any(m.get("last") for m in measured if m.get("input") == number)
            memory.append(kept)
            newest, ended = latest(known.newest, seen.newest), ending or known.ended or last
            reached.append(Reached(marks, newest, ended))
        return memory, reached, adapting

    def _seen(
        self, before: Entry, measured: Sequence[Mapping[str, Any]]
    ) -> tuple[Sequence[Seen], dict[str, Any]]:
        """Return what an epoch showed of each input, and what slacks are chosen by after it."""
        known = self._inputs(before)
        mine = ([m for m in measured if m.get("input") == n] for n in range(len(known)))
        seen = [replace(seen_in(m), out=k.marks.low) for m, k in zip(mine, known, strict=True)]
        if self.adapter is None:
            return seen, {}
        memory, told = self.adapter.advance(before.adapting, seen, measured)
        return told, memory


def _worth_it(grain: int, before: Entry, known: Marks, moved: Marks) -> bool:
    """Say whether marks that no row has moved may be sent."""
    if not grain:
        return True
    far = moved.low is not None and (known.low is None or moved.low - known.low >= grain)
    finer = moved.sources != known.sources or moved.ranges != known.ranges
    return _something_open(before) and (far or finer)


def _something_open(entry: Entry) -> bool:
    return any(cells for cells, *_ in entry.totals.get("shards", {}).values())


def _risen(before: Sequence[Marks], after: Sequence[Marks]) -> dict[int, Control]:
    """Return what the ports are told: the marks that have risen."""
    found = (new.news(old) for old, new in zip(before, after, strict=True))
    return {port: Control(marks) for port, marks in enumerate(found) if marks != Marks()}
