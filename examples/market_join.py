"""Do prices of two assets move together? Two disordered feeds, joined with a quality target.

Each feed brings prices of several venues, out of order by tens of milliseconds. Quotes of the same
venue within 20 ms are pairs. With `quality=0.95` the join keeps rows just long enough for 95 % of
the pairs; no row waits to be in order.

With LOWWATER_DATA=FOLDER a recorded feed, market_feed.parquet, is read from that folder.
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

SCHEMA = "ts timestamp, venue string, price double"
BAND = ("-20 milliseconds", "20 milliseconds")
EPOCH_MS, SECONDS = 50, 4
Feeds = tuple[list[pa.Table], list[pa.Table]]


def recorded(folder: Path) -> Feeds:
    """Return the first seconds of a real feed: the prices of BTC and of ETH."""
    feed = pq.read_table(folder / "market_feed.parquet")
    feed = feed.filter(pc.is_valid(feed["price"]))
    arrived = feed["arrival_ns"].to_numpy() // 1_000_000
    since = (arrived - arrived.min()) // EPOCH_MS
    rows = pa.table(
        {
            "ts": pc.multiply(feed["event_ms"].cast("int64"), 1_000).cast(
                pa.timestamp("us", "UTC")
            ),
            "venue": feed["venue"].cast("string"),
            "price": feed["price"].cast("double"),
        }
    )
    assets = feed["asset"].to_pandas().to_numpy()
    btc, eth = (_cut(rows, since, assets == asset) for asset in ("BTC", "ETH"))
    return btc, eth


def made_up(a_second: int = 200) -> Feeds:
    """Return two feeds: prices of three venues, most within 10 ms, some 400 ms late."""
    coins = np.random.default_rng(8)
    walk = np.cumsum(coins.normal(0, 1, SECONDS * 1_000))
    made = []
    for base, step in ((60_000.0, 6.0), (3_000.0, 0.4)):
        n = a_second * SECONDS
        ms = np.sort(coins.integers(0, SECONDS * 1_000, n))
        late = np.where(coins.random(n) < 0.2, coins.uniform(0, 400, n), coins.exponential(6, n))
        order = np.argsort(ms + late)
        rows = pa.table(
            {
                "ts": pa.array(ms[order] * 1_000).cast(pa.timestamp("us", "UTC")),
                "venue": np.array(["a", "b", "c"])[coins.integers(0, 3, n)],
                "price": base + step * (walk[ms[order]] + coins.normal(0, 4, n)),
            }
        )
        made.append(_cut(rows, ((ms + late)[order] // EPOCH_MS).astype(int)))
    return made[0], made[1]


def _cut(rows: pa.Table, since: np.ndarray, chosen: np.ndarray | None = None) -> list[pa.Table]:
    """Return a feed in epochs of a tenth of a second."""
    chosen = np.ones(len(rows), bool) if chosen is None else chosen
    return [
        rows.filter(pa.array(chosen & (since == n))) for n in range(SECONDS * 1_000 // EPOCH_MS)
    ]


def ask(feeds: Feeds, host: str, **how: object) -> lw.Outcome:
    """Join the feeds and relate the prices of the pairs of each second."""
    one, two = lw.feed(SCHEMA), lw.feed(SCHEMA)
    watermark = how.pop("watermark", None)
    btc, eth = (lw.stream(feed, time="ts", watermark=watermark) for feed in (one, two))
    pairs = btc.join(eth, on="venue", band=BAND, time="max", **how)
    ratios = (
        pairs.with_columns(ratio="price / price_other")
        .window(range="1 second")
        .agg(pairs=lw.count(), ratio=lw.avg("ratio"))
    )
    return ratios.run(epochs=dict(zip((one, two), feeds, strict=True)), host=host)


def pairs_of(out: lw.Outcome) -> int:
    """Return the number of pairs."""
    return pc.sum(out.results["pairs"]).as_py()


def main() -> None:
    """Compare ways to wait, and print the ratios of prices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", choices=["local", "spark"], default="local")
    host = parser.parse_args().host
    real = os.environ.get("LOWWATER_DATA")
    feeds = recorded(Path(real)) if real else made_up()
    screen = Console()
    table = Table(title="Pairs of quotes within 20 ms", title_justify="left")
    for name in ("how", "pairs", "of all", "slack, BTC", "slack, ETH"):
        table.add_column(name, justify="left" if name == "how" else "right")
    at_once = tuple([pa.concat_tables(feed)] for feed in feeds)  # no row is late in one epoch
    every = pairs_of(ask(at_once, host, watermark=lw.ordered()))
    plain = pairs_of(ask(feeds, host, watermark=lw.ordered()))
    out = ask(feeds, host, quality=0.95)
    good, join = pairs_of(out), out.status.quality["join"]
    slacks = [f"{span.total_seconds() * 1e3:.0f} ms" for span in join.slack.values()]
    table.add_row("all there are", f"{every:,}", "100.0%", "", "")
    table.add_row("as if in order", f"{plain:,}", f"{plain / every:.1%}", "0 ms", "0 ms")
    table.add_row("quality=0.95", f"{good:,}", f"{good / every:.1%}", *slacks)
    screen.print(table)
    screen.print("\n[bold]BTC / ETH, second by second[/bold]")
    for row in out.results.slice(0, 5).to_pylist():
        screen.print(
            f"{row['window']['start']:%H:%M:%S}  {row['ratio']:.4f}  over {row['pairs']} pairs"
        )


if __name__ == "__main__":
    main()
