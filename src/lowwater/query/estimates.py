"""How early results are made, and judged: as the user says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from lowwater.errors import SpecError
from lowwater.prodding.accuracy import Judge

How: TypeAlias = Literal["complete", "raw"]


@dataclass(frozen=True)
class Estimates:
    """How early results are made. Made by `lw.estimates(...)`."""

    how: How = "complete"
    interval: float = 0.9
    accuracy: Judge | None = None

    @property
    def complete(self) -> bool:
        """Whether they make up for the rows that have not arrived."""
        return self.how == "complete"


Estimate: TypeAlias = How | Estimates


def estimates(
    how: How = "complete", *, interval: float = 0.9, accuracy: Judge | None = None
) -> Estimates:
    """Say how early results are made and judged: `start(prods=…, estimate=lw.estimates(…))`.

    Parameters
    ----------
    how
        "complete" estimates the final result: sums and counts are scaled by the share of rows that
        is expected to have arrived, averages and quantiles of what has arrived are taken for those
        of all, and so are least and greatest values. "raw" is what has arrived.
    interval
        The probability with which `low` and `high` are to contain the final result.
    accuracy
        A function of (early value, final value, seconds between them), from 0 to 1, instead of
        1 − |final − early| / |final|.

    >>> estimates("raw", interval=0.95).interval
    0.95
    """
    return _checked(Estimates(how, interval, accuracy))


def _checked(made: Estimates) -> Estimates:
    if made.how not in {"complete", "raw"}:
        raise SpecError(f"estimate={made.how!r} is unknown; it is 'complete' or 'raw'")
    if not 0 < made.interval < 1:
        raise SpecError(
            f"interval={made.interval!r} must lie between 0 and 1: the probability that an "
            f"interval holds the final result, for example 0.9"
        )
    if made.accuracy is not None and not callable(made.accuracy):
        raise SpecError(
            f"accuracy={made.accuracy!r} is no function of (early, final, seconds between)"
        )
    return made


def estimates_of(given: Any) -> Estimates:
    """Return what a run was asked for, as one word or whole."""
    if isinstance(given, Estimates):
        return given
    return _checked(Estimates(given))
