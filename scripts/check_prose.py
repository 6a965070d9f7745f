"""Check docstrings, errors and pages against the rule for prose.

The rule: say who does what to which noun, in one main clause. Each pattern below is a wording that
had to be read twice. Exceptions are quotations, one per line, in `scripts/prose_exceptions.txt`.

    python scripts/check_prose.py [path ...]
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = ROOT / "scripts" / "prose_exceptions.txt"
PLACES = ("src", "docs", "experiments", "examples", "bench", "chaos", "scripts")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")

PATTERNS = {
    r"\bis no [a-z]+\b": "say 'is not a …', or what to write instead",
    r"\bare no [a-z]+\b": "say 'are not …'",
    r"\bso many\b|\bso much\b(?! as)|\bso long\b(?! as)": "name the number or the duration",
    r"\bas ever\b": "say 'as usual', or leave it out",
    r"\bof theirs\b|\bof its own accord\b": "name the owner",
    r"\b[Ww]ho (has|have|is|are|asks|says|wants|may|can|feeds|holds)\b": "name the component",
    r"\b(is|are|was|were|be|been|being) (told|heard|said|shown)\b": "say which text is printed",
    r"\b(tells?|says?|hears?) (the|an?|its|of|what|who|how|whether|that|which)\b": (
        "only text says something: use 'return', 'report', 'state'"
    ),
    r"\bgiv(es?|en|ing) out\b|\bgave out\b": "emit",
    r"\blet(s|ting)? go\b|\bpurged?\b": "evict",
    r"\b(puts?|putting) aside\b|\bput aside\b": "hold",
    r"\bwork(s|ed|ing)? off\b": "release",
    r"\b(leaves?|leaving) (whole )?windows out\b|\bleft out\b": "drop",
    r"\blow-water marks?\b|\blwm\b": "watermark",
    r"\b[Ww]hat (is|was|are|were|has|have) [a-z]+ (is|was|are|were)\b": "name the noun",
    r"\bstretch(es)?\b": "interval",
    r"\b([Tt]he|[Aa]|[Ii]ts|[Ee]ach|[Ee]very|[Nn]o|[Tt]his) marks?\b": "watermark",
    r"\bmarks (act|pass|close)\b": "watermarks",
    r'"""(Say|Tell|Hear)\b': "a docstring names its result: 'Return …', 'Raise …'",
    r"\b[Ww]hoever\b|\b[Nn]obody\b|\b[Ss]omebody\b": "name the component or the user",
    r"\bwhat (was|is) (seen|heard|said|told|asked)\b": "name the measurement or the text",
    r"\bwhat came\b|\bwhat is there\b|\bwhat is kept\b": "rows, batch, state",
}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the prose of a file: strings and comments of code, text of pages."""
    if path.suffix == ".md":
        yield from _page(path.read_text("utf-8"))
        return
    source = io.StringIO(path.read_text("utf-8"))
    for token in tokenize.generate_tokens(source.readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def _page(text: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and not line.lstrip().startswith("```"):
            yield number, line


def mistakes(path: Path, exceptions: frozenset[str]) -> Iterator[str]:
    """Yield a line for each wording that a pattern finds."""
    for number, text in texts(path):
        if text.strip() in exceptions:
            continue
        for pattern, remedy in PATTERNS.items():
            if match := re.search(pattern, text):
                shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                yield f"{shown}:{number}: {match[0]!r}: {remedy}"


def main(arguments: list[str]) -> int:
    """Check the given paths, or everything; return the exit code."""
    given = [ROOT / a for a in arguments] or [ROOT / p for p in (*PLACES, *PAGES)]
    files = [f for g in given for f in ([g] if g.is_file() else sorted(g.rglob("*.[pm][yd]")))]
    lines = EXCEPTIONS.read_text("utf-8").splitlines() if EXCEPTIONS.exists() else []
    exceptions = frozenset(line.strip() for line in lines if line and not line.startswith("#"))
    own = Path(__file__).resolve()
    wrong = [m for f in files if f.resolve() != own for m in mistakes(f, exceptions)]
    print("\n".join(wrong))
    print(f"{len(wrong)} wordings to change" if wrong else "prose: nothing to change")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
