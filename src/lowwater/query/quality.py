"""What a quality target came to: told by the status while a query runs, and by explain before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from lowwater.control import Entry, Source
from lowwater.control.tuning import in_force
from lowwater.kernels import Dataflow
from lowwater.kernels.bands import Band
from lowwater.kernels.joins import JoinPlan
from lowwater.windows import Axis

if TYPE_CHECKING:
    from lowwater.progress.deciding import Deciding
    from lowwater.progress.slacks import Slacks

UNSEEN = 0.01
"""Up to which share of what was lost rows may be whose losses are not known in full."""
SHORT = 0.5
"""From which share of intervals on that were shorter than an epoch it is said."""


@dataclass(frozen=True)
class TrackInterval:
    """One interval: where it ended, what was measured, what was estimated, and the slacks."""

    end: Any
    measured: float | None
    estimated: float
    slack: Mapping[str, Any]


@dataclass(frozen=True)
class Delivered:
    """What is delivered of what should be, at one operator.

    Attributes
    ----------
    target
        What is asked for; None where slack is the largest late degree.
    measured
        Of the last interval: produced over what should have been produced, None if that was
        nothing.
    estimated
        What the model says of the slack in force.
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
    sources: Mapping[Source, Any] = field(default_factory=dict)
    intervals: tuple[TrackInterval, ...] = ()
    warnings: tuple[str, ...] = ()
    of_sources: Mapping[Source, float] = field(default_factory=dict)


def delivered(
    entry: Entry, flow: Dataflow, adapter: Slacks | None, behind: Collection[int] | None
) -> dict[str, Delivered]:
    """Return what every target came to, by the name of its operator."""
    if adapter is None or not entry.adapting:
        return {}
    adapter = adapter.tuned(in_force(entry.tuned, adapter.settings))
    found = {}
    for one, kept in zip(adapter.decisions, entry.adapting["decisions"], strict=True):
        if behind is None or one.operator in behind:
            found[one.name] = _delivered(one, kept, entry.adapting["inputs"], flow)
    for number, input in adapter.inputs.items():
        if input.largest:
            largest = dict(map(tuple, entry.adapting["inputs"][str(number)]["largest"]))
            axis, name = flow.inputs[number].axis, _input(number)
            told = {s: span(axis, t) for s, t in largest.items()} if input.by_source else {}
            most = {name: span(axis, max(largest.values(), default=0))}
            found[name] = Delivered(None, None, None, None, "measured", None, most, told)
    return found


def _delivered(
    one: Deciding, kept: Mapping[str, Any], inputs: Mapping[str, Any], flow: Dataflow
) -> Delivered:
    given, lost = kept["total"]
    met, judged = kept["met"]
    exact = one.measured not in (None, "late") and kept["unseen"] <= UNSEEN * lost
    axis = flow.operators[one.operator].plan.axes[0]
    intervals = tuple(
        TrackInterval(axis.value(end), measured, estimated, _slacks(one, slacks, flow))
        for end, measured, estimated, slacks in kept["recent"]
    )
    return Delivered(
        one.target,
        intervals[-1].measured if intervals else None,
        kept["estimated"],
        given / (given + lost) if given + lost else None,
        "measured" if exact else "estimated",
        met / judged if judged else None,
        _slacks(one, kept["slacks"], flow),
        {source: span(flow.inputs[n].axis, k) for n, source, k in kept["sources"]},
        intervals,
        tuple(_warnings(one, kept, inputs, flow)),
        {source: g / (g + lost) for source, _, _, g, lost in kept["own"] if g + lost},
    )


def _slacks(one: Deciding, slacks: Sequence[int], flow: Dataflow) -> dict[str, Any]:
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
    one: Deciding, kept: Mapping[str, Any], inputs: Mapping[str, Any], flow: Dataflow
) -> list[str]:
    """Say what stands in the way of a target."""
    plan = flow.operators[one.operator].plan
    axis, said = plan.axes[0], []
    intervals = len(kept["recent"])
    if intervals > 1 and kept["longer"] > SHORT * (kept["met"][1] or intervals):
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


def _reached(port: Sequence[int], inputs: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return from when to when there have been rows at a port."""
    mine = [inputs[str(n)] for n in port if inputs[str(n)]["ends"]]
    if not mine:
        return None
    return min(m["oldest"] for m in mine), max(m["ends"][-1] for m in mine)


def explained(one: Deciding, axis: Axis) -> list[str]:
    """Say what a target means at an operator, and how slack is chosen."""
    how = {
        None: "by the model alone: what late rows have lost is not known here",
        "late": "on the rows of both sides that came late; the pairs they lost are estimated",
        "rows": "on the rows that late rows' windows had and missed",
        "windows": "on the rows that windows had and missed, over all their groups",
        "pairs": f"on pairs, also those missed by up to {axis.say(one.remembered)}",
    }[one.measured]
    track, step = axis.say(one.track), axis.say(one.granule)
    return [
        f"quality     at least {one.target:g}: {one.below.say()}",
        f"            slack in steps of {step}, chosen every {track} or, if longer, epoch",
        f"            measured {how}",
    ]
