"""Prods: requests for early results (PROD 3.1).

A prod is a punctuation that holds for one answer only: operators emit the results that they would
emit if no more rows came, and discard the resulting state. So no state is evicted, and whatever a
kernel does at the end of a stream it can do early.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Prod:
    """One request: for windows that end after `since` and not after `upto`, in ticks.

    Without bounds it requests every open window. `where` selects groups: columns of the results and
    their values as text. `operator` is the operator that answers; None for all that emit results.
    """

    since: int | None = None
    upto: int | None = None
    where: Mapping[str, str | None] = field(default_factory=dict)
    operator: int | None = None
    number: int = 0

    def asks(self, operator: int) -> bool:
        """Return whether an operator answers the prod."""
        return self.operator is None or self.operator == operator
