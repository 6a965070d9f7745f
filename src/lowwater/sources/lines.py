"""Lines of text files: their bytes, their borders, and the lines that cannot be read.

A record of csv or json is a line. LF, CR and CRLF end a line; no other character does. An empty
line is not a row. A line that cannot be read is a malformed row: a row of NULLs, whose text and
reason are in two hidden columns. A table without malformed rows has no hidden columns.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from lowwater.sources.bad_file import BadFileError

TEXT, REASON = "__text", "__reason"
"""The hidden columns of a malformed row: its text, and the reason why it is malformed."""
TEXT_BYTES = 4096
"""The largest number of bytes that a malformed row keeps of its text."""
SMALLEST_BLOCK = 1 << 20
"""The bytes that Arrow parses at a time, unless a line is longer."""
NOT_UTF8 = "the line is not UTF-8 text"
_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t"
_NEWLINE = 10


def content(path: Path) -> bytes:
    """Return the bytes of a text file, decompressed and without a byte order mark."""
    data = path.read_bytes()
    if path.suffix.lower() == ".gz":
        if not data:
            raise BadFileError(str(path), "it is not a whole gzip file (it is empty)")
        try:
            data = gzip.decompress(data)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise BadFileError(str(path), f"it is not a whole gzip file ({problem})") from problem
    return data.removeprefix(_BOM)


def is_utf8(data: bytes) -> bool:
    """Return whether `data` is UTF-8 text."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True)
class Lines:
    """The lines of a text that are not empty: line i is `data[starts[i]:ends[i]]`."""

    data: bytes
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, data: bytes, *, blank: bool = False) -> Lines:
        r"""Return the lines of `data`; with `blank`, a line of only spaces and tabs is empty, too.

        >>> lines = Lines.of(b"a\r\n\nb\rc")
        >>> [lines.text(i) for i in range(len(lines))]
        ['a', 'b', 'c']
        """
        data = with_newlines(data)
        if not data.endswith(b"\n"):
            data += b"\n"
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
        starts = np.concatenate([np.zeros(1, ends.dtype), ends[:-1] + 1])
        full = ends > starts
        if blank:
            for i in np.flatnonzero(full & np.isin(_bytes(data)[starts], list(_BLANK))):
                full[i] = bool(data[starts[i] : ends[i]].strip(_BLANK))
        return cls(data, starts[full], ends[full])

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def codes(self) -> np.ndarray:
        """The bytes of the whole text as numbers."""
        return _bytes(self.data)

    def line(self, number: int) -> bytes:
        """Return the bytes of a line, without the line end."""
        return self.data[self.starts[number] : self.ends[number]]

    def text(self, number: int) -> str:
        """Return the first 4 kB of a line as text; other bytes than UTF-8 are replaced."""
        return shortened(self.line(number))

    def after(self, number: int) -> Lines:
        """Return the lines from line `number` on."""
        return Lines(self.data, self.starts[number:], self.ends[number:])

    def not_utf8(self) -> np.ndarray:
        """Return a mask of the lines that are not UTF-8 text."""
        wrong = np.zeros(len(self), bool)
        if self.data.isascii():
            return wrong
        high = np.flatnonzero(self.codes >= 0x80)  # noqa: PLR2004
        for number in np.unique(np.searchsorted(self.ends, high)):
            if number < len(self):
                wrong[number] = not is_utf8(self.line(number))
        return wrong


def lines_joined(lines: Lines, mask: np.ndarray) -> bytes:
    """Return the lines in `mask` as one text, after an empty line.

    Arrow would skip a byte order mark at the beginning of the text, but not after an empty line.
    """
    chosen = zip(lines.starts[mask].tolist(), lines.ends[mask].tolist(), strict=True)
    return b"".join([b"\n", *(lines.data[start : end + 1] for start, end in chosen)])


def with_newlines(data: bytes) -> bytes:
    """Return `data` with LF at the end of each line."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def block_size(data: bytes) -> int:
    """Return a size of Arrow's blocks in which every line of `data` fits."""
    at, step = 0, SMALLEST_BLOCK // 2
    while at + step < len(data):
        newline = data.rfind(b"\n", at, at + step)
        if newline < 0:
            return len(data)
        at = newline + 1
    return SMALLEST_BLOCK


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def shortened(line: bytes) -> str:
    """Return the first `TEXT_BYTES` bytes of `line` as text."""
    return line[:TEXT_BYTES].decode("utf-8", "replace")


def with_faults(table: pa.Table, faults: Mapping[int, tuple[str | None, str]]) -> pa.Table:
    """Return `table` with hidden columns; `faults` has text and reason of each malformed row."""
    if not faults:
        return table
    columns: list[list[str | None]] = [[None] * len(table), [None] * len(table)]
    for row, fault in faults.items():
        for column, value in zip(columns, fault, strict=True):
            column[row] = value
    hidden = [pa.array(column, pa.string()) for column in columns]
    return table.append_column(TEXT, hidden[0]).append_column(REASON, hidden[1])


def split_faults(table: pa.Table) -> tuple[pa.Table, pa.Table | None]:
    """Return a table without its hidden columns, and the hidden columns; None if it has none."""
    if REASON not in table.column_names:
        return table, None
    return table.drop_columns([TEXT, REASON]), table.select([TEXT, REASON])


def texts_of(lines: Lines, rows: Iterable[int]) -> pa.Array:
    """Return the texts of the lines with the numbers `rows`."""
    return pa.array([lines.text(int(row)) for row in rows], pa.string())
