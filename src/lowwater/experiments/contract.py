"""What an experiment is: a question that a paper has answered, and what we measure for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value: TypeAlias = str | int | float | None
"""A figure or a word in a table; None where there is nothing to measure."""


@dataclass(frozen=True)
class Check:
    """A shape that must hold: its name, whether it does, and the figures that say so."""

    name: str
    holds: bool
    figures: str


@dataclass(frozen=True)
class Compared:
    """What the paper reports, beside what we found."""

    what: str
    paper: str
    ours: str


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    Attributes
    ----------
    rows
        The measured figures: a table, every row with the same columns.
    compared
        The paper's figures beside ours.
    checks
        The shapes that must hold.
    figure
        The picture, not yet drawn on any file.
    settings
        What else is needed to read the figures: sizes, seeds, epochs.
    """

    rows: Sequence[Mapping[str, Value]]
    compared: Sequence[Compared]
    checks: Sequence[Check]
    figure: Figure
    settings: Mapping[str, Value] = field(default_factory=dict)


class Experiment(ABC):
    """One table or figure of a paper."""

    id: ClassVar[str]
    """As in "W1": a letter for the paper, and a number."""
    paper: ClassVar[str]
    """Which figure or table of which paper."""
    title: ClassVar[str]
    reports: ClassVar[str]
    """What the paper reports."""
    here: ClassVar[str]
    """What is measured here: the words that tables and pictures use."""

    @abstractmethod
    def run(self, *, quick: bool) -> Outcome:
        """Measure; `quick` takes less data and fewer settings, and checks the same shapes.

        Called once by the runner, in a process that may have run other experiments before.
        """


def said(value: Value) -> str:
    """Return a figure as a person writes it.

    >>> said(12345), said(0.04567), said(7.4), said(491.0), said(None)
    ('12,345', '0.0457', '7.40', '491', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1_000:  # noqa: PLR2004  # no decimals beyond this
        return f"{value:,.0f}"
    return "0" if value == 0 else f"{value:#.3g}".removesuffix(".")
