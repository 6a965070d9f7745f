"""The quality part of the status: the delivered quality, and the slack in force."""

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
"""Quality is "measured" if at most this share of the losses was not counted in full."""
SHORT = 0.5
"""The status warns if more than this share of the intervals is shorter than an epoch."""


@dataclass(frozen=True)
class TrackInterval:
    """One interval of time: its end, its measured and estimated quality, and the slack by input."""

    end: Any
    measured: float | None
    estimated: float | None
    slack: Mapping[str, Any]


@dataclass(frozen=True)
class QualityStatus:
    """The quality of one operator's results: delivered results divided by results due.

    Attributes
    ----------
    target
        The quality target; None if the slack is the largest late degree (`lw.adaptive`).
    measured
        The quality of the last interval; None if no result was due in that interval.
    estimated
        The quality that the model estimates for the slack in force.
    overall
        The quality since the query began.
    kind
        "measured" if all losses were counted, "estimated" if some losses are estimates.
    met
        The share of intervals that reached the target.
    slack
        {input: slack in force}, as a timedelta or a number; `sources` is {source: slack in force}.
    of_sources
        The overall quality of each source that closes its groups separately.
    intervals
        The most recent intervals, the newest last.
    warnings
        Texts that explain why the target cannot be reached.
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
    """Return the status of every quality target, by the name of its operator or input."""
    memory = entry.adapting
    if adapter is None or memory is None:
        return {}
    adapter = adapter.tuned(in_force(entry.overrides, adapter.settings))
    status = {}
    for one, kept in zip(adapter.decisions, memory.decisions, strict=True):
        if behind is None or one.operator in behind:
            status[one.name] = _delivered(one, kept, memory.inputs, flow)
    for number, input in adapter.inputs.items():
        if input.largest:
            largest = memory.inputs[number].largest
            axis, name = flow.inputs[number].axis, _input(number)
            sources = {s: span(axis, t) for s, t in largest.items()} if input.by_source else {}
            most = {name: span(axis, max(largest.values(), default=0))}
            status[name] = QualityStatus(None, None, None, None, "measured", None, most, sources)
    return status


def _delivered(
    one: SlackDecision, kept: DecisionMemory, inputs: Mapping[int, LatenessMemory], flow: Dataflow
) -> QualityStatus:
    exact = one.measured not in (None, "late") and kept.unseen <= UNSEEN * kept.total.lost
    axis = flow.operators[one.operator].plan.axes[0]
    intervals = tuple(
        TrackInterval(axis.value(r.end), r.quality, r.estimated, _slacks(one, r.slacks, flow))
        for r in kept.recent
    )
    return QualityStatus(
        one.target,
        intervals[-1].measured if intervals else None,
        kept.estimated,
        _share(kept.total) if kept.total != Tally() else None,
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
    """Return a length on a window attribute (axis) as a timedelta or a number."""
    if axis.kind == "time":
        return timedelta(microseconds=ticks)
    return ticks if axis.per_unit == 1 else ticks / axis.per_unit


def _warnings(
    one: SlackDecision, kept: DecisionMemory, inputs: Mapping[int, LatenessMemory], flow: Dataflow
) -> list[str]:
    """Return texts that explain why a target cannot be reached."""
    plan = flow.operators[one.operator].plan
    axis, warnings = plan.axes[0], []
    intervals = len(kept.recent)
    if intervals > 1 and kept.longer > SHORT * (kept.judged or intervals):
        warnings.append(
            f"interval={axis.say(one.track)!r} is shorter than an epoch: slack is chosen after "
            f"each epoch instead"
        )
    reached = [_reached(port, inputs) for port in one.ports]
    if isinstance(plan, JoinPlan) and all(r is not None for r in reached):
        (a, b), (c, d) = (r for r in reached if r is not None)
        low, high = (plan.band.lo, plan.band.hi) if isinstance(plan.band, Band) else (0, 0)
        if c - b > high or a - d > -low:
            times = [f"{axis.value(t)}" for t in (a, b, c, d)]
            warnings.append(
                f"the streams have not overlapped in time: one is from {times[0]} to {times[1]}, "
                f"the other from {times[2]} to {times[3]}; no slack can make them join"
            )
    return warnings


def _reached(port: Sequence[int], inputs: Mapping[int, LatenessMemory]) -> tuple[int, int] | None:
    """Return the oldest and the newest time of a port's rows; None before the first row."""
    mine = [inputs[n] for n in port if inputs[n].ends]
    if not mine:
        return None
    oldest = [m.oldest for m in mine if m.oldest is not None]
    return min(oldest), max(m.ends[-1] for m in mine)
