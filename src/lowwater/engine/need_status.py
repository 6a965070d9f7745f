"""The need part of the status: what was promised, what was kept, and what limited the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from lowwater.control.retune import in_force
from lowwater.dataflow.graph import Dataflow
from lowwater.engine.entry import Entry
from lowwater.needs.memory import NeedMemory, PartMemory
from lowwater.needs.part import DELAY, NeedPart
from lowwater.needs.policy import NeedPolicy
from lowwater.needs.statement import SHARE
from lowwater.needs.tally import Tally

SHORT = 0.01
"""A promise counts as limited if more than this share of the windows missed it."""
LIMITS = {
    "lateness": "lateness: rows came after the first answer was due",
    "work": "work: epochs take too long",
    "stopped": "silence: the query or its source stood still",
}
"""What can limit the first answers, by cause of a late one."""


@dataclass(frozen=True)
class NeedStatus:
    """The promises of a need and how they were kept, over all windows that hold a row.

    Attributes
    ----------
    promised
        The promises: `fresh`, `exact` if the need names it, and `right`, or `error` and `share`.
    kept
        For each promise, how far it was kept; None if no window shows it yet. `fresh` is the share
        of windows with a first answer in time; while answers are overdue, it is a lower bound:
        every overdue window counts. `exact` is the share of windows with a final in time. `right`
        is the mean accuracy of first answers: for early ones that of early results, for finals the
        share of rows that they contain. `share` is the share of first answers with at most the
        `error` that was promised, where a final that lacks a share of its rows has that error.
    given_up
        The numbers of windows that were dropped (`windows`), whose first answer was late (`fresh`),
        whose final was late (`exact`), and, if the need names an error, whose first answer had a
        larger one (`error`).
    limited_by
        What kept the promises from being kept.
    answers
        "finals" if finals are the first answers, else "early".
    slack
        The largest slack that the need allows; None if it allows any.
    """

    promised: Mapping[str, Any]
    kept: Mapping[str, float | None]
    given_up: Mapping[str, int]
    limited_by: tuple[str, ...] = ()
    answers: Literal["early", "finals"] = "early"
    slack: timedelta | None = None
    gives: tuple[str, ...] = field(default=())


def need_status(
    entry: Entry,
    flow: Dataflow,
    needs: NeedPolicy | None,
    accuracy: Mapping[str, float],
    complete: Mapping[str, float],
    *,
    behind: Collection[int] | None,
) -> dict[str, NeedStatus]:
    """Return the status of each need, by the name of its output.

    `accuracy` is the mean accuracy of early results by the name of an aggregate, with several
    operators by `operator.aggregate`; `complete` is the share of rows in finals, by operator.
    """
    memory = entry.need
    if needs is None or memory is None:
        return {}
    needs = needs.tuned(in_force(entry.overrides, needs.settings))
    several = len({output.operator for output in flow.outputs}) > 1
    dropped = 0 if entry.shed is None else entry.shed.windows
    found = {}
    for part, kept in zip(needs.parts, memory.parts, strict=True):
        if behind is None or part.operator in behind:
            name = flow.operators[part.operator].name
            mine = [a for n, a in accuracy.items() if not several or n.startswith(f"{name}.")]
            whole = kept.rightness.complete
            if whole is None:
                whole = complete.get(name, 1.0)
            found[part.name] = _status(part, kept, memory, _right(kept.tally, mine, whole), dropped)
    return found


def _status(
    part: NeedPart, kept: PartMemory, memory: NeedMemory, right: float | None, dropped: int
) -> NeedStatus:
    tally, need = kept.tally, part.need
    promised: dict[str, Any] = {"fresh": timedelta(microseconds=need.fresh_ticks)}
    found = {"fresh": _share(tally.in_time, tally.first + _overdue(part, kept, memory))}
    given_up = {"windows": dropped, "fresh": tally.first - tally.in_time}
    if need.error is None:
        promised["right"], found["right"] = need.right, right
    else:
        share = kept.rightness.share(tally.early, tally.first - tally.early)
        promised |= {"error": need.error, "share": need.share or SHARE}
        found["share"] = share
        given_up["error"] = 0 if share is None else round((1 - share) * tally.first)
    if (exact := need.exact_ticks) is not None:
        promised["exact"] = timedelta(microseconds=exact)
        found["exact"] = _share(tally.final_in_time, tally.final)
        given_up["exact"] = tally.final - tally.final_in_time
    return NeedStatus(
        promised,
        found,
        given_up,
        tuple(_limits(promised, found, tally, memory)),
        "finals" if kept.alone else "early",
        None if kept.cap is None else timedelta(microseconds=kept.cap),
        part.gives,
    )


def _share(some: int, every: int) -> float | None:
    return some / every if every else None


def _overdue(part: NeedPart, kept: PartMemory, memory: NeedMemory) -> int:
    """Return the number of ended windows whose first answer is overdue; some may hold no row."""
    limit = (memory.now or 0) - part.need.fresh_ticks
    late = [s for s in kept.sections if s.moment < limit]
    ends = {end for s in late for end in part.ends(s.since, s.end)}
    return sum(not kept.has_answered(end) for end in ends)


def _right(tally: Tally, accuracy: Collection[float], complete: float) -> float | None:
    """Return the mean accuracy of first answers; that of finals is the share of rows in them."""
    if not tally.first:
        return None
    early = min(accuracy, default=None)
    if early is None:
        return None if tally.early else complete
    return (tally.early * early + (tally.first - tally.early) * complete) / tally.first


def _limits(
    promised: Mapping[str, Any],
    kept: Mapping[str, float | None],
    tally: Tally,
    memory: NeedMemory,
) -> Iterator[str]:
    """Yield the texts of what limits a need."""
    for cause, text in LIMITS.items():
        if getattr(tally, cause) > SHORT * tally.first:
            yield text
    for name in ("right", "share"):
        if (found := kept.get(name)) is not None and found < promised[name]:
            yield "lateness: too few rows have arrived when the first answer is due"
    length = memory.pace.length
    if timedelta(microseconds=DELAY * length) > promised["fresh"]:
        yield f"epochs: one takes {length / 1e6:g} seconds, and an answer takes {DELAY} of them"
