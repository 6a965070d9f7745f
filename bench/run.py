"""Runs: each in a fresh process, the sides by turns, the first pair checked for equality."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.compare import require_equal, require_same_pairs
from bench.data import home, prepare
from bench.epochs import Epoch
from bench.processes import run_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cases import Case, Side, Store

_LONG_S = 60.0
_TWICE = 2


@dataclass(frozen=True)
class Options:
    """How the cases are run; `store` overrides the state store that Spark is given."""

    repetitions: int = 3
    rows_scale: float = 1.0
    store: Store | None = None
    timeout: float = 1_800.0


@dataclass(frozen=True)
class Measurement:
    """One run: the whole query in seconds, its epochs, the peak of its process tree.

    `state` holds the bytes of state after an epoch, where the case asks for them.
    """

    seconds: float
    epochs: tuple[Epoch, ...]
    peak_bytes: int
    state: tuple[tuple[int, int], ...]
    out: Path

    def data_epochs(self, files: int) -> tuple[Epoch, ...]:
        """Return the epochs that read the stream, one for each file.

        They come first and without a gap: there is always a next file until there
        is none. Epochs after them only close windows.
        """
        found = self.epochs[:files]
        if len(found) < files:
            msg = f"{len(found)} epochs had input, but there are {files} files, one per epoch"
            raise RuntimeError(msg)
        return found


@dataclass(frozen=True)
class Pair:
    """Lowwater and Spark on the same stream, one after the other."""

    lowwater: Measurement
    spark: Measurement


def compare(case: Case, options: Options) -> list[Pair]:
    """Run both sides by turns, as often as the options say, or twice where that takes minutes."""
    folder = prepare(case.data.scaled(options.rows_scale))
    pairs: list[Pair] = []
    wanted = options.repetitions
    while len(pairs) < wanted:
        with tempfile.TemporaryDirectory(prefix="run-", dir=home()) as work:
            pair = Pair(
                measure(case, "lowwater", folder, Path(work), options),
                measure(case, "spark", folder, Path(work), options),
            )
            if not pairs:
                rows = _require_equal(case, pair)
                say(f"{case.name}: {rows} rows are equal")
        pairs.append(pair)
        if max(pair.lowwater.seconds, pair.spark.seconds) > _LONG_S:
            wanted = min(wanted, _TWICE)
    return pairs


def _require_equal(case: Case, pair: Pair) -> int:
    if case.asks == "join":
        return require_same_pairs(pair.lowwater.out, pair.spark.out)
    mark = pair.spark.epochs[-1].watermark_us
    return require_equal(pair.lowwater.out, pair.spark.out, mark)


def against_itself(cases: Sequence[Case], options: Options) -> dict[str, list[Measurement]]:
    """Run Lowwater by turns on several cases of the same rows."""
    found: dict[str, list[Measurement]] = {case.name: [] for case in cases}
    for _ in range(options.repetitions):
        for case in cases:
            folder = prepare(case.data.scaled(options.rows_scale))
            with tempfile.TemporaryDirectory(prefix="run-", dir=home()) as work:
                found[case.name].append(measure(case, "lowwater", folder, Path(work), options))
    return found


def alone(case: Case, options: Options) -> Measurement:
    """Run Lowwater once, without a Spark side."""
    folder = prepare(case.data)
    with tempfile.TemporaryDirectory(prefix="run-", dir=home()) as work:
        return measure(case, "lowwater", folder, Path(work), options)


def measure(case: Case, side: Side, folder: Path, work: Path, options: Options) -> Measurement:
    """Run one side of one case in a process of its own, under `work`."""
    store = options.store or case.store
    place = work / side
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    given = {
        "--case": case.name,
        "--side": side,
        "--store": store,
        "--folder": str(folder),
        "--work": str(place),
        "--result": str(place / "result.json"),
    }
    arguments = [word for option in given.items() for word in option]
    watched = run_module("bench.worker", arguments, place / "log.txt", options.timeout)
    found = json.loads((place / "result.json").read_text())
    say(f"{case.name}: {side} ({store}) took {found['seconds']:.2f} s")
    return Measurement(
        seconds=found["seconds"],
        epochs=tuple(Epoch(**epoch) for epoch in found["epochs"]),
        peak_bytes=watched.peak_bytes,
        state=tuple((epoch, size) for epoch, size in found["state"]),
        out=place / "out",
    )


def say(text: str) -> None:
    """Report progress; standard output is for the results alone."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
