"""The settings of early results: estimates, intervals and accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from lowwater.early.accuracy import Judge
from lowwater.errors import SpecError

How: TypeAlias = Literal["complete", "raw"]


@dataclass(frozen=True)
class Estimates:
    """The settings of early results; see `estimates`."""

    how: How = "complete"
    interval: float = 0.9
    accuracy: Judge | None = None

    def __post_init__(self) -> None:
        if self.how not in {"complete", "raw"}:
            raise SpecError(f"estimate={self.how!r} is unknown; write 'complete' or 'raw'")
        if not 0 < self.interval < 1:
            raise SpecError(
                f"interval={self.interval!r} must lie between 0 and 1: the probability that an "
                f"interval holds the final result, for example 0.9"
            )
        if self.accuracy is not None and not callable(self.accuracy):
            raise SpecError(
                f"accuracy={self.accuracy!r} is not a function; write one of (early, final, "
                f"seconds between)"
            )

    @property
    def complete(self) -> bool:
        """Whether estimates compensate for the rows that have not arrived."""
        return self.how == "complete"


Estimate: TypeAlias = How | Estimates


def estimates(
    how: How = "complete", *, interval: float = 0.9, accuracy: Judge | None = None
) -> Estimates:
    """Return the settings of early results, for `start(early=…, estimate=lw.estimates(…))`.

    Parameters
    ----------
    how
        "complete" estimates the final result: sums and counts are divided by the expected share of
        arrived rows; other aggregates are computed from the arrived rows. "raw" emits the
        aggregates of the arrived rows.
    interval
        The probability that the final result is between `low` and `high`.
    accuracy
        A function of (early value, final value, seconds between them) that returns an accuracy from
        0 to 1. By default the accuracy is 1 − |final − early| / |final|.

    >>> estimates("raw", interval=0.95).interval
    0.95
    """
    return Estimates(how, interval, accuracy)


def estimates_of(given: Any) -> Estimates:
    """Return `given` as `Estimates`; a text, such as "raw", is the setting `how`."""
    return given if isinstance(given, Estimates) else Estimates(given)
