"""The window kernel: one epoch of one shard of a window aggregate, composed of four strategies.

| strategy | decides | modules |
|---|---|---|
| layout | which windows a row enters, and which panes a window has | layout, layout_row |
| completion | which windows are complete, and which rows are late | completion, completion_held, |
| | | revise, layout_row_numbers, layout_session |
| flush | when closed windows are emitted | gradual_flush |
| observer | which counts of closed windows and late rows are measured | loss_count, |
| | | value_ledger |

The plan determines the strategies; the kernel calls them in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowwater.control.message import ControlMessage
from lowwater.operators.kernel import Composition, Step, register
from lowwater.operators.packet import Packet, table_of
from lowwater.operators.window.cells import PackedCells
from lowwater.operators.window.completion import IntervalCompletion, WatermarkCompletion
from lowwater.operators.window.completion_held import HeldCompletion
from lowwater.operators.window.epoch import WindowEpoch
from lowwater.operators.window.gradual_flush import SlicedFlush
from lowwater.operators.window.layout import LandmarkLayout, SharedLayout, SlidingLayout
from lowwater.operators.window.layout_row import RowLayout
from lowwater.operators.window.layout_row_numbers import NumberedCompletion
from lowwater.operators.window.layout_session import SessionCompletion
from lowwater.operators.window.plan import WindowPlan
from lowwater.operators.window.revise import LaggingCompletion

LAYOUTS: dict[str, type[SlidingLayout]] = {
    "fixed": SlidingLayout,
    "landmark": LandmarkLayout,
    "named": SharedLayout,
    "row": RowLayout,
    "numbered": SlidingLayout,
    "session": SlidingLayout,
}
COMPLETIONS: dict[str, type[WatermarkCompletion]] = {
    "watermark": WatermarkCompletion,
    "intervals": IntervalCompletion,
    "around holds": HeldCompletion,
    "allowed lateness": LaggingCompletion,
    "row count": NumberedCompletion,
    "gap": SessionCompletion,
}
COMPOSITIONS: frozenset[Composition] = frozenset(
    {
        ("fixed", "watermark", "at once", "none"),
        ("landmark", "watermark", "at once", "none"),
        ("named", "watermark", "at once", "none"),
        ("row", "watermark", "at once", "none"),
        ("numbered", "row count", "at once", "none"),
        ("session", "gap", "at once", "none"),
        ("fixed", "intervals", "at once", "none"),
        ("fixed", "around holds", "at once", "none"),
        ("fixed", "allowed lateness", "at once", "none"),
        ("named", "allowed lateness", "at once", "none"),
        ("fixed", "watermark", "gradual", "none"),
        ("fixed", "watermark", "at once", "loss count"),
        ("fixed", "watermark", "at once", "value ledger"),
    }
)
"""The compositions that the planner builds; the contract tests run each of them."""


def composition(plan: WindowPlan) -> Composition:
    """Return the strategies of `plan` by name, as (layout, completion, flush, observer)."""
    flush = "at once" if plan.flush is None else "gradual"
    observer = "loss count" if plan.tracked else "none"
    if plan.bound is not None:
        observer = "value ledger"
    return plan.layout, completion_of(plan), flush, observer


def completion_of(plan: WindowPlan) -> str:
    """Return the name of the completion of `plan`."""
    own = {"numbered": "row count", "session": "gap"}.get(plan.layout)
    if own is not None:
        return own
    if plan.ranged:
        return "around holds" if plan.sidelined else "intervals"
    return "allowed lateness" if plan.revise else "watermark"


@register(WindowPlan, COMPOSITIONS, composition)
class WindowKernel:
    """One epoch of one shard: it admits the data, then acts on the control."""

    def __init__(self, plan: WindowPlan, shard: int, state: Mapping[str, bytes]) -> None:
        self.epoch = WindowEpoch(plan, shard, state)
        self.layout = LAYOUTS[plan.layout](self.epoch)
        self.completion = COMPLETIONS[completion_of(plan)](self.epoch, self.layout)
        self.flush = None if plan.flush is None else SlicedFlush(self.epoch, plan.flush)

    def run(self, packets: Sequence[Packet]) -> Step:
        """Run the epoch, and return its changes and emissions."""
        epoch, completion = self.epoch, self.completion
        control = ControlMessage.together(
            [ControlMessage.from_bytes(p.payload) for p in packets if p.kind == "control"]
        )
        epoch.observer.receive(packets)
        self.layout.prepare(packets)
        fresh = [PackedCells.from_bytes(p.payload) for p in packets if p.kind == "cells"]
        epoch.counts["admitted"] += sum(int(packed.columns[0].to_numpy().sum()) for packed in fresh)
        completion.receive(fresh)
        rows = completion.admit_all([(p.seq, table_of(p)) for p in packets if p.kind == "rows"])
        watermarks = epoch.meta.watermarks.raised(control.marks).only_above()
        (self.flush or completion).advance(fresh, rows, watermarks)
        self.layout.finish(watermarks)
        return epoch.measured()
