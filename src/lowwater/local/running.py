"""A query that runs on in this process: the epochs of the local host, one after the other.

It keeps no checkpoint. Everything else is as on Spark: sources are read as they grow, prods are
answered, and the clock alone may ask for an epoch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from lowwater.control import Entry, Prod, Retuning
from lowwater.errors import HostError, LowwaterError, PlanError
from lowwater.local.host import DEFAULT_SHARDS, LocalEpochs, Sized, SystemClock
from lowwater.query import Assembly, Outputs, Run, Status, leaving
from lowwater.sources import BlockSource

POLL_SECONDS = 0.02
"""How often a source that is silent is looked at."""


class LocalRun(Run):
    """A running query; its epochs have a thread of their own."""

    def __init__(self, assembly: Assembly, outputs: Outputs, folder: str) -> None:
        cut = assembly.with_shards(DEFAULT_SHARDS)
        self.flow, self.prodded = cut.flow, cut.prodder is not None
        self.epochs = LocalEpochs(cut, SystemClock())
        self.controller = self.epochs.controller
        self.sources = [_laid_out(s, f"{folder}/{n}") for n, s in enumerate(cut.sources)]
        self.at = [source.begin() for source in self.sources]
        self.over = [source.rows() == 0 for source in self.sources]
        self.way = next(iter(leaving(self.flow, prodded=self.prodded, filled=cut.filled).values()))
        self.outputs, self.asked = outputs, list[Prod | Retuning]()
        self.rate: float | None = None
        self.told = self._last
        """Where the query stands: the entry of the last epoch whose rows have been written."""
        self.failure: Exception | None = None
        self.stopping = threading.Event()
        # No daemon: DuckDB's connections are closed as the thread ends, which must not be while
        # the interpreter is already gone.
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self.stopping.is_set() and not self._last.done:
                if not self._take():
                    self.stopping.wait(POLL_SECONDS)
        except Exception as failure:  # noqa: BLE001  # raised where it is waited for
            self.failure = failure

    @property
    def _last(self) -> Entry:
        return self.epochs.log.before(self.epochs.epoch)

    def _take(self) -> bool:
        """Run an epoch if there is one to run; say whether there was."""
        reached = [source.reach(at) for source, at in zip(self.sources, self.at, strict=True)]
        if reached == self.at and not self._due():
            return False
        found = [s.blocks(a, b) for s, a, b in zip(self.sources, self.at, reached, strict=True)]
        last = [
            over or any(b.last for b in blocks)
            for over, blocks in zip(self.over, found, strict=True)
        ]
        self._epoch(
            [
                [(source.read(b), b.rows) for b in blocks]
                for source, blocks in zip(self.sources, found, strict=True)
            ],
            last,
        )
        self.at = reached
        return True

    def _due(self) -> bool:
        newest = self._last
        if self.asked or not newest.quiet or (all(self.over) and not newest.ended):
            return True
        now = self.epochs.clock.now(self.epochs.epoch)
        return self.epochs.controller.due(newest, now)

    def _epoch(self, blocks: Sequence[Sequence[Sized]], last: Sequence[bool]) -> None:
        number, began = self.epochs.epoch, time.perf_counter()
        asked = tuple(self.asked)
        packets = self.epochs.run(blocks, last=last, asked=asked)
        del self.asked[: len(asked)]
        self.way.write(number, packets, self.outputs)
        rows = sum(len(table) for mine in blocks for table, _ in mine)
        self.rate = rows / (time.perf_counter() - began)
        self.told = self._last

    @property
    def newest(self) -> Entry:
        """The entry of the last epoch whose rows have been written."""
        return self.told

    def status(self) -> Status:
        """Return where the query stands after its newest epoch."""
        return Status.of(self.told, self.flow, self.rate, adapter=self.epochs.adapter)

    def watch(self, tap: Outputs) -> None:
        """Let more sinks see what leaves."""
        self.outputs = self.outputs.beside(tap)

    def stop(self) -> None:
        """Stop after the epoch at work."""
        self.stopping.set()
        if self.thread is not threading.current_thread():  # a sink: it cannot wait for itself
            self.thread.join()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the query to end."""
        self.thread.join(seconds)
        if isinstance(self.failure, LowwaterError):
            raise self.failure
        if self.failure is not None:
            raise HostError(f"the query failed: {self.failure!r}") from self.failure
        return not self.thread.is_alive()


def _laid_out(source: Any, folder: str) -> BlockSource:
    if not isinstance(source, BlockSource):
        raise PlanError(f"the local host cannot read {type(source).__name__}; use Spark")
    return source.in_order_of(folder)
