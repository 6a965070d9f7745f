"""Reports: the records that the controller passes to policies after each epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lowwater.control.context import InputProgress
from lowwater.control.drop import DropPlan
from lowwater.control.hold import HeldInterval
from lowwater.control.measures import InputMeasure, Measures
from lowwater.control.prod import Prod
from lowwater.control.watermark import SourceKey, Watermarks, latest
from lowwater.event_clock import ClockMemory


@dataclass(frozen=True)
class EpochReport:
    """The measurements of an epoch, and the decisions that were in force during the epoch.

    - `inputs`: The progress of each input after the epoch.
    - `measured`: The measurements of the epoch.
    - `now`: The reading of the clock at the end of the epoch.
    - `asked`: Prods that `run.prod()` and streams of prods requested during the epoch.
    - `answered`: Prods that the operators answered in the epoch.
    - `ports`: The watermarks that were in force at the ports during the epoch.
    - `unheld`: The watermarks that the ports would have after the epoch if no rows were held.
    - `closing`: The watermarks in force at the ports in the next epoch.
    - `held`: The intervals whose rows were held during the epoch.
    - `dropped`: The drop plan that was in force during the epoch.
    - `clock`: The memory of the event clock before the epoch.
    - `open`: Whether any operator has state.
    - `state_bytes`: The size of all state after the epoch.
    - `ended`: Whether all inputs have ended.
    """

    inputs: Sequence[InputProgress]
    measured: Measures
    now: int
    asked: Sequence[Prod] = ()
    answered: Sequence[Prod] = ()
    ports: Sequence[Watermarks] = ()
    unheld: Sequence[Watermarks] = ()
    closing: Sequence[Watermarks] = ()
    held: Sequence[HeldInterval] = ()
    dropped: DropPlan = field(default_factory=DropPlan)
    clock: ClockMemory = field(default_factory=ClockMemory)
    open: bool = True
    state_bytes: int = 0
    ended: bool = False


@dataclass(frozen=True)
class InputReport:
    """The measurements of one input in an epoch.

    - `rows`, `newest`: The number of rows, and the newest time among them.
    - `sources`: The newest time of each source.
    - `tails`: For each block, the number of rows with a usable time, and the last increases of the
      newest time: row numbers and times.
    - `marks`: The watermarks that punctuations of the stream set.
    - `out`: The watermark of the input that was in force during the epoch.
    - `slack`, `slacks`: The slack that the adapter chose for the input, and for single sources.
    """

    rows: int = 0
    newest: int | None = None
    sources: Mapping[SourceKey, int] = field(default_factory=dict)
    tails: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...] = ()
    marks: Watermarks = field(default_factory=Watermarks)
    out: int | None = None
    slack: int = 0
    slacks: Mapping[SourceKey, int] = field(default_factory=dict)


def input_report(measured: Iterable[InputMeasure]) -> InputReport:
    """Return the report of an input from the measurements of its blocks in arrival order."""
    rows, newest, marks = 0, None, Watermarks()
    sources: dict[SourceKey, int] = {}
    tails = []
    for m in measured:
        rows += m.rows
        newest = latest(newest, m.newest)
        for source, at in m.sources.items():
            sources[source] = max(at, sources.get(source, at))
        if m.tail is not None:
            tails.append((m.valid, *m.tail))
        if m.marks is not None:
            marks = marks.raised(m.marks)
    return InputReport(rows, newest, sources, tuple(tails), marks)
