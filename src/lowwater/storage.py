"""Files that are written atomically, for the checkpoint, the control log and sinks.

`AtomicFolder` is a folder in a `FileStore`. The scheme of a path selects the store: a local disk,
an object store (`s3://`, `gs://`, `abfs://`), or another file system of Arrow, such as `hdfs://`.
"""

from __future__ import annotations

import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from lowwater.errors import PlanError

_OBJECT_STORES = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az")


class FileStore(ABC):
    """A file system with atomic writes. Paths are complete; folders appear when they are needed."""

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if the file does not exist."""

    @abstractmethod
    def read_part(self, path: str, start: int, size: int) -> bytes:
        """Return `size` bytes from byte `start` on; raise FileNotFoundError without the file."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if the file does not exist."""

    @abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Write a file as a whole; an existing file is replaced."""

    @abstractmethod
    def create(self, path: str, content: bytes) -> bool:
        """Write a file as a whole unless it exists; return whether this call wrote it.

        If several processes create the same file, the call of exactly one returns True.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file if it exists."""

    @abstractmethod
    def names(self, path: str) -> list[str]:
        """Return the names of the files in a folder, without hidden files."""

    def remove_partial(self, path: str) -> None:
        """Delete the temporary files in a folder that killed processes left behind."""
        del path


class LocalStore(FileStore):
    """A local disk: a file is written under a temporary name, synced, then renamed or linked."""

    def read(self, path: str) -> bytes | None:  # noqa: D102
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    def read_part(self, path: str, start: int, size: int) -> bytes:  # noqa: D102
        descriptor = os.open(path, os.O_RDONLY)
        try:
            parts = []
            while size > 0 and (part := os.pread(descriptor, size, start)):
                parts.append(part)
                start, size = start + len(part), size - len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            os.close(descriptor)

    def size(self, path: str) -> int | None:  # noqa: D102
        try:
            return Path(path).stat().st_size
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:  # noqa: D102
        while True:
            aside = self._aside(path, content)
            with suppress(FileNotFoundError):  # an owner has removed temporary files meanwhile
                aside.replace(path)
                return

    def create(self, path: str, content: bytes) -> bool:  # noqa: D102
        while not Path(path).exists():
            aside = self._aside(path, content)
            try:  # unlike a rename, a link never replaces a file that another process has written
                os.link(aside, path)
                _sync_folder(path)
                return True
            except FileExistsError:
                return False
            except FileNotFoundError:  # an owner has removed temporary files meanwhile
                continue
            finally:
                aside.unlink(missing_ok=True)
        return False

    def _aside(self, path: str, content: bytes) -> Path:
        """Write `content` to a temporary file beside `path`, and return the temporary path."""
        target = Path(path)
        aside = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.tmp")
        try:
            stream = aside.open("wb")
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            stream = aside.open("wb")
        try:
            with stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        return aside

    def delete(self, path: str) -> None:  # noqa: D102
        Path(path).unlink(missing_ok=True)

    def names(self, path: str) -> list[str]:  # noqa: D102
        try:
            return [entry.name for entry in os.scandir(path) if entry.name[0] != "."]
        except FileNotFoundError:
            return []

    def remove_partial(self, path: str) -> None:  # noqa: D102
        for left in Path(path).glob(".*.tmp"):
            left.unlink(missing_ok=True)


def _sync_folder(path: str) -> None:
    """Make the name of a new file durable, and with it the names that were written before it."""
    descriptor = os.open(Path(path).parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ArrowStore(FileStore):
    """A remote file system of Arrow, such as HDFS, where a move never replaces a file."""

    def __init__(self, files: pafs.FileSystem) -> None:
        self.files = files

    def read(self, path: str) -> bytes | None:  # noqa: D102
        if self.size(path) is None:
            return None
        with self.files.open_input_stream(path) as stream:
            return bytes(stream.read())

    def read_part(self, path: str, start: int, size: int) -> bytes:  # noqa: D102
        with self.files.open_input_file(path) as file:
            return bytes(file.read_at(size, start))

    def size(self, path: str) -> int | None:  # noqa: D102
        info = self.files.get_file_info(path)
        return info.size if info.type == pafs.FileType.File else None

    def write(self, path: str, content: bytes) -> None:  # noqa: D102
        aside = self._aside(path, content)
        self.delete(path)
        self.files.move(aside, path)

    def create(self, path: str, content: bytes) -> bool:  # noqa: D102
        if self.size(path) is not None:
            return False
        aside = self._aside(path, content)
        try:
            self.files.move(aside, path)
        except OSError:
            self.delete(aside)
            if self.size(path) is None:
                raise
            return False
        return True

    def _aside(self, path: str, content: bytes) -> str:
        folder, _, name = path.rpartition("/")
        self.files.create_dir(folder, recursive=True)
        aside = f"{folder}/.{name}.{os.getpid()}-{threading.get_ident()}.tmp"
        with self.files.open_output_stream(aside) as stream:
            stream.write(content)
        return aside

    def delete(self, path: str) -> None:  # noqa: D102
        if self.size(path) is not None:
            self.files.delete_file(path)

    def names(self, path: str) -> list[str]:  # noqa: D102
        found = self.files.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        return [info.base_name for info in found if info.base_name[0] != "."]

    def remove_partial(self, path: str) -> None:  # noqa: D102
        found = self.files.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        for info in found:
            if info.base_name[0] == "." and info.base_name.endswith(".tmp"):
                self.files.delete_file(info.path)


class ObjectStore(FileStore):
    """An object store, where a put is atomic, and a conditional put creates an object once."""

    def __init__(self, bucket: Any) -> None:
        self.bucket = bucket

    def read(self, path: str) -> bytes | None:  # noqa: D102
        try:
            return bytes(self.bucket.get(path).bytes())
        except FileNotFoundError:
            return None

    def read_part(self, path: str, start: int, size: int) -> bytes:  # noqa: D102
        return bytes(self.bucket.get_range(path, start=start, length=size))

    def size(self, path: str) -> int | None:  # noqa: D102
        try:
            return int(self.bucket.head(path)["size"])
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:  # noqa: D102
        self.bucket.put(path, content)

    def create(self, path: str, content: bytes) -> bool:  # noqa: D102
        from obstore.exceptions import AlreadyExistsError

        try:
            self.bucket.put(path, content, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def delete(self, path: str) -> None:  # noqa: D102
        try:
            self.bucket.delete(path)
        except FileNotFoundError:
            return

    def names(self, path: str) -> list[str]:  # noqa: D102
        found = self.bucket.list_with_delimiter(f"{path}/")["objects"]
        names = [one["path"].rpartition("/")[2] for one in found]
        return [name for name in names if name[0] != "."]


class AtomicFolder:
    """A folder of small files that are written atomically."""

    def __init__(self, path: str) -> None:
        self._store, self._root = resolve(path)

    def path(self, name: str) -> str:
        """Return the path of file `name`."""
        return f"{self._root}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return the content of file `name`; None if the folder has no such file."""
        return self._store.read(self.path(name))

    def read_part(self, name: str, start: int, size: int) -> bytes:
        """Return `size` bytes of file `name`, from byte `start` on."""
        return self._store.read_part(self.path(name), start, size)

    def size(self, name: str) -> int | None:
        """Return the size of file `name` in bytes; None if the folder has no such file."""
        return self._store.size(self.path(name))

    def write(self, name: str, content: bytes) -> None:
        """Write file `name` as a whole; an existing file is replaced."""
        self._store.write(self.path(name), content)

    def create(self, name: str, content: bytes) -> bool:
        """Write file `name` unless it exists; return whether this call wrote it."""
        return self._store.create(self.path(name), content)

    def delete(self, name: str) -> None:
        """Delete file `name` if it exists."""
        self._store.delete(self.path(name))

    def remove_partial(self) -> None:
        """Delete the temporary files of processes that were killed during a write."""
        self._store.remove_partial(self._root)

    def names(self) -> list[str]:
        """Return the names of the files in the folder, without hidden files."""
        return self._store.names(self._root)


