"""Check the names and sizes of modules: no gerund or participle, no more than 340 lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("src/lowwater", "experiments", "examples", "bench", "chaos")
MOST_LINES = 340
"""Most lines of a module of the library; the others have no bound."""
NOUNS = frozenset(
    {
        "feed",
        "having",  # the clause of SQL
        "need",
        "shedding",  # load shedding, as DROP calls it
        "sidelining",  # as PROD calls it
        "sliding",  # the window kind
        "testing",
    }
)
"""Nouns of the field that end like a gerund or a participle. The last word of a name counts."""


def mistakes(path: Path) -> Iterator[str]:
    """Yield a line for each rule that a module breaks."""
    for name in (path.parent.name, path.stem):
        word = name.rpartition("_")[2]
        if word.endswith(("ing", "ed")) and word not in NOUNS:
            yield f"{path.relative_to(ROOT)}: {word!r} is a gerund or a participle; use a noun"
    lines = path.read_text("utf-8").count("\n")
    if path.is_relative_to(ROOT / "src") and lines > MOST_LINES:
        yield f"{path.relative_to(ROOT)}: {lines} lines, more than {MOST_LINES}; split it"


def main() -> int:
    """Print each mistake; return the exit code."""
    modules = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    wrong = [mistake for path in modules for mistake in mistakes(path)]
    print("\n".join(wrong) or f"modules: {len(modules)} names and sizes are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
