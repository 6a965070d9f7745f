"""Checks that both sides give the same answer: otherwise their times mean nothing.

Spark leaves windows open whose end its watermark did not pass; Lowwater closes
them at the end of the stream. So every row of Spark must be a row of Lowwater,
and Lowwater may have no further row of a window that Spark has closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    Columns = dict[str, npt.NDArray[Any]]

_TOLERANCE = 1e-9


class ResultsDifferError(RuntimeError):
    """The two sides disagree; the text names the first window where they do."""


def require_equal(ours: Path, spark: Path, watermark_us: int) -> int:
    """Return how many rows were compared, or raise `ResultsDifferError`."""
    expected = _read(spark)
    found = _read(ours)
    closed = found["end"] <= watermark_us
    found = {name: column[closed] for name, column in found.items()}
    places = [name for name in ("start", "end", "key") if name in expected]
    expected, found = _ordered(expected, places), _ordered(found, places)
    rows = len(expected["start"])
    if rows == 0:
        msg = "Spark closed no window: there is nothing to compare"
        raise ResultsDifferError(msg)
    _require_same_places(found, expected, places)
    for name in expected:
        if name in places:
            continue
        same = np.isclose(
            found[name].astype(np.float64),
            expected[name].astype(np.float64),
            rtol=_TOLERANCE if name == "total" else 0.0,
            atol=0.0,
        )
        if not same.all():
            at = int(np.argmin(same))
            msg = (
                f"{name} differs in {int((~same).sum())} of {rows} rows, first at "
                f"{_place(expected, places, at)}: lowwater {found[name][at]!r}, "
                f"spark {expected[name][at]!r}"
            )
            raise ResultsDifferError(msg)
    return rows


def require_same_pairs(ours: Path, spark: Path) -> int:
    """Return how many pairs of a join were compared, or raise `ResultsDifferError`."""
    names = ["key", "ts", "ts_other", "value", "value_other"]
    order = [(name, "ascending") for name in names]
    expected, found = (
        ds.dataset(side, format="parquet").to_table(columns=names).sort_by(order)
        for side in (spark, ours)
    )
    same = {n: found[n].cast(expected[n].type).equals(expected[n]) for n in names}
    if not len(expected) or not all(same.values()):
        msg = f"lowwater has {len(found)} pairs, spark {len(expected)}; equal columns: {same}"
        raise ResultsDifferError(msg)
    return len(expected)


def _read(folder: Path) -> Columns:
    """Return the final rows of a Parquet output as arrays, times in microseconds."""
    table = ds.dataset(folder, format="parquet").to_table()
    if "kind" in table.column_names:
        table = table.filter(pc.equal(table["kind"], "final"))
    window = table["window"].combine_chunks()
    columns: Columns = {
        edge: pc.struct_field(window, edge)
        .cast(pa.timestamp("us", tz="UTC"))
        .cast(pa.int64())
        .to_numpy(zero_copy_only=False)
        for edge in ("start", "end")
    }
    for name in ("key", "n", "total", "top"):
        if name in table.column_names:
            columns[name] = table[name].to_numpy()
    return columns


def _ordered(columns: Columns, places: Sequence[str]) -> Columns:
    order = np.lexsort([columns[name] for name in reversed(places)])
    return {name: column[order] for name, column in columns.items()}


def _require_same_places(found: Columns, expected: Columns, places: Sequence[str]) -> None:
    """Raise unless both have exactly the same windows and keys, each once."""
    if all(np.array_equal(found[name], expected[name]) for name in places):
        return
    ours, theirs = (
        set(zip(*(side[name].tolist() for name in places), strict=True))
        for side in (found, expected)
    )
    msg = (
        f"lowwater has {len(found['start'])} closed rows, spark {len(expected['start'])}; "
        f"only in lowwater: {sorted(ours - theirs)[:3]}, only in spark: "
        f"{sorted(theirs - ours)[:3]} (of {places})"
    )
    raise ResultsDifferError(msg)


def _place(columns: Columns, places: Sequence[str], at: int) -> str:
    return ", ".join(f"{name} {columns[name][at]}" for name in places)
