"""Which columns of a stream are the two times of a join, which progress together (OOP 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lowwater.kernels.joins import JoinPlan
from lowwater.query.nodes import Operated, Stepped, United

if TYPE_CHECKING:
    from lowwater.query.stream import Stream

BOTH = frozenset({0, 1})
"""The sides of a join whose times a pair of windows needs."""


def paired_times(stream: Stream) -> Mapping[str, int]:
    """Return the columns that hold a time of the join behind a stream, each with its side."""
    node = stream.node
    if isinstance(node, Stepped):
        before = paired_times(node.of)
        origins = {name: node.transform.origin(name) for name in stream.schema.names}
        return {name: before[was] for name, was in origins.items() if was and was in before}
    if isinstance(node, United):
        first, *others = (paired_times(of) for of in node.of)
        return {n: side for n, side in first.items() if all(o.get(n) == side for o in others)}
    if not isinstance(node, Operated) or not isinstance(node.plan, JoinPlan):
        return {}
    own = node.plan.own_times
    return {own["self"]: 0, own["other"]: 1} if len(own) == len(BOTH) else {}
