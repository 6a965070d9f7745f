"""Files on a local disk."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

from lowwater.storage.store import FileStore


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

    def tree(self, path: str) -> list[str]:  # noqa: D102
        walked = ((Path(at), name) for at, _, names in os.walk(path) for name in names)
        return [(at / name).relative_to(path).as_posix() for at, name in walked if name[0] != "."]

    def delete_tree(self, path: str) -> None:  # noqa: D102
        shutil.rmtree(path, ignore_errors=True)  # a process may still write into it

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
