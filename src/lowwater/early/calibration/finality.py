"""The probability that an early value is the final already.

A first guess follows from the expected number m of missing rows: 1/(1 + m) for aggregates that
every row changes, as if rows came in bursts, and n/(n + m) for extremes, of which each row is
equally likely to be the largest. The guess is corrected by its own record: results are sorted into
cells by m and by a second property (for an extreme its value relative to the usual one). Each cell
shifts the log odds of its guesses by as much as they were wrong, and leans towards the shift of all
cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowwater.control.completeness import Floats, Ticks
from lowwater.early.calibration.early_rows import Kind
from lowwater.early.calibration.groups import GroupView
from lowwater.learners.error_bins import aged
from lowwater.learners.whole_numbers import Counts

MISSING = (0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0, 60.0)
RELATIVE = (0.7, 0.9, 1.0, 1.1, 1.4)
REPEATED = (0.1, 0.3, 0.6, 0.9, 0.99)
LACKING = (0.01, 0.03, 0.1, 0.3, 0.6)
SHAPE = (3, 2, len(MISSING) + 1, len(RELATIVE) + 1)
SPAN = 50
"""The number of windows after which the record is halved."""
_LEAN, _FINE = 4.0, 256
_EVEN = np.full(2, 0.5)


@dataclass(frozen=True, eq=False)
class Guess:
    """The first guess of each result and its cell."""

    settled: Floats
    cell: tuple[np.ndarray, Ticks, Ticks]

    @classmethod
    def of(cls, kind: Kind, view: GroupView, rows: Floats, raw: Floats, level: Floats) -> Guess:
        """Return the guesses for early values `raw` of `rows` rows."""
        missing = view.missing_usual
        if kind in {"rising", "falling"}:
            settled, second = rows / (rows + missing), np.searchsorted(RELATIVE, _ratio(raw, level))
        elif kind == "distinct":
            fresh = np.clip(_ratio(raw, rows), 0.01, 1.0)
            settled, second = 1 / (1 + missing * fresh), np.searchsorted(REPEATED, fresh)
        else:
            share = missing / (rows + missing)
            settled, second = 1 / (1 + missing), np.searchsorted(LACKING, share)
        first = np.searchsorted(MISSING, missing)
        return cls(np.clip(settled, 1e-4, 1 - 1e-4), (1 - view.known, first, second))

    def take(self, chosen: np.ndarray) -> Guess:
        """Return the guesses of the results `chosen`."""
        past, first, second = self.cell
        return Guess(self.settled[chosen], (past[chosen], first[chosen], second[chosen]))


def probability(record: Counts, guess: Guess) -> Floats:
    """Return the probability that each result is the final, corrected by the record.

    A cell with few results leans towards the correction of all cells together.
    """
    every = record.sum(axis=(2, 3))
    usual = _shift(every, _EVEN, _EVEN)[guess.cell[0]]
    prior = _moved(guess.settled, usual)
    mine = _shift(record[(slice(None), *guess.cell)], guess.settled, prior)
    return _moved(guess.settled, mine)


def _shift(record: Counts, guess: Floats, prior: Floats) -> Floats:
    """Return the log odds by which guesses were too low; `_LEAN` results like `prior` are added."""
    results, hits, expected = record / _FINE
    mean = (expected + _LEAN * guess) / (results + _LEAN)
    seen = (hits + _LEAN * prior) / (results + _LEAN)
    return np.asarray(_logit(seen) - _logit(mean))


def _moved(guess: Floats, shift: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-_logit(guess) - shift)))


def taught(record: Counts, guess: Guess, same: np.ndarray, windows: tuple[int, int]) -> Counts:
    """Return the record after results; `same` is true for those that were the finals.

    `windows` is the number of windows that were known before, and are known with these.
    """
    after = aged(record, *windows, SPAN).copy()
    parts = (np.full(len(same), _FINE), same * _FINE, np.round(guess.settled * _FINE))
    for which, part in enumerate(parts):
        np.add.at(after[which], guess.cell, part.astype(np.int64))
    return after


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.ones_like(above), where=below > 0)


def _logit(p: Floats) -> Floats:
    p = np.minimum(np.maximum(p, 1e-4), 1 - 1e-4)
    return np.asarray(np.log(p / (1 - p)))
