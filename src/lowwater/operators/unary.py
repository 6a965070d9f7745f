"""The base class of plans of operators that emit unchanged rows of one stream."""

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
    """The plan of an operator whose results are unchanged rows of its one input stream."""

    schema: pa.Schema
    axis: Axis
    ports: ClassVar[int] = 1
    rounds_marks: ClassVar[bool] = False

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:  # type: ignore[override]
        """The columns of the input stream."""
        return (self.schema,)

    @property
    def axes(self) -> tuple[Axis, ...]:  # type: ignore[override]
        """The attribute (axis) of the stream: the time column that its watermarks are about."""
        return (self.axis,)

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row, which are the columns of the input stream."""
        return self.schema

    @cached_property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row."""
        return (late_schema(self.schema),)

    def usable(self, port: int, marks: Watermarks) -> Watermarks:
        """Return the watermark of all rows, without watermarks of single sources."""
        return Watermarks(marks.low)

    def marks_out(self, ports: Sequence[Watermarks]) -> Mapping[str, Watermarks]:
        """Return the watermark of the results, which is the watermark of the input stream."""
        return {self.axis.column: Watermarks(ports[0].low)}
