"""What a quality target came to: told by the status while a query runs, and by explain before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from lowwater.control.retune import in_force
from lowwater.control.watermark import SourceKey
from lowwater.dataflow.graph import Dataflow
from lowwater.engine.entry import Entry
from lowwater.operators.join.band import Band
from lowwater.operators.join.plan import JoinPlan
from lowwater.watermarks.adaptive.decision_memory import DecisionMemory, LatenessMemory, Tally
from lowwater.windows.axis import Axis

if TYPE_CHECKING:
    from lowwater.watermarks.adaptive.adapter import SlackAdapter
    from lowwater.watermarks.adaptive.decision import SlackDecision

UNSEEN = 0.01
"""Largest share of losses that may come from rows whose losses were not fully counted."""
SHORT = 0.5
"""Share of intervals shorter than an epoch from which a warning is given."""


@dataclass(frozen=True)
class TrackInterval:
    """One interval: where it ended, what was measured, what was estimated, and the slacks."""

    end: Any
    measured: float | None
    estimated: float | None
    slack: Mapping[str, Any]


@dataclass(frozen=True)
class QualityStatus:
    """What is delivered of what should be, at one operator.

    Attributes
    ----------
    target
        What is asked for; None where slack is the largest late degree.
    measured
        Of the last interval: produced over what should have been produced, None if that was
        nothing.
    estimated
        The quality that the model estimates for the slack in force.
    overall
        Produced over what should have been produced since the query began.
    kind
        "measured" if both were counted, "estimated" if the model, or an average, stands in for
        what late rows have lost.
    met
        Which share of the intervals was at or above the target.
    slack
        The slack in force by input, in its own unit; `sources` has that of single sources.
    of_sources
        As `overall`, of single sources, where they close groups of their own.
    intervals
        The last intervals, the newest last.
    warnings
        What stands in the way of the target.
    """

    target: float | None
    measured: float | None
    estimated: float | None
    overall: float | None
    kind: Literal["measured", "estimated"]
    met: float | None
    slack: Mapping[str, Any]
    sources: Mapping[SourceKey, Any] = field(default_factory=dict)
    intervals: tuple[TrackInterval, ...] = ()
    warnings: tuple[str, ...] = ()
    of_sources: Mapping[SourceKey, float] = field(default_factory=dict)


def quality_status(
    entry: Entry, flow: Dataflow, adapter: SlackAdapter | None, behind: Collection[int] | None
) -> dict[str, QualityStatus]:
    """Return what every target came to, by the name of its operator."""
    memory = entry.adapting
    if adapter is None or memory is None:
        return {}
    adapter = adapter.tuned(in_force(entry.overrides, adapter.settings))
    found = {}
    for one, kept in zip(adapter.decisions, memory.decisions, strict=True):
        if behind is None or one.operator in behind:
            found[one.name] = _delivered(one, kept, memory.inputs, flow)
    for number, input in adapter.inputs.items():
        if input.largest:
            largest = memory.inputs[number].largest
            axis, name = flow.inputs[number].axis, _input(number)
            told = {s: span(axis, t) for s, t in largest.items()} if input.by_source else {}
            most = {name: span(axis, max(largest.values(), default=0))}
            found[name] = QualityStatus(None, None, None, None, "measured", None, most, told)
    return found


def _delivered(
    one: SlackDecision,
    kept: DecisionMemory,
    inputs: Mapping[int, LatenessMemory],
    flow: Dataflow,
) -> QualityStatus:
    given, lost = kept.total.given, kept.total.lost
    exact = one.measured not in (None, "late") and kept.unseen <= UNSEEN * lost
    axis = flow.operators[one.operator].plan.axes[0]
    intervals = tuple(
        TrackInterval(axis.value(r.end), r.quality, r.estimated, _slacks(one, r.slacks, flow))
        for r in kept.recent
    )
    return QualityStatus(
        one.target,
        intervals[-1].measured if intervals else None,
        kept.estimated,
        given / (given + lost) if given + lost else None,
        "measured" if exact else "estimated",
        kept.met / kept.judged if kept.judged else None,
        _slacks(one, kept.slacks, flow),
        {source: span(flow.inputs[n].axis, k) for (n, source), k in kept.source_slacks.items()},
        intervals,
        tuple(_warnings(one, kept, inputs, flow)),
        {s: _share(tally.total) for s, tally in kept.own.items() if tally.total != Tally()},
    )


def _share(tally: Tally) -> float:
    return tally.given / (tally.given + tally.lost)


def _slacks(one: SlackDecision, slacks: Sequence[int], flow: Dataflow) -> dict[str, Any]:
    return {
        _input(n): span(flow.inputs[n].axis, slack)
        for port, slack in zip(one.ports, slacks, strict=True)
        for n in port
    }


def _input(number: int) -> str:
    return f"input {number + 1}"


def span(axis: Axis, ticks: int) -> Any:
    """Return a length on an axis as a Python value."""
    if axis.kind == "time":
        return timedelta(microseconds=ticks)
    return ticks if axis.per_unit == 1 else ticks / axis.per_unit


def _warnings(
    one: SlackDecision,
    kept: DecisionMemory,
    inputs: Mapping[int, LatenessMemory],
    flow: Dataflow,
) -> list[str]:
    """Return warnings on what prevents a target."""
    plan = flow.operators[one.operator].plan
    axis, said = plan.axes[0], []
    intervals = len(kept.recent)
    if intervals > 1 and kept.longer > SHORT * (kept.judged or intervals):
        said.append(
            f"track={axis.say(one.track)!r} is shorter than an epoch: slack is chosen after each "
            f"epoch instead"
        )
    reached = [_reached(port, inputs) for port in one.ports]
    if isinstance(plan, JoinPlan) and all(r is not None for r in reached):
        (a, b), (c, d) = (r for r in reached if r is not None)
        low, high = (plan.band.lo, plan.band.hi) if isinstance(plan.band, Band) else (0, 0)
        if c - b > high or a - d > -low:
            times = [f"{axis.value(t)}" for t in (a, b, c, d)]
            said.append(
                f"the streams have not overlapped in time: one is from {times[0]} to {times[1]}, "
                f"the other from {times[2]} to {times[3]}; no slack can make them join"
            )
    return said


def _reached(port: Sequence[int], inputs: Mapping[int, LatenessMemory]) -> tuple[int, int] | None:
    """Return from when to when there have been rows at a port."""
    mine = [inputs[n] for n in port if inputs[n].ends]
    if not mine:
        return None
    oldest = [m.oldest for m in mine if m.oldest is not None]
    return min(oldest), max(m.ends[-1] for m in mine)
