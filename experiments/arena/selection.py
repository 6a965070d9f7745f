"""Which streams the arena judges: families drawn from seeds, recordings, files of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from experiments.arena.families import FAMILIES
from experiments.arena.recordings import RECORDINGS, Recording
from experiments.arena.stream import ArenaStream
from lowwater import SpecError
from lowwater.cli.replay.read import read_recording
from lowwater.cli.run.source_args import SourceArgs
from lowwater.errors import unknown_name
from lowwater.ticks import ticks

Source: TypeAlias = tuple[int, str] | Recording
"""The seed and the family of a drawn stream, or a recording."""


@dataclass(frozen=True)
class Selection:
    """The seeds, the names of streams (all if empty), and recordings beside the known ones.

    `leads` has the leads at which early values are asked for, in windows; all if empty.
    """

    seeds: tuple[int, ...] = (0,)
    names: tuple[str, ...] = ()
    own: tuple[Recording, ...] = ()
    leads: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise SpecError unless all leads are at least 0 and less than a window."""
        for lead in self.leads:
            if not 0 <= lead < 1:
                raise SpecError(f"--lead {lead:g} must be at least 0 and below 1, for example 0.25")

    def takes(self, name: str) -> bool:
        """Return whether a stream of that name is judged."""
        return not self.names or name in self.names

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The recordings that are judged; those of one's own always are."""
        return (*(one for one in RECORDINGS if self.takes(one.name)), *self.own)

    def drawn(self, families: Iterable[str]) -> list[tuple[int, str]]:
        """Return the seed and the name of each stream of `families` that is judged."""
        return [(seed, name) for seed in self.seeds for name in families if self.takes(name)]

    @property
    def sources(self) -> list[Source]:
        """The streams of windows that are judged."""
        return [*self.drawn(FAMILIES), *self.recordings]


def name_of(source: Source) -> str:
    """Return the name of a source, with the seed of a drawn stream."""
    return source.name if isinstance(source, Recording) else f"{source[1]}/{source[0]}"


def stream_of(source: Source) -> ArenaStream:
    """Return the stream of a source; raise AbsentError where its recording is absent."""
    if isinstance(source, Recording):
        return source.load()
    seed, family = source
    return FAMILIES[family].stream(seed)


def own_recordings(
    texts: Sequence[str], range: str, epoch: str, by: str | None, value: str | None
) -> tuple[Recording, ...]:
    """Return the recordings that `NAME=PATH,time=…,arrival=…` describe, as held-out streams."""
    if not texts:
        return ()
    spans = [ticks(range, name="range"), ticks(epoch, name="epoch")]
    return tuple(
        Recording(one.name, "held out", "steady", partial(_rows, one, by, value), *spans)
        for one in map(SourceArgs.of, texts)
    )


def _rows(named: SourceArgs, by: str | None, value: str | None) -> dict[str, Any]:
    recording = read_recording(named)
    if recording.axis.kind != "time":
        raise SpecError(f"{named.name}: {recording.time!r} is a number, and the arena has a clock")
    times, valid = recording.ticks
    table = recording.table
    rows = {"ts": times[valid], "arrived": recording.arrived[valid]}
    if by is not None:
        codes = _column(table, by).combine_chunks().dictionary_encode().indices
        rows["key"] = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False)[valid]
    if value is not None:
        numbers = pc.fill_null(_column(table, value).cast(pa.float64()), 0.0)
        rows["value"] = np.asarray(numbers)[valid]
    return rows


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise unknown_name("column", name, table.column_names)
    return table.column(name)
