"""The watermark policies of the public API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from lowwater.errors import SpecError, renamed
from lowwater.ticks import Duration
from lowwater.watermarks.adaptive.policies import Adaptive, AdaptiveSlack, PdSlack, Quality
from lowwater.watermarks.per_source import PerSource
from lowwater.watermarks.policy import WatermarkPolicy
from lowwater.watermarks.punctuation import Punctuation
from lowwater.watermarks.slack import Slack


@renamed(lull="idle_timeout", idle="idle_timeout")
def slack(
    span: Any = None,
    *,
    rows: int | None = None,
    mode: Literal["generous", "consistent"] = "generous",
    idle_timeout: Duration | None = None,
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Slack:
    """Return a policy that allows rows to be late by `span`, or by `rows` rows.

    The watermark is the newest time minus `span`, or the newest time before the last `rows` rows.
    With mode "generous", a late row still enters its windows that are open. With "consistent", a
    row that is late for one of its windows misses all of them, so results do not depend on how the
    stream is cut into epochs (WID 8.2).

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
    max_ahead: Any = None,
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
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Punctuation:
    """Return a policy that reads punctuations: rows whose boolean column `when` is true.

    A punctuation promises that no later row has a time before its own; with `by`, no later row with
    the same value of `by`. With the column `since`, it promises that no later row has a time from
    `since` up to its own: windows in that interval close even while rows before it are still on
    their way. Where `since` is NULL, the promise covers all earlier time. A punctuation is not
    data. Rows that break a promise are late and are counted as contradictions.
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
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> PerSource:
    """Return a policy with a watermark for each source; the stream's is their minimum.

    Where the group-by contains `column`, a source's own watermark closes its groups.

    A source that is silent for the `idle_timeout` of `each` (wall clock) no longer counts for the
    minimum. When it sends rows again, it counts once it has reached the common watermark; until
    then its rows behind that watermark are late. The `idle_timeout` of `per_source` itself applies
    when all sources are silent: the stream's watermark then follows the wall clock.

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
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Adaptive:
    """Return a policy whose slack is the largest late degree so far.

    The slack never shrinks. A row that is later than all rows before it may still be late.
    """
    return Adaptive(idle_timeout=idle_timeout, max_ahead=max_ahead, clock=clock)


@renamed(lull="idle_timeout", idle="idle_timeout", track="interval")
def quality(
    target: float | None = None,
    *,
    error: float | None = None,
    share: float = 0.95,
    by: str | None = None,
    interval: Any = "1 second",
    overall: bool = False,
    granularity: Any = "10 milliseconds",
    decay: float = 0.8,
    idle_timeout: Duration | None = None,
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Quality | PerSource:
    """Return a policy that chooses the smallest slack that meets a quality target (QDJ).

    The stream must feed windows or a join. Slack delays the watermark only; no row is buffered for
    it.

    Parameters
    ----------
    target
        The share of results that must be produced: of the pairs of a join, or of the rows in
        windows. 0.95 loses at most one in twenty.
    error, share
        Instead of `target`, for windows: the largest relative error of a final result, and the
        share of windows that must be within it.
    by
        A column: each of its values has a slack of its own and must meet the target by itself, as
        with `lw.per_source`.
    interval
        How long, in event time, a slack stays in force. If epochs are longer, every epoch chooses a
        new slack.
    overall
        Apply the target to the whole run instead of each interval.
    granularity
        The step size of the slack.
    decay
        The weight that late degrees keep after each interval.

    >>> quality(0.95, interval="5 seconds").target
    0.95
    """
    policy = Quality(
        target=target,
        error=error,
        share=share,
        interval=interval,
        overall=overall,
        granularity=granularity,
        decay=decay,
    )
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
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> PdSlack:
    """Return a policy that sets the slack by a proportional-derivative controller of quality.

    After each interval the slack grows by `proportional` times the shortfall and `derivative` times
    its change. The controller does not measure how late rows are, so its gains must be tuned;
    `lw.quality` needs no tuning.
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
