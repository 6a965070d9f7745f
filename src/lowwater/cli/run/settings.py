"""What a run was asked for: on the command line, in a file of settings, or both."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lowwater.errors import SpecError

SUFFIXES = (".toml", ".yaml", ".yml")


@dataclass(frozen=True)
class Settings:
    """A run, as it was asked for. Names are those of the options."""

    query: str | None = None
    source: tuple[str, ...] = ()
    progress: str | None = None
    quality: str | None = None
    sink: str | None = None
    late: str | None = None
    malformed: str | None = None
    left_out: str | None = None
    checkpoint: str | None = None
    prods: str | None = None
    estimate: str | None = None
    sideline: str | None = None
    shed: str | None = None
    host: str | None = None
    epoch_rows: int | None = None
    follow: bool = False
    ui: bool = False
    ui_control: bool = False
    ui_port: int | None = None
    json: bool = False

    def text(self) -> str:
        """Return the text of the query: of a file, or as it was given."""
        if self.query is None:
            raise SpecError("there is no query; give its text, or a file with it, as QUERY")
        if _is_text(self.query):
            return self.query
        if Path(self.query).suffix in SUFFIXES:
            raise SpecError(f"{self.query!r} is no query; give settings with --config {self.query}")
        return _read(Path(self.query), "the query")

    @property
    def sentence(self) -> str | None:
        """How progress is known; a quality target is one way."""
        if self.quality is None:
            return self.progress
        if self.progress is not None:
            raise SpecError(
                "--progress and --quality both say how long is waited for late rows; leave one out"
            )
        number = self.quality.lstrip()[:1].isdigit()
        return f"quality {self.quality}" if number else f"quality, {self.quality}"


NAMES = tuple(f.name for f in fields(Settings))
_FLAGS = ("follow", "ui", "ui_control", "json")
_NUMBERS = ("epoch_rows", "ui_port")
_SINKS = ("sink", "late", "malformed", "left_out")


def _is_text(query: str) -> bool:
    """Say whether a query is given itself, and not the name of a file."""
    words = query.split(maxsplit=1)
    return len(words) > 1 and words[0].lower().lstrip("(") == "select"


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Return the settings of a command line; those of a file stand behind them."""
    config = options.get("config")
    settings = Settings() if config is None else _from_file(Path(config))
    said: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
        if name in NAMES and value not in (None, [])
    }
    return replace(settings, **said)


def _from_file(path: Path) -> Settings:
    if path.suffix not in SUFFIXES:
        raise SpecError(
            f"--config {str(path)!r}: the ending does not tell what it is; name it .toml or .yaml"
        )
    text = _read(path, "the settings")
    found = _toml(path, text) if path.suffix == ".toml" else _yaml(path, text)
    if not isinstance(found, dict):
        raise SpecError(f"{str(path)!r} has no settings; write them as NAME: VALUE, one a line")
    given = {}
    for key, value in found.items():
        name = str(key).replace("-", "_")
        if name not in NAMES:
            raise SpecError(f"{str(path)!r}: {_unknown(str(key))}")
        if value is not None:
            given[name] = _placed(path.parent, name, _checked(path, name, value))
    return Settings(**given)


def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise SpecError(f"{str(path)!r} is no TOML: {problem}") from problem


def _yaml(path: Path, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as problem:
        said = " ".join(str(problem).split())
        raise SpecError(f"{str(path)!r} is no YAML: {said}") from problem


def _unknown(key: str) -> str:
    close = get_close_matches(key.replace("-", "_"), NAMES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"these are: {', '.join(NAMES)}"
    return f"{key!r} is no setting; {hint}"


def _checked(path: Path, name: str, value: Any) -> Any:
    """Return the value of a setting, of the type that its option has."""
    if name == "source":
        return _sources(value, path)
    kind: type = bool if name in _FLAGS else int if name in _NUMBERS else str
    wanted = {bool: "true or false", int: "a whole number", str: "text"}[kind]
    if name == "quality" and isinstance(value, float):
        value = str(value)
    if type(value) is not kind:
        raise SpecError(f"{str(path)!r}: {name} = {value!r} must be {wanted}")
    return value


def _placed(folder: Path, name: str, value: Any) -> Any:
    """Return a setting whose paths begin where the file is."""
    if name == "checkpoint" or (name == "query" and not _is_text(value)):
        return str(folder / value)
    if name in _SINKS:
        form, colon, place = value.partition(":")
        return (
            value if place in ("", "-") or form == "postgres" else f"{form}{colon}{folder / place}"
        )
    if name != "source":
        return value
    named = [(one.partition("=")[0], one.partition("=")[2]) for one in value]
    return tuple(f"{n}={p if p == '-' or p[:2] == '-,' else folder / p}" for n, p in named)


def _sources(found: Any, path: Path) -> tuple[str, ...]:
    """Return sources as the command line has them."""
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return tuple(found)
    if not isinstance(found, dict) or not all(isinstance(v, str | dict) for v in found.values()):
        raise SpecError(
            f"{str(path)!r}: source must have the streams of the query by their names, each with "
            f"a path, or with path, time and so on below it"
        )
    told = []
    for name, said in found.items():
        options = {"path": said} if isinstance(said, str) else dict(said)
        if "path" not in options:
            raise SpecError(f"{str(path)!r}: source {name!r} has no path; give it one")
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
