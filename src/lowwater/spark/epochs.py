"""Epochs on Spark: epochs of micro-batches, and epochs between micro-batches.

An epoch with rows of a DataFrame is a micro-batch of Spark. An epoch without such rows runs between
micro-batches, so control advances while no rows arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.entry import Positions
from lowwater.engine.epoch import Epoch, Intake
from lowwater.engine.epoch_loop import EpochLoop
from lowwater.engine.inputs import BlockInputs
from lowwater.engine.spark_folder import (
    SparkFolder,
    begin_folder,
    check_offsets,
    delete_folders,
    folders,
)
from lowwater.errors import HostError
from lowwater.sources.source import SourceBlock
from lowwater.spark.job import BatchIntake


class SparkEpochs(EpochLoop):
    """The epoch loop of the Spark host, which also runs the epochs of micro-batches."""

    def __init__(self, epoch: Epoch, inputs: BlockInputs, checkpoint: Checkpoint) -> None:
        super().__init__(epoch, inputs)
        self.checkpoint = checkpoint
        self.folder: SparkFolder
        self._older: list[str] = []

    def check_offsets(self) -> None:
        """Raise StateError unless Spark's offsets are those of the newest and the opened epoch."""
        check_offsets(self.checkpoint, self.newest.positions, self._opened)

    def begin_folder(self, query: str) -> None:
        """Make the folder from which the Spark of this run continues."""
        self._older = folders(self.checkpoint)
        owner, positions = self.log.owner, self.newest.positions
        self.folder = begin_folder(self.checkpoint, owner, query, positions, self._opened)

    def take_batch(
        self, batch: int, rows: DataFrame | None, files: Mapping[int, Sequence[SourceBlock]]
    ) -> None:
        """Run the epoch of a micro-batch, unless the epoch has an entry from before a restart.

        Spark reads `rows`; ingest reads `files` as blocks.
        """
        with self.lock:
            if not self._is_next(batch):
                return
            offsets = self.folder.checksum(batch)
            positions = self._opened or self._reach(Positions({}, batch, offsets))
            blocks = self._between(positions).blocks
            self._run(positions, BatchIntake({**blocks, **files}, rows))

    def has_taken(self, batch: int) -> bool:
        """Return whether the epoch of a micro-batch has ended."""
        return batch <= self.positions.batch

    def end(self) -> None:
        """Run epochs without rows until the operators have received the end of all streams."""
        while not self.newest.done:
            if not self.take_nothing(ending=True):
                raise HostError(
                    f"epoch {self.newest.epoch + 1} was opened, but Spark does not repeat its "
                    f"micro-batch: the checkpoint is incomplete; start with a new checkpoint"
                )

    def _run(self, positions: Positions, intake: Intake, *, ending: bool = False) -> None:
        super()._run(positions, intake, ending=ending)
        # The entry of this run proves that no other run had begun a folder when these were listed.
        delete_folders(self.checkpoint, self._older)
        self._older = []

    def _is_next(self, batch: int) -> bool:
        """Return whether `batch` is the next micro-batch to run; False if it has ended already."""
        self._repeat()
        last = self.positions.batch
        if batch > last + 1:
            raise HostError(
                f"Spark is at micro-batch {batch}, the control log at {last}: the checkpoint is "
                f"incomplete; start with a new checkpoint"
            )
        return batch > last
