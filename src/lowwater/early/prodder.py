"""The prodder: the component that collects prods after each epoch and counts the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from lowwater.control.completeness import Completeness
from lowwater.control.measures import Measures
from lowwater.control.prod import Prod
from lowwater.control.report import EpochReport
from lowwater.control.watermark import latest
from lowwater.early.arrivals import Arrivals, ArrivalsMemory
from lowwater.early.calibration.learner import LearnerMemory, OperatorLearner
from lowwater.early.policies import EarlyOutput, Moment, OutputNews, ProdMemory, ProdPolicy
from lowwater.event_clock import ClockMemory, EventClock
from lowwater.intervals import Intervals, union
from lowwater.ticks import BEGIN, END

Observed = Mapping[int, Sequence[tuple[float, float]]]
"""{operator: (lead in slides, accuracy) of each early result that now has its final}."""

EVERY_TIME: Intervals = ((BEGIN, END),)
PROD_TALLIES = ("asked", "answered", "empty", "early")
"""The numbers of all prods, of prods answered with rows and without rows, and of early rows."""


@dataclass(frozen=True)
class EarlyMemory:
    """The memory of the prodder.

    - `asked`, `answered`, `empty`, `early`: See `PROD_TALLIES`.
    - `waiting`: The numbers of the prods that operators answer in the next epoch.
    - `lag`: The distance of the watermarks behind the newest time, in ticks.
    - `clock`: The memory of the event clock.
    - `arrivals`: For each input, the memory of the model of arrivals.
    - `learned`: {operator: memory of the learner of its early results}.
    - `policies`: {name of a policy: memory of the policy}.
    """

    VERSION: ClassVar[int] = 2

    asked: int = 0
    answered: int = 0
    empty: int = 0
    early: int = 0
    waiting: tuple[int, ...] = ()
    lag: int = 0
    clock: ClockMemory = field(default_factory=ClockMemory)
    arrivals: tuple[ArrivalsMemory, ...] = ()
    learned: dict[int, LearnerMemory] = field(default_factory=dict)
    policies: dict[str, ProdMemory] = field(default_factory=dict)

    @property
    def tallies(self) -> dict[str, int]:
        """{name: number} for the names in `PROD_TALLIES`."""
        return {name: getattr(self, name) for name in PROD_TALLIES}


@dataclass(frozen=True)
class Prodder:
    """The component that collects prods from policies, from streams and from `run.prod()`.

    - `policies`: The policies that request prods.
    - `asked`: The operators that answer prods.
    - `inputs`: The inputs with data rows; streams of prods are not included.
    - `clock`: The event clock.
    - `arrivals`: The model of arrivals; None if estimates do not need it.
    - `complete`: Whether early results compensate for rows that have not arrived.
    - `learning`: {operator: learner of its early results}.
    - `names`: The keys of the policies' memories; they stay the same when settings change.
    """

    policies: tuple[ProdPolicy, ...]
    asked: tuple[EarlyOutput, ...]
    inputs: tuple[int, ...]
    clock: EventClock
    arrivals: Arrivals | None = None
    complete: bool = True
    learning: Mapping[int, OperatorLearner] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    memory_type: ClassVar[type[EarlyMemory]] = EarlyMemory

    @property
    def settings(self) -> dict[str, Any]:
        """The policies' settings; they can change while the query runs."""
        return {n: v for policy in reversed(self.policies) for n, v in policy.settings.items()}

    def tuned(self, values: Mapping[str, Any]) -> Prodder:
        """Return the prodder with the settings in `values`; the policies keep their memories."""
        policies = tuple(policy.tuned(values) for policy in self.policies)
        if policies == self.policies:
            return self
        return replace(self, policies=policies, names=self.names or tuple(map(repr, self.policies)))

    def begin(self) -> EarlyMemory:
        """Return the memory before the first epoch."""
        return EarlyMemory()

    def advance(
        self, memory: EarlyMemory, report: EpochReport
    ) -> tuple[EarlyMemory, tuple[Prod, ...]]:
        """Return the memory after an epoch, and the prods for the next epoch."""
        learned, observed = self._learn(memory, report)
        memory = replace(
            _counted(memory, report.measured),
            clock=self._clock(memory, report),
            arrivals=self._arrivals(memory, report),
            learned=learned,
        )
        if report.ended:
            return replace(memory, waiting=()), ()
        prods = [p for m in report.measured.inputs for p in m.prods]
        prods += report.asked
        if report.open:
            memory = replace(
                memory, lag=max((report.inputs[n].lag for n in self.inputs), default=0)
            )
            policies, due = self._ask(memory, report, observed)
            memory = replace(memory, policies=policies)
            prods += due
        numbered = tuple(replace(p, number=memory.asked + n) for n, p in enumerate(prods))
        waiting = tuple(p.number for p in numbered)
        return replace(memory, asked=memory.asked + len(prods), waiting=waiting), numbered

    def _ask(
        self, memory: EarlyMemory, report: EpochReport, observed: Observed
    ) -> tuple[dict[str, ProdMemory], list[Prod]]:
        """Return {name of a policy: its new memory}, and the prods that are due."""
        clock, now = memory.clock, report.now
        moment = Moment(
            now,
            clock.newest,
            self.clock.now(clock, now),
            clock.length,
            self.clock.epoch(clock),
            memory.lag,
            self._news(report, observed),
        )
        memories, prods = {}, []
        for name, policy in zip(self.names or map(repr, self.policies), self.policies, strict=True):
            before = memory.policies.get(name, ProdMemory())
            memories[name], due = policy.advance(before, self.asked, moment)
            prods += due
        return memories, prods

    def _news(self, report: EpochReport, observed: Observed) -> dict[int, OutputNews]:
        """Return {operator: its news at the end of an epoch} for windows whose ends are known."""
        answered: dict[int, set[int]] = {}
        measured = report.measured
        for m in measured.routes:
            for number, ends in m.ends.items():
                answered.setdefault(number, set()).update(ends)
        direct = self._reached(report)
        moved = any(m.rows for m in measured.inputs) or any(m.counts for m in measured.routes)
        return {
            one.operator: OutputNews(
                tuple(sorted(answered.get(one.operator, ()))),
                direct if one.direct else EVERY_TIME[:moved],
                report.closing[one.port].low if report.closing else None,
                tuple(observed.get(one.operator, ())),
            )
            for one in self.asked
            if one.grid is not None
        }

    def _reached(self, report: EpochReport) -> Intervals:
        """Return the intervals of time that contain all rows of an epoch."""
        if self.arrivals is None:
            return ()
        blocks = [m for n in self.inputs for m in report.measured.of_input(n) if m.rows]
        counted = [(m.valid, m.arrivals) for m in blocks if m.arrivals is not None]
        return union(one for rows, a in counted for one in a.times(self.arrivals.width, rows))

    def due(self, memory: EarlyMemory, report: EpochReport) -> bool:
        """Return whether a policy would request a prod now."""
        return memory.clock.now is not None and bool(self._ask(memory, report, {})[1])

    def learned(self, memory: EarlyMemory, operator: int) -> LearnerMemory:
        """Return the learner's memory for operator number `operator`."""
        if operator in memory.learned or operator not in self.learning:
            return memory.learned.get(operator, LearnerMemory())
        return self.learning[operator].begin()

    def leads(
        self, memory: EarlyMemory, report: EpochReport, operator: int, ends: np.ndarray
    ) -> np.ndarray:
        """Return the time from current event time to each window end in `ends`, in slides."""
        event = self.clock.now(self._clock(memory, report), report.now)
        grid = next(one.grid for one in self.asked if one.operator == operator)
        if event is None or grid is None:
            return np.zeros(len(ends))
        return (ends - event) / grid.slide

    def _learn(
        self, memory: EarlyMemory, report: EpochReport
    ) -> tuple[dict[int, LearnerMemory], Observed]:
        """Return {operator: learner's memory} and {operator: new (lead, accuracy) pairs}."""
        learned, observed = dict(memory.learned), {}
        for measured in report.measured.epoch:
            for number, news in measured.learned.items():
                learned[number], observed[number] = self.learning[number].advance(
                    self.learned(memory, number), news.finals, news.early, report.now
                )
        return learned, observed

    def _arrivals(self, memory: EarlyMemory, report: EpochReport) -> tuple[ArrivalsMemory, ...]:
        """Return, for each input, the memory of the model of arrivals after an epoch."""
        if self.arrivals is None:
            return ()
        learned = []
        for n in self.inputs:
            before = memory.arrivals[n] if memory.arrivals else self.arrivals.begin()
            blocks = [m.arrivals for m in report.measured.of_input(n) if m.arrivals is not None]
            learned.append(self.arrivals.advance(before, blocks, report.inputs[n].marks.low))
        return tuple(learned)

    def foreseen(self, memory: EarlyMemory, now: int) -> list[Completeness | None]:
        """Return the expected completeness of each input after the next epoch.

        The values are None if early results do not compensate for missing rows.
        """
        at = self.clock.at_next_answer(memory.clock, now)
        if self.arrivals is None or at is None or not self.complete:
            return [None for _ in self.inputs]
        return [self.arrivals.foreseen(learned, at) for learned in memory.arrivals]

    def arrived(self, memory: EarlyMemory, report: EpochReport) -> list[Completeness | None]:
        """Return the completeness of each input after an epoch; None where it is unknown."""
        at = self.clock.now(self._clock(memory, report), report.now)
        if self.arrivals is None or at is None:
            return [None for _ in self.inputs]
        return [self.arrivals.arrived(learned, at) for learned in self._arrivals(memory, report)]

    def _clock(self, memory: EarlyMemory, report: EpochReport) -> ClockMemory:
        """Return the memory of the event clock after an epoch."""
        newest = latest(*(report.inputs[n].newest for n in self.inputs))
        rows = any(report.measured.rows(n) for n in self.inputs)
        return self.clock.advance(
            memory.clock, newest, report.now, rows=rows, answered=bool(memory.waiting)
        )


def _counted(memory: EarlyMemory, measured: Measures) -> EarlyMemory:
    """Return the memory with the answers of an epoch added to the counts."""
    rows_of = dict.fromkeys(memory.waiting, 0)
    for m in measured.routes:
        for number, rows in m.answers.items():
            rows_of[number] = rows_of.get(number, 0) + rows
    return replace(
        memory,
        answered=memory.answered + sum(rows > 0 for rows in rows_of.values()),
        empty=memory.empty + sum(rows == 0 for rows in rows_of.values()),
        early=memory.early + sum(m.early for m in measured.epoch),
    )
