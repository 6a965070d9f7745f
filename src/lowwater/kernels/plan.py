"""The plan of a window aggregate: everything its kernels need to know, fixed when it is built."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa

from lowwater.aggregates import Aggregate, Part, RowCount
from lowwater.windows import Axis, WindowSpec

Keeping = Literal["panes", "windows"]


@dataclass(frozen=True)
class WindowPlan:
    """A window aggregate over one stream.

    `source` names the column whose values have marks of their own; `max_ahead` (ticks) bounds how
    far a row may be ahead; `consistent` makes a late row miss all its windows; `tail` is how many
    of the newest rows the progress policy wants to know one by one; `mark_when` names the boolean
    column whose true rows are punctuations.
    """

    schema: pa.Schema
    axis: Axis
    spec: WindowSpec
    keys: tuple[str, ...]
    aggregates: dict[str, Aggregate]
    shards: int = 2
    source: str | None = None
    max_ahead: int | None = None
    consistent: bool = False
    tail: int = 0
    mark_when: str | None = None

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of all aggregates, each once, the row count first."""
        wanted = [p for a in self.aggregates.values() for p in a.parts(self.schema)]
        return tuple(dict.fromkeys([RowCount(), *wanted]))

    @cached_property
    def keeping(self) -> Keeping:
        """What state holds a partial for: each pane, or each window where parts do not combine."""
        return "panes" if all(p.paned for p in self.parts) else "windows"

    @property
    def sources_close_groups(self) -> bool:
        """Whether a source's own mark closes its groups."""
        return self.source is not None and self.source in self.keys

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The columns of a result row."""
        bounds = self.axis.bound_type
        return pa.schema(
            [
                pa.field("window", pa.struct([("start", bounds), ("end", bounds)])),
                pa.field("wid", pa.int64()),
                *(self.schema.field(k) for k in self.keys),
                *(
                    pa.field(name, a.result_type(self.schema))
                    for name, a in self.aggregates.items()
                ),
                pa.field("kind", pa.string()),
            ]
        )

    @cached_property
    def late_schema(self) -> pa.Schema:
        """The columns of a late row: the row, how late it was and the windows it missed."""
        bounds = self.axis.bound_type
        missed = pa.struct(
            [("first", pa.int64()), ("last", pa.int64()), ("start", bounds), ("end", bounds)]
        )
        return pa.schema(
            [
                *self.schema,
                pa.field(self._free("late_degree"), pa.int64()),
                pa.field(self._free("missed"), missed),
                pa.field(self._free("admitted"), pa.bool_()),
            ]
        )

    @cached_property
    def malformed_schema(self) -> pa.Schema:
        """The columns of a malformed row: the row and what is wrong with it."""
        return pa.schema([*self.schema, pa.field(self._free("reason"), pa.string())])

    def _free(self, name: str) -> str:
        """Return a name for a column of ours that no column of the stream has."""
        while name in self.schema.names:
            name += "_"
        return name
