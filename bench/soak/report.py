"""The judgement of a run: the series that must be flat, their trends, the text of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench.soak.oracle import Comparison
from bench.soak.trend import SHORTEST_HOURS, Trend, trend

Samples = Sequence[Mapping[str, Any]]
MEMORY = {
    "driver": "driver bytes",
    "JVM": "JVM bytes",
    "heap after GC": "heap bytes",
    "workers": "worker bytes",
}
CHECKPOINT = ("checkpoint", "state", "log", "pending", "spool", "Spark")
_GROWTH_LIMIT, _LATENCY_LIMIT = 10.0, 20.0
_MB = 1e6
_PER_MINUTE = 6


def series(samples: Samples, name: str) -> tuple[list[float], list[float]]:
    """Return the hours and values of all samples that have `name`."""
    known = [(s["hours"], s[name]) for s in samples if name in s]
    return [h for h, _ in known], [v for _, v in known]


def latencies(epochs: np.ndarray, began: float) -> dict[str, tuple[list[float], list[float]]]:
    """Return p50 and p95 of the durations of epochs in each whole minute, in milliseconds.

    `epochs` has a row for each epoch: the time of its end, and its duration, both in seconds.
    """
    minutes = ((epochs[:, 0] - began) // 60).astype(int)
    found: dict[str, tuple[list[float], list[float]]] = {"p50": ([], []), "p95": ([], [])}
    for minute in range(minutes.max()):
        took = epochs[minutes == minute, 1]
        if len(took):
            for (hours, values), share in zip(found.values(), (50, 95), strict=True):
                hours.append((minute + 0.5) / 60)
                values.append(1e3 * float(np.percentile(took, share)))
    return found


def trends(samples: Samples, epochs: np.ndarray, began: float) -> Iterator[tuple[str, Trend]]:
    """Yield each series that must be flat: its unit, and its trend."""
    for name, column in MEMORY.items():
        hours, values = series(samples, column)
        yield "MB", trend(f"memory: {name}", hours, [v / _MB for v in values], _GROWTH_LIMIT)
    for part in CHECKPOINT:
        hours, values = series(samples, f"{part} files")
        yield "files", trend(f"{part}: files", hours, values, _GROWTH_LIMIT)
        hours, values = series(samples, f"{part} bytes")
        yield "MB", trend(f"{part}: bytes", hours, [v / _MB for v in values], _GROWTH_LIMIT)
    for name, (hours, values) in latencies(epochs, began).items():
        yield "ms", trend(f"epoch: {name}", hours, values, _LATENCY_LIMIT)
    yield "% of a core", trend("processor", *processor(samples), _LATENCY_LIMIT)


def processor(samples: Samples) -> tuple[list[float], list[float]]:
    """Return the hours, and the processor time of each minute in percent of one core."""
    each_minute = samples[::_PER_MINUTE]
    hours = np.array([s["hours"] for s in each_minute])
    seconds = np.diff([s["cpu seconds"] for s in each_minute]).clip(0)
    return hours[1:].tolist(), (seconds / np.diff(hours) / 36).tolist()


def table(found: Sequence[tuple[str, Trend]]) -> Iterator[str]:
    """Yield the lines of a Markdown table of trends."""
    yield "| series | level | slope per hour | limit | verdict |"
    yield "|---|---:|---:|---:|---|"
    for unit, one in found:
        level = f"{one.level:.0f}" if one.level >= 100 or unit == "files" else f"{one.level:.2f}"
        yield (
            f"| {one.name} | {level} {unit} | {one.percent:+.1f} % | {one.limit:.0f} % "
            f"| {one.verdict} |"
        )


def summary(samples: Samples, events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of counts: rows, results, output, load and faults."""
    last = samples[-1]
    seconds = 3_600 * (last["hours"] - samples[0]["hours"])
    # A process that has ended takes its processor time with it.
    cpu = np.diff([s["cpu seconds"] for s in samples]).clip(0).sum() / seconds
    kills = sum(e["kind"] == "kill" for e in events)
    yield f"{last['hours']:.2f} hours, {last['epoch'] + 1} epochs, {cpu:.0%} of one core"
    yield f"{last['rows']} rows in, {last['late']} late, {last['bad_files']} bad files"
    yield f"{last['output files']} output files, {last['output bytes'] / _MB:.0f} MB"
    yield f"{kills} workers killed, {last['starts'] - 1} restarts from the checkpoint"
    balanced = [s["balanced"] for s in samples if "balanced" in s]
    yield f"balanced in {sum(balanced)} of {len(balanced)} samples"


def equality(found: Sequence[Comparison]) -> Iterator[str]:
    """Yield a line for each output: whether it equals the computed one."""
    for one in found:
        yield (
            f"{one.output}: {one.rows} rows, {one.missing} missing, {one.wrong} wrong: "
            f"{'equal to DuckDB' if one.equal else 'NOT EQUAL'}"
        )


TOO_SHORT = f"The run is shorter than {SHORTEST_HOURS} hours: too short to judge slopes."
