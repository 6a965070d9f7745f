"""A prod sweeps the plan: every operator says what it would give out if its streams ended now.

It runs a second time, on its state after the epoch and on what operators below it would give out,
as if the marks of the prod were in force; what becomes of its state is thrown away. So nothing
provisional is stored, and every operator answers early exactly as it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.control import Control, Marks, Prod
from lowwater.kernels.aggregate import META
from lowwater.kernels.dataflow import Dataflow, Operator
from lowwater.kernels.estimating import window_ticks
from lowwater.kernels.packets import Kind, Packet
from lowwater.kernels.plan import WindowPlan

PROVISIONAL: dict[Kind, Kind] = {
    "cells": "early cells",
    "rows": "early rows",
    "ends": "early ends",
}
"""How data is called that operators are only to believe for the length of an answer."""
_BELIEVED: dict[Kind, Kind] = {early: kind for kind, early in PROVISIONAL.items()}


class After(Mapping[str, bytes]):
    """A state with changes that are not written yet."""

    def __init__(self, state: Mapping[str, bytes], changes: Mapping[str, bytes | None]) -> None:
        self._state, self._changes = state, changes

    def __getitem__(self, name: str) -> bytes:
        if name not in self._changes:
            return self._state[name]
        content = self._changes[name]
        if content is None:
            raise KeyError(name)
        return content

    def __iter__(self) -> Iterator[str]:
        kept = (name for name in self._state if name not in self._changes)
        yield from kept
        yield from (name for name, content in self._changes.items() if content is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def state_to_answer_from(
    flow: Dataflow, number: int, state: Mapping[str, bytes], prods: Sequence[Prod]
) -> Mapping[str, bytes]:
    """Return a state in which windows that nobody asks for have been given out already.

    Without that, all windows that wait for late rows would be computed for the next one.
    """
    plan, asked = flow.operators[number].plan, [p for p in prods if p.asks(number)]
    lays_out = isinstance(plan, WindowPlan) and plan.laid_out and flow.only_leaves(number)
    in_turn = not (getattr(plan, "ranged", False) or getattr(plan, "sidelined", False))
    since = [p.since for p in asked if p.since is not None]
    if not (lays_out and in_turn) or not since or len(since) < len(asked) or META not in state:
        return state
    meta = json.loads(state[META])
    given_out = Marks.from_json(meta["marks"]).raised(Marks(min(since)))
    return After(state, {META: json.dumps({**meta, "marks": given_out.to_json()}).encode()})


def certain(packets: Sequence[Packet]) -> list[Packet]:
    """Return the packets that are not merely provisional."""
    return [p for p in packets if p.kind not in _BELIEVED]


def provisional(packets: Sequence[Packet]) -> list[Packet]:
    """Return data for another operator as that operator is to believe it for an answer."""
    return [replace(p, kind=PROVISIONAL[p.kind]) for p in packets if p.kind in PROVISIONAL]


def asked_in(packets: Sequence[Packet]) -> Control | None:
    """Return what an operator is asked in an epoch, if anything; all ports are asked the same."""
    said = (Control.from_bytes(p.payload) for p in packets if p.kind == "control")
    return next((control for control in said if control.prods), None)


def believed(packets: Sequence[Packet]) -> list[Packet]:
    """Return what an operator is to go by for its answer."""
    found = [replace(p, kind=_BELIEVED[p.kind]) for p in packets if p.kind in _BELIEVED]
    for packet in packets:
        if packet.kind == "control":
            control = Control.from_bytes(packet.payload)
            if control.prods:
                found.append(replace(packet, payload=Control(control.as_if).to_bytes()))
    return found


def demanded(
    operator: Operator, number: int, rows: pa.Table, prods: Sequence[Prod]
) -> tuple[np.ndarray, dict[str, int]]:
    """Return which rows of an answer were asked for, and how many each prod finds."""
    wanted = np.zeros(len(rows), bool)
    found: dict[str, int] = {}
    for prod in prods:
        if prod.asks(number):
            mine = _within(operator, rows, prod) & _of_groups(rows, prod.where)
            wanted |= mine
            found[str(prod.number)] = int(mine.sum())
    return wanted, found


def _within(operator: Operator, rows: pa.Table, prod: Prod) -> np.ndarray:
    """Which rows are of the stretch of time that a prod is for."""
    if prod.since is None and prod.upto is None:
        return np.ones(len(rows), bool)
    ends = _ends(operator, rows)
    inside = np.ones(len(rows), bool)
    if prod.since is not None:
        inside &= ends > prod.since
    if prod.upto is not None:
        inside &= ends <= prod.upto
    return inside


def _ends(operator: Operator, rows: pa.Table) -> np.ndarray:
    """Return where the windows of results end; for rows that are of no window, their time."""
    if isinstance(operator.plan, WindowPlan):
        return window_ticks(rows)[1]
    axis = operator.times[0]
    ticks, _ = axis.to_ticks(rows.column(axis.column))
    return ticks


def _of_groups(rows: pa.Table, where: Mapping[str, str | None]) -> np.ndarray:
    mask = np.ones(len(rows), bool)
    for name, value in where.items():
        column = rows.column(name)
        same = (
            pc.is_null(column)
            if value is None
            else pc.equal(column, pa.scalar(value).cast(column.type)).fill_null(False)
        )
        mask &= same.combine_chunks().to_numpy(zero_copy_only=False)
    return mask


def labelled(rows: pa.Table) -> pa.Table:
    """Return results of windows labelled as early."""
    if "kind" not in rows.column_names:
        return rows
    at = rows.column_names.index("kind")
    return rows.set_column(at, "kind", pa.repeat(pa.scalar("early"), len(rows)))
