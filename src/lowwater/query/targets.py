"""The short form of a quality target: `a.join(b, ..., quality=0.95)`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowwater.errors import SpecError
from lowwater.progress import Pd, PerSource, Progress, Quality, Unsaid
from lowwater.query.nodes import Leaf, Node, Stepped, United

if TYPE_CHECKING:
    from lowwater.query.stream import Stream


def with_quality(
    mine: Stream, theirs: Stream, quality: float | Progress | None
) -> tuple[Stream, Stream]:
    """Return both streams of a join with the progress that its quality target stands for."""
    if quality is None:
        return mine, theirs
    policy = quality if isinstance(quality, Progress) else Quality(target=quality)
    inner = policy.each if isinstance(policy, PerSource) else policy
    if not isinstance(inner, Quality | Pd):
        raise SpecError(
            f"quality={quality!r} is no target; give 0.95, lw.quality(...) or lw.pd(...)"
        )
    if not hasattr(theirs, "node"):
        return mine, theirs  # the join says what is wrong with it
    aimed_at = _aimed(mine, policy), _aimed(theirs, policy)
    if aimed_at[0] is mine and aimed_at[1] is theirs:
        raise SpecError(
            f"quality={quality!r}: both sides of the join are results of operators, whose progress "
            f"is not for the join to say; give their streams progress=lw.quality(...)"
        )
    return aimed_at


def _aimed(stream: Stream, policy: Progress) -> Stream:
    node = _of(stream.node, policy)
    return stream if node is stream.node else replace(stream, node=node)


def _of(node: Node, policy: Progress) -> Node:
    if isinstance(node, Leaf):
        if not isinstance(node.progress, Unsaid):
            raise SpecError(
                f"quality= and progress={type(node.progress).__name__.lower()}(...) both say how "
                f"the progress of the stream is learned; leave out progress= where the stream is "
                f"made, or quality="
            )
        return replace(node, progress=policy)
    if isinstance(node, Stepped):
        of = _aimed(node.of, policy)
        return node if of is node.of else replace(node, of=of)
    if isinstance(node, United):
        all_of = tuple(_aimed(of, policy) for of in node.of)
        same = all(a is b for a, b in zip(all_of, node.of, strict=True))
        return node if same else replace(node, of=all_of)
    return node  # results of operators: what was said of their streams stands
