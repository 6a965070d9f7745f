"""The report of many schedules: how often each fault met each point, and what went wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from chaos.schedule import FAULTS, PAIRS, SENSELESS
from chaos.world import Outcome
from lowwater.engine.fault_points import POINTS

_WIDTH = max(map(len, FAULTS)) + 1
_SHOWN = 5


@dataclass
class Report:
    """The sums over many schedules; `wrong` are the outcomes whose outputs differ silently."""

    schedules: int = 0
    met: Counter[tuple[str, str]] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    wrong: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Add one schedule."""
        self.schedules += 1
        self.met.update(outcome.met)
        self.named.update(outcome.named)
        self.errors.update(type_of(error) for error in outcome.errors)
        if outcome.wrong is not None:
            self.wrong.append(outcome)

    def merge(self, other: Report) -> None:
        """Add the schedules of another report."""
        self.schedules += other.schedules
        self.met.update(other.met)
        self.named.update(other.named)
        self.errors.update(other.errors)
        self.wrong += other.wrong

    def text(self, seconds: float) -> str:
        """Return the report as text."""
        fewest = min(self.met[pair] for pair in PAIRS)
        rate = self.schedules / seconds * 60
        first = min((o.schedule.seed for o in self.wrong), default=0)
        lines = [*self._matrix(), ""]
        lines += [f"– {reason}" for reason in dict.fromkeys(SENSELESS.values())]
        lines += ["", f"errors that named their cause: {sum(self.errors.values())}"]
        lines += [f"  {n:>6} {text}" for text, n in self.errors.most_common(12)]
        lines += [
            "",
            f"{self.schedules} schedules in {seconds:.0f} s ({rate:.0f} per minute)",
            f"{len(PAIRS)} pairs of point and fault, each met {fewest} times or more",
            f"silently wrong: {len(self.wrong)}",
        ]
        wrong = sorted(self.wrong, key=lambda outcome: outcome.schedule.seed)[:_SHOWN]
        lines += [f"  seed {o.schedule.seed}: {o.schedule}\n    {o.wrong}" for o in wrong]
        if self.wrong:
            lines.append(f"repeat it: python -m chaos local --seed {first} --schedules 1")
        return "\n".join(lines)

    def _matrix(self) -> list[str]:
        """Return a line per kind of fault: how often it happened at each point, and its errors."""
        head = f"{'':<{_WIDTH}}" + "".join(f"{point:>10}" for point in POINTS)
        lines = [f"{head}{'errors':>10}"]
        for kind in FAULTS:
            cells = (
                "–" if (point, kind) in SENSELESS else str(self.met[point, kind])
                for point in POINTS
            )
            counts = "".join(f"{cell:>10}" for cell in cells)
            lines.append(f"{kind:<{_WIDTH}}{counts}{self.named[kind]:>10}")
        return lines


def type_of(error: str) -> str:
    """Return an error without its paths and numbers, so that equal errors count together."""
    words = ["…" if any(c.isdigit() or c == "/" for c in word) else word for word in error.split()]
    return " ".join(words)[:90]
