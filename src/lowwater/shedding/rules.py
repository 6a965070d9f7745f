"""What a drop must know of the windows behind it: ω and δ, from the plan (DROP 3.2).

A drop cuts the stream into *slots* of δ: all windows whose results lie in a slot are kept, or left
out, together. ω is how long a stretch of rows a slot needs. The papers date a result by the first
row of its window and reach forward; here it is dated by its end, so that a slot reaches back by as
much. Their "- 1" is one tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from lowwater.windows import Sliding


@dataclass(frozen=True)
class Params:
    """Of a drop, or of the windows it stands for: rows are needed for `size`, every `slide`."""

    size: int
    slide: int

    @property
    def overlap(self) -> int:
        """How many slots at least hold a row: ⌊ω/δ⌋. A run must be as long to spare any row."""
        return self.size // self.slide

    def spared(self, run: int) -> int:
        """Return for how long no row is needed when `run` slots in a row are left out."""
        return max(0, (run + 1) * self.slide - self.size)


def pipeline(*stages: Params) -> Params:
    """Return the drop before windows over windows over …, the lowest first.

    >>> pipeline(Params(3, 2), Params(3, 3))
    Params(size=5, slide=3)
    """
    size = sum(stage.size for stage in stages) - (len(stages) - 1)
    return Params(size, stages[-1].slide)


def fan_out(*branches: Params) -> Params:
    """Return the one drop before windows that share a stream and start together.

    >>> both = fan_out(Params(3, 2), Params(3, 3))
    >>> both, pipeline(Params(4, 1), both)
    (Params(size=7, slide=6), Params(size=10, slide=6))
    """
    slide = lcm(*(branch.slide for branch in branches))
    return Params(slide + max(branch.size - branch.slide for branch in branches), slide)


@dataclass(frozen=True)
class Root:
    """Windows whose results leave the query.

    `back` is how far below them rows may lie that count in them: operators between the stream and
    these windows reach back, too. `gap` is how many of their results may be missing in a row,
    `query` the name of the output they leave by.
    """

    operator: int
    spec: Sliding
    back: int
    gap: int
    name: str = ""
    query: str = ""

    @property
    def params(self) -> Params:
        """What a drop before them alone would be."""
        return Params(self.spec.range + self.back, self.spec.slide)

    @property
    def phase(self) -> int:
        """Where its results lie, from the beginning of time, modulo its slide."""
        return (self.spec.origin + self.spec.range - 1) % self.spec.slide


@dataclass(frozen=True)
class Slots:
    """Slot k is the stretch [anchor + k·slide, anchor + (k+1)·slide) of result times.

    Rows of it lie up to `lead` before it begins; `size` is ω.
    """

    anchor: int
    slide: int
    lead: int
    size: int

    @classmethod
    def of(cls, roots: Sequence[Root]) -> Slots:
        """Return the slots that several windows have in common.

        Where they start together, that is the fan-out rule; where they do not, a slot is as much
        longer as they are apart.

        >>> one, two = (Root(0, Sliding(range=3, slide=s), 0, 1) for s in (2, 3))
        >>> both = Slots.of([one, two])
        >>> both.size, both.slide
        (7, 6)
        """
        slide = lcm(*(root.spec.slide for root in roots))
        # A slot that begins after a result of some root is the shortest for that one.
        found = [cls._beginning(root.phase + 1, slide, roots) for root in roots]
        return min(found, key=lambda slots: (slots.size, slots.anchor))

    @classmethod
    def _beginning(cls, anchor: int, slide: int, roots: Sequence[Root]) -> Slots:
        into = [(root.phase - anchor) % root.spec.slide for root in roots]
        lead = max(root.params.size - 1 - at for root, at in zip(roots, into, strict=True))
        last = max(slide - r.spec.slide + at for r, at in zip(roots, into, strict=True))
        return cls(anchor, slide, lead, lead + last + 1)

    @property
    def params(self) -> Params:
        """ω and δ."""
        return Params(self.size, self.slide)

    def start(self, slot: int) -> int:
        """Return where the results of a slot begin."""
        return self.anchor + slot * self.slide

    def first_after(self, newest: int) -> int:
        """Return the first slot that no row up to `newest` belongs to."""
        return (newest + self.lead - self.anchor) // self.slide + 1

    def gap(self, roots: Sequence[Root]) -> int:
        """Return how many slots may be missing in a row for no root to miss more than it may."""
        return min(root.gap // (self.slide // root.spec.slide) for root in roots)
