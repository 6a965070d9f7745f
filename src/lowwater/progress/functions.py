"""The progress policies of the public API."""

from __future__ import annotations

from typing import Any, Literal

from lowwater.durations import Duration
from lowwater.errors import SpecError
from lowwater.progress.adapted import Adaptive, Chosen, Pd, Quality
from lowwater.progress.per_source import PerSource
from lowwater.progress.policy import Progress
from lowwater.progress.punctuated import Punctuated
from lowwater.progress.slack import Slack


def slack(
    span: Any = None,
    *,
    rows: int | None = None,
    mode: Literal["generous", "consistent"] = "generous",
    lull: Duration | None = None,
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Slack:
    """Believe that no row is later than `span` behind the newest, or than `rows` rows.

    `generous`: a late row still enters those of its windows that are open. `consistent`: a row that
    is late for one of its windows misses all, however the stream is cut into epochs (WID 8.2).

    >>> slack("10 seconds").span
    '10 seconds'
    """
    return Slack(span=span, rows=rows, mode=mode, lull=lull, max_ahead=max_ahead, clock=clock)


def ordered(
    *,
    lull: Duration | None = None,
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Slack:
    """Believe that rows come in order: slack of nothing."""
    return Slack(span=0, lull=lull, max_ahead=max_ahead, clock=clock)


def punctuated(
    when: str,
    *,
    by: str | None = None,
    since: str | None = None,
    lull: Duration | None = None,
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Punctuated:
    """Believe the marks in the stream: rows whose boolean column `when` is true.

    Such a row says that no later row has a time before its own; with `by`, no later row of the same
    `by`. With `since`, a column, it says that no later row has a time from there up to its own:
    windows in that stretch close, also while rows before it are still on their way; where it is
    NULL, the punctuation is about all before it. It is not data. Rows that contradict it are
    counted and are late.
    """
    return Punctuated(when=when, by=by, since=since, lull=lull, max_ahead=max_ahead, clock=clock)


def per_source(
    column: str,
    each: Progress,
    *,
    idle: Duration | None = None,
    lull: Duration | None = None,
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> PerSource:
    """Track every source by itself; the stream is as far as its slowest one.

    Where the group-by contains `column`, a source's own mark closes its groups. A source silent for
    `idle` (wall clock) no longer holds the others back; when it speaks again it counts once it has
    caught up, and its rows behind the common mark are late until then.
    """
    if not isinstance(each, Slack | Chosen):
        raise SpecError(
            f"per_source({column!r}, {each!r}): give lw.slack(a span), lw.ordered(), "
            f"lw.adaptive(), lw.quality(...) or lw.pd(...)"
        )
    return PerSource(
        column=column, each=each, idle=idle, lull=lull, max_ahead=max_ahead, clock=clock
    )


def adaptive(
    *,
    lull: Duration | None = None,
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Adaptive:
    """Believe that no row is later than the latest so far: slack is the largest late degree seen.

    It never shrinks. Rows that are later than all before them may still be late.
    """
    return Adaptive(lull=lull, max_ahead=max_ahead, clock=clock)


def quality(
    target: float | None = None,
    *,
    error: float | None = None,
    share: float = 0.95,
    by: str | None = None,
    track: Any = "1 second",
    overall: bool = False,
    granularity: Any = "10 milliseconds",
    decay: float = 0.8,
    lull: Duration | None = None,
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Quality | PerSource:
    """Keep the smallest slack whose results are as complete as asked for (QDJ).

    The stream must feed windows or a join. Slack delays the punctuation; no row waits.

    Parameters
    ----------
    target
        Which share of what should be produced is to be produced: of the pairs of a join, of the
        rows in windows. 0.95 loses at most one in twenty.
    error, share
        Instead, for windows: the relative error that a final may have, and how many of the windows
        must be within it.
    by
        A column: each of its values has a slack of its own and is held to the target by itself,
        as with `lw.per_source`.
    track
        How long, in event time, a slack is kept before it is chosen anew; epochs that take longer
        choose after each.
    overall
        Hold the whole run to the target instead of each interval.
    granularity
        In which steps slack is chosen.
    decay
        What late degrees of the interval before still count.

    >>> quality(0.95, track="5 seconds").target
    0.95
    """
    chosen = Quality(
        target=target,
        error=error,
        share=share,
        interval=track,
        overall=overall,
        granularity=granularity,
        decay=decay,
        lull=lull if by is None else None,
        max_ahead=max_ahead if by is None else None,
        clock=clock if by is None else None,
    )
    if by is None:
        return chosen
    return PerSource(column=by, each=chosen, lull=lull, max_ahead=max_ahead, clock=clock)


def pd(
    target: float,
    *,
    proportional: Any = "1 second",
    derivative: Any = "100 milliseconds",
    track: Any = "1 second",
    granularity: Any = "10 milliseconds",
    lull: Duration | None = None,
    max_ahead: Any = None,
    clock: Literal["wall"] | None = None,
) -> Pd:
    """Steer the slack by the quality that was measured: a proportional-derivative controller.

    After each interval the slack grows by `proportional` times the shortfall and `derivative` times
    its change. It knows nothing of how late rows are, and must be tuned; `lw.quality` need not be.
    """
    return Pd(
        target=target,
        proportional=proportional,
        derivative=derivative,
        interval=track,
        granularity=granularity,
        lull=lull,
        max_ahead=max_ahead,
        clock=clock,
    )
