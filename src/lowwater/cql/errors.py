"""Errors at a position of a CQL text, with hints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from sqlglot import exp
from sqlglot.errors import ParseError

from lowwater.errors import CqlError, SpecError


def cql_error(
    problem: str, text: str, node: exp.Expr | list[exp.Expr], hint: str | None = None
) -> CqlError:
    """Return an error at the position of a node, or of the first of several."""
    return CqlError(problem, text, position(node[0] if isinstance(node, list) else node), hint)


def unsupported(what: str, text: str, node: exp.Expr, hint: str | None = None) -> CqlError:
    """Return the error for Spark SQL that a query over streams cannot contain."""
    return cql_error(f"{what} is not supported", text, node, hint)


@contextmanager
def errors_at(text: str, node: exp.Expr) -> Iterator[None]:
    """Raise a SpecError of the builder as a CqlError at the position of a node."""
    try:
        yield
    except CqlError:
        raise
    except SpecError as problem:
        raise cql_error(str(problem), text, node) from problem


def set_position(node: exp.Expr, at: int) -> None:
    """Store the position in the text at which a node begins."""
    node.meta["start"] = at


def position(node: exp.Expr) -> int:
    """Return the position of a node, or of its nearest part or parent that has one."""
    near: exp.Expr | None = node
    while near is not None:
        if "start" in near.meta:
            return int(near.meta["start"])
        starts = [int(n.meta["start"]) for n in near.walk() if "start" in n.meta]
        if starts:
            return min(starts)
        near = near.parent
    return 0


def suggestion(word: str, known: Iterable[str], *, otherwise: str | None = None) -> str | None:
    """Return a hint with the known word that is closest, else `otherwise`.

    >>> suggestion("minuts", ["minute", "minutes"])
    "did you mean 'minutes'?"
    """
    close = get_close_matches(word.lower(), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def from_parser(problem: ParseError, text: str) -> CqlError:
    """Return an error of sqlglot, with the line and the last column of a word, as a CqlError."""
    details = problem.errors[0] if problem.errors else {}
    description = str(details.get("description") or problem).splitlines()[0].rstrip(".")
    line, last, at = details.get("line"), details.get("col"), len(text.rstrip())
    if isinstance(line, int) and isinstance(last, int):
        before = sum(len(shown) + 1 for shown in text.split("\n")[: line - 1])
        at = max(before + last - len(str(details.get("highlight") or "")), 0)
    return CqlError(description[:1].lower() + description[1:], text, at)
