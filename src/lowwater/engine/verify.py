"""The check of a whole checkpoint: records, state, pending outputs, and what inputs stored."""

from __future__ import annotations

from collections.abc import Iterator

from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.entry import Entry, Opening, Positions, SegmentRange
from lowwater.engine.pending_outputs import PendingOutputs
from lowwater.engine.record import Record, kept_entries
from lowwater.engine.spark_folder import check_offsets
from lowwater.engine.state_store import StateFolder, epoch_of
from lowwater.errors import StateError
from lowwater.sources.taken_files import stamp_files


def verify(root: str) -> Iterator[str]:
    """Yield a sentence for each damaged, missing or foreign piece of the checkpoint at `root`."""
    checkpoint = Checkpoint.at(root)
    try:
        stored = checkpoint.stored()
    except StateError as problem:
        yield str(problem)
        return
    if stored is None:
        yield f"{root} is not a checkpoint of Lowwater"
        return
    records: list[Record] = []
    try:
        log = checkpoint.log(stored.id)
        for record in log.records():
            records.append(record)  # noqa: PERF402  # those before a damaged record count
    except StateError as problem:
        yield str(problem)
    entries = list(kept_entries(records))
    if not entries:
        yield f"{root} has no readable entry of an epoch"
        return
    opened = log.opened() is not None
    yield from _verify_state(StateFolder(checkpoint.state, stored.id), entries, opened=opened)
    yield from _verify_inputs(checkpoint, entries[0].positions, log.opened())
    if not log.released:
        try:
            PendingOutputs({}, {}, checkpoint.outputs, stored.id).publish_again(entries[0])
        except StateError as problem:
            yield str(problem)


def _verify_inputs(
    checkpoint: Checkpoint, positions: Positions | None, opened: Opening | None
) -> Iterator[str]:
    """Yield the problems of what sources, and Spark, have stored about the rows that were read."""
    for number, position in (positions or Positions()).inputs.items():
        try:
            list(stamp_files(position, f"{checkpoint.source}/{number}"))
        except StateError as problem:
            yield str(problem)
    try:
        check_offsets(checkpoint, positions, None if opened is None else opened.positions)
    except StateError as problem:
        yield str(problem)


def _verify_state(state: StateFolder, entries: list[Entry], *, opened: bool) -> Iterator[str]:
    """Yield the problems of the segments that the kept `entries`, newest first, name."""
    newest = entries[0]
    last = max(newest.epoch + (1 if opened else 0), newest.abandoned)
    segments: dict[SegmentRange, int] = {}
    for entry in entries:
        for segment in entry.segments:
            segments.setdefault(segment, entry.epoch)
    checked: set[tuple[int, int, str, str]] = set()
    for segment, epoch in segments.items():
        for problem in _problems_of(state, segment, checked):
            yield f"epoch {epoch}: {problem}"
    for operator, shard in sorted({(s.operator, s.start) for s in segments}):
        folder = state.shard(operator, shard)
        for name in folder.segments():
            if epoch_of(name) > last:
                yield f"{folder.path(name)} is of an epoch after the end of the control log"


def problems_of_state(state: StateFolder, entry: Entry) -> Iterator[str]:
    """Yield the problems of the state that one entry names."""
    for segment in entry.segments:
        yield from _problems_of(state, segment, set())


def _problems_of(
    state: StateFolder, segment: SegmentRange, checked: set[tuple[int, int, str, str]]
) -> Iterator[str]:
    """Yield the problems of the buckets in the index of `segment`, except of `checked` buckets."""
    folder = state.shard(segment.operator, segment.start)
    try:
        index = folder.index(segment)
    except StateError as problem:
        yield str(problem)
        return
    for bucket, place in index.places.items():
        piece = segment.operator, segment.start, place.segment, bucket
        if piece in checked:
            continue
        checked.add(piece)
        try:
            folder.bucket(bucket, place)
        except StateError as problem:
            yield str(problem)
