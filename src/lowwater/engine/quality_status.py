"""The quality part of the status: the delivered quality, and the slack in force."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from lowwater.control.retune import in_force
from lowwater.control.watermark import SourceKey
from lowwater.dataflow.graph import Dataflow
from lowwater.engine.entry import Entry
from lowwater.operators.join.band import Band
from lowwater.operators.join.plan import JoinPlan
from lowwater.operators.operator import OperatorPlan
from lowwater.watermarks.adaptive.decision_memory import DecisionMemory, LatenessMemory, Tally
from lowwater.watermarks.adaptive.quality_book import QualitySpan, last_windows
from lowwater.watermarks.adaptive.told_quality import (
    ToldQuality,
    frontier,
    frontier_of_pairs,
    told_of_pairs,
    told_quality,
)
from lowwater.watermarks.adaptive.tournament import HORIZON
from lowwater.windows.axis import Axis

if TYPE_CHECKING:
    from lowwater.watermarks.adaptive.adapter import SlackAdapter
    from lowwater.watermarks.adaptive.decision import SlackDecision
    from lowwater.watermarks.adaptive.pair_slack import PairSlack, PairSlackMemory
    from lowwater.watermarks.adaptive.window_slack import WindowSlack, WindowSlackMemory

SHORT = 0.5
"""The status warns if more than this share of the intervals is shorter than an epoch."""


@dataclass(frozen=True)
class TrackInterval:
    """One interval of time: its end, its measured and estimated quality, and the slack by input.

    While more of its rows may be late, `measured` is None, and `at_least` is a lower bound.
    """

    end: Any
    measured: float | None
    estimated: float | None
    slack: Mapping[str, Any]
    at_least: float | None = None


@dataclass(frozen=True)
class FrontierPoint:
    """One trade-off of a frontier: the share of rows in time, and the slack that it costs.

    `wait` is a timedelta, or a number if windows are not over time.
    """

    completeness: float
    wait: Any


@dataclass(frozen=True)
class QualityStatus:
    """The quality of one operator's results: delivered results divided by results due.

    Attributes
    ----------
    target
        The quality target; None if the slack is the largest late degree (`lw.adaptive`).
    measured
        The quality of the last 500 windows, or units of time of a join, that are settled:
        practically no more rows can be late for them. With a model, the quality of the last
        interval. None if nothing was due.
    estimated
        The quality that a model estimates for the slack in force; None without a model.
    overall
        The quality since the query began, of settled windows or pairs.
    kind
        "measured" if all losses were counted, "estimated" if some losses are estimates.
    met
        The share of intervals that reached the target; None without a model.
    slack
        {input: slack in force}, as a timedelta or a number; `sources` is {source: slack in force}.
    of_sources
        The overall quality of each source that closes its groups separately.
    intervals
        The most recent intervals, the newest last.
    warnings
        Texts that explain why the target cannot be reached.
    at_least
        A lower bound of the quality of the last 500 closed windows, settled or not.
    frontier
        Completeness against wait, from the last 500 windows or units of time.
    buffer
        The average buffer size of QDJ, as a length of time: for windows the mean slack of the last
        500, for joins the mean of the larger slack of the last units of time. Where a model chooses
        the slack, that of the recent intervals, plus the time for which rows of the stream that is
        ahead wait for the other one (the sync buffer).
    wait
        The mean wait of the finals of the last 500 windows: how far the newest time was past the
        end of a window when it was closed. None for joins, which emit pairs at once.
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
    at_least: float | None = None
    frontier: tuple[FrontierPoint, ...] = ()
    buffer: Any = None
    wait: Any = None


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
    for window, known in zip(adapter.windows, memory.windows, strict=True):
        if behind is None or window.operator in behind:
            status[window.name] = _of_windows(window, known, flow, ended=entry.ended)
    for pair, sides in zip(adapter.pairs, memory.pairs, strict=True):
        if behind is None or pair.operator in behind:
            status[pair.name] = _of_pairs(pair, sides, flow, ended=entry.ended)
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
    exact = one.measured not in (None, "late")
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
        buffer=_pair_buffer(one, kept, axis),
    )


def _pair_buffer(one: SlackDecision, kept: DecisionMemory, axis: Axis) -> Any:
    """Return the mean slack of the recent intervals and the sync buffer; None without intervals."""
    slacks = [max(record.slacks) for record in kept.recent if record.slacks]
    if not slacks:
        return None
    apart = [abs(lag) * one.granule for lag in kept.lags]
    return span(axis, round(fmean(slacks) + (fmean(apart) if apart else 0)))


