"""The settings of a run, read from the command line and a file, and checked before the run."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import lowwater as lw
from lowwater.cli.policy_text import early_of, need_of, restart_of, shed_of, sideline_of
from lowwater.cli.run.query_text import SUFFIXES, is_text, query_text, read_text
from lowwater.cli.run.recordings import Playback
from lowwater.cli.run.sinks import OUTPUTS, TABLE, Target, check_folder, option, targets_of
from lowwater.cli.run.sources import ReadOptions, streams_of
from lowwater.early.estimates import estimates_of
from lowwater.engine.pending_outputs import Ahead
from lowwater.engine.restart import Restart
from lowwater.errors import ShedWarning, SpecError
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.planner.quality import refuse_unfed
from lowwater.query.options import HostName, RunOptions
from lowwater.sinks.sink import Existing
from lowwater.sources.files import Files
from lowwater.sources.formats import Format, row_count
from lowwater.sources.replay import Replay


@dataclass(frozen=True)
class Settings:
    """The settings of a run as the user wrote them; the fields have the names of the options."""

    query: str | None = None
    source: tuple[str, ...] = ()
    arrival: str | None = None
    epoch: str | None = None
    watermark: str | None = None
    quality: str | None = None
    # Addresses of outputs may hold passwords.
    sink: str | None = field(default=None, repr=False)
    late: str | None = field(default=None, repr=False)
    malformed: str | None = field(default=None, repr=False)
    dropped: str | None = field(default=None, repr=False)
    bad_files: str | None = field(default=None, repr=False)
    existing: str | None = None
    outputs: str | None = None
    checkpoint: str | None = None
    early: str | None = None
    estimate: str | None = None
    sideline: str | None = None
    shed: str | None = None
    need: str | None = None
    restart: str | None = None
    host: str | None = None
    epoch_rows: int | None = None
    follow: bool = False
    ui: bool = False
    ui_control: bool = False
    ui_port: int | None = None
    json: bool = False

    def text(self) -> str:
        """Return the text of the query: `query` itself, or the content of the file `query`."""
        if self.query is None:
            raise SpecError("QUERY is missing; give its text, or the name of a .cql file, as QUERY")
        return query_text(self.query)

    @property
    def watermark_text(self) -> str | None:
        """The watermark policy as text, from --watermark or --quality."""
        if self.quality is None:
            return self.watermark
        if self.watermark is not None:
            both = "--watermark and --quality both set how long windows wait for late rows"
            raise SpecError(f"{both}; give one of them")
        number = self.quality.lstrip()[:1].isdigit()
        return f"quality {self.quality}" if number else f"quality, {self.quality}"


NAMES = tuple(f.name for f in fields(Settings))
RENAMED = {"progress": "watermark", "prods": "early", "left_out": "dropped"}
"""Settings of earlier versions, with the settings that replaced them."""
_FLAGS = ("follow", "ui", "ui_control", "json")
_NUMBERS = ("epoch_rows", "ui_port")


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Return the settings from `options`, which override the settings in the file `--config`."""
    config = options.get("config")
    settings = Settings() if config is None else _from_file(Path(config))
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
        if name in NAMES and value not in (None, [])
    }
    return replace(settings, **given)


def _from_file(path: Path) -> Settings:
    if path.suffix not in SUFFIXES:
        problem = "the ending must show its format; name it .toml or .yaml"
        raise SpecError(f"--config {str(path)!r}: {problem}")
    content = _parse(path, read_text(path, "the settings", "name an existing file"))
    if not isinstance(content, dict):
        raise SpecError(f"{str(path)!r} has no settings; write each on a line, as NAME: VALUE")
    given = {}
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name not in NAMES:
            raise SpecError(f"{str(path)!r}: {_unknown(str(key))}")
        if value is not None:
            given[name] = _resolve_paths(path.parent, name, _checked(path, name, value))
    return Settings(**given)


