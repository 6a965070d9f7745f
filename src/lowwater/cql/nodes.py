"""What CQL adds to the syntax tree of Spark SQL."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class Length(exp.Expression):
    """A length: `300 seconds`, `10 rows`, `5`, `UNBOUNDED`. Its kind says which of these it is."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class RowNumber(exp.Expression):
    """`row-num`: the place of a row in the order of arrival."""

    arg_types: ClassVar[dict[str, bool]] = {}


class RankOf(exp.Expression):
    """`rank(ts)`: the place of a row in the order of a column."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class StreamWindow(exp.Expression):
    """`[RANGE … SLIDE … WATTR …]`."""

    arg_types: ClassVar[dict[str, bool]] = {
        "range": False,
        "rattr": False,
        "slide": False,
        "sattr": False,
        "gap": False,
        "wattr": False,
        "pattr": False,
        "origin": False,
        "revise": False,
    }


class Windowed(exp.Expression):
    """A stream and its window."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "window": True}


class Early(exp.Expression):
    """An item of SELECT and the window behind it, as OOP writes it: it is that of FROM."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "window": True}


class Kept(exp.Expression):
    """`stream KEEP 3 seconds SLIDE 1 second`: an input of a join and how long its rows are kept."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "keep": True, "slide": False}


class StreamUnion(exp.Expression):
    """`a UNION b AS c`: the rows of several streams as those of one."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "alias": False}
