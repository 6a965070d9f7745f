"""The exact answer, from all flights at once, and how the answer of the stream compares with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

RANGE = pd.Timedelta(hours=3)
SLIDE = pd.Timedelta(minutes=10)
_GROUP = ["start", "origin"]


@dataclass(frozen=True)
class Check:
    """Finals against the exact answer, one line per window and airport.

    `lines` has the columns flights, delay, worst of the finals, the same with `_exact`, and right.
    `restored` counts the windows that are exact once the late rows are added back.
    """

    lines: pd.DataFrame
    restored: int

    @property
    def windows(self) -> int:
        """How many windows there are."""
        return len(self.lines)

    @property
    def right(self) -> int:
        """How many finals are exactly right."""
        return int(self.lines["right"].sum())

    @property
    def never_came(self) -> int:
        """How many windows have no final, because all their rows were late."""
        return int(self.lines["flights"].isna().sum())

    @property
    def off(self) -> pd.Series[float]:
        """By how many minutes the mean delay is off where a final is not right."""
        wrong = self.lines[~self.lines["right"] & self.lines["flights"].notna()]
        return (wrong["delay"] - wrong["delay_exact"]).abs()


def exact_answer(flights: pd.DataFrame) -> pd.DataFrame:
    """Return flights, mean and worst delay for each window [start, start + 3 h) and airport.

    Every flight is copied into all its windows and the copies are grouped: slow, plain, and nothing
    of it shared with the way Lowwater computes.
    """
    newest = flights["scheduled"].dt.floor(SLIDE)
    copies = [flights.assign(start=newest - k * SLIDE) for k in range(RANGE // SLIDE)]
    return _grouped(pd.concat(copies))


def check(results: pa.Table, late: pa.Table, flights: pd.DataFrame) -> Check:
    """Compare finals with the exact answer, and again with the late rows added back."""
    exact = exact_answer(flights)
    finals = _finals(results)
    lines = finals.join(exact, how="outer", rsuffix="_exact")
    lines["right"] = _same(lines)
    restored = _with_late(finals, late).join(exact, how="outer", rsuffix="_exact")
    return Check(lines, int(_same(restored).sum()))


def _grouped(rows: pd.DataFrame) -> pd.DataFrame:
    delay = "dep_delay"
    return rows.groupby(_GROUP).agg(
        flights=(delay, "size"), delay=(delay, "mean"), worst=(delay, "max")
    )


def _finals(results: pa.Table) -> pd.DataFrame:
    rows = results.flatten().rename_columns(
        [n.removeprefix("window.") for n in results.flatten().column_names]
    )
    frame: pd.DataFrame = rows.select([*_GROUP, "flights", "delay", "worst"]).to_pandas()
    return frame.set_index(_GROUP, verify_integrity=True)


def _with_late(finals: pd.DataFrame, late: pa.Table) -> pd.DataFrame:
    """Add each late row to every window that it reports as missed."""
    rows = late.to_pandas()
    if rows.empty:
        return finals
    rows["start"] = [
        pd.date_range(m["start"], m["end"] - RANGE, freq=SLIDE).tolist() for m in rows["missed"]
    ]
    missed = _grouped(rows.explode("start").astype({"start": finals.index.levels[0].dtype}))  # type: ignore[attr-defined]
    both = finals.join(missed, how="outer", rsuffix="_late")
    counts = both[["flights", "flights_late"]].fillna(0)
    means = both[["delay", "delay_late"]].fillna(0)
    total = counts.sum(axis=1)
    return pd.DataFrame(
        {
            "flights": total,
            "delay": (counts.to_numpy() * means.to_numpy()).sum(axis=1) / total,
            "worst": both[["worst", "worst_late"]].max(axis=1),
        }
    )


def _same(lines: pd.DataFrame) -> pd.Series[bool]:
    """Return which lines agree; a mean may differ by rounding."""
    mean = np.isclose(lines["delay"], lines["delay_exact"], rtol=1e-9, atol=1e-9)
    counted = lines["flights"] == lines["flights_exact"]
    return counted & mean & (lines["worst"] == lines["worst_exact"])
