"""The text of a query: the argument QUERY itself, or the content of the file that it names."""

from __future__ import annotations

from pathlib import Path

from lowwater.errors import SpecError

SUFFIXES = (".toml", ".yaml", ".yml")
"""The endings of settings files."""


def query_text(query: str) -> str:
    """Return the text of the query: `query` itself, or the content of the file `query`."""
    if is_text(query):
        return query
    if Path(query).suffix in SUFFIXES:
        raise SpecError(
            f"QUERY {query!r} is a settings file, not a query; give settings with --config {query}"
        )
    remedy = "give an existing file, or a text that begins with SELECT"
    return read_text(Path(query), "the query", remedy)


def is_text(query: str) -> bool:
    """Return whether `query` is the text of a query, not the name of a file."""
    words = query.split(maxsplit=1)
    return len(words) > 1 and words[0].lower().lstrip("(") == "select"


def read_text(path: Path, what: str, remedy: str) -> str:
    """Return the text of a file; raise SpecError with the remedy if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise SpecError(f"{what} {str(path)!r} cannot be read: {reason}; {remedy}") from problem
    except UnicodeDecodeError as problem:
        raise SpecError(f"{what} {str(path)!r} is not UTF-8 text; save it as UTF-8") from problem
