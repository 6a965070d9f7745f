"""A folder of small files that are written atomically.

The scheme of its path selects the store: a local disk, an object store (`s3://`, `gs://`,
`abfs://`), or another file system of Arrow, such as `hdfs://`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.fs as pafs

from lowwater.errors import PlanError
from lowwater.storage.arrow_store import ArrowStore
from lowwater.storage.local_store import LocalStore
from lowwater.storage.object_store import ObjectStore
from lowwater.storage.store import FileStore

_OBJECT_STORES = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az")


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

    def tree(self) -> list[str]:
        """Return the relative paths of all files below the folder, without hidden files."""
        return self._store.tree(self._root)

    def delete_tree(self) -> None:
        """Delete the folder with all files below it."""
        self._store.delete_tree(self._root)


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
