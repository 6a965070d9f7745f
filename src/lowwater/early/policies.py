"""Policies that request prods for early results (PROD 3.2, 4.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias

from lowwater.control.prod import Prod
from lowwater.early.accuracy_control import Observation, Steering, SteeringMemory
from lowwater.early.window_ends import WindowEnds
from lowwater.early.window_ledger import WindowLedger
from lowwater.errors import SpecError
from lowwater.intervals import Intervals
from lowwater.ticks import Duration, ticks


@dataclass(frozen=True)
class EarlyOutput:
    """An operator whose results are emitted.

    - `operator`: Its number.
    - `grid`: Its window ends; None if they are unknown.
    - `port`: The number of the port whose watermark closes its windows.
    - `direct`: Whether rows reach it from the inputs, without another operator on the way.
    """

    operator: int
    grid: WindowEnds | None
    port: int = 0
    direct: bool = True


@dataclass(frozen=True)
class OutputMemory:
    """A policy's memory of one operator: the ledger of its windows, and steering's memory."""

    VERSION: ClassVar[int] = 2

    ledger: WindowLedger = field(default_factory=WindowLedger)
    steering: SteeringMemory | None = None


@dataclass(frozen=True)
class ProdMemory:
    """The memory of a policy: the system clock at its last prod, and a memory for each operator."""

    VERSION: ClassVar[int] = 2

    last: int | None = None
    outputs: dict[int, OutputMemory] = field(default_factory=dict)


Outputs: TypeAlias = Sequence[EarlyOutput]
Due: TypeAlias = tuple[ProdMemory, list[Prod]]
"""The memory of a policy after a call, and the prods that are due."""


@dataclass(frozen=True)
class OutputNews:
    """The news of one operator at the end of an epoch.

    - `answered`: The ends of the windows with early results in the epoch, sorted.
    - `reached`: The times of rows that the epoch brought, as intervals; a window without a row
      in them has not changed.
    - `low`: The watermark that closes windows in the next epoch, together with the answers.
    - `observed`: (lead in slides, accuracy) of each early result that now has its final.
    """

    answered: tuple[int, ...] = ()
    reached: Intervals = ()
    low: int | None = None
    observed: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Moment:
    """The moment at which a policy is called.

    - `now`: The system clock.
    - `newest`: The newest event time; None before the first row.
    - `event`: The current event time, between rows estimated by the event clock.
    - `length`: The expected length of the next epoch, on the system clock.
    - `advance`: The expected advance of event time until operators answer a prod requested now.
    - `lag`: The distance of the watermarks behind the newest time, in ticks.
    - `news`: The news of each operator, by its number.
    """

    now: int
    newest: int | None = None
    event: int | None = None
    length: int = 0
    advance: int = 0
    lag: int = 0
    news: Mapping[int, OutputNews] = field(default_factory=dict)

    @property
    def nearest(self) -> int:
        """The last event time to which the next answer is at least as near as the one after it.

        Answers are emitted at the ends of epochs, so a later request is answered an epoch later.
        """
        assert self.event is not None  # noqa: S101
        return self.event + self.advance + self.advance // 2


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
        return ProdMemory(last), [prod for one in asked for prod in _next(one, moment)]


def _next(one: EarlyOutput, moment: Moment) -> list[Prod]:
    """Return a prod for the next window end of `one`, if the window has begun and is not complete.

    The prod is for all windows if their ends are unknown.
    """
    if one.grid is None or moment.event is None or moment.newest is None:
        return [Prod(operator=one.operator)]
    end = one.grid.next_end(moment.event)
    low = moment.news.get(one.operator, OutputNews()).low
    due = end <= one.grid.last_begun(moment.newest) and (low is None or low < end)
    return [Prod(end - 1, end, operator=one.operator)] if due else []


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
        """Return the new memory of operator `one`, and the prods for its windows that are due."""
        grid, news = one.grid, moment.news.get(one.operator, OutputNews())
        if grid is None or moment.event is None or moment.newest is None:
            return memory, []
        ledger = memory.ledger.reached(news.reached, grid)
        ledger, early = ledger.answered(
            news.answered, grid, event=moment.event, now=moment.now, length=moment.length
        )
        observed = [*news.observed, *((lead / grid.slide, 0.0) for lead in early)]
        steering, lead = self.lead(memory.steering, observed, moment.lag / grid.slide)
        upto = min(self.due(one.operator, grid, moment, lead), grid.last_begun(moment.newest))
        since = _since(ledger, grid, moment.newest, news)
        ledger = ledger.above(news.low).requested(since, max(since, upto), moment.now)
        prods = [Prod(run.since, run.upto, operator=one.operator) for run in ledger.waiting]
        return OutputMemory(ledger, steering), prods

    def due(self, operator: int, grid: WindowEnds, moment: Moment, lead: float) -> int:
        """Return the last window end of an operator that is due, with a lead in slides."""
        del operator
        return grid.last_end(moment.nearest + int(lead * grid.slide))

    def lead(
        self,
        memory: SteeringMemory | None,
        observed: Sequence[tuple[float, float]],
        wait: float,
    ) -> tuple[SteeringMemory | None, float]:
        """Return steering's new memory, and the lead with which windows are requested, in slides.

        `observed` are (lead, accuracy) of answers, in the order of windows. An answer without
        rows, to a window that then had rows, has accuracy 0. Finals are emitted `wait` slides after
        a window's end.
        """
        del memory, observed, wait
        return None, self.share


def _since(ledger: WindowLedger, grid: WindowEnds, newest: int, news: OutputNews) -> int:
    """Return the end after which windows have not been requested and are open."""
    known = [at for at in (ledger.upto, news.low) if at is not None]
    if known:
        return max(known)
    return grid.next_end(min([newest, *(start for start, _ in news.reached)]) + 1) - 1


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

    def lead(  # noqa: D102
        self,
        memory: SteeringMemory | None,
        observed: Sequence[tuple[float, float]],
        wait: float,
    ) -> tuple[SteeringMemory | None, float]:
        steering = self.steering(wait)
        observations = [Observation(lead + wait, accuracy) for lead, accuracy in observed]
        steered = steering.advance(memory or steering.begin(), observations)
        return steered, steering.aggressiveness(steered) - wait


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
    allows; `share` is then the upper bound, by default 1. An accuracy of 1 requests windows as late
    as possible, one epoch before their finals. No window is requested before it begins, and each is
    requested until an early result has a row.

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
