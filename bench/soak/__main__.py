"""The command `python -m bench.soak`: a query under faults, for hours; 1 if not flat or exact."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench.processes import end_tree
from bench.soak import report
from bench.soak.oracle import compare, kinds
from bench.soak.plot import draw
from bench.soak.sample import sample, status, workers
from bench.soak.stream import Feeder, all_rows
from bench.soak.trend import PERIOD_HOURS

SAMPLE_S = 10.0
FAULT_S = 3_600 * PERIOD_HOURS
"""Every ten minutes, a worker is killed; five minutes later, the query is stopped and restarted."""
_END_S = 180.0
_ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run the query, write samples, report and plot; return the exit code."""
    chosen = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder: Path = chosen.out.absolute()
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (folder / "samples.jsonl").unlink(missing_ok=True)
    fault_s = min(FAULT_S, chosen.hours * 3_600 / 3)
    soak = Soak(work, folder / "samples.jsonl", fault_s)
    with _process(work, fault_s, soak.members) as process:
        soak.run(process, chosen.hours * 3_600)
    code = soak.judge(folder)
    shutil.rmtree(work)
    return code


class Soak:
    """A soak: the feeder of its streams, its samples and its faults."""

    def __init__(self, work: Path, path: Path, fault_s: float) -> None:
        self.work, self.path, self.fault_s = work, path, fault_s
        self.began = float(int(time.time()))
        self.feeder = Feeder(work / "in", round(self.began * 1e6))
        self.samples: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.members: set[psutil.Process] = set()

    def run(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        """Feed, sample and kill until the time is over; then wait for the end of the query."""
        query = psutil.Process(process.pid)
        self.feeder.start()
        kill_at = self.began + self.fault_s / 2
        while time.time() < self.began + seconds:
            time.sleep(SAMPLE_S - (time.time() - self.began) % SAMPLE_S)
            self._check(process)
            self._sample(query)
            if time.time() >= kill_at:
                kill_at += self.fault_s
                self._kill(query)
        self.feeder.finish()
        (self.work / "end.new").write_text(str(self.feeder.expected))
        (self.work / "end.new").rename(self.work / "end")
        process.wait(_END_S)
        self._check(process, ended=True)

    def judge(self, folder: Path) -> int:
        """Compare, report and draw; return 1 if results differ or a series grows."""
        last = status(self.work)
        ticks = range(self.feeder.ticks)
        views, clicks = (
            all_rows(name, ticks, self.feeder.began_us) for name in ("views", "clicks")
        )
        equal = compare(views, clicks, self.work / "out", last["watermark"])
        epochs = np.loadtxt(self.work / "epochs.txt", ndmin=2)
        trends = [*report.trends(self.samples, epochs, self.began)]
        too_short = trends[0][1].verdict == "too short"
        lines = [
            *report.summary(self.samples, self.events),
            *(f"{count} {kind} results" for kind, count in kinds(self.work / "out").items()),
            *report.equality(equal),
            "",
            *report.table(trends),
            *([report.TOO_SHORT] if too_short else []),
        ]
        text = "\n".join(lines) + "\n"
        (folder / "report.md").write_text(text)
        (folder / "result.json").write_text(
            json.dumps(
                {
                    "began": self.began,
                    "events": self.events,
                    "trends": [asdict(one) for _, one in trends],
                    "epochs": epochs.round(4).tolist(),
                }
            )
        )
        sys.stdout.write(text)
        draw(self.samples, epochs, self.began, self.events, folder / "soak.png")
        balanced = all(s["balanced"] for s in [*self.samples, last] if "balanced" in s)
        clean = balanced and not last["late"] and not last["bad_files"]
        exact = clean and all(one.equal for one in equal)
        grows = any(one.verdict == "grows" for _, one in trends)
        return 0 if exact and not grows else 1

    def _sample(self, query: psutil.Process) -> None:
        self.members.update(query.children(recursive=True))
        taken = sample(query, self.work, self.began)
        self.feeder.counted = taken.get("rows", 0)
        before = self.samples[-1].get("starts", 1) if self.samples else 1
        if taken.get("starts", 1) > before:
            self.events.append({"kind": "restart", "hours": taken["hours"]})
        self.samples.append(taken)
        with self.path.open("a") as lines:
            lines.write(json.dumps(taken) + "\n")

    def _kill(self, query: psutil.Process) -> None:
        """Kill a Python worker with SIGKILL."""
        victims = workers(query)
        if victims:
            victims[0].kill()
            hours = (time.time() - self.began) / 3_600
            self.events.append({"kind": "kill", "hours": hours, "pid": victims[0].pid})

    def _check(self, process: subprocess.Popen[bytes], *, ended: bool = False) -> None:
        code = process.poll()
        if code or (code is not None and not ended):
            tail = (self.work / "log.txt").read_text(errors="replace")[-4_000:]
            sys.exit(f"the query's process ended with {code}; it wrote last:\n{tail}")


@contextmanager
def _process(
    work: Path, fault_s: float, members: set[psutil.Process]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the query's process; end it and its `members` when the block ends."""
    command = [sys.executable, "-m", "bench.soak.query", str(work)]
    with (work / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--restart-every", str(fault_s)],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        end_tree(process, members)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="duration of the run (1)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("artifacts/soak"),
        help="the folder of report, samples and plot (artifacts/soak)",
    )
    chosen = parser.parse_args()
    if chosen.hours < 0.05:
        parser.error(f"--hours {chosen.hours} must be at least 0.05, which is three minutes")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
