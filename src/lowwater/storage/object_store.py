"""Files in an object store."""

from __future__ import annotations

from typing import Any

from lowwater.storage.store import FileStore


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

    def tree(self, path: str) -> list[str]:  # noqa: D102
        files = [name[len(path) + 1 :] for name in self._below(path)]
        return [name for name in files if name.rpartition("/")[2][0] != "."]

    def delete_tree(self, path: str) -> None:  # noqa: D102
        if names := self._below(path):
            self.bucket.delete(names)

    def _below(self, path: str) -> list[str]:
        """Return the names of all objects below `path`."""
        return [one["path"] for page in self.bucket.list(f"{path}/") for one in page]
