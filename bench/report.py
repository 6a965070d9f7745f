"""The lines of the result: one per case, then one per further figure."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.cases import Case
    from bench.run import Measurement, Pair

_MB = 1e6


def case_line(case: Case, pairs: Sequence[Pair]) -> str:
    """Return `case, lowwater s, spark s, ratio, epoch ratio`, separated by tabs."""
    ours = median(pair.lowwater.seconds for pair in pairs)
    spark = median(pair.spark.seconds for pair in pairs)
    files = case.data.files
    epochs = epoch_ms([pair.spark for pair in pairs], files) / epoch_ms(
        [pair.lowwater for pair in pairs], files
    )
    figures = (ours, spark, spark / ours, epochs)
    return "\t".join([case.name, *(f"{figure:.2f}" for figure in figures)])


def case_figures(case: Case, pairs: Sequence[Pair], rows: int) -> Iterator[str]:
    """Yield the rates and the peaks of memory of one case, `name, value` each."""
    sides = {
        "lowwater": [pair.lowwater for pair in pairs],
        "spark": [pair.spark for pair in pairs],
    }
    files = case.data.files
    for side, runs in sides.items():
        seconds = median(run.seconds for run in runs)
        epoch = epoch_ms(runs, files)
        peak = median(run.peak_bytes for run in runs) / _MB
        yield f"{case.name} {side} rows/s\t{rows / seconds:.0f}"
        yield f"{case.name} {side} steady rows/s\t{rows / files / epoch * 1e3:.0f}"
        yield f"{case.name} {side} epoch ms\t{epoch:.0f}"
        yield f"{case.name} {side} peak MB\t{peak:.0f}"


def twin_line(found: Mapping[str, Sequence[Measurement]], files: int) -> str:
    """Return `case, seconds, seconds of its twin, ratio, epoch ratio`, separated by tabs."""
    name, twin = found
    mine, other = (median(run.seconds for run in found[n]) for n in (name, twin))
    epochs = epoch_ms(found[name], files) / epoch_ms(found[twin], files)
    figures = (mine, other, mine / other, epochs)
    return "\t".join([name, *(f"{figure:.2f}" for figure in figures)])


def idle_figures(case: Case, run: Measurement) -> Iterator[str]:
    """Yield the time of an epoch that has next to nothing to do."""
    yield f"idle epoch ms\t{epoch_ms([run], case.data.files):.0f}"


def state_figures(case: Case, run: Measurement) -> Iterator[str]:
    """Yield the size of the state early, halfway and at the end of a long stream.

    "Early" is a tenth of the way, when the first whole window has gone by and the
    state has as many open windows as it will ever have.
    """
    files = case.data.files
    for place in (files // 10, files // 2, files):
        size = max((epoch, size) for epoch, size in run.state if epoch < place)[1]
        yield f"state bytes after {place} epochs\t{size}"


def epoch_ms(runs: Sequence[Measurement], files: int) -> float:
    """Return the median time of a warm epoch with input, over all runs of one side."""
    return median(epoch.ms for run in runs for epoch in run.data_epochs(files)[1:])
