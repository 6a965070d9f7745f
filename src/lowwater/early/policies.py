"""Policies that request prods for early results (PROD 3.2, 4.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias

from lowwater.control.prod import Prod
from lowwater.early.accuracy_control import Observation, Steering, SteeringMemory
from lowwater.errors import SpecError
from lowwater.event_clock import ClockMemory, EventClock
from lowwater.ticks import Duration, ticks
from lowwater.windows.sliding import ScheduledWindow, Sliding

_SOME = 16


@dataclass(frozen=True)
class WindowEnds:
    """The window ends of one or more window specs whose ends are known in advance."""

    windows: tuple[ScheduledWindow, ...]

    @property
    def slide(self) -> int:
        """The smallest slide of the windows."""
        return min(w.slide for w in self.windows)

    @property
    def span(self) -> int:
        """The largest range of the windows, where a landmark window is taken as 16 slides long."""
        return max(w.range if isinstance(w, Sliding) else _SOME * w.slide for w in self.windows)

    def next_end(self, at: int) -> int:
        """Return the first window end at or after `at`.

        >>> WindowEnds((Sliding(range=30, slide=10),)).next_end(21)
        30
        """
        return min(int(w.end(w.first_open(at - 1))) for w in self.windows)

    def last_end(self, at: int) -> int:
        """Return the last window end at or before `at`."""
        return max(w.align(at) for w in self.windows)


@dataclass(frozen=True)
class EarlyOutput:
    """An operator whose results are emitted; `grid` has its window ends, or is None if unknown."""

    operator: int
    grid: WindowEnds | None


@dataclass(frozen=True)
class OutputMemory:
    """A policy's memory of one operator: the last requested window end, and steering's memory."""

    last: int | None = None
    steering: SteeringMemory | None = None


@dataclass(frozen=True)
class ProdMemory:
    """The memory of a policy: the system clock at its last prod, and a memory for each operator."""

    VERSION: ClassVar[int] = 1

    last: int | None = None
    outputs: dict[int, OutputMemory] = field(default_factory=dict)


Outputs: TypeAlias = Sequence[EarlyOutput]
Due: TypeAlias = tuple[ProdMemory, list[Prod]]
"""The memory of a policy after a call, and the prods that are due."""


@dataclass(frozen=True)
class Moment:
    """The moment at which a policy is called.

    - `now`: The system clock.
    - `clock`, `clock_memory`: The event clock, and its memory.
    - `observed`: {operator: (lead in slides, accuracy) of each early result that now has its
      final}.
    - `lag`: The distance of the watermarks behind the newest time, in ticks.
    """

    now: int
    clock: EventClock
    clock_memory: ClockMemory
    observed: Mapping[int, Sequence[tuple[float, float]]] = field(default_factory=dict)
    lag: int = 0

    @property
    def event(self) -> int | None:
        """The current event time; None before the first row."""
        return self.clock.now(self.clock_memory, self.now)

    @property
    def at_answer(self) -> int | None:
        """The event time at which operators answer a prod that is requested now."""
        return self.clock.at_next_answer(self.clock_memory, self.now)


class ProdPolicy(ABC):
    """A policy that requests prods."""

    def bind(self, asked: Outputs) -> None:
        """Raise SpecError if the policy cannot request the windows of the operators `asked`."""
        del asked

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that can change while the query runs."""
        return {}

    def tuned(self, values: Mapping[str, Any]) -> Self:
        """Return the policy with the settings in `values`."""
        del values
        return self

    @abstractmethod
    def advance(self, memory: ProdMemory, asked: Outputs, moment: Moment) -> Due:
        """Return the new memory of the policy, and the prods that are due at `moment`."""


@dataclass(frozen=True)
class EarlyOnDemand(ProdPolicy):
    """A policy that requests no prods; only `run.prod()` requests prods."""

    def advance(self, memory: ProdMemory, asked: Outputs, moment: Moment) -> Due:  # noqa: D102
        return memory, []


@dataclass(frozen=True)
class EarlyWanted(ProdPolicy):
    """A policy that requests windows up to the ends in `wanted`, {operator: end}."""

    wanted: Mapping[int, int] = field(default_factory=dict)

    def tuned(self, values: Mapping[str, Any]) -> Self:  # noqa: D102
        return replace(self, wanted=values["wanted"]) if "wanted" in values else self

    def advance(self, memory: ProdMemory, asked: Outputs, moment: Moment) -> Due:  # noqa: D102
        del moment
        outputs, prods = dict(memory.outputs), []
        for one in (one for one in asked if one.operator in self.wanted):
            upto = self.wanted[one.operator]
            last = outputs.get(one.operator, OutputMemory()).last
            if last is None or upto > last:
                prods.append(Prod(last, upto, operator=one.operator))
                outputs[one.operator] = OutputMemory(upto)
        return replace(memory, outputs=outputs), prods


@dataclass(frozen=True)
class EarlyEvery(ProdPolicy):
    """A policy that requests the window that ends next, every `period` ticks of system time."""

    period: int

    def advance(self, memory: ProdMemory, asked: Outputs, moment: Moment) -> Due:  # noqa: D102
        last = memory.last
        if last is None and moment.event is not None:
            last = moment.now
        if last is None or moment.now - last < self.period:
            return ProdMemory(last), []
        # Periods count from the first row, not from the ends of epochs.
        last += (moment.now - last) // self.period * self.period
        return ProdMemory(last), [_next(one, moment) for one in asked]


