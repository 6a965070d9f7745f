"""The one stateful operator of Spark's side: it runs a kernel, keyed by shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import (
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
)

from lowwater.kernels import Packet, WindowPlan, step
from lowwater.kernels.packets import PASSING


class KernelProcessor(StatefulProcessor):
    """Runs `step` for a shard and writes back the buckets it changed."""

    def __init__(self, plan: WindowPlan, labels: list[int]) -> None:
        self.plan = plan
        self.shards = {label: shard for shard, label in enumerate(labels)}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: called once per task."""
        self.buckets = handle.getMapState("buckets", "name string", "content binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Run one epoch of one shard."""
        del timerValues
        packets = [
            Packet(*values)
            for frame in rows
            for values in zip(*(frame[c] for c in ("shard", "seq", "kind", "payload")), strict=True)
        ]
        emitted = [p for p in packets if p.kind in PASSING]
        mine = [p for p in packets if p.kind not in PASSING]
        if mine:
            done = step(self.plan, self.shards[int(key[0])], StoredState(self.buckets), mine)
            emitted += done.emissions
            for name, content in done.changes.items():
                if content is None:
                    self.buckets.removeKey((name,))
                else:
                    self.buckets.updateValue((name,), (content,))
        yield pd.DataFrame(
            {
                "shard": [p.shard for p in emitted],
                "seq": [p.seq for p in emitted],
                "kind": [p.kind for p in emitted],
                "payload": [p.payload for p in emitted],
            }
        )


class StoredState(Mapping[str, bytes]):
    """Spark's map state, read bucket by bucket as the kernel asks for it."""

    def __init__(self, buckets: MapState) -> None:
        self._buckets = buckets

    def __getitem__(self, name: str) -> bytes:
        found = self._buckets.getValue((name,))
        if found is None:
            raise KeyError(name)
        return bytes(found[0])

    def __iter__(self) -> Iterator[str]:
        return (str(key[0]) for key in self._buckets.keys())  # noqa: SIM118

    def __len__(self) -> int:
        return sum(1 for _ in self)
