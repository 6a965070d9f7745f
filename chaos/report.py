"""The report of many schedules: how often each fault met each point, and what went wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from chaos.schedule import FAULTS
from chaos.world import Outcome
from lowwater.engine.fault_points import POINTS


@dataclass
class Report:
    """The sums over many schedules; `wrong` are the outcomes whose outputs differ silently."""

    schedules: int = 0
    met: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    wrong: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Add one schedule."""
        self.schedules += 1
        self.met.update(outcome.met)
        self.errors.update(type_of(error) for error in outcome.errors)
        if outcome.wrong is not None:
            self.wrong.append(outcome)

    def merge(self, other: Report) -> None:
        """Add the schedules of another report."""
        self.schedules += other.schedules
        self.met.update(other.met)
        self.errors.update(other.errors)
        self.wrong += other.wrong

    def text(self, seconds: float) -> str:
        """Return the report as text."""
        width = max(map(len, FAULTS))
        head = " " * width + "".join(f"{point[:9]:>10}" for point in POINTS)
        lines = [head]
        for kind in FAULTS:
            counts = "".join(f"{self.met[point, kind]:>10}" for point in POINTS)
            lines.append(f"{kind:<{width}}{counts}")
        fewest = min(self.met[point, kind] for point in POINTS for kind in FAULTS)
        rate = self.schedules / seconds * 60
        lines += ["", f"errors that named the fault: {sum(self.errors.values())}"]
        lines += [f"  {n:>6} {text}" for text, n in self.errors.most_common(12)]
        lines += [
            "",
            f"{self.schedules} schedules in {seconds:.0f} s ({rate:.0f} per minute)",
            f"every pair of point and fault met at least {fewest} times",
            f"silently wrong: {len(self.wrong)}",
        ]
        lines += [f"  seed {o.schedule.seed}: {o.schedule}\n    {o.wrong}" for o in self.wrong[:5]]
        return "\n".join(lines)


def type_of(error: str) -> str:
    """Return an error without its paths and numbers, so that equal errors count together."""
    words = ["…" if any(c.isdigit() or c == "/" for c in word) else word for word in error.split()]
    return " ".join(words)[:90]
