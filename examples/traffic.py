"""How fast is traffic? Sliding windows, rows that come late, and answers before a window ends.

Detectors at three segments of a road send a reading a car. Most are sent within seconds; some are
delayed by minutes. The query returns speeds over 15 minutes, every five, and an early result
before.

    python examples/traffic.py                    # the query, to the end of two hours
    python examples/traffic.py --write readings   # only the readings, as files of a stream
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import lowwater as lw

SCHEMA = "ts timestamp, segment int, speed double"
START = np.datetime64("2024-05-01T12:00:00", "us")
END = pa.scalar(START + np.timedelta64(2, "h")).cast(pa.timestamp("us", "UTC"))
SEGMENTS = 3
BARS = "▁▂▃▄▅▆▇█"


def readings(cars: int = 7_200, seconds: float = 7_200, seed: int = 1) -> list[pa.Table]:
    """Return the readings of each minute, in the order in which they arrive."""
    coins = np.random.default_rng(seed)
    happened = np.sort(coins.uniform(0, seconds, cars))
    segment = coins.integers(1, SEGMENTS + 1, cars)
    # A jam, which begins at the first segment and moves on.
    jam = 40 * np.exp(-(((happened - 2_400 - 900 * segment) / 900) ** 2))
    speed = np.round(coins.normal(62, 7, cars) - jam, 1)
    lies_about = coins.random(cars) < 0.04
    delay = np.where(lies_about, coins.uniform(30, 400, cars), coins.exponential(4, cars))
    order = np.argsort(happened + delay)
    minute = ((happened + delay)[order] // 60).astype(int)
    rows = pa.table(
        {
            "ts": pa.array(START + (happened[order] * 1e6).astype("timedelta64[us]")),
            "segment": pa.array(segment[order], pa.int32()),
            "speed": speed[order],
        }
    )
    return [rows.filter(pa.array(minute == m)) for m in range(minute.max() + 1)]


def write(folder: Path) -> None:
    """Write the readings as files of JSON, one for every five minutes."""
    folder.mkdir(parents=True, exist_ok=True)
    minutes = readings()
    for first in range(0, len(minutes), 5):
        rows = pa.concat_tables(minutes[first : first + 5]).to_pandas()
        target = folder / f"{first:03}.json"
        rows.to_json(target, orient="records", lines=True, date_format="iso", date_unit="us")
        # Spark reads files in the order in which they were changed, to the millisecond.
        os.utime(target, (first, first))
    print(f"{len(list(folder.glob('*.json')))} files of readings in {folder}")


def ask(host: str) -> lw.Outcome:
    """Run the query under a clock on which a minute passes with each epoch."""
    feed = lw.feed(SCHEMA)
    traffic = lw.stream(feed, time="ts", watermark=lw.slack("1 minute"))
    speeds = (
        traffic.window(range="15 minutes", slide="5 minutes")
        .group_by("segment")
        .agg(speed=lw.avg("speed"), slowest=lw.min("speed"), cars=lw.count())
    )
    return speeds.run(
        epochs={feed: readings()},
        host=host,
        early=lw.early_before(0.4),  # two minutes before each window ends
        clock=lw.VirtualClock(str(START + np.timedelta64(1, "m")), per_epoch="1 minute"),
    )


def show(out: lw.Outcome) -> None:
    """Print the speeds, the early results beside the final ones, and the late rows."""
    screen, results = (
        Console(),
        out.results.sort_by([("wid", "ascending"), ("segment", "ascending")]),
    )
    finals = results.filter(pc.equal(results["kind"], "final"))
    early = results.filter(pc.equal(results["kind"], "early"))
    screen.print("\n[bold]Mean speed over 15 minutes, every five minutes of two hours[/bold]")
    for segment in range(1, SEGMENTS + 1):
        speeds = finals.filter(pc.equal(finals["segment"], segment))["speed"].to_numpy()
        scaled = np.clip((speeds - 20) / 45 * len(BARS), 0, len(BARS) - 1).astype(int)
        screen.print(
            f"segment {segment}  {''.join(BARS[i] for i in scaled)}  least {speeds.min():.0f}"
        )
    screen.print(_compared(early, finals))
    status = out.status
    right = status.accuracy["cars"]
    screen.print(f"First answers were {right.mean:.1%} right about the number of cars.")
    screen.print(
        f"{status['in']:,} readings: {status['late']} came too late for all their windows, "
        f"{status['partly_late']} for some of them."
    )


def _compared(early: pa.Table, finals: pa.Table) -> Table:
    """Lay out the newest first answers with the final ones."""
    known = {(row["wid"], row["segment"]): row for row in finals.to_pylist()}
    table = Table(title="\nTwo minutes before the end, and when it was known", title_justify="left")
    for name in ("window", "segment", "cars, early", "between", "final", "speed, early", "final"):
        table.add_column(name, justify="left" if name == "window" else "right")
    ended = early.filter(pc.less_equal(pc.struct_field(early["window"], "end"), END))
    for row in ended.to_pylist()[-2 * SEGMENTS :]:
        window, final = row["window"], known[row["wid"], row["segment"]]
        table.add_row(
            f"{window['start']:%H:%M}–{window['end']:%H:%M}",
            str(row["segment"]),
            str(row["cars"]),
            f"{row['low']['cars']:.0f}–{row['high']['cars']:.0f}",
            str(final["cars"]),
            f"{row['speed']:.1f}",
            f"{final['speed']:.1f}",
        )
    return table


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", choices=["local", "spark"], default="local")
    parser.add_argument("--write", metavar="FOLDER", type=Path, help="write the readings and stop")
    options = parser.parse_args()
    if options.write:
        write(options.write)
    else:
        show(ask(options.host))


if __name__ == "__main__":
    main()
