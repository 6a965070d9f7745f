"""A query over recordings, which runs on the local host under any settings, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.cli.replay.read import Recording
from lowwater.cli.run.recordings import epochs_of, length_text
from lowwater.engine.clock import Clock
from lowwater.errors import SpecError
from lowwater.learners.frontier import RecordedProgress
from lowwater.sources.arrival_clock import ArrivalEpochs, Ticks
from lowwater.sources.feed import Feed
from lowwater.watermarks.policy import WatermarkPolicy
from lowwater.windows.axis import Axis


@dataclass(frozen=True, eq=False)
class RecordedQuery:
    """The text of a query, its recordings by name, and the epochs in which their rows arrive."""

    text: str
    recordings: Mapping[str, Recording]
    epochs: ArrivalEpochs

    @classmethod
    def of(cls, text: str, recordings: Sequence[Recording], epoch: str | None) -> RecordedQuery:
        """Return the query, whose recordings are cut into epochs of the length `epoch`."""
        rows = sum(len(one.table) for one in recordings)
        if not rows:
            raise SpecError(
                "the recording has no rows, so there is nothing to replay; name another"
            )
        if len({one.counts_numbers for one in recordings}) > 1:
            raise SpecError(
                "one recording arrives by a number and another by time; name a column of arrival "
                "for each, as in --source NAME=PATH,arrival=COLUMN"
            )
        axis = recordings[0].axis if recordings[0].counts_numbers else None
        epochs = epochs_of([one.arrived for one in recordings], epoch, axis)
        return cls(text, {one.name: one for one in recordings}, epochs)

    @cached_property
    def feeds(self) -> dict[str, Feed]:
        """The feed of each recording."""
        return {name: lw.feed(one.table.schema) for name, one in self.recordings.items()}

    @cached_property
    def tables(self) -> dict[Feed, list[pa.Table]]:
        """The rows of each epoch, by feed."""
        return {feed: self._cut(self.recordings[name]) for name, feed in self.feeds.items()}

    def _cut(self, recording: Recording) -> list[pa.Table]:
        ends = self.epochs.rows(recording.arrived).tolist()
        pairs = zip([0, *ends], ends, strict=False)
        return [recording.table.slice(start, end - start) for start, end in pairs]

    def progress(self, name: str) -> RecordedProgress:
        """Return the progress of a recording on the arrival clock."""
        one = self.recordings[name]
        ticks, valid = one.ticks
        return RecordedProgress.of(ticks[valid], one.arrived[valid], self.cuts)

    @property
    def cuts(self) -> Ticks:
        """The end of each epoch on the arrival clock."""
        return self.epochs.cuts

    @property
    def clock(self) -> Clock:
        """The clock of a run: the arrival clock, without the durations of this machine."""
        return TrialClock(self.cuts)

    def query(self, watermark: WatermarkPolicy | None) -> lw.Stream:
        """Return the query over feeds, each with this watermark policy, or without one."""
        streams: dict[str, Any] = {
            name: lw.stream(feed, time=self.recordings[name].time, watermark=watermark)
            for name, feed in self.feeds.items()
        }
        return lw.sql(self.text, **streams)

    @property
    def axis(self) -> Axis:
        """The event times of the first recording."""
        return next(iter(self.recordings.values())).axis

    @property
    def counts_numbers(self) -> bool:
        """Whether the arrival clock is a number that is not a time."""
        return next(iter(self.recordings.values())).counts_numbers

    @property
    def span(self) -> int:
        """The distance between the oldest and the newest event time, in ticks."""
        times = [ticks[valid] for ticks, valid in (one.ticks for one in self.recordings.values())]
        known = np.concatenate(times)
        return int(known.max() - known.min()) if len(known) else 0

    @property
    def played(self) -> str:
        """A line about the replay: the rows, the epochs and the clock."""
        several = list(self.recordings.values())
        numbers = several[0].axis if several[0].counts_numbers else None
        length = length_text(self.epochs.length, numbers)
        progress = any(one.clock.progress for one in several)
        clock = "event time, as no arrival column was named" if progress else "arrival"
        rows = sum(len(one.table) for one in several)
        return f"{rows:,} rows in {len(self.cuts):,} epochs of {length} of {clock}"


@dataclass(frozen=True, eq=False)
class TrialClock:
    """The arrival clock of a trial. It measures no durations, so every trial ends the same."""

    cuts: Ticks

    def now(self, epoch: int) -> int:
        """Return the arrival clock at the end of an epoch; it stops with the recording."""
        last = len(self.cuts) - 1
        return int(self.cuts[min(epoch, last)]) + max(epoch - last, 0)
