"""The window aggregate kernel: (state, data, control) -> (state, emissions).

State is a map of names to bytes: `meta` (marks in force, which buckets there are) and a few buckets
of cells, each for a stretch of panes. An epoch reads the buckets that its rows or its closing
windows touch and writes the ones that its rows touch; a bucket that no open window needs is deleted
whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Continued, Rows
from lowwater.control import Control, Marks
from lowwater.kernels.buckets import Bucket, Buckets
from lowwater.kernels.cells import Cells, Packed, merge
from lowwater.kernels.closing import Closed, close
from lowwater.kernels.delivery import row_marks
from lowwater.kernels.lifting import lift
from lowwater.kernels.packets import Packet, measure_packet, table_of, table_packet
from lowwater.kernels.per_window import absorb, closed_windows, no_cells, spread
from lowwater.kernels.plan import WindowPlan
from lowwater.kernels.results import late_rows, result_rows
from lowwater.kernels.rows import DEAD, LATE_DEGREE, TICK
from lowwater.shedding.reaching import needed_windows
from lowwater.windows import FOREVER, Landmark

META = "meta"
_NEVER = -(2**62)
"""Before every window: the mark of a stream that has made no progress."""


@dataclass
class Step:
    """What a step did: state to write (None deletes a bucket) and packets to send on."""

    changes: dict[str, bytes | None] = field(default_factory=dict)
    emissions: list[Packet] = field(default_factory=list)


@dataclass
class Meta:
    """The part of the state that every step reads: the marks in force, and the buckets."""

    marks: Marks
    buckets: Buckets

    @classmethod
    def read(cls, state: Mapping[str, bytes]) -> Meta:
        """Read it from the state."""
        kept = state.get(META)
        return cls.from_json(None if kept is None else json.loads(kept))

    @classmethod
    def from_json(cls, kept: dict[str, Any] | None) -> Meta:
        """Read what `to_json` wrote; before the first epoch there is nothing."""
        if kept is None:
            return cls(Marks(), Buckets())
        buckets = Buckets.of(Bucket(*b) for b in kept.get("buckets", ()))
        return cls(Marks.from_json(kept["marks"]), buckets)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"marks": self.marks.to_json(), "buckets": [astuple(b) for b in self.buckets]}

    def to_bytes(self) -> bytes:
        """Return it as it is kept."""
        return json.dumps(self.to_json()).encode()


class WindowEpoch:
    """One epoch of one shard: windows that lie where their spec says, whatever the rows."""

    def __init__(self, plan: WindowPlan, shard: int, state: Mapping[str, bytes]) -> None:
        self.plan, self.shard, self.state = plan, shard, state
        self.meta = Meta.read(state)
        self.out = Step()
        self.counts = dict.fromkeys(("admitted", "late", "partly_late", "outside", "results"), 0)
        self.waiting = 0
        """Rows that no window has taken in yet."""
        self.kept_cells = self.kept_bytes = 0
        """What is kept besides the buckets."""
        self.told: dict[str, Any] = {}
        """What is measured besides counts."""

    def run(self, packets: list[Packet]) -> Step:
        """Admit the data, then act on the control (semantics 2)."""
        control = Control.together(
            Control.from_bytes(p.payload) for p in packets if p.kind == "control"
        )
        self.prepare(packets)
        self.fresh = [Packed.from_bytes(p.payload) for p in packets if p.kind == "cells"]
        self.counts["admitted"] += sum(_row_count(p) for p in self.fresh)
        rows = self.admit_all([(p.seq, table_of(p)) for p in packets if p.kind == "rows"])
        marks = self.meta.marks.raised(control.marks).only_above()
        self.advance(self.fresh, rows, marks)
        self.finish(marks)
        buckets = self.meta.buckets
        measures = {
            "shard": self.shard,
            "cells": buckets.cells + self.waiting + self.kept_cells,
            "bytes": buckets.size + self.kept_bytes,
            **self.counts,
            **self.told,
        }
        self.out.emissions.append(measure_packet(self.shard, 0, measures))
        return self.out

    def prepare(self, packets: list[Packet]) -> None:
        """Take in what is neither rows nor control."""

    def finish(self, marks: Marks) -> None:
        """Write what is neither cells nor marks."""

    # -- data ----------------------------------------------------------------------------------

    def admit_all(self, tables: list[tuple[int, pa.Table]]) -> list[Rows]:
        """Sort whole rows into late, partly late and in time; return those that enter a window."""
        admitted = [self.admit(table, seq) for seq, table in tables]
        return [rows for rows in admitted if len(rows)]

    def admit(self, table: pa.Table, seq: int) -> Rows:
        """Sort whole rows into late, partly late and in time; return those that enter a window."""
        plan, spec = self.plan, self.plan.window
        ticks = table.column(TICK).combine_chunks().to_numpy()
        dead = table.column(DEAD).combine_chunks().to_numpy(zero_copy_only=False)
        mark = np.maximum(row_marks(plan, table, plan.late_by(self.meta.marks)), _NEVER)
        first, last = needed_windows(plan.dropped, spec, spec.first(ticks), spec.last(ticks))
        missed_until = np.where(dead, last + 1, np.minimum(spec.first_open(mark), last + 1))
        missed = missed_until > first
        late = missed_until > last
        self.counts["late"] += int(late.sum())
        self.counts["partly_late"] += int((missed & ~late).sum())
        self.counts["admitted"] += int((~late).sum())
        if missed.any():
            behind = table.filter(pa.array(missed))
            self.note_missed(first[missed], missed_until[missed], behind)
            rows = late_rows(
                plan,
                behind,
                needed_windows(plan.dropped, spec, first[missed], missed_until[missed] - 1),
                admitted=~late[missed],
            )
            self.out.emissions.append(table_packet("late", self.shard, seq, rows))
        kept = np.flatnonzero(~late)
        return Rows(table.take(pa.array(kept)).drop_columns([TICK, LATE_DEGREE, DEAD]), ticks[kept])

    # -- control -------------------------------------------------------------------------------

    def advance(self, fresh: list[Packed], rows: list[Rows], marks: Marks) -> None:
        """Merge what came into state, close the windows that the marks complete, purge."""
        plan, before = self.plan, self.meta.marks
        if plan.keeping == "panes":
            fresh = fresh + [lift(plan, r) for r in rows]
        closing, late_by = marks != before, plan.late_by(before)
        buckets = self.meta.buckets
        touched = buckets.taking(self.fresh_panes(fresh, rows, late_by))
        needed = touched | self.to_read(before, marks)
        packs = [Packed.from_bytes(self.state[buckets.all[b].name]) for b in sorted(needed)]
        self.meta.marks = marks
        if packs or fresh or rows:
            cells = merge(packs + fresh, plan.parts) if packs or fresh else no_cells(plan)
            if plan.keeping == "windows":
                for block in rows:
                    cells = absorb(plan, cells, block, late_by)
            self.give_out(cells, before, marks)
            if closing:
                cells, changed = self.fold(cells, marks)
                touched |= buckets.taking(changed)
            self.write(cells, touched, needed)
        if closing:
            self.purge()
        self.out.changes[META] = self.meta.to_bytes()

    def fresh_panes(self, fresh: list[Packed], rows: list[Rows], marks: Marks) -> np.ndarray:
        """Return the panes (or windows) that new data falls into."""
        panes = [p.pane for p in fresh]
        if self.plan.keeping == "windows":
            panes += [spread(self.plan, r, marks)[1] for r in rows]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *panes]))

    def to_read(self, before: Marks, after: Marks) -> set[int]:
        """Return the buckets that results of the epoch reach into."""
        return self.needed(before, after) if after != before else set()

    def needed(self, before: Marks, after: Marks) -> set[int]:
        """Return the buckets that the windows between two marks reach into."""
        plan, buckets = self.plan, self.meta.buckets
        spec = plan.positioned
        if isinstance(spec, Landmark) or before.low is None or plan.groups_have_marks:
            return set(buckets.all)
        reached = before.low if after.low is None else after.low
        low, high = spec.first_open(before.low), spec.first_open(reached)
        if low == high:
            return set()
        if plan.keeping == "panes":
            step = spec.panes_per_slide
            low, high = low * step, (high - 1) * step + spec.panes
        return buckets.between(low, high)

    def group_open(self, cells: Cells, marks: Marks) -> np.ndarray:
        """Return the first open window of every group."""
        plan = self.plan
        if plan.groups_have_marks and cells.groups:
            own = np.asarray(row_marks(plan, cells.keys, marks))
            mark = np.broadcast_to(own, cells.groups)
        else:
            mark = np.full(cells.groups, _NEVER if marks.low is None else marks.low)
        return np.asarray(plan.spec.first_open(np.clip(mark, _NEVER, FOREVER)))

    def give_out(self, cells: Cells, before: Marks, after: Marks) -> None:
        """Give out the results of the epoch."""
        if after != before:
            self.emit(cells, before, after)

    def emit(self, cells: Cells, before: Marks, after: Marks) -> None:
        """Close the windows between two marks."""
        plan = self.plan
        if not len(cells):
            return
        since, until = self.group_open(cells, before), self.group_open(cells, after)
        if isinstance(plan.spec, Landmark):
            # Windows before the first row hold nothing; without this they would be counted out.
            born = np.full(cells.groups, FOREVER)
            np.minimum.at(born, cells.code, cells.pane)
            since = np.clip(born, since, until)
        chunks = (
            close(cells, plan.parts, plan.positioned, since, until, dropped=plan.dropped)
            if plan.keeping == "panes"
            else closed_windows(cells, since, until)
        )
        for seq, chunk in enumerate(chunks):
            if len(chunk.wid):
                self.counts["results"] += len(chunk.wid)
                self.note_closed(chunk, cells.keys)
                self.send_results(result_rows(plan, cells, chunk), seq)

    def note_missed(self, first: np.ndarray, until: np.ndarray, rows: pa.Table) -> None:
        """Hear which windows late rows have missed."""

    def note_closed(self, closed: Closed, keys: pa.Table) -> None:
        """Hear which windows have closed, of groups with these keys."""

    def send_results(self, rows: pa.Table, seq: int) -> None:
        """Send finished windows on."""
        self.out.emissions.append(table_packet("results", self.shard, seq, rows))

    def fold(self, cells: Cells, after: Marks) -> tuple[Cells, np.ndarray]:
        """Drop cells that no open window needs, fold what landmark windows have closed into one.

        Returns the cells and the panes that have changed.
        """
        plan, until = self.plan, self.group_open(cells, self.plan.late_by(after))
        if self.keeps_all:
            closed = np.maximum(cells.pane, until[cells.code] - 1)
            moved = closed != cells.pane
            if not moved.any():
                return cells, cells.pane[:0]
            packed = cells.pack(plan.parts)
            folded = Packed(packed.keys, packed.groups, packed.code, closed, packed.columns)
            cells = self.settled(merge([folded], plan.parts), after)
            return cells, np.unique([*packed.pane[moved], *closed[moved]])
        if not plan.groups_have_marks:
            return cells, cells.pane[:0]
        kept = self.still_needed(cells.pane, until[cells.code])
        return cells.take(kept), np.unique(cells.pane[~kept])

    def settled(self, cells: Cells, after: Marks) -> Cells:
        """Take values into states where all windows that hold them alone have closed."""
        until = self.group_open(cells, after)
        done = cells.pane < until[cells.code]
        parts = [
            part.settle(kept, done) if isinstance(part, Continued) else kept
            for part, kept in zip(self.plan.parts, cells.parts, strict=True)
        ]
        return replace(cells, parts=parts)

    def still_needed(self, pane: np.ndarray, first_open: np.ndarray | int) -> np.ndarray:
        """Return which panes (or windows) belong to a window that is open."""
        if self.plan.keeping == "windows":
            return np.asarray(pane >= first_open)
        return np.asarray(pane >= first_open * self.plan.spec.panes_per_slide)

    def write(self, cells: Cells, touched: set[int], loaded: set[int]) -> None:
        """Write what lay in touched buckets and what is new, in buckets cut anew."""
        buckets, low = self.meta.buckets, self.plan.late_by(self.meta.marks).low
        rewritten = np.ones(len(cells), bool)
        for b in loaded - touched:
            bucket = buckets.all[b]
            rewritten &= (cells.pane < bucket.low) | (cells.pane > bucket.high)
        if low is not None and not self.keeps_all:
            open_from = self.plan.spec.first_open(min(low, FOREVER))
            rewritten &= self.still_needed(cells.pane, open_from)
        self.rewrite(cells.take(np.flatnonzero(rewritten)), touched)

    def write_all(self, cells: Cells) -> None:
        """Write all cells of the shard, in buckets cut anew."""
        self.rewrite(cells, set(self.meta.buckets.all))

    def rewrite(self, cells: Cells, touched: set[int]) -> None:
        """Replace some buckets by others that hold `cells`."""
        buckets = self.meta.buckets
        for b in touched:
            self.out.changes[buckets.all.pop(b).name] = None
        order = np.argsort(cells.pane, kind="stable")
        panes = cells.pane[order]
        for start, end in buckets.stretches(panes):
            chosen = cells.take(np.sort(order[start:end]))
            kept = chosen.pack(self.plan.parts).to_bytes()
            bucket = Bucket(int(panes[start]), int(panes[end - 1]), len(chosen), len(kept))
            self.out.changes[bucket.name] = kept
            buckets.all[bucket.low] = bucket
        self.meta.buckets = Buckets.of(buckets)

    @property
    def keeps_all(self) -> bool:
        """Whether no pane is ever done with: landmark windows reach back to the beginning."""
        return isinstance(self.plan.spec, Landmark)

    def purge(self) -> None:
        """Delete the buckets that no open window needs."""
        low, buckets = self.plan.late_by(self.meta.marks).low, self.meta.buckets
        if low is None or self.keeps_all:
            return
        first_open = self.plan.spec.first_open(min(low, FOREVER))
        for bucket in list(buckets):
            if not self.still_needed(np.array(bucket.high), first_open):
                del buckets.all[bucket.low]
                self.out.changes[bucket.name] = None


def _row_count(packed: Packed) -> int:
    return int(packed.columns[0].to_numpy().sum())
