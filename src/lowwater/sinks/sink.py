"""The contract of a sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa


class Sink(ABC):
    """Takes the rows of one output, epoch by epoch."""

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: B027
        """Make ready for rows of `schema`; raise what does not fit. Called before a run begins.

        `key` names the columns of which no two results are alike: a window and a group. It is empty
        where rows have none.
        """

    @abstractmethod
    def write(self, epoch: int, rows: pa.Table) -> None:
        """Take the rows of an epoch.

        Called once per epoch that has rows, in order, on the driver; after a crash the last epoch
        may come again, with the same rows.
        """