def _window_means(spans: Sequence[QualitySpan], axis: Axis) -> tuple[Any, Any]:
    """Return the mean slack and the mean wait of the last windows; None before the first one."""
    recent = last_windows(spans, HORIZON)
    windows = sum(one.windows for one in recent)
    if not windows:
        return None, None
    slack, waited = (
        sum(one.slack * one.windows for one in recent),
        sum(one.waited for one in recent),
    )
    return span(axis, round(slack / windows)), span(axis, round(waited / windows))


def _of_windows(
    one: WindowSlack, kept: WindowSlackMemory, flow: Dataflow, *, ended: bool
) -> QualityStatus:
    """Return the quality of windows: that of the book or, without a book, that of the rule."""
    axis = flow.operators[one.operator].plan.axes[0]
    told = told_quality(one, kept, ended=ended)
    slacks = {_input(n): span(flow.inputs[n].axis, kept.one.slack) for n in one.inputs}
    return QualityStatus(
        one.target,
        told.measured,
        None,
        told.overall,
        "measured" if told.booked else "estimated",
        None,
        slacks,
        {s: span(axis, own.slack) for s, own in kept.sources.items()},
        _intervals(told, slacks, axis),
        (),
        {s: own.rule.kept for s, own in kept.sources.items() if own.rule.given > 0},
        told.at_least,
        tuple(FrontierPoint(share, span(axis, wait)) for share, wait in frontier(one, kept)),
        *_window_means(kept.book.spans, axis),
    )


def _of_pairs(
    one: PairSlack, kept: PairSlackMemory, flow: Dataflow, *, ended: bool
) -> QualityStatus:
    """Return the quality of a join."""
    plan, told = flow.operators[one.operator].plan, told_of_pairs(one, kept, ended=ended)
    axis, slacks = plan.axes[0], _slacks(one, kept.slacks, flow)
    newest = [side.newest for side in kept.rule.sides] * len(one.ports)
    reached = [_both(old, new) for old, new in zip(kept.oldest, newest, strict=False)]
    met = any(side.given > 0 for side in kept.rule.sides)
    return QualityStatus(
        one.target,
        told.measured,
        None,
        told.overall,
        "measured" if plan.labels.isdisjoint({"outer join"}) else "estimated",
        None,
        slacks,
        {},
        _intervals(told, slacks, axis),
        () if met else tuple(_apart(plan, reached)),
        {},
        told.at_least,
        tuple(FrontierPoint(s, span(axis, wait)) for s, wait in frontier_of_pairs(one, kept)),
        buffer=_window_means(kept.book.spans, axis)[0],
    )


def _intervals(told: ToldQuality, slacks: Collection[str], axis: Axis) -> tuple[TrackInterval, ...]:
    """Return what is known of each span of windows, or of units of time of a join."""
    return tuple(
        TrackInterval(
            axis.value(part.end),
            part.quality if part.settled else None,
            None,
            {name: span(axis, part.slack) for name in slacks},
            part.at_least,
        )
        for part in told.spans
    )


def _both(old: int | None, new: int | None) -> tuple[int, int] | None:
    return None if old is None or new is None else (old, new)


def _share(tally: Tally) -> float:
    return tally.given / (tally.given + tally.lost)


def _slacks(
    one: SlackDecision | PairSlack, slacks: Sequence[int], flow: Dataflow
) -> dict[str, Any]:
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
    return [*warnings, *_apart(plan, [_reached(port, inputs) for port in one.ports])]


def _apart(plan: OperatorPlan, reached: Sequence[tuple[int, int] | None]) -> Iterator[str]:
    """Yield a text if the streams of a join, from oldest to newest time, have not overlapped."""
    axis = plan.axes[0]
    if isinstance(plan, JoinPlan) and all(r is not None for r in reached):
        (a, b), (c, d) = (r for r in reached if r is not None)
        low, high = (plan.band.lo, plan.band.hi) if isinstance(plan.band, Band) else (0, 0)
        if c - b > high or a - d > -low:
            times = [f"{axis.value(t)}" for t in (a, b, c, d)]
            yield (
                f"the streams have not overlapped in time: one is from {times[0]} to {times[1]}, "
                f"the other from {times[2]} to {times[3]}; no slack can make them join"
            )


def _reached(port: Sequence[int], inputs: Mapping[int, LatenessMemory]) -> tuple[int, int] | None:
    """Return the oldest and the newest time of a port's rows; None before the first row."""
    mine = [inputs[n] for n in port if inputs[n].ends]
    if not mine:
        return None
    oldest = [m.oldest for m in mine if m.oldest is not None]
    return min(oldest), max(m.ends[-1] for m in mine)
