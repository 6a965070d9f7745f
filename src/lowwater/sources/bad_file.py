"""The error for a file that cannot be read, and the schema of the output that lists such files."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lowwater.errors import HostError, LowwaterError

BAD_FILES = pa.schema([("path", pa.string()), ("reason", pa.string())])
"""The columns of the output `bad_files`."""
_UNREADABLE = (errno.EACCES, errno.EPERM, errno.EISDIR)


class BadFileError(LowwaterError):
    """The error for a file that cannot be read; the query goes on without the file."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn errors while the file `path` is read into BadFileError, for damage, or HostError.

    Arrow reports damage as an OSError without a number. An OSError of the system may pass, so a
    restart reads the file again.
    """
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as problem:
        raise BadFileError(path, f"it cannot be read: {_line(problem)}") from problem
    except OSError as problem:
        if problem.errno is None or problem.errno in _UNREADABLE:
            raise BadFileError(path, f"it cannot be read: {_line(problem)}") from problem
        raise HostError(
            f"{path}: the file cannot be read now: {_line(problem)}; start the query again when "
            f"the file can be read"
        ) from problem


def _line(problem: Exception) -> str:
    """Return the first line of an error."""
    text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return str(text).strip().splitlines()[0]
