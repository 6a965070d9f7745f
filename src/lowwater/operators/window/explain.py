"""The description of a window aggregate: its windows, their class and the state (OOP 5.5)."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator
from lowwater.aggregates.aggregate import Aggregate
from lowwater.operators.operator import OperatorPlan
from lowwater.windows.axis import Axis
from lowwater.windows.row_windows import ARRIVAL
from lowwater.windows.sliding import WindowClass, WindowSpec

Keeping = Literal["panes", "windows"]
Numbering = Literal["arrival", "rank"]
_CLASSES = {
    "CF": "context free: a row's windows follow from the row alone",
    "FCF": "forward-context free: a row's windows follow from it and the rows before it",
    "FCB": "forward-context bounded: rows still to come, within range, make a row's windows",
    "FCU": "forward-context unbounded: rows still to come decide over a row's windows",
}


class WindowTexts(OperatorPlan):
    """The base class of the window plan with the texts that describe it."""

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
        """Return lines that describe windows, groups, aggregates and state."""
        calls = ", ".join(f"{name} = {a.written}" for name, a in self.aggregates.items())
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
        """The class of the windows: CF, FCF, FCB or FCU (WID)."""
        if self.numbering == "rank":
            return "FCU"
        if self.numbering == "arrival":
            return "FCF" if self.partition else "CF"
        return self.spec.wclass

    @property
    def window_text(self) -> str:
        """A phrase with the kind, range and slide of the windows, and their window attribute."""
        spec, say, on = self.spec, self.bounds.say, self.axis.column
        by = f", partitioned by {', '.join(self.partition)}" if self.partition else ""
        if self.numbering is not None:
            ((_, numbered),) = spec.fixed
            order = "order of arrival" if self.numbering == "arrival" else f"order of {on}"
            size = f"range {numbered.range} rows, slide {numbered.slide} rows"
            return f"{spec.describe()}: {size}, in {order}{by}"
        return f"{spec.describe()}: {spec.sizes(say, self.slide_axis.say)}, on {on}{by}"

    @property
    def slide_axis(self) -> Axis:
        """The attribute that the slide is measured on."""
        on = self.spec.slide_on
        if on is None:
            return self.bounds
        return Axis(on, pa.int64() if on == ARRIVAL else self.schema.field(on).type)

    @property
    def _state_text(self) -> str:
        """A phrase that describes the content of the state, with the reason for it."""
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
        return f"{spec.stored(self.axis.say)} {kept}"
