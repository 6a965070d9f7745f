"""The controller: after every epoch it learns what the epoch showed and writes down what follows.

It decides from the entry of the epoch before and from the epoch's measurements, from nothing else;
so an epoch that is run again after a crash is decided the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowwater.codec import decode
from lowwater.control.context import EpochContext, InputProgress
from lowwater.control.drop import DropPlan
from lowwater.control.hold import HoldDecision
from lowwater.control.message import ControlMessage
from lowwater.control.prod import Prod
from lowwater.control.report import EpochReport, InputReport, input_report
from lowwater.control.retune import Override, RetuneRequest, in_force, settled
from lowwater.control.watermark import Watermarks, latest
from lowwater.dataflow.graph import Dataflow
from lowwater.early.prodder import EarlyMemory, Prodder
from lowwater.engine.accounts import accounts_after
from lowwater.engine.entry import Entry, OutputTable, Positions
from lowwater.engine.log import ControlLog
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.shedding.shedder import LoadShedder, ShedMemory
from lowwater.sidelining.sideliner import SidelineMemory, Sideliner
from lowwater.watermarks.adaptive.adapter import AdapterMemory, SlackAdapter
from lowwater.watermarks.tracker import Gauge


class Controller:
    """Turns the measurements of epochs into entries of the control log."""

    def __init__(
        self,
        log: ControlLog,
        gauges: Sequence[Gauge],
        flow: Dataflow,
        prodder: Prodder | None = None,
        sideliner: Sideliner | None = None,
        *,
        adapter: SlackAdapter | None = None,
        shedder: LoadShedder | None = None,
    ) -> None:
        self.log, self.gauges, self.flow = log, gauges, flow
        self.prodder, self.sideliner = prodder, sideliner
        self.adapter, self.shedder = adapter, shedder

    @classmethod
    def of(cls, plan: PhysicalPlan, log: ControlLog) -> Controller:
        """Return the controller of a plan."""
        return cls(
            log,
            plan.gauges,
            plan.flow,
            plan.prodder,
            plan.sideliner,
            adapter=plan.adapter,
            shedder=plan.shedder,
        )

    def begin(self, now: int) -> None:
        """Open the log of a query that has not begun."""
        self.log.begin(self._wall(now))

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters that can be changed while the query runs, by name."""
        known = (self.prodder, self.adapter, self.shedder)
        return {n: v for one in known if one is not None for n, v in one.settings.items()}

    def tuned(self, tuned: Mapping[str, Override]) -> Controller:
        """Return a controller that decides with parameters as they were changed."""
        return self.having(in_force(tuned, self.settings))

    def having(self, values: Mapping[str, Any]) -> Controller:
        """Return a controller that decides with other parameters."""
        if not values:
            return self
        return Controller(
            self.log,
            self.gauges,
            self.flow,
            self.prodder and self.prodder.tuned(values),
            self.sideliner,
            adapter=self.adapter and self.adapter.tuned(values),
            shedder=self.shedder and self.shedder.tuned(values),
        )

    def decide(
        self,
        epoch: int,
        measures: Iterable[Mapping[str, Any]],
        now: int,
        *,
        ending: bool = False,
        positions: Positions | None = None,
        outputs: tuple[OutputTable, ...] = (),
        asked: Sequence[Prod | RetuneRequest] = (),
    ) -> Entry:
        """Write the entry of an epoch, or return the one that stands.

        `asked` are prods that came from outside, and new values of parameters.
        """
        standing = self.log.read(epoch)
        if standing is not None:
            return standing
        before = self.log.before(epoch)
        overrides = settled(before.overrides, asked, self.settings, epoch)
        prods = [one for one in asked if isinstance(one, Prod)]
        entry = self.tuned(overrides)._decided(  # noqa: SLF001
            before, epoch, list(measures), now, ending=ending, asked=prods
        )
        return self.log.append(
            replace(entry, positions=positions, outputs=outputs, overrides=overrides)
        )

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
        sideline, aside = self._put_aside(before, inputs, measured, now)
        shed, dropped = self._left_out(before, inputs, measured, now)
        known = self._ports(before)
        found = self.flow.reach(inputs, aside.held)
        ports = [old.raised(new) for old, new in zip(known, found, strict=True)]
        in_force = tuple(p.only_above() for p in ports)
        entry = Entry(
            epoch,
            _with_releases(aside, _risen(known, ports)),
            EpochContext(tuple(inputs), in_force, self._wall(now), aside.held, dropped),
            tuple(memory),
            accounts_after(before, measured, len(self.gauges), self.flow.contradictable),
            ended=all(i.ended for i in inputs),
            adapting=adapting,
            sideline=sideline,
            shed=shed,
            clock=now,
        )
        return self._prodded(entry, before, measured, now, asked)

    def _left_out(
        self,
        before: Entry,
        inputs: Sequence[InputProgress],
        measured: Sequence[Mapping[str, Any]],
        now: int,
    ) -> tuple[ShedMemory | None, DropPlan]:
        """Return the windows that are dropped from the next epoch on.

        Windows stay dropped even if the query is restarted without a shedder: their rows are gone.
        """
        standing = before.standing
        if self.shedder is None:
            return None, standing.dropped
        known = EpochReport(inputs, measured, now, ports=standing.ports, dropped=standing.dropped)
        return self.shedder.advance(before.shed or self.shedder.begin(), known)

    def _put_aside(
        self,
        before: Entry,
        inputs: Sequence[InputProgress],
        measured: Sequence[Mapping[str, Any]],
        now: int,
    ) -> tuple[SidelineMemory | None, HoldDecision]:
        """Return the intervals held in the next epoch, and the rows released in it."""
        if self.sideliner is None:
            return None, HoldDecision()
        answered = next((c.prods for c in before.control.values() if c.prods), ())
        known = EpochReport(
            inputs,
            measured,
            now,
            answered=answered,
            unheld=self.flow.reach(inputs),
            held=before.standing.held,
            clock=_early(before).clock,
            ended=all(i.ended for i in inputs),
        )
        return self.sideliner.advance(before.sideline or self.sideliner.begin(), known)

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
        known = EpochReport(
            inputs, measured, now, asked, open=_something_open(entry), ended=entry.ended
        )
        memory, prods = self.prodder.advance(_early(before), known)
        if not prods:
            return replace(entry, early=memory)
        as_if = self.flow.as_if_ended(inputs, prods)
        arrived = self.flow.foreseen(self.prodder.foreseen(memory, now))
        control = {
            port: replace(
                entry.control.get(port, ControlMessage()),
                prods=prods,
                as_if=as_if[port],
                arrived=arrived[port],
            )
            for port in range(len(as_if))
        }
        return replace(entry, early=memory, control=control)

    def foresee(self, entry: Entry, measured: Mapping[str, Any]) -> Entry:
        """Return `entry` as it would be if a block more of an input had been an epoch of its own.

        What decides over the next block then does not depend on how blocks are cut into epochs.
        """
        tuned = self.tuned(entry.overrides)
        memory, inputs, adapting = tuned._advance(entry, [measured], now=0)  # noqa: SLF001
        standing = replace(entry.standing, inputs=tuple(inputs))
        return replace(entry, memory=tuple(memory), standing=standing, adapting=adapting)

    def due(self, entry: Entry, now: int) -> bool:
        """Return whether, after `entry`, the clock alone would close a window or cause a prod."""
        if entry.ended or not _something_open(entry):
            return False
        return self.tuned(entry.overrides)._due(entry, now)  # noqa: SLF001

    def _due(self, entry: Entry, now: int) -> bool:
        if self.prodder is not None and self.prodder.due(
            _early(entry), EpochReport(entry.standing.inputs, (), now)
        ):
            return True
        sideline = entry.sideline
        if self.sideliner and sideline and self.sideliner.due(sideline):
            return True
        _, inputs, _ = self._advance(entry, (), now)
        known = self._ports(entry)
        found = self.flow.reach(inputs, entry.standing.held)
        ports = [old.raised(new) for old, new in zip(known, found, strict=True)]
        return bool(_risen(known, ports))

    def _wall(self, now: int) -> int | None:
        return now if any(g.wall for g in self.gauges) else None

    def _ports(self, before: Entry) -> Sequence[Watermarks]:
        if before.standing.ports:
            return before.standing.ports
        return [Watermarks() for _ in self.flow.reach(self._inputs(before))]

    def _inputs(self, before: Entry) -> Sequence[InputProgress]:
        return before.standing.inputs or [InputProgress() for _ in self.gauges]

    def _advance(
        self,
        before: Entry,
        measured: Sequence[Mapping[str, Any]],
        now: int,
        *,
        ending: bool = False,
    ) -> tuple[list[Any], list[InputProgress], AdapterMemory | None]:
        """Return what the policies remember, how far the inputs are, what slacks are chosen by."""
        memory, reached = [], []
        every, adapting = self._seen(before, measured)
        for number, (gauge, known, seen) in enumerate(
            zip(self.gauges, self._inputs(before), every, strict=True)
        ):
            tracker = gauge.tracker
            remembered = tracker.begin()
            if before.memory:
                remembered = decode(tracker.memory_type, before.memory[number])
            kept, raw = tracker.advance(remembered, seen, now)
            marks = known.marks.raised(raw).only_above()
            by_clock = not seen.rows and seen.marks == Watermarks()
            if by_clock and not _worth_it(gauge.grain, before, known.marks, marks):
                marks = known.marks
            last = any(m.get("last") for m in measured if m.get("input") == number)
            memory.append(kept)
            newest, ended = latest(known.newest, seen.newest), ending or known.ended or last
            reached.append(InputProgress(marks, newest, ended))
        return memory, reached, adapting

    def _seen(
        self, before: Entry, measured: Sequence[Mapping[str, Any]]
    ) -> tuple[Sequence[InputReport], AdapterMemory | None]:
        """Return what an epoch showed of each input, and what slacks are chosen by after it."""
        known = self._inputs(before)
        mine = ([m for m in measured if m.get("input") == n] for n in range(len(known)))
        seen = [replace(input_report(m), out=k.marks.low) for m, k in zip(mine, known, strict=True)]
        if self.adapter is None:
            return seen, None
        remembered = before.adapting or self.adapter.begin()
        memory, told = self.adapter.advance(remembered, seen, measured)
        return told, memory


