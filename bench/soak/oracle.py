"""The results that the query must have, computed by DuckDB from all rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from bench.soak.query import BAND_S, RANGE_S, SLIDE_S

_WINDOWS = f"""
SELECT key, first + later AS wid, count(*) AS n, sum(value)::BIGINT AS total, max(value) AS top
FROM (SELECT key, value, epoch_us(ts) // {SLIDE_S * 1_000_000} AS first FROM views),
     (SELECT -unnest(range({RANGE_S // SLIDE_S})) AS later)
WHERE (first + later) * {SLIDE_S} + {RANGE_S} <= $watermark
GROUP BY ALL
"""
_PAIRS = f"""
SELECT v.id, c.id AS id_other FROM views v JOIN clicks c ON v.key = c.key
AND abs(epoch_us(c.ts) - epoch_us(v.ts)) <= {BAND_S * 1_000_000}
"""
_EMITTED_WINDOWS = f"""
SELECT key, epoch_us("window".start) // {SLIDE_S * 1_000_000} AS wid, n, total, top
FROM read_parquet($files, filename = true, file_row_number = true)
WHERE kind <> 'early' AND epoch("window"."end") <= $watermark
QUALIFY row_number() OVER (
    PARTITION BY key, wid ORDER BY filename DESC, file_row_number DESC) = 1
"""
_EMITTED_PAIRS = "SELECT id, id_other FROM read_parquet($files)"


@dataclass(frozen=True)
class Comparison:
    """The number of rows of an output, and of rows that are missing, or that must not be there."""

    output: str
    rows: int
    missing: int
    wrong: int

    @property
    def equal(self) -> bool:
        """Whether the output is exactly as computed, and not empty."""
        return self.rows > 0 and not self.missing and not self.wrong


def kinds(out: Path) -> dict[str, int]:
    """Return the number of emitted results of windows, by kind: early, final, revised."""
    text = "SELECT kind, count(*) FROM read_parquet($files) GROUP BY ALL ORDER BY ALL"
    return dict(duckdb.execute(text, {"files": str(out / "windows" / "*.parquet")}).fetchall())


def compare(views: pa.Table, clicks: pa.Table, out: Path, watermark: float) -> list[Comparison]:
    """Compare the newest versions of closed windows, and all pairs, with the computed ones."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.register("views", views)
    db.register("clicks", clicks)
    mark = {"watermark": watermark}
    files = {name: str(out / name / "*.parquet") for name in ("windows", "pairs")}
    db.execute(f"CREATE TABLE windows AS {_WINDOWS}", mark)
    db.execute(
        f"CREATE TABLE emitted_windows AS {_EMITTED_WINDOWS}", {**mark, "files": files["windows"]}
    )
    db.execute(f"CREATE TABLE pairs AS {_PAIRS}")
    db.execute(f"CREATE TABLE emitted_pairs AS {_EMITTED_PAIRS}", {"files": files["pairs"]})
    return [_compared(db, name) for name in ("windows", "pairs")]


def _compared(db: duckdb.DuckDBPyConnection, name: str) -> Comparison:
    def count(rows: str) -> int:
        return int(db.execute(f"SELECT count(*) FROM ({rows})").fetchall()[0][0])

    return Comparison(
        name,
        count(f"FROM emitted_{name}"),
        count(f"FROM {name} EXCEPT ALL FROM emitted_{name}"),
        count(f"FROM emitted_{name} EXCEPT ALL FROM {name}"),
    )
