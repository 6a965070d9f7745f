"""Folders with atomic writes of files, for the checkpoint, the control log and sinks."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

_ATOMIC_PUTS = ("s3", "gcs", "abfs")


class AtomicFolder:
    """A folder of small files that are written atomically.

    On a local disk, a file is written under a temporary name, synced and renamed. In an object
    store, a put is atomic.
    """

    def __init__(self, path: str) -> None:
        self._files, self._root = _resolve(path)

    def read(self, name: str) -> bytes | None:
        """Return the content of file `name`; None if the folder has no such file."""
        if self._files is None:
            try:
                return Path(self._root, name).read_bytes()
            except FileNotFoundError:
                return None
        info = self._files.get_file_info(f"{self._root}/{name}")
        if info.type == pafs.FileType.NotFound:
            return None
        with self._files.open_input_stream(info.path) as stream:
            return bytes(stream.read())

    def open(self, name: str) -> pa.NativeFile:
        """Return the existing file `name`, open for reading at any offset."""
        if self._files is None:
            return pa.OSFile(str(Path(self._root, name)))
        return self._files.open_input_file(f"{self._root}/{name}")

    def write(self, name: str, content: bytes, *, once: bool = False) -> bool:
        """Write file `name`, return True; if `once` and the file exists, only return False."""
        if once and self.read(name) is not None:
            return False
        if self._files is not None:
            self._put(name, content)
            return True
        target = Path(self._root, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.tmp")
        with aside.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if not once:
            aside.replace(target)
            return True
        try:  # unlike a rename, a link never replaces a file that another process has just written
            os.link(aside, target)
        except FileExistsError:
            return False
        finally:
            aside.unlink()
        return True

    def _put(self, name: str, content: bytes) -> None:
        """Write file `name` to a remote file system, with an atomic put or an atomic move."""
        assert self._files is not None  # noqa: S101
        self._files.create_dir(self._root, recursive=True)
        target = f"{self._root}/{name}"
        aside = target if self._files.type_name in _ATOMIC_PUTS else f"{self._root}/.{name}.tmp"
        with self._files.open_output_stream(aside) as stream:
            stream.write(content)
        if aside != target:
            self._files.move(aside, target)

    def delete(self, name: str) -> None:
        """Delete file `name` if it exists."""
        if self._files is None:
            Path(self._root, name).unlink(missing_ok=True)
        elif self._files.get_file_info(f"{self._root}/{name}").type == pafs.FileType.File:
            self._files.delete_file(f"{self._root}/{name}")

    def remove_partial(self) -> None:
        """Delete the temporary files of processes that were killed during a write."""
        if self._files is None:
            for left in Path(self._root).glob(".*.tmp"):
                left.unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Return the names of the files in the folder."""
        if self._files is None:
            names = [path.name for path in Path(self._root).glob("*")]
        else:
            selector = pafs.FileSelector(self._root, allow_not_found=True)
            names = [info.base_name for info in self._files.get_file_info(selector)]
        return [name for name in names if name[0] != "."]


def _resolve(path: str) -> tuple[pafs.FileSystem | None, str]:
    if "://" not in path:
        return None, str(Path(path.removeprefix("file:")).absolute())
    if path.startswith("file://"):
        return None, path.removeprefix("file://")
    files, root = pafs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", path))
    return files, root