_LOCAL = LocalStore()
STORES: dict[str, Callable[[str], tuple[FileStore, str]]] = {}
"""{scheme: function from a path to (store, path in the store)}, for stores of tests."""


def resolve(path: str) -> tuple[FileStore, str]:
    """Return the store of `path`, and the path in this store.

    >>> resolve("file:///tmp/checkpoint")[1]
    '/tmp/checkpoint'
    """
    scheme, separator, rest = path.partition("://")
    if not separator:
        return _LOCAL, str(Path(path.removeprefix("file:")).absolute())
    if scheme == "file":
        return _LOCAL, rest
    if scheme in STORES:
        return STORES[scheme](path)
    if scheme in _OBJECT_STORES:
        return _object_store(path)
    files, root = pafs.FileSystem.from_uri(path)
    return ArrowStore(files), root


def _object_store(path: str) -> tuple[FileStore, str]:
    try:
        from obstore.store import from_url
    except ImportError as missing:
        raise PlanError(
            f"{path!r} is in an object store, where a run can claim a checkpoint only with "
            f"a conditional put; install it with pip install 'lowwater[object-store]'"
        ) from missing
    url = re.sub(r"^s3[an]://", "s3://", path)
    bucket, _, root = url.partition("://")[2].partition("/")
    scheme = url.partition("://")[0]
    return ObjectStore(from_url(f"{scheme}://{bucket}")), root.rstrip("/")
