"""What operators have in common that let the rows of one stream through as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from lowwater.control import Marks
from lowwater.kernels.row_epoch import late_schema
from lowwater.windows import Axis


@dataclass(frozen=True)
class OneStream:
    """An operator over one stream whose results are rows of it."""

    schema: pa.Schema
    axis: Axis
    ports: ClassVar[int] = 1
    rounds_marks: ClassVar[bool] = False

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of the stream."""
        return (self.schema,)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The attribute that the stream progresses on."""
        return (self.axis,)

    @property
    def result_schema(self) -> pa.Schema:
        """Rows leave as they came."""
        return self.schema

    @cached_property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of a late row."""
        return (late_schema(self.schema),)

    def usable(self, port: int, marks: Marks) -> Marks:
        """Return the mark that holds for all rows."""
        return Marks(marks.low)

    def marks_out(self, ports: Sequence[Marks]) -> Mapping[str, Marks]:
        """Return the mark of the rows still to leave: no less than that of the stream."""
        return {self.axis.column: Marks(ports[0].low)}
