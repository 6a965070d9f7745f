"""Times in the future: rows too far ahead of the machine's clock, or of the newest time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowwater.control.context import EpochContext, InputProgress
from lowwater.control.measures import InputMeasure
from lowwater.dataflow.graph import Input
from lowwater.dataflow.route import FUTURE
from lowwater.operators.batch import Batch


def reached_by(standing: EpochContext, number: int) -> InputProgress:
    """Return the progress of input `number` before the epoch."""
    return standing.inputs[number] if standing.inputs else InputProgress()


def flags_of(start: Input, block: Batch) -> np.ndarray:
    """Return a mask of the rows whose punctuation column is true."""
    flags = block.table.column(start.mark_when).fill_null(False)
    return np.asarray(flags.combine_chunks().to_numpy(zero_copy_only=False), bool)


def measure_future(
    start: Input, block: Batch, standing: EpochContext, measure: InputMeasure
) -> InputMeasure:
    """Return `measure` with the numbers by which an epoch's limit of future times is decided.

    Punctuations do not count: only data can show that a stream has jumped.
    """
    if start.max_ahead is None:
        return measure
    if start.mark_when is not None:
        block = block.keep(~flags_of(start, block))
    sound = block.ticks[block.sound]
    if _latest_allowed(start, standing, measure.input) is None and len(sound):
        return replace(measure, median=int(np.median(sound)))
    return replace(measure, ahead=int((block.fault == FUTURE).sum()))


def ahead(
    start: Input, ticks: np.ndarray, standing: EpochContext, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return two masks: rows too far ahead of the machine's clock, and of the newest time."""
    by_clock = by_newest = np.zeros(len(ticks), bool)
    if start.guard is not None and standing.opened is not None:
        by_clock = ticks > standing.opened + start.guard
    limit = _latest_allowed(start, standing, number)
    if limit is not None:
        by_newest = ticks > limit
    return by_clock, by_newest


def _latest_allowed(start: Input, standing: EpochContext, number: int) -> int | None:
    """Return the latest time that `max_ahead` allows; None if it is not known, or not limited."""
    if start.max_ahead is None:
        return None
    newest, wall = reached_by(standing, number).newest, standing.wall if start.by_wall else None
    known = [t + start.max_ahead for t in (newest, wall) if t is not None]
    return standing.limits.get(number, max(known, default=None))
