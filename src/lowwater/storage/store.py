"""The contract of file systems with atomic writes."""

from __future__ import annotations

from abc import ABC, abstractmethod


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

    @abstractmethod
    def tree(self, path: str) -> list[str]:
        """Return the paths of all files below a folder, relative to it, without hidden files."""

    @abstractmethod
    def delete_tree(self, path: str) -> None:
        """Delete a folder with all files below it, if it exists."""

    def remove_partial(self, path: str) -> None:
        """Delete the temporary files in a folder that killed processes left behind."""
        del path
