"""The summary of a run, in words."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
from rich.table import Column, Table

from examples.flights.check import Check
from examples.flights.flights import Recording, late_degrees
from examples.flights.journal import Journal, waits
from examples.flights.times import span, when


@dataclass(frozen=True)
class Report:
    """The facts about a finished run."""

    recording: Recording
    journal: Journal
    late: pa.Table
    check: Check
    speed: float
    slack: str

    def facts(self) -> dict[str, str]:
        """Return the sentences of the summary, by subject."""
        return {
            "flights": self._flights(),
            "late rows": self._late(),
            "watermark": self._mark(),
            "latency": self._latency(),
            "finals": self._finals(),
            "late added back": self._restored(),
        }

    def _flights(self) -> str:
        recording = self.recording
        return (
            f"{_flights(len(recording.flights))} scheduled {recording.spoken_dates} took off and "
            f"were replayed in that order, {self.speed:,.0f} times as fast. "
            f"{recording.cancelled:,} more were cancelled."
        )

    def _late(self) -> str:
        late, partly = self.journal.count("late"), self.journal.count("partly_late")
        degrees = late_degrees(self.recording.flights)
        if not late + partly:
            return f"None: no flight was more than {span(degrees.max())} behind the newest."
        row = self.recording.flights.loc[degrees.idxmax()]
        return (
            f"With a slack of {self.slack}, {_flights(late)} missed every window, and {partly:,} "
            f"missed some: these had closed before. The latest, {row['carrier']} {row['flight']} "
            f"from {row['origin']} to {row['dest']}, came {span(degrees.max())} behind the newest: "
            f"a slack of that length would cover them all."
        )

    def _mark(self) -> str:
        return (
            f"Stood at {when(self.journal.mark)} when the stream ended, which closed the rest; the "
            f"newest scheduled departure was {when(self.journal.newest)}."
        )

    def _latency(self) -> str:
        journal, arrivals = self.journal, self.recording.flights["took_off"]
        found = waits(journal.results, journal.cuts(), arrivals)
        if found.empty:
            return "No window closed before the stream ended."
        median, most = found.median(), found.max()
        epoch = journal.epoch_seconds()
        night = ", over a night" if self.recording.days > 1 else ""
        covered = pd.Timedelta(seconds=epoch * self.speed)
        return (
            f"By the stream's clock a result came {span(median)} after its window's end (median; "
            f"at most {span(most)}{night}); {self.slack} of that is slack. At this speed it "
            f"is {median.total_seconds() / self.speed:.1f} s by the wall clock. An epoch took "
            f"{epoch:.1f} s (median), and {span(covered)} of the stream went by meanwhile; live "
            f"it would be just these {epoch:.1f} s."
        )

    def _finals(self) -> str:
        check, off = self.check, self.check.off
        text = (
            f"{check.right:,} of {check.windows:,} ({check.right / check.windows:.1%}) equal the "
            f"exact answer, which was computed apart, from all flights at once."
        )
        if len(off):
            text += (
                f" In {len(off):,}, which lack late flights, the mean delay is off by "
                f"{off.median():.1f} min (median; at most {off.max():.1f} min)."
            )
        if check.never_came:
            text += f" {check.never_came:,} never came, as all their flights were late."
        return text

    def _restored(self) -> str:
        check = self.check
        if check.restored < check.windows:
            return f"{check.windows - check.restored:,} finals are still not exact: this is a bug."
        if check.right == check.windows:
            return "There is nothing to add."
        return (
            f"With each late flight put back into the windows that it reports as missed, all "
            f"{check.windows:,} are exact: late rows are counted and named, none is lost."
        )


def _flights(count: int) -> str:
    return f"{count:,} flight{'' if count == 1 else 's'}"


def as_text(facts: dict[str, str]) -> Table:
    """Lay the facts out for the screen."""
    grid = Table.grid(
        Column(style="bold", no_wrap=True), Column(max_width=88), padding=(0, 2, 0, 0)
    )
    for subject, fact in facts.items():
        grid.add_row(subject, fact)
    return grid
