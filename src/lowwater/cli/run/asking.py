"""From settings to a query that can be started. Mistakes are found here, before anything runs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lowwater as lw
from lowwater.cli.run.settings import Settings
from lowwater.cli.run.sinks import OUTPUTS, TABLE, Target, check_folder, option, targets_of
from lowwater.cli.run.sources import Reading, streams_of
from lowwater.cli.sentences import prods_of, shed_of, sideline_of
from lowwater.errors import ShedWarning, SpecError
from lowwater.query import Assembly
from lowwater.query.adapting import refuse_unfed
from lowwater.query.estimates import estimates_of
from lowwater.query.running import asked_for
from lowwater.sources import Files, Replay
from lowwater.sources.formats import Format, row_count

HOSTS = ("spark", "local")


@dataclass(frozen=True)
class Asked:
    """A run, checked: the query, where its rows go, and how it is run."""

    query: lw.Stream
    assembly: Assembly
    targets: dict[str, Target]
    host: str
    checkpoint: Path | None
    resumed: bool
    notes: tuple[str, ...] = ()
    """What the user should know before it begins."""

    @property
    def shown(self) -> bool:
        """Whether results are a table on the screen."""
        return self.targets["sink"].form == TABLE


def query_of(settings: Settings) -> lw.Stream:
    """Return the query over its sources."""
    text = settings.text()
    if settings.epoch_rows is not None and settings.epoch_rows < 1:
        raise SpecError(f"--epoch-rows {settings.epoch_rows} must be at least 1")
    reading = Reading(settings.epoch_rows, settings.follow)
    streams = streams_of(settings.source, settings.sentence, reading)
    return lw.sql(text, **streams)


def explained(settings: Settings) -> str:
    """Say what a query means and how it is run."""
    query = query_of(settings)
    how = _policies(settings)
    return query.explain(sideline=how["sideline"], shed=how["shed"])


def asked_of(settings: Settings) -> Asked:
    """Check all of a run."""
    host = settings.host or HOSTS[0]
    if host not in HOSTS:
        raise SpecError(f"--host {host!r} is unknown; it is {' or '.join(HOSTS)}")
    if host == "local" and settings.checkpoint is not None:
        raise SpecError("--checkpoint needs --host spark: the local host keeps nothing")
    said = {name: getattr(settings, name) for name in OUTPUTS}
    targets = targets_of({**said, "sink": settings.sink or TABLE})
    how = _policies(settings)
    query = query_of(settings)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", ShedWarning)
        assembly = asked_for(query.assembly, **how)
    refuse_unfed(assembly)
    checkpoint = None if settings.checkpoint is None else Path(settings.checkpoint)
    resumed = checkpoint is not None and (checkpoint / "lowwater.json").exists()
    if checkpoint is not None:
        check_folder("--checkpoint", checkpoint)
    for name, target in targets.items():
        target.check(option(name), resumed=resumed)
    notes = tuple(str(one.message) for one in raised)
    return Asked(query, assembly, targets, host, checkpoint, resumed, notes)


def _policies(settings: Settings) -> dict[str, Any]:
    """Return what is asked of a run beyond its query, as `query.start` takes it."""
    asking = settings.prods or ("on demand" if settings.ui_control else None)
    estimate: Any = settings.estimate or "complete"
    estimates_of(estimate)
    return {
        "prods": None if asking is None else prods_of(asking),
        "estimate": estimate,
        "sideline": False if settings.sideline is None else sideline_of(settings.sideline),
        "shed": None if settings.shed is None else shed_of(settings.shed),
    }


def total_rows(query: lw.Stream) -> int | None:
    """Return how many rows there are to read, where all sources are files that are there."""
    found = [_files(s) for s in query.assembly.sources]
    return None if None in found else sum(row_count(*one) for some in found for one in some or ())


def _files(source: Any) -> list[tuple[Path, Format]] | None:
    if isinstance(source, Replay):
        return [(Path(source.path), source.format)]
    if isinstance(source, Files) and source.until is not None:
        return [(Path(source.path, name), source.format) for name in source.names("")]
    return None
