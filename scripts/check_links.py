"""Check that every relative link in the Markdown files leads to a file."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def broken_links(page: Path) -> list[str]:
    """Return the relative links of `page` that lead nowhere."""
    return [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]


def main() -> int:
    """Print each broken link; return the exit code."""
    broken = [
        f"{page.relative_to(ROOT)}: {link} does not exist"
        for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
        for link in broken_links(page)
    ]
    print("\n".join(broken), end="\n" if broken else "")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
