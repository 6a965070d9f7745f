"""The saved record of a run: a JSON file and a picture for each experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.registry import in_order
from lowwater.errors import LowwaterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Record:
    """An outcome without its picture, and the experiment it belongs to."""

    id: str
    paper: str
    title: str
    reports: str
    quick: bool
    seconds: float
    settings: dict[str, Value]
    rows: list[dict[str, Value]]
    compared: list[Comparison]
    checks: list[Check]
    here: str = ""

    @classmethod
    def of(cls, asked: Experiment, found: Outcome, *, quick: bool, seconds: float) -> Record:
        """Return the record of an experiment and its outcome."""
        return cls(
            asked.id,
            asked.paper,
            asked.title,
            asked.reports,
            quick,
            seconds,
            dict(found.settings),
            [dict(row) for row in found.rows],
            list(found.compared),
            list(found.checks),
            asked.here,
        )

    @property
    def holds(self) -> bool:
        """Whether every judged shape holds."""
        return not any(check.fails for check in self.checks)

    @property
    def columns(self) -> list[str]:
        """The columns of the measured figures."""
        return list(self.rows[0]) if self.rows else []

    @property
    def picture(self) -> str:
        """The name of the picture."""
        return f"{self.id.lower()}.png"

    def to_json(self) -> str:
        """Return the record as text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Read a record back."""
        known: Mapping[str, Any] = json.loads(text)
        compared = [Comparison(**c) for c in known["compared"]]
        checks = [Check(**c) for c in known["checks"]]
        return cls(**{**known, "compared": compared, "checks": checks})

    def save(self, folder: Path, figure: Figure) -> None:
        """Write the record and its picture."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.id.lower()}.json").write_text(self.to_json() + "\n", "utf-8")
        figure.savefig(folder / self.picture)


def saved(folder: Path) -> list[Record]:
    """Return the records of a folder, in the order of their ids."""
    found = []
    for path in folder.glob("*.json"):
        try:
            found.append(Record.from_json(path.read_text("utf-8")))
        except (ValueError, TypeError, KeyError) as problem:
            raise LowwaterError(
                f"{path} is not the record of an experiment ({problem!r}); remove it, or run the "
                f"experiment again"
            ) from problem
    if not found:
        raise LowwaterError(
            f"there is nothing to report in {folder}; first run: python -m experiments run "
            f"--out {folder}"
        )
    return sorted(found, key=lambda r: in_order(r.id))
