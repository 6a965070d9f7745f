"""When prods are due: policies, as the user names them (PROD 3.2, 4.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from lowwater.control import Prod
from lowwater.durations import Duration, ticks
from lowwater.errors import SpecError
from lowwater.prodding.clock import EventClock
from lowwater.prodding.grids import Asked
from lowwater.prodding.steering import Observation, Steering

Memory = Mapping[str, Any]


@dataclass(frozen=True)
class Moment:
    """When a policy is asked: the system clock, and what the event clock remembers."""

    now: int
    clock: EventClock
    seen: Memory
    observed: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """By operator, the leads (in slides) and accuracies of early results whose finals came."""
    lag: int = 0
    """How far marks are behind the newest time: so long after its end a window closes."""

    @property
    def event(self) -> int | None:
        """Event time."""
        return self.clock.now(self.seen, self.now)

    @property
    def at_answer(self) -> int | None:
        """Event time when a prod that is decided now is answered."""
        return self.clock.at_next_answer(self.seen, self.now)


class ProdPolicy(ABC):
    """A source of prods."""

    def bind(self, asked: Sequence[Asked]) -> None:
        """Refuse a query whose windows the policy cannot ask for."""
        del asked

    @property
    def settings(self) -> dict[str, Any]:
        """What of it can be changed while the query runs."""
        return {}

    def tuned(self, values: Memory) -> Self:
        """Return it with other values, of those that are its own."""
        del values
        return self

    @abstractmethod
    def advance(
        self, memory: Memory, asked: Sequence[Asked], moment: Moment
    ) -> tuple[dict[str, Any], list[Prod]]:
        """Return what to remember, and the prods that are due."""


@dataclass(frozen=True)
class OnDemand(ProdPolicy):
    """No prods but those of the handle: `run.prod()`."""

    def advance(  # noqa: D102
        self, memory: Memory, asked: Sequence[Asked], moment: Moment
    ) -> tuple[dict[str, Any], list[Prod]]:
        return dict(memory), []


@dataclass(frozen=True)
class Every(ProdPolicy):
    """A prod for the next window to end, at intervals of the system clock."""

    period: int

    def advance(  # noqa: D102
        self, memory: Memory, asked: Sequence[Asked], moment: Moment
    ) -> tuple[dict[str, Any], list[Prod]]:
        last = memory.get("last", moment.now if moment.event is not None else None)
        if last is None or moment.now - last < self.period:
            return {} if last is None else {"last": last}, []
        # Intervals are counted from the first, not from when an epoch happened to end.
        last += (moment.now - last) // self.period * self.period
        return {"last": last}, [_next(one, moment) for one in asked]


def _next(one: Asked, moment: Moment) -> Prod:
    event = moment.event
    if one.grid is None or event is None:
        return Prod(operator=one.operator)
    end = one.grid.next_end(event)
    return Prod(end - 1, end, operator=one.operator)


@dataclass(frozen=True)
class Aggressive(ProdPolicy):
    """A prod for each window, some share of its slide before it ends in event time (PROD 4.4)."""

    share: float

    @property
    def settings(self) -> dict[str, Any]:  # noqa: D102
        return {"aggressiveness": self.share}

    def tuned(self, values: Memory) -> Self:  # noqa: D102
        if "aggressiveness" not in values:
            return self
        return replace(self, share=aggressive(values["aggressiveness"]).share)

    def bind(self, asked: Sequence[Asked]) -> None:  # noqa: D102
        if any(one.grid is None for one in asked):
            raise SpecError(
                "prods=lw.aggressive(...) counts in slides, and the windows of this query have "
                'none that is fixed; use lw.every("10 seconds") or lw.on_demand()'
            )

    def advance(  # noqa: D102
        self, memory: Memory, asked: Sequence[Asked], moment: Moment
    ) -> tuple[dict[str, Any], list[Prod]]:
        kept, prods = dict(memory), []
        for one in asked:
            name = str(one.operator)
            kept[name], prod = self.one(kept.get(name), one, moment)
            prods += [] if prod is None else [prod]
        return kept, prods

    def one(self, last: int | None, one: Asked, moment: Moment) -> tuple[int | None, Prod | None]:
        """Return the end of the last window that was asked for, and the prod that is due."""
        event, at_answer = moment.event, moment.at_answer
        if event is None or at_answer is None or one.grid is None:
            return last, None
        if last is None:
            last = one.grid.next_end(event) - one.grid.slide
        # An answer comes at the end of an epoch: of those, the one that is nearest to the time.
        near = at_answer + moment.clock.epoch(moment.seen) // 2
        upto = one.grid.last_end(near + int(self.share * one.grid.slide))
        if upto <= last:
            return last, None
        return upto, Prod(last, upto, operator=one.operator)


@dataclass(frozen=True)
class Steered(Aggressive):
    """As aggressive as the running accuracy allows (PROD 6.2 c). `share` is the most it may be.

    What is steered is how long before its final, not before its end, a window is asked for: where
    rows are late, the end of a window may be too early.
    """

    accuracy: float

    @property
    def settings(self) -> dict[str, Any]:  # noqa: D102
        return {**super().settings, "accuracy": self.accuracy}

    def tuned(self, values: Memory) -> Self:  # noqa: D102
        made = super().tuned(values)
        made = replace(made, accuracy=values.get("accuracy", self.accuracy))
        if not made.share > 0:
            raise SpecError(
                f"aggressiveness={made.share!r} must be above 0 where accuracy= finds how early"
            )
        made.steering()
        return made

    def steering(self, wait: float = 0.0) -> Steering:
        """Return what finds how early, if finals come so many slides after the end."""
        return Steering(self.accuracy, self.share + wait)

    def advance(  # noqa: D102
        self, memory: Memory, asked: Sequence[Asked], moment: Moment
    ) -> tuple[dict[str, Any], list[Prod]]:
        kept, prods = {}, []
        for one in asked:
            name = str(one.operator)
            wait = 0.0 if one.grid is None else moment.lag / one.grid.slide
            steering = self.steering(wait)
            known = memory.get(name, {"steering": steering.begin(), "last": None})
            seen = [
                Observation(lead + wait, right) for lead, right in moment.observed.get(name, ())
            ]
            steered = steering.advance(known["steering"], seen)
            now = Aggressive(steering.aggressiveness(steered) - wait)
            last, prod = now.one(known["last"], one, moment)
            kept[name] = {"steering": steered, "last": last}
            prods += [] if prod is None else [prod]
        return kept, prods


def every(period: Duration) -> Every:
    """Ask for the next window to end, at intervals of the system clock.

    >>> every("10 seconds")
    Every(period=10000000)
    """
    span = ticks(period, name="every")
    if span <= 0:
        raise SpecError(f"every({period!r}) must be greater than zero")
    return Every(span)


def aggressive(share: float | None = None, *, accuracy: float | None = None) -> Aggressive:
    """Ask for each window a `share` of its slide before it ends, in event time.

    With `accuracy`, as early as early results are that right in the mean, judged by the finals that
    follow; `share` is then the most it may be, by default a whole slide.

    >>> aggressive(0.25)
    Aggressive(share=0.25)
    >>> aggressive(accuracy=0.98)
    Steered(share=1.0, accuracy=0.98)
    """
    if share is None and accuracy is None:
        raise SpecError("aggressive() needs a share of a slide, as 0.25, or accuracy=, as 0.98")
    if share is not None and not 0 <= share <= 1:
        raise SpecError(
            f"aggressive({share!r}) must be from 0 to 1: the share of a slide before the window "
            f"ends, for example 0.25"
        )
    if accuracy is None:
        return Aggressive(float(share or 0))
    made = Steered(1.0 if share is None else float(share), accuracy)
    made.steering()
    return made


def on_demand() -> OnDemand:
    """Answer prods of the running query's handle only: `run.prod()`."""
    return OnDemand()
