"""Sources whose rows are transformed where they are read. What reads them knows nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lowwater.sources.blocks import Block, BlockSource
from lowwater.sources.feed import Feed
from lowwater.sources.steps import Step, Transform


def transformed(source: Any, step: Step) -> Any:
    """Return a source of the same rows after a step."""
    if isinstance(source, Feed):
        transform = Transform.of(step, source.schema)
        return TransformedFeed(transform.schema, source, transform)
    if isinstance(source, BlockSource):
        transform = Transform.of(step, source.schema)
        return TransformedBlocks(transform.schema, source, transform)
    return source.transformed(step)


@dataclass(frozen=True, eq=False)
class TransformedFeed(Feed):
    """A feed after a step; the caller gives the epochs of the feed itself."""

    before: Feed
    transform: Transform

    @property
    def given(self) -> Feed:
        """The feed that the caller made."""
        return self.before.given

    def table(self, given: Any) -> pa.Table:
        """Return what a step makes of an epoch."""
        return self.transform(self.before.table(given))


@dataclass(frozen=True)
class TransformedBlocks(BlockSource):
    """Blocks after a step: the same blocks at the same positions, with other rows."""

    schema: pa.Schema
    before: BlockSource
    transform: Transform

    @property
    def paced(self) -> bool:  # type: ignore[override]  # read only
        """Whether blocks appear as time goes by."""
        return self.before.paced

    def begin(self) -> Any:  # noqa: D102
        return self.before.begin()

    def reach(self, start: Any) -> Any:  # noqa: D102
        return self.before.reach(start)

    def blocks(self, start: Any, end: Any) -> Sequence[Block]:  # noqa: D102
        return self.before.blocks(start, end)

    def read(self, block: Block) -> pa.Table:  # noqa: D102
        return self.transform(self.before.read(block))

    def rows(self) -> int | None:
        """Return how many rows there are: after a filter nobody knows, unless there were none."""
        found = self.before.rows()
        return None if found and self.transform.condition is not None else found

    def bounded(self) -> TransformedBlocks:  # noqa: D102
        return replace(self, before=self.before.bounded())

    def in_order_of(self, folder: str) -> TransformedBlocks:  # noqa: D102
        return replace(self, before=self.before.in_order_of(folder))
