"""Early results as they leave: estimates, with what is known about their accuracy.

Operators answer prods with what has arrived. Here, where all answers of an epoch are together, they
become estimates; and finals that come out tell how good earlier estimates were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.control import Arrived, Entry, Known, Reached
from lowwater.kernels import Dataflow, Packet, WindowPlan
from lowwater.kernels.estimating import ROWS, bare, completed, completeness, window_ticks
from lowwater.kernels.groups import shard_of
from lowwater.kernels.packets import measure_packet, measures_of, table_packet, tables
from lowwater.kernels.plan import NAME
from lowwater.prodding import HASHES, Early, Judged, Learning, Prodder
from lowwater.query.early_columns import HIDDEN, KNOWN
from lowwater.query.sidelining import without_waiting

UNKNOWN_SHARE = 0.5
"""What stands for the share of rows that have arrived where nobody knows it."""


def judged(
    prodder: Prodder | None, before: Entry, flow: Dataflow, packets: Sequence[Packet], now: int
) -> list[Packet]:
    """Return what an epoch gave, its answers as estimates, and what the epoch taught of them."""
    if prodder is None:
        return list(packets)
    found = [p for p in packets if p.kind != "early"]
    measured = [measures_of(p) for p in packets if p.kind == "measure"]
    known = Known(_reached(before, measured, flow), measured, now)
    arrived: list[Arrived | None] | None = None
    for operator in sorted({o.operator for o in flow.outputs}):
        mine = [p for p in packets if p.operator == operator]
        answers = tables(mine, "early")
        judge = _Judge(flow, operator, prodder, before.prodding)
        told = judge.finals(tables(mine, "results"))
        if answers:
            if arrived is None:
                came = prodder.arrived(before.prodding, known)
                arrived = flow.expected(without_waiting(came, flow, before, measured))
            rows = pa.concat_tables(answers)
            share = completeness(judge.plan, rows, arrived[flow.numbers[operator, 0]])
            shown, told["early"] = judge.judge(rows, share, known)
            found.append(replace(table_packet("early", 0, 0, shown), operator=operator))
            found.append(measure_packet(0, 0, {"early": len(rows)}))
        if any(told.values()):
            found.append(measure_packet(0, 0, {"learned": {str(operator): told}}))
    return found


def _reached(before: Entry, measured: Sequence[Mapping[str, Any]], flow: Dataflow) -> list[Reached]:
    """Return how far the inputs are after an epoch, as far as its rows tell."""
    known = before.standing.inputs or [Reached() for _ in flow.inputs]
    found = []
    for number, one in enumerate(known):
        newest = [m["newest"] for m in measured if m.get("input") == number and "newest" in m]
        most = max([*newest, *([] if one.newest is None else [one.newest])], default=None)
        found.append(replace(one, newest=most))
    return found


class _Judge:
    """Judges the answers of one operator by what is known of it."""

    def __init__(
        self, flow: Dataflow, operator: int, prodder: Prodder, memory: Mapping[str, Any]
    ) -> None:
        self.plan = flow.operators[operator].plan
        self.prodder, self.memory = prodder, memory
        self.operator = operator
        self.learning: Learning | None = prodder.learning.get(operator)
        self.known = prodder.learned(memory, operator)

    def judge(
        self, rows: pa.Table, share: np.ndarray | None, known: Known
    ) -> tuple[pa.Table, list[dict[str, Any]]]:
        """Return answers as they are shown, and those whose finals are waited for."""
        values = bare(rows)
        if self.prodder.complete:
            values = completed(self.plan, values, share)
        shown = pa.nulls(len(rows), pa.float64()) if share is None else pa.array(share)
        values = values.append_column(HIDDEN + KNOWN[0], shown)
        if self.learning is None:
            return values, []
        early = self._early(rows, values, share)
        said = self.learning.judge(self.known, early)
        for name, column in zip(KNOWN[1:], ("expected_accuracy", "low", "high"), strict=True):
            values = values.append_column(HIDDEN + name, _each(said, column))
        return values, self._remembered(rows, values, early, known)

    def _early(self, rows: pa.Table, values: pa.Table, share: np.ndarray | None) -> Early:
        assert self.learning is not None  # noqa: S101
        # What is scaled is learned by what has arrived; the rest by what was said.
        raw = {
            name: _floats((rows if kind in {"counted", "scaled"} else values).column(name))
            for name, kind in self.learning.kinds.items()
        }
        _, ends = window_ticks(rows)
        known = np.full(len(rows), UNKNOWN_SHARE) if share is None else share
        return Early(ends, known, _floats(rows.column(ROWS)), raw)

    def _remembered(
        self, rows: pa.Table, values: pa.Table, early: Early, known: Known
    ) -> list[dict[str, Any]]:
        """Return what is to be remembered of answers until their finals come."""
        assert self.learning is not None  # noqa: S101
        chosen, hashes = self._sample(rows)
        lead = self.prodder.leads(self.memory, known, self.operator, early.window[chosen])
        names = list(self.learning.kinds)
        said = {n: _floats(values.column(n))[chosen].tolist() for n in names}
        raw = {n: early.raw[n][chosen].tolist() for n in names}
        columns = zip(
            self._keys(rows, chosen),
            hashes.tolist(),
            rows.column("wid").take(pa.array(chosen)).to_pylist(),
            early.window[chosen].tolist(),
            np.round(early.completeness[chosen], 5).tolist(),
            early.rows[chosen].tolist(),
            np.round(lead, 4).tolist(),
            strict=True,
        )
        return [
            {
                "key": key,
                "group": group,
                "hash": h,
                "wid": wid,
                "window": window,
                "share": share,
                "rows": count,
                "lead": ahead,
                "at": known.now,
                "raw": {n: raw[n][i] for n in names},
                "said": {n: said[n][i] for n in names},
            }
            for i, ((key, group), h, wid, window, share, count, ahead) in enumerate(columns)
        ]

    def finals(self, results: Sequence[pa.Table]) -> dict[str, Any]:
        """Return the values of finals that are waited for, by window and group."""
        waiting = self.known.get("pairing", {}).get("waiting", ())
        if self.learning is None or not waiting or not results:
            return {}
        rows = pa.concat_tables(results)
        awaited = pa.array(sorted({w["wid"] for w in waiting}), pa.int64())
        rows = rows.filter(pc.is_in(rows.column("wid"), awaited))
        if not len(rows):
            return {}
        chosen, _ = self._sample(rows)
        wanted = {w["key"] for w in waiting}
        values = [_floats(rows.column(n)) for n in self.learning.kinds]
        found = {
            key: [float(v[i]) for v in values]
            for i, (key, _) in zip(chosen.tolist(), self._keys(rows, chosen), strict=True)
            if key in wanted
        }
        return {"finals": found}

    def _sample(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows are of groups that are remembered, and the hash of each."""
        assert isinstance(self.plan, WindowPlan)  # noqa: S101
        keys = [rows.column(k).combine_chunks() for k in self.plan.keys]
        hashes = shard_of(keys, len(rows), HASHES) if keys else np.zeros(len(rows), np.int64)
        chosen = np.flatnonzero(hashes < self.prodder.remembered(self.known))
        return chosen, hashes[chosen]

    def _keys(self, rows: pa.Table, chosen: np.ndarray) -> list[tuple[str, str]]:
        """Return what tells windows of groups apart, and the groups."""
        assert isinstance(self.plan, WindowPlan)  # noqa: S101
        names = [n for n in ("wid", NAME) if n in rows.column_names]
        some = rows.take(pa.array(chosen))
        windows = zip(*(some.column(n).to_pylist() for n in names), strict=True)
        keys = [some.column(k).to_pylist() for k in self.plan.keys]
        groups = (
            [", ".join(map(str, row)) for row in zip(*keys, strict=True)]
            if keys
            else [""] * len(chosen)
        )
        return [(f"{w} {g}", g) for w, g in zip(windows, groups, strict=True)]


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return numbers as floats, NULL as NaN."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)


def _each(said: Mapping[str, Judged], what: str) -> pa.Array:
    """Return one figure of every aggregate, NULL where there is none."""
    columns = [pa.array(getattr(j, what), from_pandas=True) for j in said.values()]
    return pa.StructArray.from_arrays(columns, list(said))
