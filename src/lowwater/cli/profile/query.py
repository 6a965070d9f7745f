"""The profile of a query over a recording: what completeness costs, and how right early values are.

The query is replayed epoch by epoch, as a live stream would have arrived. The frontier is exact for
every fixed slack: it follows from the slack that each row needs for each of its windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lowwater.cli.replay.args import QueryArgs, stream_names
from lowwater.cli.replay.leads import SHARES, LeadAccuracy, accuracies
from lowwater.cli.replay.length import plain_slack, setting
from lowwater.cli.replay.query import RecordedQuery
from lowwater.cli.replay.read import Recording
from lowwater.cli.replay.windows import frontier_of, slack_policy, slide_of
from lowwater.errors import SpecError
from lowwater.learners.frontier import Frontier, Price, knees, prices
from lowwater.ticks import TICKS_PER_SECOND
from lowwater.windows.axis import Axis

FINALS = 0.99
"""The completeness of the finals with which early values are compared."""


@dataclass(frozen=True, eq=False)
class QueryProfile:
    """The profile of a query: the price of completeness, and the accuracy of early values."""

    query: RecordedQuery
    axis: Axis
    frontier: Frontier
    prices: Sequence[Price]
    finals: int
    leads: Sequence[LeadAccuracy] = field(default_factory=tuple)

    @property
    def knees(self) -> list[tuple[Price, Price]]:
        """Neighbouring prices of which the second is much higher."""
        return knees(self.prices, self.query.epochs.length)

    @property
    def timed(self) -> bool:
        """Whether waits are lengths of time, not of numbers."""
        return not self.query.counts_numbers


def profile_query(recording: Recording, args: QueryArgs) -> QueryProfile:
    """Return the profile of a query over a recording."""
    text = args.text()
    names = stream_names(text)
    if len(names) != 1:
        raise SpecError(
            f"the query reads {len(names)} streams ({', '.join(names)}), but a profile has one "
            f"FILE; compare settings of this query with: lowwater try --source NAME=PATH"
        )
    query = RecordedQuery.of(text, [replace(recording, name=names[0])], args.epoch)
    frontier = frontier_of(query)
    if frontier is None:
        raise SpecError(
            "a profile replays windows of a fixed range directly over a stream, but this query "
            "has other operators; compare its settings with: lowwater try"
        )
    if not frontier.pairs.total:
        raise SpecError("no row reaches a window of the query; check its filter and --time")
    plain = partial(plain_slack, recording.axis)
    known, finals = prices(frontier, plain=plain), plain(frontier.slack(FINALS))
    leads = _leads(query, recording.axis, frontier, finals) if args.early else []
    return QueryProfile(query, recording.axis, frontier, known, finals, leads)


def _leads(query: RecordedQuery, axis: Axis, frontier: Frontier, slack: int) -> list[LeadAccuracy]:
    policy = slack_policy(axis, slack)
    slide = slide_of(query)
    assert slide is not None  # noqa: S101
    wait = int(frontier.mean_wait(slack))
    leads = [*(int(share * slide) for share in SHARES), -wait // 2]
    return accuracies(query, policy, slide, frontier.progress, leads)


def query_record(profile: QueryProfile) -> dict[str, Any]:
    """Return the profile in the types of JSON; lengths are in seconds, or numbers."""
    scale = TICKS_PER_SECOND if profile.timed else 1
    slacks = TICKS_PER_SECOND if profile.axis.kind == "time" else profile.axis.per_unit
    return {
        "query": profile.query.text,
        "epochs": len(profile.query.cuts),
        "epoch": profile.query.epochs.length / scale,
        "prices": [
            {
                "completeness": one.completeness,
                "delivered": one.delivered,
                "slack": one.slack / slacks,
                "mean_wait": one.mean / scale,
                "wait_95": one.most / scale,
                "watermark": setting(profile.axis, one.slack),
            }
            for one in profile.prices
        ],
        "knees": [[a.completeness, b.completeness] for a, b in profile.knees],
        "frontier": [
            [completeness, wait / scale] for _, completeness, wait in profile.frontier.points()
        ],
        "early": [
            {
                "lead": one.lead / scale,
                "answered": one.answered,
                "accuracy": dict(one.accuracy),
            }
            for one in profile.leads
        ],
    }
