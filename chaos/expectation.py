"""What a query over input files must answer, computed from the harness's own knowledge.

The control log is used for one thing alone: which files each epoch took. Then a loop over the rows
knows every result, late row, malformed line and unreadable file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from chaos.inputs import Inputs, Row

SLACK = timedelta(seconds=2)
RANGE = timedelta(seconds=4)
_BEGIN = datetime(1, 1, 1, tzinfo=UTC)
_ZERO = datetime(1970, 1, 1, tzinfo=UTC)

Taken = tuple[str, int]
"""The name and the size of a file that an epoch has taken."""


@dataclass
class Answer:
    """All rows that a query emits: sums by window and key, and counts of the other rows."""

    results: dict[tuple[datetime, int], tuple[int, int]] = field(default_factory=dict)
    late: Counter[Row] = field(default_factory=Counter)
    malformed: Counter[str | None] = field(default_factory=Counter)
    bad_files: Counter[str] = field(default_factory=Counter)
    repeated: list[Any] = field(default_factory=list)

    def difference(self, expected: Answer) -> str | None:
        """Return what differs from the expected answer; None if nothing does."""
        for part, mine in vars(self).items():
            if mine != getattr(expected, part):
                return f"{part}: {mine}, not {getattr(expected, part)}"[:2_000]
        return None


def expected_answer(
    inputs: Inputs, epochs: Iterable[Sequence[Taken]], reported: Iterable[str]
) -> Answer:
    """Return the answer of a query whose epochs took these files, and reported others.

    A watermark that is decided after an epoch closes windows at the end of the next one, so it
    makes rows late from the epoch after that on.
    """
    answer = Answer(bad_files=Counter(reported))
    newest, decided, in_force = _BEGIN, _BEGIN, _BEGIN
    for files in epochs:
        for name, size in files:
            lines = inputs.contents[name, size].lines
            if lines is None:
                answer.bad_files[name] += 1
            for line in lines or ():
                if line.row is None:
                    text = None if inputs.form == "parquet" else line.text.decode(errors="replace")
                    answer.malformed[text] += 1
                    continue
                _admit(answer, line.row, in_force)
                newest = max(newest, line.row[0])
        in_force = decided
        decided = newest - SLACK if newest > _BEGIN else _BEGIN
    return answer


def _admit(answer: Answer, row: Row, watermark: datetime) -> None:
    at, key, value = row
    start = at - (at - _ZERO) % RANGE
    if start + RANGE <= watermark:
        answer.late[row] += 1
        return
    n, total = answer.results.get((start, key), (0, 0))
    answer.results[start, key] = n + 1, total + value


def found_answer(tables: dict[str, list[list[dict[str, Any]]]]) -> Answer:
    """Return the rows of the sinks, {kind: rows of each file}, as an answer."""
    answer = Answer()
    for row in _rows(tables, "results"):
        place = row["window"]["start"].astimezone(UTC), row["key"]
        if place in answer.results:
            answer.repeated.append(row)
        answer.results[place] = row["n"], row["total"]
    for row in _rows(tables, "late"):
        answer.late[row["ts"].astimezone(UTC), row["key"], row["value"]] += 1
    answer.malformed.update(row["text"] for row in _rows(tables, "malformed"))
    for row in _rows(tables, "bad_files"):
        answer.bad_files[row["path"].rpartition("/")[2]] += 1
    return answer


def _rows(tables: dict[str, list[list[dict[str, Any]]]], kind: str) -> list[dict[str, Any]]:
    return [row for rows in tables.get(kind, ()) for row in rows]
