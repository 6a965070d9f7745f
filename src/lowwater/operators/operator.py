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
from lowwater.control.watermark import Watermarks
from lowwater.intervals import Intervals
from lowwater.shedding.drop_geometry import shrunk
from lowwater.watermarks.adaptive.quality_model import QualityModel
from lowwater.windows.axis import Axis
from lowwater.windows.sliding import ScheduledWindow, Sliding

LossCount = Literal["late", "pairs", "rows", "windows"]
"""Which losses a kernel counts to measure quality."""
ROWS = "__rows"
"""The column of an early result that counts the rows it rests on."""


@dataclass(frozen=True)
class GradualFlush:
    """Results are emitted gradually, within a delay (in ticks) of their completion.

    `room` makes the flush lazy: results wait until the state holds more than that many cells or
    rows. The groups of windows are cut into `slices`, which are emitted one after the other.
    """

    delay: int
    room: int | None = None
    slices: int = 16

    @property
    def idle(self) -> int:
        """How long (in ticks) complete results wait while there is room."""
        return 0 if self.room is None else self.delay // 2

    @cached_property
    def lags(self) -> tuple[int, ...]:
        """How far the watermark of each slice is behind the watermark in force."""
        turns = self.delay - self.idle
        slices = max(1, min(self.slices, turns))
        return tuple(self.idle + i * turns // slices for i in range(slices))

    def say(self, axis: Axis) -> str:
        """Return the flush in words."""
        if self.room is None:
            return f"little by little, within {axis.say(self.delay)}"
        return f"when more than {self.room} are kept, at the latest after {axis.say(self.delay)}"


class OperatorPlan(Protocol):
    """An operator: the streams at its ports, its results, and how progress passes through.

    Plans derive from it. The members with a body are the answers of a plan that has no windows and
    joins nothing.
    """

    word: ClassVar[str]
    """The kind of operator."""
    ports: ClassVar[int]
    """The number of input streams."""
    shards: int
    """The number of shards that share the work."""
    schemas: tuple[pa.Schema, ...]
    """The columns of rows at each port."""
    axes: tuple[Axis, ...]
    """The attribute that each port progresses on."""
    second: Axis | None = None
    """The second attribute that windows lie over, if there is one."""
    revise: int = 0
    """How far (in ticks) the watermark may pass a window's end for late rows to revise it."""
    flush: GradualFlush | None = None
    """How results are emitted gradually; None if they are emitted at once."""
    ends_quality: bool = False
    """Whether a quality target of a stream is about the results of this operator."""
    sorts: bool = False
    """Whether rows leave in the order of their time."""
    aggregates_rows: bool = False
    """Whether results are new rows, so that a target of the stream ends here."""

    @property
    def shard_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each port that choose the shard of a row."""

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row."""

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row of each port."""

    @property
    def rounds_marks(self) -> bool:
        """Whether it acts at certain positions only, to which watermarks are rounded."""

    def usable(self, port: int, marks: Watermarks) -> Watermarks:
        """Return a port's watermarks, rounded to where the operator acts on them."""

    def marks_out(self, ports: Sequence[Watermarks]) -> Mapping[str, Watermarks]:
        """Return the watermarks of results, by the column that progresses (semantics 9)."""

    def explain(self) -> list[str]:
        """Return lines that describe the results and the state of the operator."""

    @property
    def sequential(self) -> bool:
        """Whether one shard must see all rows."""
        return False

    def with_shards(self, shards: int) -> Self:
        """Return the plan for a number of shards; for one if a single shard must see all rows."""
        return replace(self, shards=1 if self.sequential else shards)  # type: ignore[type-var]

    def at_once(self) -> Self:
        """Return the plan that judges lateness: results waiting for a flush make no row late."""
        return self if self.flush is None else replace(self, flush=None)  # type: ignore[type-var]

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the plan in the table of compatible features."""
        return frozenset({self.word})

    @property
    def source_out(self) -> str | None:
        """The column of results whose values have watermarks of their own, if there is one."""
        return None

    @property
    def paired_times(self) -> Mapping[str, int]:
        """The columns that hold the two times of a join, each with its side."""
        return {}

    @property
    def spreads_rows(self) -> bool:
        """Whether results are windows over the axis, whose share of rows can be estimated."""
        return False

    @property
    def group_keys(self) -> Mapping[str, pa.DataType]:
        """The keys of groups and their types."""
        return {}

    @property
    def named_aggregates(self) -> Mapping[str, Aggregate]:
        """The aggregates by name."""
        return {}

    @property
    def numeric_aggregates(self) -> tuple[str, ...]:
        """The aggregates whose results are numbers, by name."""
        return ()

    @property
    def fixed_windows(self) -> tuple[tuple[str, Sliding], ...]:
        """The windows of a fixed range and slide over the axis, by name."""
        return ()

    @property
    def scheduled_windows(self) -> tuple[ScheduledWindow, ...]:
        """The windows whose ends on the axis are known before rows arrive."""
        return ()

    @property
    def has_gaps(self) -> bool:
        """Whether rows may belong to no window."""
        return False

    def outside(self, ticks: np.ndarray) -> np.ndarray | None:
        """Return which rows belong to no window; None if no row does."""
        return None

    def ended(self, marks: Watermarks, newest: int | None, before: Watermarks) -> Watermarks:
        """Return the watermarks at the end of the stream, whose newest row is at `newest`."""
        return marks

    @property
    def reach(self) -> tuple[int, int]:
        """How far before and after its time a row's results may lie."""
        return (0, 0)

    @property
    def made_from(self) -> int:
        """The largest distance of a result from an earlier row that contributes to it."""
        return self.reach[1]

    def unread(self, results: Intervals) -> Intervals:
        """Return the times whose rows contribute only to results in some intervals."""
        return shrunk(results, *self.reach)

    def without_windows(self, results: Intervals) -> Self:
        """Return the plan that drops the windows with results in some intervals."""
        return self

    def counting_rows(self) -> Self:
        """Return a plan with the same state whose results count the rows that they rest on."""
        return self

    def completeness_out(self, ports: Sequence[Completeness | None]) -> Completeness | None:
        """Return the completeness of results, given that of each port."""
        return ports[0]

    def quality_model(self, granule: int, error: float | None, *, ordered: bool) -> QualityModel:
        """Return the model of the losses of results at a slack; plain rows have none."""
        raise TypeError(f"{self.word} has no quality to model")

    def loss_count(self, error: float | None, *, ordered: bool) -> LossCount | None:
        """Return which losses the kernel counts, None if none."""
        return None

    def remembered(self, track: int) -> int:
        """Return how long (in ticks) evicted rows are remembered to count losses."""
        return 0

    def counting_losses(self, measured: LossCount, remembered: int) -> Self:
        """Return the plan whose kernel counts losses."""
        return self

    def fingerprint(self) -> dict[str, Any]:
        """Return the description that a checkpoint of the operator must agree with.

        `remember` is not part of it: rows remembered to measure quality change no result.
        """
        named = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {n: described(v) for n, v in named.items() if n not in {"shards", "remember"}}


def described(value: Any) -> str:
    """Return the repr of a value without the address of an object."""
    return repr(value).split(" at 0x")[0]


def spec_text(spec: Any) -> str:
    """Return a spec as a user might write it, without the arguments that have their default."""
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
