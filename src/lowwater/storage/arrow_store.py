"""Files in a remote file system of Arrow."""

from __future__ import annotations

import os
import threading

import pyarrow.fs as pafs

from lowwater.storage.store import FileStore


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

    def tree(self, path: str) -> list[str]:  # noqa: D102
        below = pafs.FileSelector(path, allow_not_found=True, recursive=True)
        files = [info for info in self.files.get_file_info(below) if info.is_file]
        return [info.path[len(path) + 1 :] for info in files if info.base_name[0] != "."]

    def delete_tree(self, path: str) -> None:  # noqa: D102
        if self.files.get_file_info(path).type is not pafs.FileType.NotFound:
            self.files.delete_dir(path)

    def remove_partial(self, path: str) -> None:  # noqa: D102
        found = self.files.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        for info in found:
            if info.base_name[0] == "." and info.base_name.endswith(".tmp"):
                self.files.delete_file(info.path)
