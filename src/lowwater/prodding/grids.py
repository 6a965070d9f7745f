"""Where the windows of a query end: what a policy must know to ask for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.windows import Landmark, Shared, Sliding, WindowSpec

_SOME = 16


@dataclass(frozen=True)
class Grid:
    """The ends of windows that lie where their spec says, of one or of several names."""

    windows: tuple[Sliding | Landmark, ...]

    @classmethod
    def of(cls, spec: WindowSpec) -> Grid | None:
        """Return where windows end; None where only rows tell."""
        if isinstance(spec, Shared):
            return cls(tuple(window for _, window in spec.named))
        return cls((spec,)) if isinstance(spec, Sliding | Landmark) else None

    @property
    def slide(self) -> int:
        """The least time from one end to the next."""
        return min(w.slide for w in self.windows)

    @property
    def span(self) -> int:
        """The greatest length of a window; of those that have none, some slides."""
        found = [w.range if isinstance(w, Sliding) else _SOME * w.slide for w in self.windows]
        return max(found)

    def next_end(self, at: int) -> int:
        """Return the first end that is not before a time.

        >>> Grid((Sliding(range=30, slide=10),)).next_end(21)
        30
        """
        return min(int(w.end(w.first_open(at - 1))) for w in self.windows)

    def last_end(self, at: int) -> int:
        """Return the last end that is not after a time."""
        return max(w.align(at) for w in self.windows)


@dataclass(frozen=True)
class Asked:
    """An operator whose results leave the query, and where its windows end, if that is known."""

    operator: int
    grid: Grid | None


def grids(specs: Sequence[tuple[int, WindowSpec | None]]) -> tuple[Asked, ...]:
    """Return the operators that prods are for."""
    return tuple(Asked(n, None if spec is None else Grid.of(spec)) for n, spec in specs)
