"""Groups by both times of a join (OOP Q3): windows of one tick on each of them.

Results are for pairs of windows, `window` and `window_2`; the times are where these begin.
"""

from __future__ import annotations

from sqlglot import exp

from lowwater.cql.items import Items
from lowwater.cql.lengths import span_of
from lowwater.cql.mistakes import told_at
from lowwater.cql.names import Scope, identifier
from lowwater.cql.results import Results
from lowwater.kernels.plan import SECOND
from lowwater.windows import WindowTime

STARTS = tuple(
    exp.Column(this=identifier("start"), table=identifier(name)) for name in ("window", SECOND)
)
"""The two times of a group, in results."""


def paired(scope: Scope, select: exp.Select) -> Scope | None:
    """Build groups by both times of a join; None if these are not what the query groups by."""
    stream = scope.stream
    if not stream.jointly:
        return None
    items = Items(scope, select, on_both=True)
    keys = items.keys()
    times = _times(items)
    if len(times) != len(STARTS):
        return None
    for name in times:
        if name in items.always:
            raise items.mistake(f"results have a column {name!r} already", select, "write AS")
        items.computed.pop(name, None)  # a time gets its name after the windows, from their starts
    results = Results(items, dict(zip(times, STARTS, strict=True)))
    first, second = times.values()
    with told_at(scope.text, select):
        windowed = items.prepared().window(range=span_of(stream.axis(first), 1), on=(first, second))
    items.check_columns(())
    with told_at(scope.text, select):
        query = windowed.group_by(*(key for key in keys if key not in times))
        return Scope.of(scope.text, results.after(query.agg(**results.aggregates)), "")


def _times(items: Items) -> dict[str, str]:
    """Return the keys that are the times of the join, one of each stream, and their columns."""
    stream = items.scope.stream
    found: dict[int, tuple[str, str]] = {}
    for key, node in items.grouped.items():
        plain = isinstance(node, exp.Column) and not node.table
        side = stream.jointly.get(node.name) if plain else None
        # A window has no one time that could be given back.
        if side is not None and not isinstance(stream.axis(node.name), WindowTime):
            found.setdefault(side, (key, node.name))
    return dict(found.values())
