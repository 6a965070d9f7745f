"""Runs a query on the local host and reads its results by window and group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lowwater as lw
from tests.reference.windows import Late, Row, Story, Windows, group, normal, same

Aggregates = Mapping[str, tuple[Any, ...]]
"""name -> (function, column or None for count(*), what else it is given)."""

_ADDED = ("late_degree", "missed", "admitted")
COUNTS = ("in", "admitted", "late", "outside", "malformed", "partly_late")


def aggregates(named: Aggregates, **options: Any) -> dict[str, Any]:
    """Return the aggregates as Lowwater's own."""
    return {
        name: getattr(lw, function)(*([] if column is None else [column]), *given, **options)
        for name, (function, column, *given) in named.items()
    }


def query(
    feed: Any, windows: Windows, progress: Any, named: Mapping[str, Any], keys: Sequence[str] = ()
) -> lw.Query:
    """Build the query that the oracle's words describe."""
    size = lw.unbounded if windows.range is None else windows.range
    windowed = lw.stream(feed, time="t", watermark=progress).window(
        range=size, slide=windows.slide, origin=windows.origin
    )
    return windowed.group_by(*keys).agg(**named)


def run(
    schema: Any,
    epochs: Sequence[Sequence[Any]],
    windows: Windows,
    progress: Any,
    named: Mapping[str, Any],
    keys: Sequence[str] = (),
    **options: Any,
) -> lw.Outcome:
    """Run a query over epochs given as lists of rows."""
    feed = lw.feed(schema)
    asked = query(feed, windows, progress, named, keys)
    return asked.run(epochs={feed: list(epochs)}, host="local", **options)


def finals(outcome: lw.Outcome, keys: Sequence[str] = ()) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return {(wid, *group): row}; a window that was given twice is an error."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in outcome.results.to_pylist():
        cell = (row["wid"], *group(row, keys))
        assert cell not in found, f"{cell} was closed twice"
        found[cell] = row
    return found


def assert_finals(
    outcome: lw.Outcome, story: Story, windows: Windows, keys: Sequence[str], named: Aggregates
) -> None:
    """Hold the finals against the oracle's."""
    expected, found = story.finals(keys, named), finals(outcome, keys)
    assert found.keys() == expected.keys()
    for cell, row in found.items():
        wrong = {n: (e, row[n]) for n, e in expected[cell].items() if not same(e, row[n])}
        assert not wrong, f"{cell}: (expected, found) = {wrong}"
        assert row["kind"] == "final"
        assert row["window"]["end"] == windows.end(cell[0])
        if windows.range is not None:
            assert row["window"]["start"] == windows.start(cell[0])
        else:
            assert row["window"]["start"] == windows.origin


def assert_accounts(outcome: lw.Outcome, story: Story) -> None:
    """Hold the counts, and the late and malformed rows, against the oracle's."""
    counts = outcome.status.counts
    assert {c: counts[c] for c in COUNTS} == story.counts
    assert outcome.status.balanced
    assert late_rows(outcome) == sorted(map(_said, story.late))
    malformed = outcome.malformed.drop_columns(["reason", "text"])
    assert _plain(malformed.to_pylist()) == _plain(story.malformed)


def late_rows(outcome: lw.Outcome) -> list[tuple[Any, ...]]:
    """Return the late output in the form of `_said`, sorted."""
    return sorted(
        (
            repr(normal({k: v for k, v in r.items() if k not in _ADDED})),
            r["late_degree"],
            r["missed"]["first"],
            r["missed"]["last"],
            r["admitted"],
        )
        for r in outcome.late.to_pylist()
    )


def _said(late: Late) -> tuple[Any, ...]:
    return (repr(normal(dict(late.row))), late.degree, late.first, late.last, late.admitted)


def _plain(rows: Sequence[Row]) -> list[str]:
    return sorted(repr(normal(dict(r))) for r in rows)