def _parse(path: Path, text: str) -> Any:
    import yaml

    try:
        return tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except tomllib.TOMLDecodeError as problem:
        raise SpecError(f"{str(path)!r} is not valid TOML: {problem}") from problem
    except yaml.YAMLError as problem:
        # The text of the error quotes a line of the file, which may hold a password.
        mark = getattr(problem, "problem_mark", None)
        place = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        reason = getattr(problem, "problem", None) or "it cannot be parsed"
        raise SpecError(f"{str(path)!r} is not valid YAML: {reason}{place}") from None
    except (ValueError, RecursionError) as problem:  # a date or a number that cannot exist
        raise SpecError(f"{str(path)!r} has a value that cannot be read: {problem}") from problem


def _unknown(key: str) -> str:
    name = key.replace("-", "_")
    if name in RENAMED:
        return f"{key!r} is now {RENAMED[name]!r}"
    close = get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"settings are: {', '.join(NAMES)}"
    return f"{key!r} is not a setting; {hint}"


def _checked(path: Path, name: str, value: Any) -> Any:
    """Return the `value` of the setting `name`; raise SpecError if it has the wrong type."""
    if name == "source":
        return _sources(value, path)
    kind: type = bool if name in _FLAGS else int if name in _NUMBERS else str
    wanted = {bool: "true or false", int: "a whole number", str: "text"}[kind]
    if name in ("quality", "epoch") and type(value) in (int, float):
        value = str(value)
    if type(value) is not kind:
        # A list or table for an output may hold a password.
        shown = "…" if name in OUTPUTS and isinstance(value, list | dict) else repr(value)
        raise SpecError(f"{str(path)!r}: {name} = {shown} must be {wanted}")
    return value


def _resolve_paths(folder: Path, name: str, value: Any) -> Any:
    """Return `value` with relative paths resolved in `folder`, the folder of the settings file."""
    if name == "checkpoint" or (name == "query" and not is_text(value)):
        return str(folder / value)
    if name in OUTPUTS:
        form, colon, place = value.partition(":")
        fixed = place in ("", "-") or form == "postgres"
        return value if fixed else f"{form}{colon}{folder / place}"
    if name != "source":
        return value
    named = [(one.partition("=")[0], one.partition("=")[2]) for one in value]
    return tuple(f"{n}={p if p == '-' or p[:2] == '-,' else folder / p}" for n, p in named)


def _sources(given: object, path: Path) -> tuple[str, ...]:
    """Return the sources of a settings file as texts for `--source`."""
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return tuple(given)
    if not isinstance(given, dict) or not all(isinstance(v, str | dict) for v in given.values()):
        raise SpecError(
            f"{str(path)!r}: source = {given!r} must map the name of each stream to its path, or "
            f"to a table of path, time and the other options of --source"
        )
    sources = []
    for name, value in given.items():
        options = {"path": value} if isinstance(value, str) else dict(value)
        if "path" not in options:
            raise SpecError(f"{str(path)!r}: source {name!r} has no path; add path = '…'")
        rest = "".join(f",{option}={v}" for option, v in options.items() if option != "path")
        sources.append(f"{name}={options['path']}{rest}")
    return tuple(sources)


HOSTS: tuple[HostName, ...] = ("spark", "local")


@dataclass(frozen=True)
class RunRequest:
    """A run that is checked and can start: the query, its sinks, and its host."""

    query: lw.Stream
    assembly: PhysicalPlan
    targets: dict[str, Target]
    host: HostName
    checkpoint: Path | None
    resumed: bool
    existing: Existing | None = None
    outputs: Ahead | None = None
    restart: Restart | None = None
    notes: tuple[str, ...] = ()
    """Warnings that are printed before the run starts."""

    @property
    def playback(self) -> Playback | None:
        """How the recordings of the run are played; None unless all sources are recordings."""
        return Playback.of(self.assembly.sources)

    @property
    def shows_table(self) -> bool:
        """Whether results are printed as a table."""
        return self.targets["sink"].form == TABLE


