"""Prods: requests for early results (PROD 3.1).

To answer a prod, an operator runs as if no more rows would arrive, emits the results as early
results, and discards the new state. So a prod evicts no state, and every kernel that can process
the end of a stream can answer prods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Prod:
    """A request for early results of the windows that end after `since` and up to `upto` (ticks).

    A prod without bounds requests all open windows. `where` selects groups: {result column: value
    as text}. Only `operator` answers the prod; if None, all operators with results do.
    """

    since: int | None = None
    upto: int | None = None
    where: Mapping[str, str | None] = field(default_factory=dict)
    operator: int | None = None
    number: int = 0

    def asks(self, operator: int) -> bool:
        """Return whether operator number `operator` answers the prod."""
        return self.operator is None or self.operator == operator
