"""The errors and warnings that Lowwater raises.

A mistake in a query raises `SpecError` when the query is built, before anything runs. Late,
malformed and shed rows are counted outputs, never exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class LowwaterError(Exception):
    """The base class of all errors that Lowwater raises."""


class SpecError(LowwaterError, ValueError):
    """The error for an invalid query or argument, raised when the query is built."""


class CqlError(SpecError):
    """The error for an invalid CQL text. The message shows the place and, if possible, a hint.

    - `problem`, `hint`: The problem, and a suggestion.
    - `line`, `column`: The place of the problem, counted from 1.
    - `shown`: The text of that line.
    """

    def __init__(self, problem: str, text: str, at: int, hint: str | None = None) -> None:
        before = text[:at]
        self.problem, self.hint = problem, hint
        self.line = before.count("\n") + 1
        self.column = at - (before.rfind("\n") + 1) + 1
        self.shown = text.split("\n")[self.line - 1]
        super().__init__(problem, text, at, hint)

    def __str__(self) -> str:
        # Tabs are kept, so that the caret is printed below the right character.
        blank = "".join(c if c == "\t" else " " for c in self.shown[: self.column - 1])
        place = f"line {self.line}, column {self.column}: {self.problem}"
        hint = f"\nHint: {self.hint}" if self.hint else ""
        return f"{place}\n  {self.shown}\n  {blank}^{hint}"


class PlanError(LowwaterError):
    """The error for a valid query that this host or this source cannot run."""


class StateError(LowwaterError):
    """The error for a checkpoint that does not fit the query, or cannot be read."""


class SinkError(LowwaterError):
    """The error for a sink that cannot be reached, or that refuses rows."""


class ResultOverflowError(LowwaterError, ArithmeticError):
    """The error for an exact sum or mean that does not fit its type."""


class ShedWarning(UserWarning):
    """The warning that load shedding may drop windows but will save little work."""


class HostError(LowwaterError):
    """The error for a query that failed while it ran; the cause is chained."""


class TakenOverError(HostError):
    """The error for a run whose checkpoint another run has claimed."""


ROWS_OPEN, ROWS_ASIDE = "epoch open", "epoch without rows"
"""Places of a failure before an epoch has its entry: rows can be set aside, or are already."""
_PLACE = "lowwater: in "
_PLACES = re.compile(rf"^\s*{_PLACE}(.+?)\s*$", re.MULTILINE)


@contextmanager
def located(place: str) -> Iterator[None]:
    """Add `place`, such as an operator or an epoch, to an exception raised in the `with` block.

    The place is a note of the exception, so it is part of a trace that Spark passes on as text.
    """
    try:
        yield
    except Exception as failure:
        add_place(failure, place)
        raise


def add_place(failure: BaseException, place: str) -> None:
    """Add `place` to an exception, as `located` does; an empty place is not added."""
    if place:
        failure.add_note(f"{_PLACE}{place}")


def places(failure: BaseException) -> list[str]:
    """Return the places of `failure` and its causes, the innermost first.

    >>> try:
    ...     with located("epoch 3"), located("operator 'window'"):
    ...         1 / 0
    ... except ZeroDivisionError as problem:
    ...     print(places(problem))
    ["operator 'window'", 'epoch 3']
    """
    found: list[str] = []
    cause: BaseException | None = failure
    while cause is not None:
        notes = "\n".join(getattr(cause, "__notes__", ()))
        found = [*_PLACES.findall(f"{cause}\n{notes}"), *found]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return list(dict.fromkeys(found))


def unknown_name(what: str, name: str, known: Iterable[str]) -> SpecError:
    """Return the error for an unknown name, with the closest known name as a hint.

    >>> print(unknown_name("column", "sped", ["speed", "ts"]))
    column 'sped' is not in the stream; it has: speed, ts. Did you mean 'speed'?
    """
    names = list(known)
    close = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return SpecError(f"{what} {name!r} is not in the stream; it has: {', '.join(names)}.{hint}")


def removed(**reasons: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for removed arguments (name=reason); such a name raises TypeError.

    >>> @removed(decay="the policy learns it")
    ... def policy(): ...
    >>> policy(decay=0.8)
    Traceback (most recent call last):
    TypeError: policy(decay=...) has gone: the policy learns it; leave decay= out
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            for name, reason in reasons.items():
                if name in given:
                    said = f"{function.__name__}({name}=...) has gone: {reason}"
                    raise TypeError(f"{said}; leave {name}= out")
            return function(*args, **given)

        return call

    return decorate


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for renamed arguments (old=new); an old name in a call raises TypeError.

    >>> @renamed(lull="idle_timeout")
    ... def policy(*, idle_timeout=None): ...
    >>> policy(lull="1 second")
    Traceback (most recent call last):
    TypeError: policy(lull=...) is now policy(idle_timeout=...)
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            for old, new in names.items():
                if old in given:
                    name = function.__name__
                    raise TypeError(f"{name}({old}=...) is now {name}({new}=...)")
            return function(*args, **given)

        return call

    return decorate
