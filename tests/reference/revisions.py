"""Results that late rows correct, by brute force: row by row, window by window.

Windows close by the watermark m; `[start, end)` takes rows until m - allowed_lateness >= end.
Nothing here uses Lowwater.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.reference.windows import FUNCTIONS, TIME, Row, Rule, Slack, Windows, group

Cell = tuple[Any, ...]
"""(window name, window, *group)."""


@dataclass
class Held:
    """A row, in the order of arrival, and the windows that it entered: (name, window)."""

    arrival: int
    row: Row
    entered: set[tuple[str, int]]


@dataclass
class Epoch:
    """What an epoch gave: results by kind and cell, late rows, and what is kept after it."""

    results: dict[tuple[str, Cell], dict[str, Any]] = field(default_factory=dict)
    late: list[Row] = field(default_factory=list)
    panes: int = 0
    windows: int = 0


@dataclass
class Revisions:
    """A query whose results are revised. `consistent` rows are late for all their windows."""

    windows: Mapping[str, Windows]
    rule: Rule
    revise: int
    keys: Sequence[str]
    named: Mapping[str, tuple[Any, ...]]
    consistent: bool = False
    counts: Counter = field(default_factory=Counter)
    held: list[Held] = field(default_factory=list)

    def tell(self, epochs: Sequence[Sequence[Row]]) -> list[Epoch]:
        """Go through the epochs; an empty one follows, which hears of the end.

        epoch n        its rows find closed what was decided after n-2, or said in the data of n-1;
                       then what was decided after n-1, or said in n, closes windows
        """
        told, newest = [], -math.inf
        closed: Rule = Slack(0)
        for rows in [*epochs, None]:
            before, decided = closed, copy.deepcopy(self.rule)

            def in_force(row: Row, closed: Rule = before, said: Rule = decided) -> float:
                return max(closed.mark(row), said.prompt(row))

            epoch, corrected = Epoch(), set()
            for row in rows or ():
                if not self.rule.says(row):
                    newest = max(newest, row[TIME])
                    corrected |= self.take(row, newest - row[TIME], in_force, decided, epoch)
            self.rule.after(rows or ())

            def acting(row: Row, last: bool = rows is None, decided: Rule = decided) -> float:
                return math.inf if last else max(decided.mark(row), self.rule.prompt(row))

            self.close(in_force, acting, corrected, epoch)
            closed = decided
            told.append(epoch)
        return told

    def take(self, row: Row, degree: int, in_force: Any, decided: Rule, epoch: Epoch) -> set[Cell]:
        """Admit a row; return which results, given out before, it corrects."""
        self.counts["in"] += 1
        held = {n: w.holding(row[TIME], row[TIME]) for n, w in self.windows.items()}
        held = {n: found for n, found in held.items() if found}
        if not held:
            self.counts["outside"] += 1
            return set()
        missed = {
            n: [w for w in found if self.gone(n, w, in_force(row))] for n, found in held.items()
        }
        ends = [self.windows[n].end(found[0]) for n, found in held.items()]
        if self.consistent and min(ends) <= decided.mark(row) - self.revise:
            missed = held
        entered = {(n, w) for n, found in held.items() for w in found if w not in missed[n]}
        self.counts["admitted" if entered else "late"] += 1
        self.counts["partly_late"] += bool(entered) and any(missed.values())
        for name, lost in missed.items():
            if lost:
                at = {"first": lost[0], "last": lost[-1]}
                said = {"late_degree": degree, "missed": at, "admitted": bool(entered)}
                epoch.late.append({**row, "window_name": name, **said})
        self.held.append(Held(self.counts["in"], row, entered))
        key = group(row, self.keys)
        return {(n, w, *key) for n, w in entered if self.windows[n].end(w) <= in_force(row)}

    def gone(self, name: str, w: int, mark: float) -> bool:
        """Whether a window takes no more rows."""
        return self.windows[name].end(w) <= mark - self.revise

    def close(self, before: Any, after: Any, corrected: set[Cell], epoch: Epoch) -> None:
        """Give out what has become complete and what was corrected; forget what is gone."""
        cells: dict[Cell, list[Held]] = {}
        for one in self.held:
            for name, w in one.entered:
                cells.setdefault((name, w, *group(one.row, self.keys)), []).append(one)
        for cell, rows in cells.items():
            end, row = self.windows[cell[0]].end(cell[1]), rows[0].row
            if end <= after(row) and end > before(row):
                epoch.results["final", cell] = self.value(rows)
            elif cell in corrected:
                epoch.results["revised", cell] = self.value(rows)
        for one in self.held:
            one.entered = {(n, w) for n, w in one.entered if not self.gone(n, w, after(one.row))}
        self.held = [one for one in self.held if one.entered]
        self.counts["results"] += len(epoch.results)
        epoch.panes = len({(self.pane(o.row[TIME]), group(o.row, self.keys)) for o in self.held})
        epoch.windows = len({(e, group(o.row, self.keys)) for o in self.held for e in o.entered})

    def value(self, rows: Sequence[Held]) -> dict[str, Any]:
        ordered = [o.row for o in sorted(rows, key=lambda o: (o.row[TIME], o.arrival))]
        return {
            name: FUNCTIONS[function]([1 if c is None else r[c] for r in ordered], *given)
            for name, (function, c, *given) in self.named.items()
        }

    def pane(self, t: int) -> int:
        """The longest stretch that no boundary of any window cuts."""
        laid = list(self.windows.values())
        size = math.gcd(*(n for w in laid for n in (w.range, w.slide)))
        return (t - (laid[0].origin or 0)) // size
