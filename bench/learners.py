"""The cost of the learners of slack, as a share of an epoch, on both hosts.

Streams have one epoch a second, of 40 to 40,000 rows, in order and out of order. `local` runs
epochs in one process without a checkpoint, the quickest that an epoch can be; `checkpoint` is the
local host with a checkpoint, over files; `spark` is the Spark host. Timers stand around all that
learners do (`bench.learner_timers`), and measure processor time, so that other processes do not
count. An epoch is measured in processor time, too, but with a checkpoint by the wall clock: the
median of all epochs. The times of all shards are added up, although Spark runs them side by side.

The last lines compare the processor time of epochs with a target and with the same slack, fixed,
by turns: that includes what learners cost the other parts of an epoch, such as state.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lowwater as lw
from bench.learner_timers import LearnerTimers
from experiments.harness.side_by_side import excess, in_step, least
from lowwater.engine.epoch_loop import EpochLoop
from lowwater.local.host import LocalEpochs
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.watermarks.policy import WatermarkPolicy

RATES = (40, 400, 4_000, 40_000)
"""Rows of a stream in an epoch of one second."""
EPOCHS, WARM_UP = 80, 40
"""The epochs of a case in one process, and those before the first measured one."""
SHORT, SHORT_WARM_UP = 30, 10
"""The same on hosts with a checkpoint."""
TARGET = 0.95
RUNS = 2
SHARDS = 2
_SECOND = 1_000_000
_SEED = 11

Streams = Sequence[lw.Stream]
QUERIES: dict[str, Callable[[Streams], lw.Query | lw.Stream]] = {
    "tumbling": lambda s: (
        s[0].window(range="10 seconds").group_by("key").agg(n=lw.count(), total=lw.sum("value"))
    ),
    "sliding": lambda s: (
        s[0]
        .window(range="60 seconds", slide="1 second")
        .group_by("key")
        .agg(n=lw.count(), total=lw.sum("value"))
    ),
    "join": lambda s: s[0].join(s[1], on="key", band=("-1 second", "1 second")),
    "join-order": lambda s: s[0].join(
        s[1], on="key", band=("-1 second", "1 second"), order="time", time="max"
    ),
}


@dataclass(frozen=True)
class Case:
    """A query over streams with `rate` rows a second, in order or not, in `epochs` epochs."""

    query: str
    rate: int
    late: bool
    epochs: int

    @property
    def name(self) -> str:
        """The name of the case."""
        return f"{self.query}\t{'late' if self.late else 'in order'}\t{self.rate} rows"

    @property
    def keys(self) -> int:
        """The number of keys: at most 1,000 groups in windows, two partners of a row in a join."""
        keys = max(self.rate // 2, 20)
        return keys if self.query.startswith("join") else min(keys, 1_000)

    @property
    def blocks(self) -> list[list[pa.Table]]:
        """The rows of each epoch of each stream."""
        streams = 2 if self.query.startswith("join") else 1
        return [_stream(self, _SEED + n) for n in range(streams)]


@dataclass(frozen=True)
class Cost:
    """Seconds of an epoch, and seconds of learners in its shards and in the controller."""

    epoch: float
    shards: float
    controller: float

    @property
    def line(self) -> str:
        """The cost as text."""
        share = (self.shards + self.controller) / self.epoch
        return (
            f"epoch {self.epoch * 1e3:.2f} ms\tshards {self.shards * 1e3:.3f} ms\t"
            f"controller {self.controller * 1e3:.3f} ms\tlearners {share:.2%}"
        )


def learners(scale: float = 1.0) -> Iterator[str]:
    """Yield a line for each case and host, then a line for each comparison with a fixed slack.

    `scale` scales the number of epochs.
    """
    epochs = max(round(EPOCHS * scale), 4)
    for query, late, rate in product(QUERIES, (False, True), RATES):
        case = Case(query, rate, late, epochs)
        yield f"learners-local\t{case.name}\t{local_cost(case).line}"
    on_hosts = {"checkpoint": on_local_host, "spark": on_spark}
    for host, costs in on_hosts.items():
        cases = [
            Case(query, rate, late, max(round(SHORT * scale), 4))
            for query, late, rate in product(("tumbling", "join"), (False, True), RATES)
        ]
        for case, cost in zip(cases, costs(cases), strict=False):
            yield f"learners-{host}\t{case.name}\t{cost.line}"
    for query, late, rate in product(QUERIES, (False, True), RATES):
        yield _paired(Case(query, rate, late, epochs))


# -- in one process --------------------------------------------------------------------------------


def local_cost(case: Case) -> Cost:
    """Return the mean cost of an epoch after the warm-up, in one process."""
    blocks, timers, seconds = case.blocks, LearnerTimers(), 0.0
    host = LocalEpochs(_plan(case, lw.quality(TARGET)).with_shards(SHARDS), lw.VirtualClock())
    measured = len(blocks[0]) - WARM_UP * len(blocks[0]) // EPOCHS
    with timers.running():
        for number, epoch in enumerate(zip(*blocks, strict=True)):
            if number == len(blocks[0]) - measured:
                timers.shards = timers.controller = seconds = 0.0
            began = time.process_time()
            host.run([[block] for block in epoch], last=[False for _ in epoch])
            seconds += time.process_time() - began
    return Cost(seconds / measured, timers.shards / measured, timers.controller / measured)


def _paired(case: Case) -> str:
    """Return the line of a comparison with the mean slack that the target chose for each stream."""
    aimed = _plan(case, lw.quality(TARGET))
    host = LocalEpochs(aimed.with_shards(SHARDS), lw.VirtualClock())
    chosen = []
    for epoch in zip(*case.blocks, strict=True):
        host.run([[block] for block in epoch], last=[False for _ in epoch])
        chosen.append(_slacks(host))
    slacks = np.mean(chosen[WARM_UP * case.epochs // EPOCHS :], axis=0).round().astype(int).tolist()
    fixed = _plan(case, *(lw.slack(f"{slack} microseconds") for slack in slacks))
    _, took = in_step([aimed, fixed], case.blocks, RUNS, SHARDS)
    took = took[:, :, WARM_UP * case.epochs // EPOCHS :]
    with_target, without = least(took) / took.shape[2]
    spoken = " and ".join(f"{slack / 1e6:.3f}" for slack in slacks)
    return (
        f"learners-paired\t{case.name}\tslack {spoken} s\tfixed {without * 1e3:.2f} ms\t"
        f"target {with_target * 1e3:.2f} ms\t{excess(took):+.1f} %"
    )


def _slacks(host: LocalEpochs) -> list[int]:
    memory = host.log.before(host.epoch).adapting
    assert memory is not None
    return [
        *(one.one.slack for one in memory.windows),
        *(slack for one in memory.pairs for slack in one.slacks),
    ]


def _plan(case: Case, *policies: WatermarkPolicy) -> PhysicalPlan:
    """Return the plan of a case; a policy for each stream, or one for all."""
    each = policies * len(case.blocks) if len(policies) == 1 else policies
    feeds = [lw.feed(blocks[0].schema) for blocks in case.blocks]
    streams = [
        lw.stream(feed, time="ts", watermark=policy)
        for feed, policy in zip(feeds, each, strict=True)
    ]
    return QUERIES[case.query](streams).assembly


def _stream(case: Case, seed: int) -> list[pa.Table]:
    """Return the rows of each second; of a late stream, a third of them arrives 1 s late or so."""
    rng = np.random.default_rng(seed)
    rows = case.rate * case.epochs
    ticks = np.sort(rng.integers(0, case.epochs * _SECOND, rows))
    delay = rng.exponential(_SECOND, rows) * (rng.random(rows) < 1 / 3) * case.late
    order = np.argsort(ticks + delay, kind="stable")
    ends = np.searchsorted((ticks + delay)[order], np.arange(case.epochs + 1) * _SECOND)
    table = pa.table(
        {
            "ts": pa.array(ticks[order], pa.timestamp("us", "UTC")),
            "key": rng.integers(0, case.keys, rows),
            "value": rng.normal(size=rows),
        }
    )
    return [table.slice(a, b - a) for a, b in pairwise(ends.tolist())]


# -- on hosts with a checkpoint --------------------------------------------------------------------


def on_local_host(cases: Sequence[Case]) -> Iterator[Cost]:
    """Yield the mean cost of an epoch of each case on the local host, with a checkpoint."""
    timers = LearnerTimers()
    with timers.running():
        for case in cases:
            ends = _run(case, "local", timers)
            yield _mean(ends, ends[-1][1] - ends[0][1])


def on_spark(cases: Sequence[Case]) -> Iterator[Cost]:
    """Yield the mean cost of an epoch of each case on Spark; shards are the sum of all tasks."""
    from bench.learner_daemon import FOLDER

    timers, root = LearnerTimers(), str(Path(__file__).parent.parent)
    with tempfile.TemporaryDirectory() as folder, timers.running():
        paths = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
        with patch.dict(os.environ, {FOLDER: folder, "PYTHONPATH": paths}):
            spark = lw.spark_session(
                spark_master=f"local[{SHARDS}]", spark_python_daemon_module="bench.learner_daemon"
            )
            try:
                for case in cases:
                    ends = _run(case, "spark", timers)
                    yield _mean(ends, _noted(Path(folder), ends[0][0], ends[-1][0]))
            finally:
                spark.stop()


def _mean(ends: Sequence[tuple[float, float, float]], shards: float) -> Cost:
    """Return the mean cost of the epochs after the first of `ends`."""
    epochs = len(ends) - 1
    epoch = median(after[0] - before[0] for before, after in pairwise(ends))
    return Cost(epoch, shards / epochs, (ends[-1][2] - ends[0][2]) / epochs)


def _noted(folder: Path, since: float, until: float) -> float:
    """Return the seconds that workers have noted between two times of the system clock."""
    lines = [line.split() for one in folder.iterdir() for line in one.read_text().splitlines()]
    return sum(float(seconds) for at, seconds in lines if since <= float(at) < until)


def _run(case: Case, host: Any, timers: LearnerTimers) -> list[tuple[float, float, float]]:
    """Run a case over files; return (clock, shards, controller) at the end of each epoch."""
    with tempfile.TemporaryDirectory() as folder, _ends(timers) as ends:
        for stream, blocks in enumerate(case.blocks):
            (Path(folder) / str(stream)).mkdir()
            for number, block in enumerate(blocks):
                pq.write_table(block, f"{folder}/{stream}/{number:05}.parquet")
        streams = [
            lw.stream(
                lw.files(f"{folder}/{stream}", format="parquet", files_per_epoch=1),
                time="ts",
                watermark=lw.quality(TARGET),
            )
            for stream in range(len(case.blocks))
        ]
        sink = lw.to_callback(lambda _epoch, _rows: None)
        QUERIES[case.query](streams).run(host=host, sink=sink, checkpoint=f"{folder}/checkpoint")
    return ends[SHORT_WARM_UP * case.epochs // SHORT : case.epochs]


@contextmanager
def _ends(timers: LearnerTimers) -> Iterator[list[tuple[float, float, float]]]:
    """Collect (system clock, seconds in shards, in the controller) at the end of each epoch."""
    ends: list[tuple[float, float, float]] = []
    original = EpochLoop._run  # noqa: SLF001

    def run(self: EpochLoop, *given: Any, **more: Any) -> None:
        original(self, *given, **more)
        ends.append((time.time(), timers.shards, timers.controller))

    with patch.object(EpochLoop, "_run", run):
        yield ends
