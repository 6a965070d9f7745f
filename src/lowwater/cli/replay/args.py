"""The options that describe a query over recordings, for `lowwater profile` and `lowwater try`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from lowwater.cli.replay.read import Recording, read_recording
from lowwater.cli.run.query_text import query_text
from lowwater.cli.run.source_args import SourceArgs
from lowwater.cql.dialect import parse
from lowwater.errors import SpecError


@dataclass(frozen=True)
class QueryArgs:
    """The options of a profile that describe a query.

    `query` is a text or a file. `range`, `slide` and `by` describe a query that counts rows. With
    `early`, early values are measured, too.
    """

    query: str | None = None
    range: str | None = None
    slide: str | None = None
    by: str | None = None
    epoch: str | None = None
    early: bool = True

    @property
    def given(self) -> bool:
        """Whether a query is described; raise SpecError if it is described in part, or twice."""
        extra = [n for n in ("slide", "by", "epoch") if getattr(self, n) is not None]
        if self.query is None and self.range is None:
            if extra:
                raise SpecError(
                    f"--{extra[0]} is for a query; give one with --query, or the length of its "
                    f"windows with --range"
                )
            return False
        if self.query is not None and (self.range or self.slide or self.by):
            raise SpecError(
                "--query and --range both describe windows; give --query alone, or --range with "
                "--slide and --by"
            )
        return True

    def text(self) -> str:
        """Return the text of the query."""
        if self.query is not None:
            return query_text(self.query)
        assert self.range is not None  # noqa: S101
        return counting_query("s", self.range, self.slide, self.by)


def stream_names(text: str) -> list[str]:
    """Return the names of the streams that the text of a query reads.

    >>> stream_names("SELECT count(*) AS n FROM cars [RANGE 1 minute]")
    ['cars']
    """
    return sorted({table.name for table in parse(text).find_all(exp.Table) if table.name})


def counting_query(name: str, range: str, slide: str | None, by: str | None) -> str:
    """Return the text of a query that counts rows in windows, by the columns `by`.

    >>> counting_query("s", "1 minute", None, "page, host")
    'SELECT page, host, count(*) AS rows FROM s [RANGE 1 minute] GROUP BY page, host'
    """
    sliding = f" SLIDE {slide}" if slide else ""
    columns = "" if by is None else f"{by}, "
    grouped = "" if by is None else f" GROUP BY {by}"
    window = f"{name} [RANGE {range}{sliding}]"
    return f"SELECT {columns}count(*) AS rows FROM {window}{grouped}"  # noqa: S608  # CQL


def recordings_of(
    text: str, file: Path | None, sources: Sequence[str], options: Mapping[str, str]
) -> list[Recording]:
    """Return the recordings of a query: `file`, or one for each text of `--source`.

    `options` are those of `file`; the column of arrival also applies to other sources.
    """
    names = stream_names(text)
    if file is not None and sources:
        raise SpecError("FILE and --source both name the recording; give one of them")
    if file is not None:
        if len(names) != 1:
            raise SpecError(
                f"the query reads {len(names)} streams ({', '.join(names)}), but FILE is one; "
                f"name a file for each, as in --source {names[0]}={file}"
            )
        return [read_recording(SourceArgs(names[0], str(file), dict(options)))]
    if not sources:
        raise SpecError("the recording is missing; name a file, as in lowwater try readings.csv")
    alone = sorted({"time", "format"} & options.keys())
    if alone:
        raise SpecError(
            f"--{alone[0]} is for FILE; write it behind the path, as in --source "
            f"{names[0]}=PATH,{alone[0]}={options[alone[0]]}"
        )
    named = [SourceArgs.of(one) for one in sources]
    return [read_recording(one, options.get("arrival")) for one in named]
