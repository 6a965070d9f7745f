"""The contract of a sink."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa


class Sink(ABC):
    """Takes the rows of one output, epoch by epoch."""

    @abstractmethod
    def write(self, epoch: int, rows: pa.Table) -> None:
        """Take the rows of an epoch.

        Called once per epoch that has rows, in order, on the driver; after a crash the last epoch
        may come again, with the same rows.
        """
