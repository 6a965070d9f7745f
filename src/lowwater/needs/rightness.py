"""The account of how right first answers were: early ones by their finals, finals by late rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

REMEMBERED = 64
"""The number of newest windows whose late rows are counted."""
ROUNDING = 1e-9
"""An error that is larger by this is not larger."""


@dataclass(frozen=True)
class FinalRows:
    """A window whose final was the first answer: its end, its rows, and those that missed it."""

    end: int
    rows: int
    missed: int = 0

    def is_wrong(self, error: float) -> bool:
        """Return whether the final lacks a larger share of the window's rows than `error`."""
        return self.missed > (error + ROUNDING) * (self.rows + self.missed)

    def to_json(self) -> list[int]:
        """Return the fields in their order, which is shorter in JSON than an object."""
        return [self.end, self.rows, self.missed]

    @classmethod
    def from_json(cls, written: Sequence[Any]) -> FinalRows:
        """Return the window that `to_json` wrote."""
        return cls(*written)


@dataclass(frozen=True)
class Rightness:
    """Counts of first answers by how right they were.

    - `judged`, `right`: The early first answers whose finals are known, and those of them with at
      most the error that the need names.
    - `finals`, `wrong`: The finals that were first answers and whose rows are counted, and those of
      them that lack more of their rows than that error.
    - `rows`, `missed`: The rows of these finals, and the rows that missed them.
    - `windows`: The newest of these windows.
    """

    VERSION: ClassVar[int] = 1

    judged: int = 0
    right: int = 0
    finals: int = 0
    wrong: int = 0
    rows: int = 0
    missed: int = 0
    windows: tuple[FinalRows, ...] = ()

    def with_early(self, accuracies: Sequence[float], error: float | None) -> Rightness:
        """Return the account with the accuracies of early first answers.

        >>> Rightness().with_early([0.99, 0.95, 0.9], error=0.05).right
        2
        """
        if error is None or not accuracies:
            return self
        right = sum(one >= 1 - error - ROUNDING for one in accuracies)
        return replace(self, judged=self.judged + len(accuracies), right=self.right + right)

    def with_finals(self, rows: Mapping[int, int]) -> Rightness:
        """Return the account with finals that are first answers, {end of the window: its rows}.

        >>> Rightness().with_finals({10: 95}).with_missed([(10, 6), (20, 1)], error=0.05).wrong
        1
        """
        if not rows:
            return self
        known = {one.end: one for one in self.windows}
        before = len(known)
        for end, count in sorted(rows.items()):
            old = known.get(end, FinalRows(end, 0))
            known[end] = replace(old, rows=old.rows + count)
        return replace(
            self,
            finals=self.finals + len(known) - before,
            rows=self.rows + sum(rows.values()),
            windows=tuple(list(known.values())[-REMEMBERED:]),
        )

    def with_missed(self, missed: Iterable[tuple[int, int]], error: float | None) -> Rightness:
        """Return the account with rows that missed windows, as (end of the window, rows)."""
        known = {one.end: one for one in self.windows}
        rows = wrong = 0
        for end, count in missed:
            if (old := known.get(end)) is not None:
                known[end] = new = replace(old, missed=old.missed + count)
                rows += count
                wrong += error is not None and new.is_wrong(error) and not old.is_wrong(error)
        if not rows:
            return self
        return replace(
            self,
            wrong=self.wrong + wrong,
            missed=self.missed + rows,
            windows=tuple(known.values()),
        )

    @property
    def complete(self) -> float | None:
        """The share of their rows that finals have; None if none was counted."""
        return self.rows / (self.rows + self.missed) if self.rows else None

    def share(self, early: int, finals: int) -> float | None:
        """Return the share of first answers that are right enough; None if none shows it.

        `early` and `finals` are the numbers of first answers of either kind.

        >>> Rightness(judged=10, right=9, finals=10, wrong=0).share(30, 10)
        0.925
        """
        parts = []
        if self.judged:
            parts.append((early, self.right / self.judged))
        if self.finals:
            parts.append((finals, 1 - self.wrong / self.finals))
        total = sum(count for count, _ in parts)
        return sum(count * share for count, share in parts) / total if total else None
