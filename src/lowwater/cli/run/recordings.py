"""Recordings of the command: files that are played as they arrived, in epochs of a live stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pyarrow as pa

from lowwater.cli.run.source_args import SourceArgs, multiline_of, speed_of, time_column
from lowwater.engine.clock import RecordedClock
from lowwater.errors import SpecError
from lowwater.sources.arrival_clock import ArrivalClock, ArrivalEpochs, Ticks
from lowwater.sources.formats import Format
from lowwater.sources.replay import Replay, replay
from lowwater.sources.source import BlockSource
from lowwater.sources.unix_time import with_timestamps
from lowwater.ticks import TICKS_PER_SECOND, spoken, ticks
from lowwater.windows.axis import Axis

FEWEST, MOST, ROWS = 100, 1_000, 5
"""Where no length is given, a recording has an epoch for `ROWS` rows, from `FEWEST` to `MOST`."""
PLAIN_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600)
"""Plain lengths in seconds; longer ones are whole hours, and double."""


@dataclass(frozen=True)
class Playback:
    """How recordings are played: their epochs, and whether any lacks a column of arrival."""

    epochs: ArrivalEpochs
    length: str
    by_progress: bool

    @property
    def clock(self) -> RecordedClock:
        """The system clock of a run of these recordings."""
        return RecordedClock(self.epochs.cuts)

    def __str__(self) -> str:
        if self.by_progress:
            return f"of {self.length} of event time, as no arrival column was named"
        return f"of {self.length} of arrival"

    @classmethod
    def of(cls, sources: Iterable[object]) -> Playback | None:
        """Return how the sources are played; None unless all are recordings with equal epochs."""
        recorded = list(sources)
        replays = [s for s in recorded if isinstance(s, Replay) and s.epochs is not None]
        cut = {id(s.epochs) for s in replays}
        if len(replays) < len(recorded) or len(cut) != 1:
            return None
        epochs = replays[0].epochs
        assert epochs is not None  # noqa: S101
        progress = any(s.clock is not None and s.clock.progress for s in replays)
        axis = _axis(replays[0]) if _counts_numbers(replays[0]) else None
        return cls(epochs, length_text(epochs.length, axis), progress)


def recording_of(
    named: SourceArgs, path: Path, form: Format, stored: pa.Schema, arrival: str | None = None
) -> Replay:
    """Return the source that replays the file `path`, which has the columns `stored`.

    `arrival` is the column of arrival if the source names none.
    """
    given = {o: named.options[o] for o in ("time", "arrival") if o in named.options}
    if arrival is not None:
        given.setdefault("arrival", arrival)
    columns = {o: time_column(f"source {named.name!r}: {o}", t, stored) for o, t in given.items()}
    units = {column: unit for column, unit in columns.values() if unit is not None}
    source = replay(
        path,
        arrival=columns["arrival"][0] if "arrival" in columns else None,
        speed=speed_of(named),
        format=form,
        schema=with_timestamps(stored, units),
        multiline=multiline_of(named),
    )
    return replace(source, stored=stored, units=tuple(units.items())) if units else source


def in_epochs(
    sources: Mapping[str, BlockSource], times: Mapping[str, str], epoch: str | None
) -> dict[str, BlockSource]:
    """Return the sources with recordings cut into the same epochs.

    `times` has the column of event time of each source; `epoch` is the length of an epoch as text.
    """
    played = {
        name: replace(source, clock=_clock(source, times[name]))
        for name, source in sources.items()
        if isinstance(source, Replay) and source.speed is None
    }
    if epoch is not None and not played:
        raise SpecError(
            f"--epoch {epoch!r} cuts files into epochs of their arrival, but no source is a file "
            f"without speed=; leave it out"
        )
    cut: dict[str, BlockSource] = dict(sources)
    for numbers in (False, True):
        alike = {n: s for n, s in played.items() if _counts_numbers(s) == numbers}
        if alike:
            axis = _axis(next(iter(alike.values()))) if numbers else None
            epochs = epochs_of([arrivals_of(source) for source in alike.values()], epoch, axis)
            cut |= {name: replace(source, epochs=epochs) for name, source in alike.items()}
    return cut


def arrivals_of(source: Replay) -> Ticks:
    """Return the arrivals of a recording's rows, in order."""
    clock = source.clock
    assert clock is not None  # noqa: S101
    fields = [(source.stored or source.schema).field(clock.column)]
    units = tuple((c, u) for c, u in source.units if c == clock.column)
    narrow = replace(source, schema=pa.schema(fields), stored=pa.schema(fields), units=units)
    table = narrow.recording()
    return clock.read(table.take(pa.array(clock.order(table))))


def _clock(source: Replay, time: str) -> ArrivalClock:
    if source.arrival is None:
        return ArrivalClock(time, progress=True)
    return ArrivalClock(source.arrival)


def _axis(source: Replay) -> Axis:
    assert source.clock is not None  # noqa: S101
    column = source.clock.column
    return Axis(column, source.schema.field(column).type)


def _counts_numbers(source: Replay) -> bool:
    """Return whether the arrival clock is a number that is not a time."""
    clock = source.clock
    return clock is not None and clock.progress and _axis(source).kind == "number"


def epochs_of(
    arrivals: Sequence[Ticks], epoch: str | None, numbers: Axis | None = None
) -> ArrivalEpochs:
    """Return the epochs of recordings that arrive together; `epoch` is their length as text.

    `numbers` is the arrival clock if it is a number that is not a time.
    """
    if epoch is not None:
        length = length_of(epoch) if numbers is None else _number_of(epoch, numbers)
    else:
        unit = TICKS_PER_SECOND if numbers is None else numbers.per_unit
        length = default_length(arrivals, unit)
    return ArrivalEpochs.of(arrivals, length)


def _number_of(epoch: str, axis: Axis) -> int:
    try:
        length = float(epoch)
    except ValueError:
        raise SpecError(
            f"--epoch {epoch!r}: {axis.column!r} is a number without a unit; write a number of "
            f"its units, or name its unit, as in {axis.column}:ms"
        ) from None
    return _positive(epoch, axis.span(length, name="--epoch"))


def length_of(epoch: str) -> int:
    """Return the length of an epoch, `epoch` as text, in ticks."""
    return _positive(epoch, ticks(epoch, name="--epoch"))


def _positive(epoch: str, length: int) -> int:
    if length <= 0:
        raise SpecError(f"--epoch {epoch!r} must be longer than zero, as in '1 second'")
    return length


def default_length(arrivals: Iterable[Ticks], unit: int = TICKS_PER_SECOND) -> int:
    """Return the shortest plain length, from a second on, that makes no more epochs than `MOST`.

    A recording with few rows has fewer epochs.

    >>> import numpy as np
    >>> default_length([np.arange(0, 5_000) * TICKS_PER_SECOND]) // TICKS_PER_SECOND
    10
    """
    known = list(arrivals)
    most = min(max(sum(map(len, known)) // ROWS, FEWEST), MOST)
    lengths = (unit * seconds for seconds in _plain_seconds())
    return next(n for n in lengths if len(ArrivalEpochs.of(known, n).cuts) <= most)


def _plain_seconds() -> Iterator[int]:
    yield from PLAIN_SECONDS
    yield from (PLAIN_SECONDS[-1] << doubled for doubled in count(1))


def length_text(length: int, numbers: Axis | None = None) -> str:
    """Return the length of an epoch as text; `numbers` is a clock that is not a time."""
    return spoken(length) if numbers is None else f"{length / numbers.per_unit:g}"
