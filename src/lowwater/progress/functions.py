"""The progress policies of the public API."""

from __future__ import annotations

from typing import Any, Literal

from lowwater.durations import Duration
from lowwater.errors import SpecError
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
    if not isinstance(each, Slack):
        raise SpecError(f"per_source({column!r}, {each!r}): give lw.slack(a span) or lw.ordered()")
    return PerSource(
        column=column, each=each, idle=idle, lull=lull, max_ahead=max_ahead, clock=clock
    )