def query_of(settings: Settings) -> lw.Stream:
    """Return the query that `settings` describe, with its sources."""
    text = settings.text()
    if settings.epoch_rows is not None and settings.epoch_rows < 1:
        raise SpecError(f"--epoch-rows {settings.epoch_rows} must be at least 1")
    read_options = ReadOptions(
        settings.epoch_rows, settings.follow, settings.arrival, settings.epoch
    )
    streams = streams_of(
        settings.source, settings.watermark_text, read_options, needed=settings.need is None
    )
    return lw.sql(text, **streams)


def explain_text(settings: Settings) -> str:
    """Return the text of `query.explain()` for the query of `settings`."""
    query, policies = query_of(settings), _policies(settings)
    return query.explain(
        sideline=policies["sideline"],
        shed=policies["shed"],
        early=policies["early"] if settings.need is not None else None,
        need=policies["need"],
    )


def run_request(settings: Settings) -> RunRequest:
    """Return the run that `settings` describe; raise SpecError if a setting cannot work."""
    host = next((name for name in HOSTS if name == (settings.host or HOSTS[0])), None)
    if host is None:
        raise SpecError(f"--host {settings.host!r} is unknown; write {' or '.join(HOSTS)}")
    sinks = {name: getattr(settings, name) for name in OUTPUTS}
    targets = targets_of({**sinks, "sink": settings.sink or TABLE})
    policies = _policies(settings)
    query = query_of(settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShedWarning)
        assembly = query.planned(RunOptions(**policies))
    refuse_unfed(assembly)
    checkpoint = None if settings.checkpoint is None else Path(settings.checkpoint)
    resumed = checkpoint is not None and (checkpoint / "lowwater.json").exists()
    if checkpoint is not None:
        check_folder("--checkpoint", checkpoint)
    for name, target in targets.items():
        target.check(option(name), allowed=resumed or settings.existing is not None)
    notes = tuple(str(one.message) for one in caught)
    existing = _one_of(settings.existing, "--existing", ("append", "overwrite"))
    if existing is not None and all(target.printed for target in targets.values()):
        raise SpecError("--existing is for stored results, but all go to standard output")
    outputs = _one_of(settings.outputs, "--outputs", ("truncate", "keep"))
    restart = None if settings.restart is None else restart_of(settings.restart)
    if restart is not None and checkpoint is None:
        raise SpecError("--restart needs a checkpoint to continue from; give --checkpoint FOLDER")
    if outputs is not None and checkpoint is None:
        raise SpecError("--outputs is for a checkpoint that went back; give --checkpoint FOLDER")
    chosen = existing, outputs, restart, notes
    return RunRequest(query, assembly, targets, host, checkpoint, resumed, *chosen)


def _one_of(value: Any, option: str, known: tuple[str, ...]) -> Any:
    """Return `value`; raise SpecError unless it is None or one of the `known` words."""
    if value is not None and value not in known:
        raise SpecError(f"{option} {value!r} is unknown; write {' or '.join(known)}")
    return value


def _policies(settings: Settings) -> dict[str, Any]:
    """Return the policies in `settings`, as keyword arguments for `query.start`."""
    early = settings.early or ("on demand" if settings.ui_control else None)
    estimate: Any = settings.estimate or "complete"
    estimates_of(estimate)
    return {
        "early": None if early is None else early_of(early),
        "estimate": estimate,
        "sideline": False if settings.sideline is None else sideline_of(settings.sideline),
        "shed": None if settings.shed is None else shed_of(settings.shed),
        "need": None if settings.need is None else need_of(settings.need),
    }


def total_rows(assembly: PhysicalPlan) -> int | None:
    """Return the number of rows in all sources; None if a source is not a fixed set of files."""
    sources = [_files(s) for s in assembly.sources]
    if None in sources:
        return None
    return sum(row_count(*one) for files in sources for one in files or ())


def _files(source: object) -> list[tuple[Path, Format]] | None:
    if isinstance(source, Replay):
        return [(Path(source.path), source.format)]
    if isinstance(source, Files) and source.until is not None:
        return [(Path(source.path, name), source.format) for name in source.until]
    return None
