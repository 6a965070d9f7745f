"""The contract of an operator's plan, and the gradual flush of results (OOP 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
import pyarrow as pa

from lowwater.aggregates.aggregate import Aggregate
from lowwater.control.completeness import Completeness
from lowwater.control.drop import ClassDrops, SampledRows
from lowwater.control.watermark import Watermarks
from lowwater.intervals import Intervals
from lowwater.shedding.drop_geometry import shrunk
from lowwater.watermarks.adaptive.quality_model import QualityModel
from lowwater.windows.axis import Axis
from lowwater.windows.sliding import ScheduledWindow, Sliding

LossCount = Literal["late", "pairs", "rows"]
"""The kinds of losses that a kernel can count to measure quality."""
CHANGEABLE = frozenset({"shards", "pair_unit", "dropped_classes", "samples", "shows_rate"})
"""The fields of a plan with which the query of a checkpoint may continue changed."""
ROWS = "__rows"
"""The hidden column of an early result with the number of rows that the result aggregates."""


@dataclass(frozen=True)
class GradualFlush:
    """A gradual flush: results are emitted within `delay` ticks after they are complete.

    With `room` the flush is lazy: results wait until the state has more than `room` cells or rows.
    The groups of a window are divided into `slices`, which are emitted one after the other.
    """

    delay: int
    room: int | None = None
    slices: int = 16

    @property
    def idle(self) -> int:
        """The ticks that a lazy flush waits while the state is within `room`; 0 if not lazy."""
        return 0 if self.room is None else self.delay // 2

    @cached_property
    def lags(self) -> tuple[int, ...]:
        """The distance in ticks of each slice's watermark behind the watermark in force."""
        turns = self.delay - self.idle
        slices = max(1, min(self.slices, turns))
        return tuple(self.idle + i * turns // slices for i in range(slices))

    def say(self, axis: Axis) -> str:
        """Return a phrase that describes the flush, with durations in the unit of `axis`."""
        if self.room is None:
            return f"little by little, within {axis.say(self.delay)}"
        return f"when more than {self.room} are kept, at the latest after {axis.say(self.delay)}"


class OperatorPlan(Protocol):
    """The plan of an operator: its input streams, the columns of its results, its watermarks.

    The plan of every operator derives from this class. A member with a body returns the default,
    for an operator that has no windows and is not a join.
    """

    word: ClassVar[str]
    """The name of the operator's kind, such as `join`."""
    ports: ClassVar[int]
    """The number of input ports."""
    shards: int
    """The number of shards of the operator."""
    schemas: tuple[pa.Schema, ...]
    """The columns of the rows at each port."""
    axes: tuple[Axis, ...]
    """The attribute (axis) of each port: the time column that its watermarks are about."""
    second: Axis | None = None
    """The second attribute that windows are measured on; None if there is only one."""
    revise: int = 0
    """The allowed lateness: how long, in ticks, a closed window still accepts late rows."""
    flush: GradualFlush | None = None
    """The gradual flush of results; None if results are emitted at once."""
    ends_quality: bool = False
    """Whether the quality target of an input stream applies to the results of this operator."""
    sorts: bool = False
    """Whether the operator emits rows in the order of their time."""
    compared: str = ""
    """What a bound on the error of results compares, in words."""
    books_quality: bool = False
    """Whether the kernel counts the rows of each window, and the rows that missed it."""
    aggregates_rows: bool = False
    """Whether results are aggregates instead of input rows or pairs of input rows."""

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns that choose the shard of a row, for each port."""

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row."""

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row, for each port."""

    @property
    def rounds_marks(self) -> bool:
        """Whether watermarks are rounded down to the times at which the operator acts."""

    def usable(self, port: int, marks: Watermarks) -> Watermarks:
        """Return the watermarks of a port, rounded down to times at which the operator acts."""

    def acting(self, ports: Sequence[Watermarks]) -> Sequence[Watermarks]:
        """Return the watermarks that make rows of each port late, given those of all ports."""
        return ports

    def marks_out(self, ports: Sequence[Watermarks]) -> Mapping[str, Watermarks]:
        """Return the watermarks of the results, as {time column: watermarks}."""

    def explain(self) -> list[str]:
        """Return lines that describe the results and the state of the operator."""

    @property
    def sequential(self) -> bool:
        """Whether a single shard must process all rows."""
        return False

    def with_shards(self, shards: int) -> Self:
        """Return the plan with `shards` shards, or with one shard if the plan is sequential."""
        return replace(self, shards=1 if self.sequential else shards)  # type: ignore[type-var]

    def at_once(self) -> Self:
        """Return the plan without its gradual flush, which does not affect the lateness of rows."""
        return self if self.flush is None else replace(self, flush=None)  # type: ignore[type-var]

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the plan in the table of compatible features."""
        return frozenset({self.word})

    @property
    def source_out(self) -> str | None:
        """The result column whose values each have their own watermark; None if there is none."""
        return None

    @property
    def paired_times(self) -> Mapping[str, int]:
        """The two time columns of a join's results, as {column: port}; empty by default."""
        return {}

    @property
    def spreads_rows(self) -> bool:
        """Whether results are windows of time, whose completeness can be estimated."""
        return False

    @property
    def group_keys(self) -> Mapping[str, pa.DataType]:
        """The columns of `group_by`, as {column: type}."""
        return {}

    @property
    def named_aggregates(self) -> Mapping[str, Aggregate]:
        """The aggregates, as {result column: aggregate}."""
        return {}

    @property
    def numeric_aggregates(self) -> tuple[str, ...]:
        """The names of the aggregates whose results are numbers."""
        return ()

    @property
    def fixed_windows(self) -> tuple[tuple[str, Sliding], ...]:
        """The windows with a fixed range and slide in time, as pairs (name, window)."""
        return ()

    @property
    def scheduled_windows(self) -> tuple[ScheduledWindow, ...]:
        """The windows whose ends in time are known before rows arrive."""
        return ()

    @property
    def has_gaps(self) -> bool:
        """Whether some rows may belong to no window."""
        return False

    def outside(self, ticks: np.ndarray) -> np.ndarray | None:
        """Return a mask of the rows that belong to no window; None if every row belongs to one."""
        return None

    def ended(self, marks: Watermarks, newest: int | None, before: Watermarks) -> Watermarks:
        """Return the watermarks at the end of a stream whose newest row has the time `newest`."""
        return marks

    @property
    def reach(self) -> tuple[int, int]:
        """(back, ahead): a row at time t affects results in [t - back, t + ahead] only."""
        return (0, 0)

    @property
    def made_from(self) -> int:
        """The largest distance in ticks from a result back to a row that contributes to it."""
        return self.reach[1]

    def unread(self, results: Intervals) -> Intervals:
        """Return the intervals whose rows contribute only to results with times in `results`."""
        return shrunk(results, *self.reach)

    def without_windows(self, results: Intervals, classes: tuple[ClassDrops, ...] = ()) -> Self:
        """Return the plan that drops the windows whose results have times in `results`.

        `classes` are the drops of single classes of groups.
        """
        return self

    def sampling(self, samples: tuple[SampledRows, ...]) -> Self:
        """Return the plan that weights sums over rows of which only a share was read."""
        return self

    def showing_rate(self) -> Self:
        """Return the plan whose results have the share of rows that was read."""
        return self

    def counting_rows(self) -> Self:
        """Return the plan with a count of rows added to its results; the state stays the same."""
        return self

    def completeness_out(self, ports: Sequence[Completeness | None]) -> Completeness | None:
        """Return the completeness of the results, given the completeness of each port."""
        return ports[0]

    def quality_model(self, granule: int, error: float | None, *, ordered: bool) -> QualityModel:
        """Return the model of losses by slack; raise TypeError if the operator has none."""
        raise TypeError(f"{self.word} has no quality to model")

    def loss_count(self, error: float | None, *, ordered: bool) -> LossCount | None:
        """Return the kind of losses that the kernel counts; None if the kernel counts none."""
        return None

    def pair_span(self, least: int) -> int:
        """Return the unit of time, in ticks, in which a join counts pairs; at least `least`."""
        return least

    def counting_losses(self, measured: LossCount, unit: int) -> Self:
        """Return the plan whose kernel counts losses of the kind `measured`, in units of time."""
        return self

    def fingerprint(self) -> dict[str, Any]:
        """Return the description that must equal the description in a checkpoint.

        The fields `shards` and `pair_unit` are excluded, because they change no result, and the
        drops of classes, because they change while the query runs.
        """
        named = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {n: described(v) for n, v in named.items() if n not in CHANGEABLE}


def described(value: Any) -> str:
    """Return the repr of `value` without a memory address."""
    return repr(value).split(" at 0x")[0]


def spec_text(spec: Any) -> str:
    """Return `spec` as a user would write it, without arguments at their default."""
    if not is_dataclass(spec) or isinstance(spec, type):
        return str(spec)
    given = [
        (f.name, getattr(spec, f.name))
        for f in fields(spec)
        if f.repr and getattr(spec, f.name) not in (None, f.default, ())
    ]
    alone = len(given) == 1
    words = [
        spec_text(value) if is_dataclass(value) else repr(value) if alone else f"{name}={value!r}"
        for name, value in given
    ]
    return f"{type(spec).__name__.lower()}({', '.join(words)})"
