"""Write `docs/compatibility.md` from the table of compatible features.

python scripts/compatibility.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lowwater.planner.compatibility import RULES, Rule, rule_of
from lowwater.planner.labels import AGGREGATES, FEATURES, OPERATORS, WINDOWS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "compatibility.md"
HEAD = """# What goes together

This page is generated from one table in the code (`lowwater/planner/compatibility.py`), from which
the errors come as well. A test runs every cell: it gives the right results, or raises the error of
the cell. ● works; a number is the reason below. `query.explain(features=True)` prints the same for
one query.
"""


def page() -> str:
    """Return the text of the page."""
    numbers: dict[tuple[str, str], int] = {}
    for rule in RULES:
        numbers.setdefault((rule.reason, rule.remedy), len(numbers) + 1)
    parts = [HEAD]
    for title, labels in (
        ("Windows", WINDOWS),
        ("Aggregates", AGGREGATES),
        ("Operators", OPERATORS),
        ("Other features", FEATURES),
    ):
        parts += [f"## {title}", "\n".join(_table(labels, numbers)), _legend(labels)]
    parts += ["## Reasons", "\n".join(_reasons(numbers))]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(labels: Mapping[str, str], numbers: Mapping[tuple[str, str], int]) -> Iterator[str]:
    yield f"| feature | {' | '.join(labels)} |"
    yield f"|---|{'---|' * len(labels)}"
    for feature, written in FEATURES.items():
        cells = (_cell(feature, label, numbers) for label in labels)
        yield f"| {written} | {' | '.join(cells)} |"


def _cell(feature: str, label: str, numbers: Mapping[tuple[str, str], int]) -> str:
    if feature == label:
        return ""
    rule = _rule(feature, label) or _rule(label, feature)
    return "●" if rule is None else str(numbers[rule.reason, rule.remedy])


def _rule(feature: str, label: str) -> Rule | None:
    labels = {label, "by"} if label == "per_source" else {label}
    return rule_of(feature, labels)


def _legend(labels: Mapping[str, str]) -> str:
    return "\n".join(f"- *{label}*: {written}" for label, written in labels.items())


def _reasons(numbers: Mapping[tuple[str, str], int]) -> Iterator[str]:
    for (reason, remedy), number in numbers.items():
        yield f"{number}. {_sentence(reason)} Remedy: {remedy}."


def _sentence(text: str) -> str:
    """Return a text as a sentence; one that begins with code keeps its first letter."""
    word = text.split(maxsplit=1)[0]
    first = text[0].upper() if word.isalpha() else text[0]
    return f"{first}{text[1:]}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
