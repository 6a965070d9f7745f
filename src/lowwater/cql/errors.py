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
    """Return a CqlError at the position of `node`, or of the first node if `node` is a list."""
    return CqlError(problem, text, position(node[0] if isinstance(node, list) else node), hint)


def unsupported(what: str, text: str, node: exp.Expr, hint: str | None = None) -> CqlError:
    """Return the CqlError for `what`, a construct of Spark SQL that CQL does not support."""
    return cql_error(f"{what} is not supported", text, node, hint)


@contextmanager
def errors_at(text: str, node: exp.Expr) -> Iterator[None]:
    """Turn a SpecError raised in the `with` block into a CqlError at the position of `node`."""
    try:
        yield
    except CqlError:
        raise
    except SpecError as problem:
        raise cql_error(str(problem), text, node) from problem


def set_position(node: exp.Expr, at: int) -> None:
    """Store `at` as the position of `node`: the index in the text at which it begins."""
    node.meta["start"] = at


def position(node: exp.Expr) -> int:
    """Return the position of `node`; if unset, the first position inside `node` or its parents."""
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
    """Return a hint that names the word of `known` closest to `word`; `otherwise` if none is close.

    >>> suggestion("minuts", ["minute", "minutes"])
    "did you mean 'minutes'?"
    """
    close = get_close_matches(word.lower(), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def from_parser(problem: ParseError, text: str) -> CqlError:
    """Return the CqlError for an error of sqlglot's parser, at the same position in `text`."""
    details = problem.errors[0] if problem.errors else {}
    description = str(details.get("description") or problem).splitlines()[0].rstrip(".")
    line, last, at = details.get("line"), details.get("col"), len(text.rstrip())
    if isinstance(line, int) and isinstance(last, int):
        before = sum(len(shown) + 1 for shown in text.split("\n")[: line - 1])
        at = max(before + last - len(str(details.get("highlight") or "")), 0)
    return CqlError(description[:1].lower() + description[1:], text, at)
