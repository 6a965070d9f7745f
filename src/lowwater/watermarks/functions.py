"""The watermark policies of the public API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from lowwater.errors import SpecError, removed, renamed
from lowwater.ticks import Duration
from lowwater.watermarks.adaptive.policies import Adaptive, AdaptiveSlack, PdSlack, Quality
from lowwater.watermarks.per_source import PerSource
from lowwater.watermarks.policy import BY_CLOCK, WatermarkPolicy
from lowwater.watermarks.punctuation import Punctuation
from lowwater.watermarks.slack import Slack


@renamed(lull="idle_timeout", idle="idle_timeout")
def slack(
    span: Any = None,
    *,
    rows: int | None = None,
    mode: Literal["generous", "consistent"] = "generous",
    idle_timeout: Duration | None = None,
    max_ahead: Any = BY_CLOCK,
    clock: Literal["wall"] | None = None,
) -> Slack:
    """Return a policy that allows rows to be late by `span`, or by `rows` rows.

    The watermark is the newest time minus `span`, or the newest time of all rows except the last
    `rows`. With mode "generous", a late row enters those of its windows that are still open. With
    "consistent", a row that is late for one of its windows misses all of them; results then do not
    depend on the division of the stream into epochs (WID 8.2).

    >>> slack("10 seconds").span
    '10 seconds'
    """
    return Slack(
        span=span, rows=rows, mode=mode, idle_timeout=idle_timeout, max_ahead=max_ahead, clock=clock
    )


@renamed(lull="idle_timeout", idle="idle_timeout")
def ordered(
    *,
    idle_timeout: Duration | None = None,
    max_ahead: Any = BY_CLOCK,
    clock: Literal["wall"] | None = None,
) -> Slack:
    """Return a policy for rows that arrive in order of time: slack 0."""
    return Slack(span=0, idle_timeout=idle_timeout, max_ahead=max_ahead, clock=clock)


@renamed(lull="idle_timeout", idle="idle_timeout")
def punctuated(
    when: str,
    *,
    by: str | None = None,
    since: str | None = None,
    idle_timeout: Duration | None = None,
    max_ahead: Any = BY_CLOCK,
    clock: Literal["wall"] | None = None,
) -> Punctuation:
    """Return a policy that reads punctuations: rows whose boolean column `when` is true.

    A punctuation promises that no later row has a time before the punctuation's time. With `by`,
    the promise covers only rows with the same value of `by`. With the column `since`, the promise
    covers only times from `since` up to the punctuation's time: windows in that interval close even
    if earlier rows are still to arrive. If `since` is NULL, the promise covers all earlier times.
    Punctuations are not data. Rows that break a promise are late and are counted as contradicted.
    """
    return Punctuation(
        when=when, by=by, since=since, idle_timeout=idle_timeout, max_ahead=max_ahead, clock=clock
    )


@renamed(lull="idle_timeout", idle="idle_timeout")
def per_source(
    column: str,
    each: WatermarkPolicy,
    *,
    idle_timeout: Duration | None = None,
    max_ahead: Any = BY_CLOCK,
    clock: Literal["wall"] | None = None,
) -> PerSource:
    """Return a policy with one watermark per source; the stream's watermark is their minimum.

    If `group_by` contains `column`, the watermark of a source closes the groups of that source.

    A source that is silent for the `idle_timeout` of `each` (wall clock) is idle: the minimum
    excludes it. A source that sends rows again counts for the minimum once its watermark is at
    least the stream's watermark; until then, its rows behind the stream's watermark are late. If
    all sources are silent for the `idle_timeout` of `per_source` itself, the stream's watermark
    follows the wall clock.

    >>> per_source("sensor", slack("5 seconds", idle_timeout="1 minute")).each.idle_timeout
    '1 minute'
    """
    if not isinstance(each, Slack | AdaptiveSlack):
        raise SpecError(
            f"lw.per_source({column!r}, {each!r}) cannot apply this policy to each source; write "
            f"lw.slack(a span), lw.ordered(), lw.adaptive(), lw.quality(...) or "
            f"lw.pd_controller(...)"
        )
    return PerSource(
        column=column, each=each, idle_timeout=idle_timeout, max_ahead=max_ahead, clock=clock
    )


@renamed(lull="idle_timeout", idle="idle_timeout")
def adaptive(
    *,
    idle_timeout: Duration | None = None,
    max_ahead: Any = BY_CLOCK,
    clock: Literal["wall"] | None = None,
) -> Adaptive:
    """Return a policy whose slack is the largest late degree so far.

    The slack never shrinks. A row with a larger late degree than all earlier rows may be late.
    """
    return Adaptive(idle_timeout=idle_timeout, max_ahead=max_ahead, clock=clock)


_LEARNED = "the policy learns how often to choose a slack, how finely, and how long to remember"


@removed(
    track=_LEARNED,
    interval=_LEARNED,
    granularity=_LEARNED,
    decay=_LEARNED,
    overall="a target holds over the last 500 windows",
)
@renamed(lull="idle_timeout", idle="idle_timeout")
def quality(
    target: float | None = None,
    *,
    by_window: bool = False,
    error: float | None = None,
    share: float = 0.95,
    by: str | None = None,
    idle_timeout: Duration | None = None,
    max_ahead: Any = BY_CLOCK,
    clock: Literal["wall"] | None = None,
) -> Quality | PerSource:
    """Return a policy that chooses the smallest slack that meets a quality target.

    The stream must feed windows or a join. Slack only delays the watermark; it buffers no rows.
    For windows, the policy controls the slack by the slacks that rows needed, and keeps the target
    over the last 500 windows; the first windows wait for one range. For joins, it follows a model
    of late degrees (QDJ).

    Parameters
    ----------
    target
        The share of results that must be produced: pairs of a join, or rows in windows. 0.95 allows
        the loss of one result in twenty.
    by_window
        For windows: the target applies to the rows of each result, and a `share` of the results
        must meet it.
    error
        Instead of `target`, for windows: the largest relative error of a final result, by its
        values; a `share` of the results must be within it.
    share
        The share of results that must meet `by_window` or `error`.
    by
        The column that identifies sources, as in `lw.per_source`: each source has its own slack and
        must meet the target. The first 63 sources have a slack of their own, all others share one.

    >>> quality(0.95).target
    0.95
    """
    policy = Quality(target=target, by_window=by_window, error=error, share=share)
    rest: dict[str, Any] = {"idle_timeout": idle_timeout, "max_ahead": max_ahead, "clock": clock}
    return replace(policy, **rest) if by is None else PerSource(column=by, each=policy, **rest)


@renamed(lull="idle_timeout", idle="idle_timeout", track="interval")
def pd_controller(
    target: float,
    *,
    proportional: Any = "1 second",
    derivative: Any = "100 milliseconds",
    interval: Any = "1 second",
    granularity: Any = "10 milliseconds",
    idle_timeout: Duration | None = None,
    max_ahead: Any = BY_CLOCK,
    clock: Literal["wall"] | None = None,
) -> PdSlack:
    """Return a policy that sets the slack by a proportional-derivative controller of quality.

    The error is the target minus the measured quality. After each interval the slack grows by
    `proportional` times the error plus `derivative` times the change of the error. Both gains must
    be tuned, because the controller does not measure late degrees; `lw.quality` needs no tuning.
    """
    return PdSlack(
        target=target,
        proportional=proportional,
        derivative=derivative,
        interval=interval,
        granularity=granularity,
        idle_timeout=idle_timeout,
        max_ahead=max_ahead,
        clock=clock,
    )
