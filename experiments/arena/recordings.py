"""Recorded streams of the arena. They are not part of this project.

The environment variable LOWWATER_DATA names the folder of the Parquet files, all in the order of
arrival; flights come with `pip install 'lowwater[demo]'`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.arena.stream import ArenaStream, Change, Split
from experiments.streams.recordings import flights, read
from lowwater.ticks import TICKS_PER_SECOND as SECOND

HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND


@dataclass(frozen=True)
class Recording:
    """A recording: which split it is of, whether it changes, and how its rows are read."""

    name: str
    split: Split
    change: Change
    rows: Callable[[], dict[str, Any]]
    range: int
    epoch: int

    def load(self) -> ArenaStream:
        """Return the stream; raise AbsentError where the recording is absent."""
        given: dict[str, Any] = {k: v for k, v in vars(self).items() if k != "rows"}
        return ArenaStream.of(**self.rows(), **given, slide=self.range)


def _codes(column: pd.Series) -> np.ndarray:
    return np.asarray(pd.factorize(column, use_na_sentinel=False)[0], np.int64)


def _tls() -> dict[str, Any]:
    table = read("zeek_ssl.parquet", ["event_us", "arrival_us", "version"])
    return {
        "ts": table["event_us"].to_numpy(),
        "arrived": table["arrival_us"].to_numpy(),
        "key": _codes(table["version"]),
    }


def _dns() -> dict[str, Any]:
    table = read("zeek_dns.parquet", ["event_us", "arrival_us", "orig_h", "query"])
    return {
        "ts": table["event_us"].to_numpy(),
        "arrived": table["arrival_us"].to_numpy(),
        "key": _codes(table["orig_h"]),
        "value": table["query"].astype(str).str.len().fillna(0).to_numpy(np.float64),
    }


def _market() -> dict[str, Any]:
    columns = ["event_ms", "arrival_ns", "asset", "venue", "size"]
    table = read("market_feed.parquet", columns)
    skew = 1_270_000  # the local clock is this far behind the exchange's
    return {
        "ts": table["event_ms"].to_numpy() * 1_000,
        "arrived": table["arrival_ns"].to_numpy() // 1_000 + skew,
        "key": _codes(table["asset"].astype(str) + table["venue"].astype(str)),
        "value": table["size"].fillna(0).to_numpy(np.float64),
    }


def _flights() -> dict[str, Any]:
    rows = flights()
    return {"ts": rows.ts, "arrived": rows.arrived, "value": rows.values["x"]}


def _metar() -> dict[str, Any]:
    table = read("metar_reports.parquet", ["event_s", "arrival_s", "station", "temp_c"])
    return {
        "ts": table["event_s"].to_numpy(np.int64) * SECOND,
        "arrived": table["arrival_s"].to_numpy(np.int64) * SECOND,
        "key": _codes(table["station"].astype(str).str[0]),
        "value": table["temp_c"].fillna(0).to_numpy(np.float64) + 60,
    }


def _quakes() -> dict[str, Any]:
    table = read("quake_revisions.parquet", ["event_ms", "arrival_ms", "net", "mag"])
    return {
        "ts": table["event_ms"].to_numpy() * 1_000,
        "arrived": table["arrival_ms"].to_numpy() * 1_000,
        "key": _codes(table["net"]),
        "value": table["mag"].fillna(0).to_numpy(np.float64),
    }


def _dengue() -> dict[str, Any]:
    table = read("dengue_reports.parquet", ["event_day", "arrival_day", "gender"])
    return {
        "ts": table["event_day"].to_numpy(np.int64) * DAY,
        "arrived": table["arrival_day"].to_numpy(np.int64) * DAY,
        "key": _codes(table["gender"]),
    }


def _lora() -> dict[str, Any]:
    table = read("lora_gateways.parquet", ["event_ms", "arrival_ms", "gateway", "rssi"])
    return {
        "ts": table["event_ms"].to_numpy() * 1_000,
        "arrived": table["arrival_ms"].to_numpy() * 1_000,
        "key": _codes(table["gateway"]),
        "value": -table["rssi"].fillna(0).to_numpy(np.float64),
    }


RECORDINGS = (
    Recording("tls", "tuning", "changing", _tls, 10 * SECOND, SECOND),
    Recording("tls-60", "tuning", "changing", _tls, 60 * SECOND, 5 * SECOND),
    Recording("dns", "tuning", "steady", _dns, 10 * SECOND, SECOND),
    Recording("market", "tuning", "steady", _market, SECOND, SECOND // 20),
    Recording("flights", "tuning", "steady", _flights, HOUR, HOUR // 12),
    Recording("metar", "held out", "steady", _metar, 900 * SECOND, 60 * SECOND),
    Recording("quakes", "held out", "changing", _quakes, DAY, HOUR),
    Recording("dengue", "held out", "changing", _dengue, 7 * DAY, DAY),
    Recording("lora", "held out", "changing", _lora, HOUR, 300 * SECOND),
)
"""All recordings, each with the length of its windows and of its epochs."""