def _next(one: EarlyOutput, moment: Moment) -> Prod:
    """Return a prod for the next window end of `one`, or for all windows if it is unknown."""
    event = moment.event
    if one.grid is None or event is None:
        return Prod(operator=one.operator)
    end = one.grid.next_end(event)
    return Prod(end - 1, end, operator=one.operator)


@dataclass(frozen=True)
class EarlyBefore(ProdPolicy):
    """A policy that requests each window `share` · slide before the window's end (PROD 4.4)."""

    share: float

    @property
    def settings(self) -> dict[str, Any]:  # noqa: D102
        return {"aggressiveness": self.share}

    def tuned(self, values: Mapping[str, Any]) -> Self:  # noqa: D102
        if "aggressiveness" not in values:
            return self
        return replace(self, share=early_before(values["aggressiveness"]).share)

    def bind(self, asked: Outputs) -> None:  # noqa: D102
        if any(one.grid is None for one in asked):
            raise SpecError(
                "early=lw.early_before(...) counts in slides, but the windows of this query have "
                'no fixed slide; write lw.early_every("10 seconds") or lw.early_on_demand()'
            )

    def advance(self, memory: ProdMemory, asked: Outputs, moment: Moment) -> Due:  # noqa: D102
        outputs, prods = dict(memory.outputs), []
        for one in asked:
            before = outputs.get(one.operator, OutputMemory())
            outputs[one.operator], due = self.one(before, one, moment)
            prods += due
        return replace(memory, outputs=outputs), prods

    def one(
        self, memory: OutputMemory, one: EarlyOutput, moment: Moment
    ) -> tuple[OutputMemory, list[Prod]]:
        """Return the new memory of operator `one`, and a list that is empty or has its due prod."""
        last, event, at_answer = memory.last, moment.event, moment.at_answer
        if event is None or at_answer is None or one.grid is None:
            return memory, []
        if last is None:
            last = one.grid.next_end(event) - one.grid.slide
        # Answers are emitted at the end of an epoch: choose the epoch that ends nearest.
        near = at_answer + moment.clock.epoch(moment.clock_memory) // 2
        upto = one.grid.last_end(near + int(self.share * one.grid.slide))
        due = [Prod(last, upto, operator=one.operator)] if upto > last else []
        return replace(memory, last=max(last, upto)), due


@dataclass(frozen=True)
class AccuracyTarget(EarlyBefore):
    """A policy that requests windows as early as a target accuracy allows (PROD 6.2 c).

    `share` is the largest lead in slides. Steering uses the time from an early result to its final,
    not to the window's end, because rows that arrive after that end still change the result.
    """

    accuracy: float

    @property
    def settings(self) -> dict[str, Any]:  # noqa: D102
        return {**super().settings, "accuracy": self.accuracy}

    def tuned(self, values: Mapping[str, Any]) -> Self:  # noqa: D102
        policy = super().tuned(values)
        policy = replace(policy, accuracy=values.get("accuracy", self.accuracy))
        if not policy.share > 0:
            raise SpecError(
                f"aggressiveness={policy.share!r} must be above 0, because accuracy= chooses how "
                f"early to emit, up to that share of a slide"
            )
        policy.steering()
        return policy

    def steering(self, wait: float = 0.0) -> Steering:
        """Return the steering for finals that are emitted `wait` slides after a window's end."""
        return Steering(self.accuracy, self.share + wait)

    def one(  # noqa: D102
        self, memory: OutputMemory, one: EarlyOutput, moment: Moment
    ) -> tuple[OutputMemory, list[Prod]]:
        wait = 0.0 if one.grid is None else moment.lag / one.grid.slide
        steering, observed = self.steering(wait), moment.observed.get(one.operator, ())
        observations = [Observation(lead + wait, accuracy) for lead, accuracy in observed]
        steered = steering.advance(memory.steering or steering.begin(), observations)
        policy = EarlyBefore(steering.aggressiveness(steered) - wait)
        return policy.one(replace(memory, steering=steered), one, moment)


def early_every(period: Duration) -> EarlyEvery:
    """Return a policy that requests the window that ends next, every `period` of system time.

    >>> early_every("10 seconds")
    EarlyEvery(period=10000000)
    """
    span = ticks(period, name="early_every")
    if span <= 0:
        raise SpecError(f"lw.early_every({period!r}) must be greater than zero")
    return EarlyEvery(span)


def early_before(share: float | None = None, *, accuracy: float | None = None) -> EarlyBefore:
    """Return a policy that requests each window `share` · slide before the window's end.

    With `accuracy`, the policy requests windows as early as this mean accuracy of early results
    allows; `share` is then the upper bound, by default 1.

    >>> early_before(0.25)
    EarlyBefore(share=0.25)
    >>> early_before(accuracy=0.98)
    AccuracyTarget(share=1.0, accuracy=0.98)
    """
    if share is None and accuracy is None:
        raise SpecError(
            "lw.early_before() has neither a share nor accuracy=; write a share of a slide, "
            "lw.early_before(0.25), or lw.early_before(accuracy=0.98)"
        )
    if share is not None and not 0 <= share <= 1:
        raise SpecError(
            f"lw.early_before({share!r}) must be from 0 to 1: the share of a slide before the "
            f"window ends, for example 0.25"
        )
    if accuracy is None:
        return EarlyBefore(float(share or 0))
    policy = AccuracyTarget(1.0 if share is None else float(share), accuracy)
    policy.steering()
    return policy


def early_on_demand() -> EarlyOnDemand:
    """Return a policy that requests no prods: only `run.prod()` requests early results."""
    return EarlyOnDemand()
