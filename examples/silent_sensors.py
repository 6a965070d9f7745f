"""What if sensors fall silent? Windows that wait for them, with and without `idle_timeout=`.

Six sensors send a reading every twenty seconds. The attic has an empty battery after two minutes;
the cellar loses its network for two minutes and then sends what it has kept.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from rich.console import Console

import lowwater as lw

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
SENSORS = ("attic", "bath", "cellar", "garage", "hall", "kitchen")
SHOWN = "hall"
STEPS, EVERY = 24, 20
BATTERY, LOST, BACK = 6, 9, 15
"""The steps at which the attic stops, and at which the cellar is lost and back."""


def sent(sensor: str, step: int) -> list[int]:
    """Return the steps whose readings a sensor sends in a step."""
    if sensor == "attic":
        return [step] if step < BATTERY else []
    if sensor == "cellar" and LOST <= step < BACK:
        return []
    return list(range(LOST, BACK + 1)) if sensor == "cellar" and step == BACK else [step]


def epochs() -> list[list[tuple]]:
    """Return the readings that arrive in each step."""
    return [
        [
            (NOON + timedelta(seconds=EVERY * at), sensor, 18.0 + SENSORS.index(sensor))
            for sensor in SENSORS
            for at in sent(sensor, step)
        ]
        for step in range(STEPS)
    ]


def closed(progress: object, host: str, *groups: str) -> tuple[lw.Outcome, dict]:
    """Run the query; return its outcome and the step in which each window closed."""
    feed = lw.feed("ts timestamp, sensor string, value double")
    readings = lw.stream(feed, time="ts", watermark=progress)
    query = readings.window(range="1 minute").group_by(*groups).agg(n=lw.count())
    steps: dict = {}

    def note(epoch: int, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            if row.get("sensor", SHOWN) == SHOWN:
                steps[row["window"]["start"]] = epoch

    clock = lw.VirtualClock(NOON, per_epoch=f"{EVERY} seconds")
    out = query.run(epochs={feed: epochs()}, host=host, clock=clock, sink=lw.to_callback(note))
    return out, steps


def show(screen: Console, title: str, out: lw.Outcome, steps: dict) -> None:
    """Draw when each window closed: a dot for every step of waiting."""
    screen.print(f"\n[bold]{title}[/bold]")
    for start, step in sorted(steps.items()):
        wait = step - int((start - NOON).total_seconds() // EVERY) - 60 // EVERY
        known = "at the end of the stream" if step >= STEPS else f"{wait * EVERY} s"
        screen.print(f"{start:%H:%M} {'·' * wait}● {known}", highlight=False)
    screen.print(f"late rows: {out.status['late']}", highlight=False)


def main() -> None:
    """Run with and without `idle_timeout`, for all sensors together and for each by itself."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", choices=["local", "spark"], default="local")
    host, screen = parser.parse_args().host, Console()
    each = lw.slack("5 seconds")
    screen.print("How long after its end is the result of a minute known?")
    show(screen, "every sensor counts for ever", *closed(lw.per_source("sensor", each), host))
    idle = lw.per_source("sensor", lw.slack("5 seconds", idle_timeout="40 seconds"))
    show(screen, "a sensor is idle after 40 seconds", *closed(idle, host))
    alone = closed(lw.per_source("sensor", each), host, "sensor")
    show(screen, f"results by sensor, each by its own mark: the {SHOWN}", *alone)


if __name__ == "__main__":
    main()
