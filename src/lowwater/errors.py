"""Everything Lowwater raises.

A mistake in a query raises `SpecError` where it is made, before anything runs. Rows that are late,
malformed or shed are counted outputs, never exceptions.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class LowwaterError(Exception):
    """The root of all errors raised by Lowwater."""


class SpecError(LowwaterError, ValueError):
    """A query, or a part of one, cannot mean what it says. Raised when it is built."""


class CqlError(SpecError):
    """A text is no query that can be built. It says where, and what may have been meant.

    Attributes
    ----------
    problem, hint
        What is wrong, and what may help.
    line, column
        Where it is, counted from 1.
    shown
        That line of the text.
    """

    def __init__(self, problem: str, text: str, at: int, hint: str | None = None) -> None:
        before = text[:at]
        self.problem, self.hint = problem, hint
        self.line = before.count("\n") + 1
        self.column = at - (before.rfind("\n") + 1) + 1
        self.shown = text.split("\n")[self.line - 1]
        super().__init__(problem, text, at, hint)

    def __str__(self) -> str:
        # Tabs stay, so that the caret stands under its letter.
        blank = "".join(c if c == "\t" else " " for c in self.shown[: self.column - 1])
        told = f"line {self.line}, column {self.column}: {self.problem}"
        return f"{told}\n  {self.shown}\n  {blank}^" + (f"\nHint: {self.hint}" if self.hint else "")


class PlanError(LowwaterError):
    """A query is sound, but this host or this source cannot run it."""


class StateError(LowwaterError):
    """A checkpoint does not fit the query that was started from it."""


class SinkError(LowwaterError):
    """A sink cannot be reached or does not take the rows."""


class ResultOverflowError(LowwaterError, ArithmeticError):
    """An exact sum left the range of its type. It is reported, never wrapped."""


class ShedWarning(UserWarning):
    """Windows may be left out, but that will spare little."""


class HostError(LowwaterError):
    """A running query failed. The cause is chained."""


def unknown_name(what: str, name: str, known: Iterable[str]) -> SpecError:
    """Say that `name` is not there, and which name may have been meant.

    >>> print(unknown_name("column", "sped", ["speed", "ts"]))
    column 'sped' is not in the stream; it has: speed, ts. Did you mean 'speed'?
    """
    names = list(known)
    close = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return SpecError(f"{what} {name!r} is not in the stream; it has: {', '.join(names)}.{hint}")
