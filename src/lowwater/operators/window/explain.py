"""Describe a window aggregate: its windows, its class, its state (OOP 5.5)."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator
from lowwater.aggregates.aggregate import Aggregate
from lowwater.operators.operator import OperatorPlan, spec_text
from lowwater.windows.axis import Axis
from lowwater.windows.common_panes import Shared
from lowwater.windows.row_windows import RowWindow, SessionWindow
from lowwater.windows.sliding import Landmark, Sliding, WindowClass, WindowSpec

Keeping = Literal["panes", "windows"]
Numbering = Literal["arrival", "rank"]
ARRIVAL = "__arrival"
"""The column of row numbers that are given on arrival."""
_CLASSES = {
    "CF": "context free: a row's windows follow from the row alone",
    "FCF": "forward-context free: a row's windows follow from it and the rows before it",
    "FCB": "forward-context bounded: rows still to come, within range, make a row's windows",
    "FCU": "forward-context unbounded: rows still to come decide over a row's windows",
}


class WindowTexts(OperatorPlan):
    """The texts about a window aggregate; the plan inherits them."""

    schema: pa.Schema
    axis: Axis
    spec: WindowSpec
    keys: tuple[str, ...]
    aggregates: dict[str, Aggregate]
    numbering: Numbering | None
    partition: tuple[str, ...]
    parts: tuple[Accumulator, ...]
    keeping: Keeping
    bounds: Axis

    def explain(self) -> list[str]:
        """Return lines about windows, groups, aggregates and state."""
        calls = ", ".join(f"{name} = {spec_text(a)}" for name, a in self.aggregates.items())
        lines = [
            f"window      {self.window_text}",
            f"class       {self._class} ({_CLASSES[self._class]})",
            f"group by    {', '.join(self.keys) or '(none)'}",
            f"aggregates  {calls}",
            *(f"error       {name}: {a.error}" for name, a in self.aggregates.items() if a.error),
            f"state       {self._state_text}",
        ]
        if self.revise:
            past = f"{self.axis.say(self.revise)} beyond a window's end"
            lines.append(f"revised     by late rows, until the watermark is {past}")
        if self.sequential:
            lines.append("shards      one, since all rows are counted together")
        return lines

    @property
    def _class(self) -> WindowClass:
        """The context that a row's windows depend on; row numbers depend on earlier rows."""
        if self.numbering == "rank":
            return "FCU"
        if self.numbering == "arrival":
            return "FCF" if self.partition else "CF"
        return self.spec.wclass

    @property
    def window_text(self) -> str:
        """The kind, range and slide of the windows, and the attribute they lie over."""
        spec, say, on = self.spec, self.bounds.say, self.axis.column
        by = f", partitioned by {', '.join(self.partition)}" if self.partition else ""
        if self.numbering is not None:
            ((_, numbered),) = spec.fixed
            order = "order of arrival" if self.numbering == "arrival" else f"order of {on}"
            size = f"range {numbered.range} rows, slide {numbered.slide} rows"
            return f"{spec.describe()}: {size}, in {order}{by}"
        if isinstance(spec, Shared):
            sizes = (f"{n} (range {say(w.range)}, slide {say(w.slide)})" for n, w in spec.named)
            return f"{spec.describe()}: {', '.join(sizes)}, on {on}{by}"
        if isinstance(spec, SessionWindow):
            return f"session: gap {say(spec.gap)}, on {on}{by}"
        if isinstance(spec, RowWindow):
            ends = self._ends_text(spec)
            return f"{spec.describe()}: range {say(spec.range)} on {on}, {ends}{by}"
        (window,) = spec.scheduled
        size = "unbounded" if isinstance(window, Landmark) else say(window.range)
        return f"{spec.describe()}: range {size}, slide {say(window.slide)}, on {on}{by}"

    def _ends_text(self, spec: RowWindow) -> str:
        if spec.slide_on is None:
            every = f"ending at every {spec.slide}th by rank"
            return "ending at every row" if spec.slide == 1 else every
        if spec.slide_on == ARRIVAL:
            return f"ending at every {spec.slide}th row that arrives"
        other = Axis(spec.slide_on, self.schema.field(spec.slide_on).type)
        return f"ending where {spec.slide_on} is a multiple of {other.say(spec.slide)}"

    @property
    def _state_text(self) -> str:
        """The content of the state, with the reason for it."""
        spec, parts = self.spec, ", ".join(type(p).__name__ for p in self.parts)
        buffered = [type(p).__name__ for p in self.parts if not p.bounded]
        more = f"; all values, since these do not shrink: {', '.join(buffered)}" if buffered else ""
        kept = f"({parts}){more}"
        if self.keeping == "windows":
            return f"one partial per group and window, since not all aggregates combine {kept}"
        if self.numbering is not None:
            waits = "rows until the watermark has passed them, then "
            held = waits if self.numbering == "rank" else ""
            return f"{held}panes of row numbers, and how many rows there were {kept}"
        if isinstance(spec, SessionWindow):
            return f"one partial per open session {kept}"
        if isinstance(spec, RowWindow):
            return f"one partial per group and position, for one range {kept}"
        if isinstance(spec, Landmark):
            return f"one partial per group for closed panes, and open panes of one slide {kept}"
        count = f"{spec.panes} to a window" if isinstance(spec, Sliding) else "shared by all"
        return (
            f"panes of {self.axis.say(spec.pane)}, {count}, one partial per group and pane {kept}"
        )
