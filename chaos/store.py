"""A file store in memory, whose operations can fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lowwater.storage import folder
from lowwater.storage.store import FileStore

SCHEME = "chaos"


class Killed(BaseException):
    """The end of a process: no `except Exception` and no clean-up of a run may notice it."""


class MemoryStore(FileStore):
    """Files in memory. `on_operation` is called before every operation, and may raise an error."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.on_operation: Callable[[str, str], None] | None = None

    def read(self, path: str) -> bytes | None:  # noqa: D102
        self._do("read", path)
        return self.files.get(path)

    def read_part(self, path: str, start: int, size: int) -> bytes:  # noqa: D102
        self._do("read", path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self.files[path][start : start + size]

    def size(self, path: str) -> int | None:  # noqa: D102
        return len(self.files[path]) if path in self.files else None

    def write(self, path: str, content: bytes) -> None:  # noqa: D102
        self._do("write", path)
        self.files[path] = bytes(content)

    def create(self, path: str, content: bytes) -> bool:  # noqa: D102
        if path in self.files:
            return False
        self._do("create", path)
        self.files[path] = bytes(content)
        self._do("created", path)
        return True

    def delete(self, path: str) -> None:  # noqa: D102
        self._do("delete", path)
        self.files.pop(path, None)

    def names(self, path: str) -> list[str]:  # noqa: D102
        self._do("list", path)
        under = f"{path}/"
        found = {p[len(under) :].split("/")[0] for p in self.files if p.startswith(under)}
        return [name for name in found if name[0] != "."]

    def tree(self, path: str) -> list[str]:  # noqa: D102
        self._do("list", path)
        return [p[len(path) + 1 :] for p in self.under(path)]

    def delete_tree(self, path: str) -> None:  # noqa: D102
        for name in [p for p in self.files if p.startswith(f"{path}/")]:
            self.delete(name)

    def remove_partial(self, path: str) -> None:  # noqa: D102
        under = f"{path}/."
        for left in [p for p in self.files if p.startswith(under) and p.endswith(".tmp")]:
            self.delete(left)

    def tear(self, path: str) -> None:
        """Leave a temporary file beside `path`, as a killed process would."""
        folder, _, name = path.rpartition("/")
        self.files[f"{folder}/.{name}.1-1.tmp"] = b"torn"

    def under(self, path: str) -> list[str]:
        """Return the sorted paths of all visible files under `path`."""
        found = (p for p in self.files if p.startswith(f"{path}/"))
        return sorted(p for p in found if "/." not in p)

    def _do(self, operation: str, path: str) -> None:
        if self.on_operation is not None:
            self.on_operation(operation, path)


@contextmanager
def mounted(store: MemoryStore) -> Iterator[None]:
    """Make `store` the store of all paths that begin with `chaos://`, while the context is open."""
    before = dict(folder.STORES)
    folder.STORES[SCHEME] = lambda path: (store, path.removeprefix(f"{SCHEME}://"))
    try:
        yield
    finally:
        folder.STORES.clear()
        folder.STORES.update(before)
