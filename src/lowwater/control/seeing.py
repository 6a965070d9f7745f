"""What an epoch showed of an input, brought together from its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lowwater.control.records import Marks, Seen, Source


def seen_in(measured: Iterable[Mapping[str, Any]]) -> Seen:
    """Bring together what the blocks of an input showed in an epoch, in arrival order."""
    rows, newest, marks = 0, None, Marks()
    sources: dict[Source, int] = {}
    tails = []
    for m in measured:
        rows += m.get("rows", 0)
        newest = latest(newest, m.get("newest"))
        for source, at in m.get("sources", ()):
            sources[source] = max(at, sources.get(source, at))
        if "tail" in m:
            tails.append((m["valid"], *m["tail"]))
        if "marks" in m:
            marks = marks.raised(Marks.from_json(m["marks"]))
    return Seen(rows, newest, sources, tuple(tails), marks)


def latest(a: int | None, b: int | None) -> int | None:
    """Return the later of two times, either of which may not be known."""
    return b if a is None else a if b is None else max(a, b)
