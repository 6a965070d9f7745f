"""From settings to a query that can be started. Mistakes are found here, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lowwater as lw
from lowwater.cli.run.settings import Settings
from lowwater.cli.run.sinks import TABLE, Target, targets_of
from lowwater.cli.run.sources import Reading, streams_of
from lowwater.cli.sentences import prods_of
from lowwater.errors import SpecError
from lowwater.query.estimates import estimates_of
from lowwater.query.prodding import prodded
from lowwater.sources import Replay

HOSTS = ("spark", "local")


@dataclass(frozen=True)
class Asked:
    """A run, checked: the query, where its rows go, and how it is run."""

    query: lw.Stream
    targets: dict[str, Target]
    host: str
    checkpoint: Path | None
    prods: Any
    estimate: Any
    resumed: bool
    bounded: bool
    """Whether all that there is to read is there already, and nobody waits for the clock."""

    @property
    def shown(self) -> bool:
        """Whether results are a table on the screen."""
        return self.targets["sink"].form == TABLE


def query_of(settings: Settings) -> tuple[lw.Stream, Reading]:
    """Return the query over its sources."""
    text = settings.text()
    if settings.epoch_rows is not None and settings.epoch_rows < 1:
        raise SpecError(f"--epoch-rows {settings.epoch_rows} must be at least 1")
    reading = Reading(settings.folder, settings.epoch_rows, settings.follow)
    streams = streams_of(settings.source, settings.progress, reading)
    return lw.sql(text, **streams), reading


def asked_of(settings: Settings, *, prods: str | None = None) -> Asked:
    """Check all of a run; `prods` stands in where the settings say nothing of them."""
    host = settings.host or HOSTS[0]
    if host not in HOSTS:
        raise SpecError(f"--host {host!r} is unknown; it is {' or '.join(HOSTS)}")
    if host == "local" and settings.checkpoint is not None:
        raise SpecError("--checkpoint needs --host spark: the local host keeps nothing")
    said = {"sink": settings.sink or TABLE, "late": settings.late, "malformed": settings.malformed}
    targets = targets_of(said, settings.folder)
    asking = settings.prods or prods
    policy = None if asking is None else prods_of(asking)
    estimate: Any = settings.estimate or "complete"
    estimates_of(estimate)
    query, reading = query_of(settings)
    prodded(query.assembly, policy, estimate)
    checkpoint = None if settings.checkpoint is None else settings.folder / settings.checkpoint
    resumed = checkpoint is not None and (checkpoint / "lowwater.json").exists()
    for name, target in targets.items():
        target.check(f"--{name}", resumed=resumed)
    return Asked(
        query, targets, host, checkpoint, policy, estimate, resumed, _bounded(query, reading)
    )


def _bounded(query: lw.Stream, reading: Reading) -> bool:
    sources = query.assembly.sources
    return not reading.follow and not any(s.paced for s in sources)


def total_rows(query: lw.Stream) -> int | None:
    """Return how many rows there are to read, where all sources are single files."""
    from lowwater.sources.formats import row_count

    sources = query.assembly.sources
    if not all(isinstance(s, Replay) for s in sources):
        return None
    return sum(row_count(Path(s.path), s.format) for s in sources)
