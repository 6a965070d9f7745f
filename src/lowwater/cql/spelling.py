"""How what CQL adds to the syntax tree is spelt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from lowwater.cql.nodes import (
    Kept,
    Length,
    RankOf,
    RowNumber,
    StreamUnion,
    StreamWindow,
    Windowed,
)

CLAUSES = {
    "RANGE": "range", "RATTR": "rattr", "SLIDE": "slide", "SATTR": "sattr", "GAP": "gap",
    "WATTR": "wattr", "WA": "wattr", "PATTR": "pattr", "ORIGIN": "origin", "REVISE": "revise",
}  # fmt: skip
"""The words of a window, and the arguments they give."""


def _window_text(printer: Any, node: StreamWindow) -> str:
    said = []
    for word, name in CLAUSES.items():
        value = node.args.get(name)
        if word == "WA" or not value:
            continue
        values = value if isinstance(value, list) else [value]
        said.append(f"{word} {', '.join(printer.sql(v) for v in values)}")
    return f"[{' '.join(said)}]"


def _kept_text(printer: Any, node: Kept) -> str:
    slide = f" SLIDE {printer.sql(node, 'slide')}" if node.args.get("slide") else ""
    return f"{printer.sql(node, 'this')} KEEP {printer.sql(node, 'keep')}{slide}"


def _union_text(printer: Any, node: StreamUnion) -> str:
    alias = f" AS {printer.sql(node, 'alias')}" if node.args.get("alias") else ""
    return " UNION ".join(printer.sql(member) for member in node.expressions) + alias


SPELLING: dict[type[exp.Expr], Callable[..., str]] = {
    Length: lambda _, e: str(e.args["this"]),
    RowNumber: lambda *_: "row-num",
    RankOf: lambda printer, e: f"rank({printer.sql(e, 'this')})",
    StreamWindow: _window_text,
    Windowed: lambda printer, e: f"{printer.sql(e, 'this')} {printer.sql(e, 'window')}",
    Kept: _kept_text,
    StreamUnion: _union_text,
}
"""What prints each node."""
