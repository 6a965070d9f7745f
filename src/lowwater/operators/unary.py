"""The plan of an operator that emits rows of one stream as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from lowwater.control.watermark import Watermarks
from lowwater.operators.late import late_schema
from lowwater.operators.operator import OperatorPlan
from lowwater.windows.axis import Axis


@dataclass(frozen=True)
class UnaryPlan(OperatorPlan):
    """An operator over one stream whose results are rows of it."""

    schema: pa.Schema
    axis: Axis
    ports: ClassVar[int] = 1
    rounds_marks: ClassVar[bool] = False

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:  # type: ignore[override]
        """The columns of the stream."""
        return (self.schema,)

    @property
    def axes(self) -> tuple[Axis, ...]:  # type: ignore[override]
        """The attribute that the stream progresses on."""
        return (self.axis,)

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row: those of the stream."""
        return self.schema

    @cached_property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row."""
        return (late_schema(self.schema),)

    def usable(self, port: int, marks: Watermarks) -> Watermarks:
        """Return the watermark that holds for all rows."""
        return Watermarks(marks.low)

    def marks_out(self, ports: Sequence[Watermarks]) -> Mapping[str, Watermarks]:
        """Return the watermark of the rows still to leave: no less than that of the stream."""
        return {self.axis.column: Watermarks(ports[0].low)}
