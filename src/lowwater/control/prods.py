"""Prods: demands for early results (PROD 3.1).

A prod is a punctuation that is believed for the length of an answer: operators say what they would
give out if no more rows came, and keep nothing of it. So nothing is purged, and whatever a kernel
does at the end of a stream it can do early.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Prod:
    """One demand: for windows that end after `since` and not after `upto`, in ticks.

    Without bounds it is for every window that has begun and is open. `where` names groups: columns
    of the results and their values as text. `operator` is the one that is asked, None for all whose
    results leave the query.
    """

    since: int | None = None
    upto: int | None = None
    where: Mapping[str, str | None] = field(default_factory=dict)
    operator: int | None = None
    number: int = 0

    def to_json(self) -> list[Any]:
        """Return it as JSON."""
        return [self.since, self.upto, dict(self.where), self.operator, self.number]

    @classmethod
    def from_json(cls, kept: Iterable[Any]) -> Prod:
        """Read what `to_json` wrote."""
        return cls(*kept)

    def asks(self, operator: int) -> bool:
        """Say whether an operator is asked."""
        return self.operator is None or self.operator == operator