def _worth_it(grain: int, before: Entry, known: Watermarks, moved: Watermarks) -> bool:
    """Return whether watermarks that only the clock advanced may be sent."""
    if not grain:
        return True
    far = moved.low is not None and (known.low is None or moved.low - known.low >= grain)
    finer = moved.sources != known.sources or moved.ranges != known.ranges
    return _something_open(before) and (far or finer)


def _something_open(entry: Entry) -> bool:
    return any(shard.cells for shard in entry.accounts.shards.values())


def _early(entry: Entry) -> EarlyMemory:
    return entry.early or EarlyMemory()


def _risen(before: Sequence[Watermarks], after: Sequence[Watermarks]) -> dict[int, ControlMessage]:
    """Return the messages to ports whose watermarks have risen."""
    found = (new.news(old) for old, new in zip(before, after, strict=True))
    return {
        port: ControlMessage(marks) for port, marks in enumerate(found) if marks != Watermarks()
    }


def _with_releases(
    aside: HoldDecision, control: Mapping[int, ControlMessage]
) -> dict[int, ControlMessage]:
    """Return the messages to ports, with the rows that each is to release."""
    found = dict(control)
    for port, release in aside.release.items():
        found[port] = ControlMessage(found.get(port, ControlMessage()).marks, release=release)
    return found
