"""The account of a need: how many windows had their answers in time, and why the others had not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

Cause = Literal["lateness", "work", "stopped"]
"""Why a first answer came too late.

- "lateness": The window held no row yet when its answer was due.
- "work": The epochs were too long.
- "stopped": The query did not run, or its source stood still.
"""


@dataclass(frozen=True)
class Tally:
    """Counts of windows that hold a row, since the query began.

    - `first`, `in_time`: The windows with a first answer, and those that had it within `fresh`.
    - `early`: The windows whose first answer was early.
    - `final`, `final_in_time`: The windows with a final, and those that had it within `exact`.
    - `lateness`, `work`, `stopped`: The first answers that came later, by cause.
    """

    VERSION: ClassVar[int] = 1

    first: int = 0
    in_time: int = 0
    early: int = 0
    final: int = 0
    final_in_time: int = 0
    lateness: int = 0
    work: int = 0
    stopped: int = 0

    def with_first(self, cause: Cause | None, *, early: bool) -> Tally:
        """Return the tally after a first answer, which was in time if it has no `cause`.

        >>> Tally().with_first("work", early=True).work
        1
        """
        more = {"in_time" if cause is None else cause: 1, "first": 1, "early": int(early)}
        return self._plus(more)

    def with_final(self, *, in_time: bool) -> Tally:
        """Return the tally after a final."""
        return self._plus({"final": 1, "final_in_time": int(in_time)})

    def _plus(self, more: dict[str, int]) -> Tally:
        return replace(self, **{name: getattr(self, name) + n for name, n in more.items()})
