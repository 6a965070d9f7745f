"""Which resolver is slow? Quantiles and distinct hosts by group, with a quality target.

A network monitor writes a line for each DNS lookup when it is over, so lines come in the order of
ends, not of beginnings: a lookup that times out is written long after others that began later. How
long must a result wait? The target is 99 % of the lookups in their windows; Lowwater finds the
slack.

With LOWWATER_DATA=FOLDER a log of a real network, zeek_dns.parquet, is read from that folder.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import lowwater as lw

SCHEMA = "ts timestamp, client string, resolver string, answer_ms double"
EPOCH_US = 10_000_000
RESOLVERS = ("10.0.0.53", "1.1.1.1", "9.9.9.9", "192.168.7.1")
USUAL_MS = np.array([4, 18, 25, 60])


def recorded(folder: Path) -> tuple[pa.Table, np.ndarray]:
    """Return the lookups of a real log, and when each was written."""
    log = pq.read_table(folder / "zeek_dns.parquet").sort_by("arrival_us")
    rows = pa.table(
        {
            "ts": log["event_us"].cast(pa.timestamp("us", "UTC")),
            "client": log["orig_h"],
            "resolver": log["resp_h"],
            "answer_ms": pc.divide(log["rtt_us"].cast("double"), 1e3),
        }
    )
    return rows, log["arrival_us"].to_numpy()


def made_up(lookups: int = 9_000, seconds: float = 600) -> tuple[pa.Table, np.ndarray]:
    """Return lookups of ten minutes, and when each was written."""
    coins = np.random.default_rng(6)
    began = np.sort(coins.uniform(0, seconds, lookups)) * 1e6
    resolver = coins.choice(len(RESOLVERS), lookups, p=[0.6, 0.2, 0.15, 0.05])
    answer = coins.lognormal(np.log(USUAL_MS[resolver]), 0.6)
    # UDP has no end: a monitor waits a while for more before it calls a lookup over.
    waits = np.where(coins.random(lookups) < 0.2, coins.exponential(25, lookups), 0.2)
    written = began + answer * 1e3 + waits * 1e6
    order = np.argsort(written)
    rows = pa.table(
        {
            "ts": pa.array(began[order].astype("int64")).cast(pa.timestamp("us", "UTC")),
            "client": [f"10.0.{n >> 5}.{n & 31}" for n in coins.zipf(1.5, lookups) % 512],
            "resolver": np.array(RESOLVERS)[resolver[order]],
            "answer_ms": answer[order],
        }
    )
    return rows, written[order].astype("int64")


def epochs(rows: pa.Table, written: np.ndarray) -> list[pa.Table]:
    """Return the log in epochs of ten seconds."""
    number = (written - written[0]) // EPOCH_US
    ends = np.searchsorted(number, np.arange(number[-1] + 1), "right")
    return [rows.slice(a, b - a) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def ask(log: list[pa.Table], progress: object, host: str) -> lw.Outcome:
    """Run the query: the slowest twentieth, and how many clients, by resolver and minute."""
    feed = lw.feed(SCHEMA)
    lookups = lw.stream(feed, time="ts", watermark=progress)
    by_resolver = (
        lookups.window(range="1 minute")
        .group_by("resolver")
        .agg(
            lookups=lw.count(),
            clients=lw.count_distinct("client"),
            slow_ms=lw.quantile("answer_ms", 0.95),
        )
    )
    return by_resolver.run(epochs={feed: log}, host=host)


def share_in_time(out: lw.Outcome) -> float:
    """Return which share of the lookups was counted."""
    return 1 - out.status["late"] / out.status["in"]


def show(screen: Console, out: lw.Outcome) -> None:
    """Print the results of the busiest resolvers."""
    found: dict[str, list[dict]] = {}
    for row in out.results.to_pylist():
        found.setdefault(row["resolver"], []).append(row)
    busiest = sorted(found, key=lambda name: -sum(r["lookups"] for r in found[name]))[:6]
    table = Table(title="\nBy resolver, minute by minute", title_justify="left")
    for name in ("resolver", "lookups", "clients a minute, at most", "slowest 5 %, usual", "worst"):
        table.add_column(name, justify="left" if name == "resolver" else "right")
    for name in busiest:
        rows = found[name]
        slow = [r["slow_ms"] for r in rows if r["slow_ms"] is not None] or [float("nan")]
        table.add_row(
            name,
            f"{sum(r['lookups'] for r in rows):,}",
            str(max(r["clients"] for r in rows)),
            f"{np.median(slow):,.0f} ms",
            f"{max(slow):,.0f} ms",
        )
    screen.print(table)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", choices=["local", "spark"], default="local")
    host = parser.parse_args().host
    real = os.environ.get("LOWWATER_DATA")
    log = epochs(*(recorded(Path(real)) if real else made_up()))
    screen = Console()
    for name, span in (("no slack", "0 seconds"), ("slack of 5 minutes", "5 minutes")):
        out = ask(log, lw.slack(span), host)
        screen.print(f"{name:20} {share_in_time(out):7.2%} of the lookups in their windows")
    out = ask(log, lw.quality(0.99), host)
    told = out.status.quality["window"]
    slack = told.slack["input 1"].total_seconds()
    screen.print(
        f"{'quality of 0.99':20} {share_in_time(out):7.2%} of the lookups in their windows, "
        f"with a slack of {slack:.0f} seconds in the end"
    )
    show(screen, out)


if __name__ == "__main__":
    main()
