"""The news of an epoch for needs: the windows that it answered, and the frontier of waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from lowwater.control.measures import AnsweredWindows, EpochMeasure, WaitingResult
from lowwater.control.report import EpochReport
from lowwater.control.watermark import latest
from lowwater.dataflow.answer_prods import window_ticks
from lowwater.dataflow.graph import Dataflow
from lowwater.early.accuracy import judged
from lowwater.early.prodder import Prodder
from lowwater.engine.entry import Entry
from lowwater.learners.slack_frontier import SlackFrontier
from lowwater.needs.memory import NeedMemory
from lowwater.needs.part import NeedPart, PartNews
from lowwater.needs.policy import NeedNews, NeedPolicy
from lowwater.operators.packet import Kind, Packet, tables
from lowwater.ticks import TICKS_PER_SECOND
from lowwater.watermarks.adaptive.adapter import AdapterMemory, SlackAdapter


def answered(needs: NeedPolicy | None, packets: Sequence[Packet]) -> Iterator[EpochMeasure]:
    """Yield a measurement of the windows that `packets` answer, if a need counts them."""
    if needs is None:
        return
    operators = {part.operator for part in needs.parts}
    answers = {
        operator: AnsweredWindows(
            _ends(operator, packets, "early"), _ends(operator, packets, "results")
        )
        for operator in sorted(operators)
    }
    found = {n: one for n, one in answers.items() if one != AnsweredWindows()}
    if found:
        yield EpochMeasure(answers=found)


def need_after(
    needs: NeedPolicy | None,
    before: Entry,
    report: EpochReport,
    flow: Dataflow,
    *,
    slacks: tuple[SlackAdapter | None, AdapterMemory | None],
    early: Prodder | None,
) -> NeedMemory | None:
    """Return the memory of `needs` after the epoch that follows `before`; None without needs.

    `slacks` is what chooses the slacks, and its memory; `early` requests early results.
    """
    if needs is None:
        return None
    took = [m.took for m in report.measured.epoch if m.took is not None]
    parts = [
        replace(
            _part(one, report, flow, *slacks),
            accuracies=_accuracies(one, before, report, early),
        )
        for one in needs.parts
    ]
    news = NeedNews(report.now, parts, took[0] if took else None)
    return needs.advance(before.need or needs.begin(), news, hurried=not before.quiet)


def requests(needs: NeedPolicy | None, memory: NeedMemory | None) -> dict[str, Any]:
    """Return the setting with the early results that `needs` request."""
    return {} if needs is None or memory is None else needs.requests(memory)


def loads(needs: NeedPolicy | None, before: Entry) -> dict[str, Any]:
    """Return the setting with the time that work may take after `before`."""
    return {} if needs is None or before.need is None else needs.load(before.need)


def limited(adapter: SlackAdapter, needs: NeedPolicy | None, before: Entry) -> SlackAdapter:
    """Return `adapter` with the largest slacks that `needs` allow after `before`."""
    if needs is None or before.need is None:
        return adapter
    return adapter.limited(needs.limits(before.need))


def _part(
    part: NeedPart,
    report: EpochReport,
    flow: Dataflow,
    adapter: SlackAdapter | None,
    adapting: AdapterMemory | None,
) -> PartNews:
    answers = [m.answers.get(part.operator, AnsweredWindows()) for m in report.measured.epoch]
    ports = report.ports
    return PartNews(
        latest(*(report.inputs[n].newest for n in part.inputs)),
        ports[flow.numbers[part.operator, 0]].low if ports else None,
        tuple(end for one in answers for end in one.early),
        tuple(end for one in answers for end in one.finals),
        SlackFrontier()
        if adapter is None or adapting is None
        else adapter.frontier(adapting, part.operator),
        closed=_by_end(part, report, flow, "closed"),
        missed=_by_end(part, report, flow, "missed"),
    )


def _by_end(
    part: NeedPart, report: EpochReport, flow: Dataflow, count: Literal["closed", "missed"]
) -> list[tuple[int, int]]:
    """Return (end of a window, number of rows), if the kernel counts rows by window."""
    plan = flow.operators[part.operator].plan
    if not plan.books_quality or plan.compared:
        return []
    shards = report.measured.of_operator(part.operator)
    return [one for shard in shards for one in getattr(shard, count)]


def _accuracies(
    part: NeedPart, before: Entry, report: EpochReport, prodder: Prodder | None
) -> tuple[float, ...]:
    """Return the accuracies of first answers that were early, where finals are known now.

    The accuracy of an answer is that of its worst aggregate. The learner remembers a sample of the
    groups.
    """
    if part.need.error is None or prodder is None or before.early is None:
        return ()
    learning = prodder.learning.get(part.operator)
    finals: dict[str, Sequence[float]] = {}
    for measured in report.measured.epoch:
        if part.operator in measured.learned:
            finals |= measured.learned[part.operator].finals
    if learning is None or not finals:
        return ()
    pairs, _ = prodder.learned(before.early, part.operator).sample.paired(finals)
    first: dict[str, WaitingResult] = {}
    for one, _ in pairs:
        if one.key not in first or one.at < first[one.key].at:
            first[one.key] = one
    if not first:
        return ()
    every = list(first.values())
    between = [(report.now - one.at) / TICKS_PER_SECOND for one in every]
    by_name = [
        judged(
            [one.said[name] for one in every],
            [finals[one.key][n] for one in every],
            between,
            learning.accuracy,
        )
        for n, name in enumerate(learning.kinds)
    ]
    return tuple(np.min(by_name, axis=0).tolist())


def _ends(operator: int, packets: Sequence[Packet], kind: Kind) -> tuple[int, ...]:
    """Return the window ends of the rows of one kind that an operator emitted."""
    mine = [p for p in packets if p.operator == operator and p.kind == kind]
    ends = [np.unique(window_ticks(table)[1]) for table in tables(mine, kind) if len(table)]
    return tuple(np.unique(np.concatenate(ends)).tolist()) if ends else ()
