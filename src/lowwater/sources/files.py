"""A source that reads each file of a folder once, as files appear."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.codec import Json
from lowwater.errors import SpecError
from lowwater.sources.file_reader import EPOCH_FILES, FileReader, OnBadFile, Report
from lowwater.sources.formats import (
    Format,
    declared_schema,
    file_names,
    is_source_file,
    row_count,
)
from lowwater.sources.source import SourceBlock
from lowwater.sources.taken_files import (
    FilePosition,
    FoundFile,
    ReportedFile,
    TakenFiles,
    nanoseconds,
)
from lowwater.ticks import spoken, ticks

FileOrder = Literal["listing", "name"]
"""The order in which files are taken."""
SAMPLED_FILES = 16
"""Number of waiting files whose rows are counted to estimate the rows of all waiting files."""
CHECK_SECONDS = 10.0
"""The shortest time between two looks for files that have changed since they were taken."""


@dataclass(frozen=True)
class Files(FileReader):
    """A source that takes each file of a folder once; a file has one or several blocks.

    `max_file_age` is in ticks; None means that no file is too old. `until` are the names of a
    bounded source.
    """

    order: FileOrder = "listing"
    max_file_age: int | None = None
    until: frozenset[str] | None = None
    taken: TakenFiles = field(default_factory=TakenFiles, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "until": None}  # executors read files, but never choose them

    def prepare(self, folder: str) -> Files:  # noqa: D102
        return replace(self, taken=TakenFiles(folder))

    def begin(self) -> Json:  # noqa: D102
        return FilePosition().to_json()

    def available(self, start: Json) -> Json:  # noqa: D102
        at = self.taken.load(start)
        while True:
            new, reports = self._new(at)
            files = self._as_now(new[: self.files_per_epoch or EPOCH_FILES])
            if files or not new:
                break
        if not files and not reports:
            return start
        count = self.fits_epoch([f.name for f in files]) if files else 0
        return self.taken.after(
            at,
            files[:count],
            reports[:EPOCH_FILES],
            backlog=at.backlog and count < len(new),
            max_age=None if self.max_file_age is None else nanoseconds(self.max_file_age),
            present=lambda: file_names(Path(self.path), self.format),
        )

    def blocks(self, start: Json, end: Json) -> Sequence[SourceBlock]:  # noqa: D102
        if start == end:
            return []
        self.taken.load(start)
        to = FilePosition.from_json(end)
        blocks: list[SourceBlock] = []
        for one in to.files:
            lost = self._lost(one)
            blocks += self.file_blocks([one.name]) if lost is None else [lost]
        for report in to.reports:
            path = str(Path(self.path, report.name).absolute())
            blocks.append(SourceBlock(Report(path, report.reason), rows=0))
        if self.until is not None and blocks:
            now = {f.name for f in to.files} | {r.name for r in to.reports}
            if all(name in now or self.taken.taken(name) for name in self.until):
                blocks[-1] = replace(blocks[-1], last=True)
        return blocks

    def waiting(self, start: Json) -> int | None:  # noqa: D102
        new, _ = self._new(self.taken.load(start))
        if self.format != "parquet" or not new:
            return None if new else 0
        sample = new[:SAMPLED_FILES]
        rows = sum(row_count(Path(self.path, f.name), self.format) for f in sample)
        return rows * len(new) // len(sample)

    def bounded(self) -> Files:  # noqa: D102
        return replace(self, until=frozenset(file_names(Path(self.path), self.format)))

    def describe(self) -> str:
        """Return the way in which files are read as text, for `explain()`."""
        how = "by name" if self.order == "name" else "by listing, then by name"
        age = "always" if self.max_file_age is None else f"for {spoken(self.max_file_age)}"
        bad = "stop the query" if self.on_bad_file == "fail" else "go to the output bad_files"
        return f"{self.format} files, each once, {how}; names remembered {age}; bad files {bad}"

    def _new(self, at: FilePosition) -> tuple[list[FoundFile], list[ReportedFile]]:
        """Return the files to take next, in order, and those to report.

        The files of one listing are taken before the folder is listed again.
        """
        left, taken = self.taken.listing, self.taken.taken
        done = next((i for i, f in enumerate(left) if not taken(f.name)), len(left))
        del left[:done]
        if left and self.order == "listing":
            return left, []
        found, reports = self._listed()
        new = []
        for one in found:
            reason = self._refused(one, at)
            if reason is None:
                new.append(one)
            else:
                reports.append(ReportedFile(one.name, reason, one.size, one.modified))
        self.taken.listing = new
        return new, reports

    def _listed(self) -> tuple[list[FoundFile], list[ReportedFile]]:
        """List the folder; return new files, and files that have changed since they were taken."""
        now, taken = time.monotonic(), self.taken
        check = now - taken.checked >= CHECK_SECONDS or not taken.checked
        found, changed = [], []
        with os.scandir(self.path) as entries:
            for entry in entries:
                if not is_source_file(entry.name, self.format) or not self._wanted(entry.name):
                    continue
                known = taken.taken(entry.name)
                if known and not check:
                    continue
                one = _found(entry)
                if one is not None and not known:
                    found.append(one)
                elif one is not None and taken.changed(one):
                    changed.append(ReportedFile(one.name, CHANGED, one.size, one.modified))
        if check:
            taken.checked = now
        return sorted(found), sorted(changed)

    def _wanted(self, name: str) -> bool:
        return self.until is None or name in self.until

    def _refused(self, one: FoundFile, at: FilePosition) -> str | None:
        """Return the reason why a file that was not taken is not read; None if it is read."""
        if self.order == "name" and one.name < at.last:
            return f"its name is before {at.last!r}, which was read earlier; it was not read"
        if at.backlog or self.max_file_age is None:
            return None
        if one.modified >= at.newest - nanoseconds(self.max_file_age):
            return None
        return (
            f"it is older than max_file_age={spoken(self.max_file_age)!r}, so it may have been "
            f"read before; it was not read"
        )

    def _as_now(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Return the files with their present sizes, without files that are gone."""
        now = []
        for one in files:
            try:
                stat = Path(self.path, one.name).stat()
            except FileNotFoundError:
                self.taken.listing.remove(one)
                continue
            now.append(FoundFile(one.name, stat.st_size, stat.st_mtime_ns))
        return now

    def _lost(self, one: FoundFile) -> SourceBlock | None:
        """Return the report of a file of an opened epoch that is gone or has another size."""
        path = Path(self.path, one.name).absolute()
        size = path.stat().st_size if path.exists() else None
        if size == one.size:
            return None
        now = "is gone" if size is None else f"has {size} bytes now and had {one.size} then"
        reason = f"the interrupted epoch reads this file, but it {now}"
        return SourceBlock(Report(str(path), reason, stops=True), rows=0)


