"""What a run was asked for: on the command line, in a TOML file, or both."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from lowwater.errors import SpecError, unknown_name

FILES = (".toml",)


@dataclass(frozen=True)
class Settings:
    """A run, as it was asked for. Names are those of the options."""

    query: str
    source: tuple[str, ...] = ()
    progress: str | None = None
    sink: str | None = None
    late: str | None = None
    malformed: str | None = None
    checkpoint: str | None = None
    prods: str | None = None
    estimate: str | None = None
    host: str | None = None
    epoch_rows: int | None = None
    follow: bool = False
    folder: Path = field(default_factory=Path)
    """What paths in the settings are relative to."""

    def text(self) -> str:
        """Return the text of the query: of a file, or as it was given."""
        words = self.query.split(maxsplit=1)
        if len(words) > 1 and words[0].lower().lstrip("(") == "select":
            return self.query
        return _read(self.folder / self.query, "the query")


def settings_of(options: dict[str, Any]) -> Settings:
    """Return the settings of a command line; those of a file stand behind them."""
    query, known = options["query"], {f.name for f in fields(Settings)} - {"query", "folder"}
    said: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
        if name in known and value not in (None, False, [])
    }
    if Path(query).suffix in {".yaml", ".yml"}:
        raise SpecError(f"{query!r}: settings are read from TOML; write them in a .toml file")
    if Path(query).suffix not in FILES:
        return Settings(query, **said)
    return replace(_from_file(Path(query)), **said)


def _from_file(path: Path) -> Settings:
    try:
        found = tomllib.loads(_read(path, "the settings"))
    except tomllib.TOMLDecodeError as problem:
        raise SpecError(f"{str(path)!r} is no TOML: {problem}") from problem
    known = [f.name for f in fields(Settings) if f.name != "folder"]
    for name in found:
        if name not in known:
            told = str(unknown_name("setting", name, known))
            raise SpecError(told.replace("is not in the stream; it has", "is unknown; these are"))
    if "query" not in found:
        raise SpecError(f"{str(path)!r} has no query; give its text, or a file with it")
    found["source"] = _sources(found.get("source", {}), path)
    for name in ("progress", "sink", "late", "malformed", "checkpoint", "query", "prods", "host"):
        if not isinstance(found.get(name, ""), str):
            raise SpecError(f"{str(path)!r}: {name} = {found[name]!r} must be text")
    return Settings(**found, folder=path.parent)


def _sources(found: Any, path: Path) -> tuple[str, ...]:
    """Return sources as the command line has them."""
    if not isinstance(found, dict) or not all(isinstance(v, str | dict) for v in found.values()):
        raise SpecError(
            f"{str(path)!r}: sources are tables, [source.NAME] with path = …, or NAME = 'path'"
        )
    told = []
    for name, said in found.items():
        options = {"path": said} if isinstance(said, str) else dict(said)
        if "path" not in options:
            raise SpecError(f"{str(path)!r}: [source.{name}] has no path")
        rest = "".join(
            f",{option}={value}" for option, value in options.items() if option != "path"
        )
        told.append(f"{name}={options['path']}{rest}")
    return tuple(told)


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise SpecError(f"{what} {str(path)!r} cannot be read: {reason}") from problem
    except UnicodeDecodeError as problem:
        raise SpecError(f"{what} {str(path)!r} is no text in UTF-8") from problem
