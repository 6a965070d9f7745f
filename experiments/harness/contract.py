"""The contract of an experiment: a question that a paper answers, and our measurement of it."""

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
    """A shape that must hold: its name, whether it does, and the figures that show it.

    A quick run measures milliseconds a few times, so its times decide nothing: checks of them are
    not `judged`, only printed. Full runs judge them by the medians of many alternating runs.
    """

    name: str
    holds: bool
    figures: str
    judged: bool = True

    @property
    def fails(self) -> bool:
        """Whether the shape is judged and does not hold."""
        return self.judged and not self.holds


@dataclass(frozen=True)
class Comparison:
    """A figure of the paper beside ours."""

    what: str
    paper: str
    ours: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of an experiment.

    Attributes
    ----------
    rows
        The measured figures: a table, every row with the same columns.
    compared
        The paper's figures beside ours.
    checks
        The shapes that must hold.
    figure
        The picture, not yet saved.
    settings
        Parameters of the run: sizes, seeds, epochs.
    """

    rows: Sequence[Mapping[str, Value]]
    compared: Sequence[Comparison]
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


def format_value(value: Value) -> str:
    """Return a figure as a person writes it.

    >>> format_value(12345), format_value(0.04567), format_value(7.4), format_value(None)
    ('12,345', '0.0457', '7.40', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1_000:  # noqa: PLR2004  # no decimals beyond this
        return f"{value:,.0f}"
    return "0" if value == 0 else f"{value:#.3g}".removesuffix(".")
