"""The guard against times in the future, where one block cannot decide alone.

`max_ahead` counts from the newest time before the epoch. In the first epoch, it counts from the
median time of the epoch. If more than half of an epoch's rows are beyond it, the stream has jumped,
as after a long silence: the epoch is admitted. Both are known only after the tasks of the epoch
have measured all blocks, so in these rare cases the tasks run a second time, with new limits.
"""

from __future__ import annotations

import logging

import numpy as np

from lowwater.control.measures import InputMeasure, Measures
from lowwater.dataflow.graph import Dataflow
from lowwater.ticks import END

_LOG = logging.getLogger("lowwater")


def new_limits(flow: Dataflow, measured: Measures) -> dict[int, int]:
    """Return {input: latest time to admit} for inputs whose first measurement needs a second run.

    The limit of an input that has jumped is `END`.
    """
    limits: dict[int, int] = {}
    for number, start in enumerate(flow.inputs):
        if start.max_ahead is None:
            continue
        mine = measured.of_input(number)
        known = [(m.median, m.valid) for m in mine if m.median is not None]
        newest = max((m.newest for m in mine if m.newest is not None), default=None)
        if known and newest is not None:
            limit = _weighted_median(known) + start.max_ahead
            if newest > limit:
                limits[number] = limit
        elif sum(m.ahead for m in mine) > sum(m.valid for m in mine):
            limits[number] = END
    return limits


def jumps(limits: dict[int, int], epoch: int) -> list[InputMeasure]:
    """Return a measurement for each input that has jumped, and log a warning for it."""
    jumped = [number for number, limit in limits.items() if limit == END]
    for number in jumped:
        _LOG.warning(
            "epoch %d: most rows of input %d are further ahead than max_ahead; the epoch is "
            "admitted, because the stream may have been silent",
            epoch,
            number + 1,
        )
    return [InputMeasure(number, jumped=True) for number in jumped]


def _weighted_median(known: list[tuple[int, int]]) -> int:
    """Return the median of the blocks' medians, each weighted by its number of rows."""
    medians, weights = (np.array(column) for column in zip(*sorted(known), strict=True))
    half = weights.sum() / 2
    return int(medians[np.searchsorted(np.cumsum(weights), half)])
