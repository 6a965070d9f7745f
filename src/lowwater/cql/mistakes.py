"""Where in a text a mistake is, and what may have been meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from sqlglot import exp
from sqlglot.errors import ParseError

from lowwater.errors import CqlError, SpecError


def mistake(problem: str, text: str, node: exp.Expr, hint: str | None = None) -> CqlError:
    """Say that something is wrong with a part of a tree."""
    return CqlError(problem, text, position(node), hint)


def not_yet(what: str, text: str, node: exp.Expr, hint: str | None = None) -> CqlError:
    """Say that something has a meaning, but no plan yet."""
    return mistake(f"{what} can be read, but not be run yet", text, node, hint)


@contextmanager
def told_at(text: str, node: exp.Expr) -> Iterator[None]:
    """Say of what the builder refuses where it stands in the text."""
    try:
        yield
    except CqlError:
        raise
    except SpecError as problem:
        raise mistake(str(problem), text, node) from problem


def mark(node: exp.Expr, at: int) -> None:
    """Remember where in the text a node begins."""
    node.meta["start"] = at


def position(node: exp.Expr) -> int:
    """Return where a node begins in its text, as near as is known."""
    near: exp.Expr | None = node
    while near is not None:
        if "start" in near.meta:
            return int(near.meta["start"])
        found = [int(n.meta["start"]) for n in near.walk() if "start" in n.meta]
        if found:
            return min(found)
        near = near.parent
    return 0


def meant(word: str, known: Iterable[str], *, otherwise: str | None = None) -> str | None:
    """Say which word may have been meant.

    >>> meant("minuts", ["minute", "minutes"])
    "did you mean 'minutes'?"
    """
    close = get_close_matches(word.lower(), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def from_parser(problem: ParseError, text: str) -> CqlError:
    """Turn an error of the parser into one of ours."""
    told = problem.errors[0] if problem.errors else {}
    description = str(told.get("description") or problem).splitlines()[0].rstrip(".")
    return CqlError(description[:1].lower() + description[1:], text, _offset(told, text))


def _offset(told: dict[str, object], text: str) -> int:
    """Return where a word begins of which line and last column are known."""
    line, last, word = told.get("line"), told.get("col"), str(told.get("highlight") or "")
    if not isinstance(line, int) or not isinstance(last, int):
        return len(text.rstrip())
    before = sum(len(shown) + 1 for shown in text.split("\n")[: line - 1])
    return max(before + last - len(word), 0)
