"""Parquet scans: ingest reads the files of DataFrames that only read Parquet.

Spark lists the files of a micro-batch, and their rows never enter the JVM. Arrow must read exactly
the rows that Spark would read. A scan checks this once for the stream, and once in the footer of
each file. If anything differs or is unknown, Spark reads the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lowwater.errors import HostError
from lowwater.schema import plain
from lowwater.sources.bad_file import BadFileError
from lowwater.sources.file_reader import parquet_blocks, read_parquet_block
from lowwater.sources.source import SourceBlock

_HARMLESS_OPTIONS = {
    "path", "maxfilespertrigger", "maxbytespertrigger", "maxfileage", "latestfirst",
    "filenameonly", "cleansource", "sourcearchivedir", "pathglobfilter", "recursivefilelookup",
}  # fmt: skip
"""Options that select files, but do not change how a file is read."""
_LENIENT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
_REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
_VERSION = b"org.apache.spark.version"
_NEW_CALENDAR = 3
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True)
class ParquetScan:
    """The files of a streaming DataFrame that only reads Parquet files of one schema."""

    schema: pa.Schema

    @classmethod
    def of(cls, frame: DataFrame, schema: pa.Schema) -> ParquetScan | None:
        """Return the scan of `frame`, None if the DataFrame does more than read Parquet."""
        try:
            relation = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
            if relation.getClass().getSimpleName() != "StreamingRelation":
                return None
            source, conf = relation.dataSource(), frame.sparkSession.conf
            options = {str(pair._1()).lower() for pair in _each(source.options().toSeq())}  # noqa: SLF001
            is_plain = (
                source.className() == "parquet"
                and source.partitionColumns().isEmpty()
                and options <= _HARMLESS_OPTIONS
                and not any(str(conf.get(name, "false")).lower() == "true" for name in _LENIENT)
                and str(conf.get(_REBASE, "CORRECTED")).upper() == "CORRECTED"
            )
        except Py4JError:
            return None
        return cls(schema) if is_plain else None

    def blocks(self, leaf: Any) -> list[SourceBlock] | None:
        """Return the blocks of a micro-batch's files, None if Spark must read the files."""
        if _is_empty(leaf):
            return []
        try:
            paths = [_local(address) for address in leaf.relation().location().inputFiles()]
        except Py4JError:
            return None
        if not paths or not all(path and self._reads_alike(path) for path in paths):
            return None
        in_order = sorted((p for p in paths if p), key=lambda p: (Path(p).stat().st_mtime_ns, p))
        return [block for path in in_order for block in parquet_blocks(path)]

    def _reads_alike(self, path: str) -> bool:
        """Return whether Arrow and Spark read the same rows from a file."""
        try:
            footer = pq.read_schema(path)
        except (OSError, pa.ArrowException):
            return False
        metadata = footer.metadata or {}
        if any(key in metadata for key in _OLD_CALENDAR) or _is_old(metadata.get(_VERSION, b"3")):
            return False
        if len({name.lower() for name in footer.names}) != len(footer.names):
            return False  # names differ only in case, which Spark ignores
        have = {field.name: field.type for field in plain(footer)}
        return all(have.get(field.name) == field.type for field in self.schema)

    def read(self, block: SourceBlock) -> pa.Table:
        """Return the rows of a block; as in Spark, a damaged file stops the query."""
        try:
            return read_parquet_block(block, self.schema)
        except BadFileError as problem:
            raise HostError(f"{problem}; repair or remove the file") from problem


def leaves(query: StreamingQuery) -> list[Any] | None:
    """Return the leaf relations of the micro-batch's plan; None if the plan is not readable."""
    try:
        execution = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001
        return _each(execution.logical().collectLeaves())
    except Py4JError:
        return None


def read_by_spark(
    frames: Sequence[DataFrame], batch: DataFrame, query: StreamingQuery
) -> list[DataFrame]:
    """Return the rows of the current micro-batch, one DataFrame per stream, read by Spark."""
    spark, relations = batch.sparkSession, leaves(query)
    if relations is None or len(relations) != len(frames):
        raise HostError(
            "the plan of the current micro-batch cannot be read: Lowwater reads the plans of Spark "
            "4.3; run the query with that version"
        )
    return [_rows(spark, leaf, frame) for leaf, frame in zip(relations, frames, strict=True)]


def _rows(spark: SparkSession, leaf: Any, frame: DataFrame) -> DataFrame:
    if _is_empty(leaf):
        return spark.createDataFrame([], frame.schema)
    session = spark._jsparkSession  # noqa: SLF001
    rows = DataFrame(session.baseRelationToDataFrame(leaf.relation()), spark)
    return rows.select(*(f"`{name}`" for name in frame.columns))


def _is_empty(leaf: Any) -> bool:
    """Return whether the relation `leaf` has no new files in the micro-batch."""
    return str(leaf.getClass().getSimpleName()) == "LocalRelation"


def _is_old(version: bytes) -> bool:
    """Return whether the Spark version `version` wrote dates in the Julian calendar."""
    major = version.split(b".")[0]
    return major.isdigit() and int(major) < _NEW_CALENDAR


def _each(items: Any) -> list[Any]:
    return [items.apply(i) for i in range(items.size())]


def _local(address: str) -> str | None:
    """Return the path of a local file without partition folders, None for any other address.

    >>> _local("file:///tmp/a%20b/c.parquet")
    '/tmp/a b/c.parquet'
    >>> _local("file:///tmp/day=1/c.parquet")  # Spark reads the folder as a column
    >>> _local("s3a://bucket/c.parquet")
    """
    url = urlparse(address)
    path = unquote(url.path)
    is_local = url.scheme in ("", "file") and not url.netloc
    return path if is_local and "=" not in path else None
