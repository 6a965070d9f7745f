"""The methods of a window plan for drops, completeness, quality and the end of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np

from lowwater.aggregates.aggregate import Aggregate
from lowwater.aggregates.builtin import Avg, Count, Sum
from lowwater.control.completeness import Completeness
from lowwater.control.drop import ClassDrops, SampledRows
from lowwater.control.watermark import Watermarks
from lowwater.intervals import Intervals, intersection
from lowwater.operators.operator import ROWS, LossCount, described
from lowwater.operators.window.explain import WindowTexts
from lowwater.schema import is_number
from lowwater.shedding.drop_geometry import unread_rows
from lowwater.watermarks.adaptive.policies import ValueBound
from lowwater.watermarks.adaptive.quality_model import QualityModel, WindowQuality
from lowwater.windows.sliding import ScheduledWindow, Sliding


class WindowAnswers(WindowTexts):
    """The base class of the window plan with the methods that the planner and the dataflow call."""

    source: str | None
    ranged: bool
    consistent: bool
    sources_close_groups: bool

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the plan in the table of compatible features."""
        present = {
            "no groups": not self.keys,
            "flush": self.flush is not None,
            "allowed_lateness": self.revise > 0,
            "since": self.ranged,
            "by": self.sources_close_groups,
            "consistent": self.consistent,
        }
        kinds = {a.kind(self.schema) for a in self.aggregates.values()}
        return frozenset({self._window_label, *kinds, *(n for n, so in present.items() if so)})

    @property
    def _window_label(self) -> str:
        if self.numbering is not None:
            return self.numbering
        return self.spec.label if self.second is None else "both times"

    @property
    def named_aggregates(self) -> Mapping[str, Aggregate]:
        """The aggregates, as {result column: aggregate}."""
        return self.aggregates

    @property
    def source_out(self) -> str | None:
        """The key whose values each have their own watermark; None if there is none."""
        return self.source if self.sources_close_groups else None

    @cached_property
    def numeric_aggregates(self) -> tuple[str, ...]:
        """The names of the aggregates whose results are numbers."""
        kinds = {name: a.result_type(self.schema) for name, a in self.aggregates.items()}
        return tuple(name for name, kind in kinds.items() if is_number(kind))

    @property
    def fixed_windows(self) -> tuple[tuple[str, Sliding], ...]:
        """The windows with a fixed range and slide in time, as pairs (name, window)."""
        return self.spec.fixed if self.numbering is None else ()

    @property
    def scheduled_windows(self) -> tuple[ScheduledWindow, ...]:
        """The windows whose ends in time are known before rows arrive."""
        return self.spec.scheduled if self.numbering is None else ()

    @property
    def spreads_rows(self) -> bool:
        """Whether windows are intervals of the window attribute, not of row numbers."""
        return self.numbering is None

    @property
    def has_gaps(self) -> bool:
        """Whether some rows may belong to no window."""
        return self.spec.has_gaps

    def outside(self, ticks: np.ndarray) -> np.ndarray | None:
        """Return a mask of the rows that belong to no window; None if every row belongs to one."""
        return self.spec.outside(ticks) if self.spec.has_gaps else None

    def ended(self, marks: Watermarks, newest: int | None, before: Watermarks) -> Watermarks:
        """Return the watermarks at the end of a stream whose newest row has the time `newest`.

        Landmark windows go on without end, so their watermark rises only to the end of the newest
        row's window, or stays at `before` if `before` is higher.
        """
        end = None if newest is None else self.spec.stop(newest)
        if end is None:
            return marks
        return Watermarks(end, marks.sources).raised(self.usable(0, before))

    def unread(self, results: Intervals) -> Intervals:
        """Return the intervals whose rows contribute only to results with times in `results`."""
        unread = [unread_rows(window, results) for _, window in self.fixed_windows]
        return reduce(intersection, unread) if unread else ()

    @property
    def made_from(self) -> int:
        """The largest distance in ticks from a result back to a row that it aggregates."""
        return max(window.range - 1 for _, window in self.fixed_windows)

    def without_windows(self, results: Intervals, classes: tuple[ClassDrops, ...] = ()) -> Self:
        """Return the plan that drops the windows whose results have times in `results`.

        `classes` are the drops of single classes of groups.
        """
        if not results and not classes:
            return self
        return replace(self, dropped=results, dropped_classes=classes)  # type: ignore[type-var]

    def sampling(self, samples: tuple[SampledRows, ...]) -> Self:
        """Return the plan that weights sums over rows of which only a share was read."""
        return replace(self, samples=samples) if samples else self  # type: ignore[type-var]

    def showing_rate(self) -> Self:
        """Return the plan whose results have the share of rows that was read."""
        return replace(self, shows_rate=True)  # type: ignore[type-var]

    def counting_rows(self) -> Self:
        """Return the plan for early results: with a count of rows, and NULL for an overflow.

        The state stays the same. The quality of early results is not measured.
        """
        aggregates = {
            name: replace(a, overflow="null") if isinstance(a, Sum | Avg) else a
            for name, a in self.aggregates.items()
        }
        aggregates[ROWS] = Count()
        return replace(self, aggregates=aggregates, tracked=None, bound=None)  # type: ignore[type-var]

    def completeness_out(self, ports: Sequence[Completeness | None]) -> Completeness | None:
        """Return a completeness: all results up to the last window with rows have arrived."""
        (arrived,) = ports
        if arrived is None or not self.scheduled_windows:
            return None
        newest = int(arrived.edges[-1]) - 1
        return Completeness.until(
            max(int(w.end(w.first(newest) + _ahead(w))) for w in self.scheduled_windows)
        )

    # -- quality -----------------------------------------------------------------------------------

    ends_quality: bool = True
    aggregates_rows: bool = True

    def quality_model(self, granule: int, error: float | None, *, ordered: bool) -> QualityModel:
        """Return the model that predicts lost rows."""
        return WindowQuality(min(window.range for _, window in self.fixed_windows) / granule)

    def loss_count(self, error: float | None, *, ordered: bool) -> LossCount | None:
        """Return how the kernel counts lost rows: in total or (None) not at all."""
        return "rows" if self.counts_losses else None

    def counting_losses(self, measured: LossCount, unit: int) -> Self:
        """Return the plan whose kernel counts losses of the kind `measured`."""
        return replace(self, tracked=measured)  # type: ignore[type-var]

    def judged_by(self, bound: ValueBound | None) -> Self:
        """Return the plan whose kernel compares results with `bound`, or counts lost rows."""
        if bound is not None:
            return replace(self, bound=bound)  # type: ignore[type-var]
        return replace(self, tracked="windows") if self.counts_losses else self  # type: ignore[type-var]

    @property
    def counts_losses(self) -> bool:
        """Whether the kernel can count the rows that missed windows."""
        plain = self.spec.kind == "fixed" and self.flush is None and not self.revise
        return plain and not self.ranged

    def fingerprint(self) -> dict[str, Any]:
        """Return the description that must equal the description in a checkpoint."""
        # Only plans with allowed lateness have the entry, so older checkpoints stay readable.
        revised = {"revised for": self.revise} if self.revise else {}
        return {
            "window": repr(self.spec),
            "over": f"{self.axis.column} {self.axis.type}",
            "group by": [f"{key} {kind}" for key, kind in self.group_keys.items()],
            "aggregates": {n: described(a) for n, a in self.aggregates.items()},
            "columns": self.schema.to_string(show_schema_metadata=False),
            "rows": [self.numbering, self.partition],
            "flush": described(self.flush),
            **revised,
        }


def _ahead(window: ScheduledWindow) -> int:
    """Return how many sliding windows contain a given row, minus 1; 0 for other window kinds."""
    return window.range // window.slide - 1 if isinstance(window, Sliding) else 0