CHANGED = "it has changed since it was read; its new rows were not read"
"""The reason for the report of a file that has changed."""


def _found(entry: os.DirEntry[str]) -> FoundFile | None:
    """Return an entry of a folder as a file; None if it is not a file, or is gone."""
    try:
        if not entry.is_file():
            return None
        stat = entry.stat()
    except FileNotFoundError:
        return None
    return FoundFile(entry.name, stat.st_size, stat.st_mtime_ns)


def files(
    path: str | Path,
    *,
    format: Format = "parquet",
    schema: str | pa.Schema | None = None,
    files_per_epoch: int | None = None,
    max_rows_per_epoch: int | None = None,
    multiline: bool = False,
    order: FileOrder = "listing",
    max_file_age: str | None = "7 days",
    on_bad_file: OnBadFile = "report",
) -> Files:
    r"""Return a source that reads each file of a folder once, as files appear.

    The files that one listing of the folder finds are read in the order of their names, before the
    folder is listed again. With `order="name"`, no file is read after one with a greater name: such
    a file is reported. A file must appear whole: write it under another name and rename it. An
    epoch reads at most `files_per_epoch` files and `max_rows_per_epoch` rows, but at least one
    file; without limits, it reads about 256 MB. Python workers read the files, so raw rows never
    enter the JVM. csv and json need a `schema`.

    A line of csv or json that cannot be read, or has a value that does not fit its column, is a
    malformed row. A record is a line; with `multiline=True`, a quoted field of csv may contain line
    ends. A file that cannot be read is counted, and goes to the output `bad_files` with the reason;
    with `on_bad_file="fail"`, it stops the query.

    The checkpoint remembers the name of a file that was read while the file is in the folder, and
    until it is `max_file_age` older than the newest file. A file that is older than that and not
    remembered is reported in `bad_files`, not read, except in the first listing. So is a file that
    has changed since it was read. With `max_file_age=None`, every name is remembered.

    >>> import lowwater as lw, tempfile, pathlib
    >>> folder = tempfile.mkdtemp()
    >>> _ = pathlib.Path(folder, "a.csv").write_text("t,speed\n1,60\n2,fast\n")
    >>> source = lw.files(folder, format="csv", schema="t bigint, speed double")
    >>> cars = lw.stream(source, time="t", watermark=lw.ordered())
    >>> outcome = cars.window(range=10).agg(n=lw.count()).run(host="local")
    >>> outcome.malformed.select(["text", "reason"]).to_pylist()
    [{'text': '2,fast', 'reason': "column speed: 'fast' does not fit double"}]
    """
    folder = Path(path)
    if not folder.is_dir():
        raise SpecError(
            f"path={str(path)!r} is not a folder; lw.files reads the files of a folder, "
            f"lw.replay reads one file"
        )
    limits = {"files_per_epoch": files_per_epoch, "max_rows_per_epoch": max_rows_per_epoch}
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise SpecError(f"{name}={limit} must be at least 1")
    if order not in ("listing", "name"):
        raise SpecError(f"order={order!r} is unknown; write 'listing' or 'name'")
    if on_bad_file not in ("report", "fail"):
        raise SpecError(f"on_bad_file={on_bad_file!r} is unknown; write 'report' or 'fail'")
    age = None if max_file_age is None else ticks(max_file_age, name="max_file_age")
    if schema is None and format == "parquet":
        schema = _parquet_schema(folder)
    declared = declared_schema(format, schema, multiline=multiline)
    return Files(
        str(folder.absolute()),
        declared,
        format,
        multiline,
        on_bad_file,
        files_per_epoch,
        max_rows_per_epoch,
        order,
        age,
    )


def _parquet_schema(folder: Path) -> pa.Schema:
    """Return the schema of the first Parquet file of a folder that has one."""
    for name in file_names(folder, "parquet"):
        try:
            return pq.read_schema(folder / name)
        except (pa.ArrowInvalid, OSError):
            continue
    problem = "holds no readable Parquet file yet, so its schema is unknown; give schema="
    raise SpecError(f"path={str(folder)!r} {problem}")
