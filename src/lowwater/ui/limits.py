"""Bounds on the connections and requests of the live page.

Any program on this machine can open a connection to the page, even without the token. These bounds
keep such a program from using up threads, memory or time of the process that runs the query.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

REQUEST_SECONDS = 5.0
"""The longest time from the opening of a connection to the last byte of its request."""
ANSWER_SECONDS = 10.0
"""The longest time of one write to a page; a page that reads more slowly is disconnected."""
DISCARD_SECONDS = 1.0
"""The longest time that the rest of a refused body is read and discarded."""
MOST_HEAD_BYTES = 16_384
"""The largest size of a request line with all headers."""
MOST_BODY_BYTES = 4_096
"""The largest body of a request; the controls of the page send less than 200 bytes."""
MOST_DISCARD_BYTES = 1 << 20
"""The most bytes of a refused body that are read and discarded."""
MOST_CONNECTIONS = 64
"""The largest number of open connections, pages included."""
MOST_PAGES = 16
"""The largest number of open pages."""


class RequestTooLargeError(Exception):
    """The error for a request with more bytes than the page accepts."""


class RequestReader(io.RawIOBase):
    """The bytes of one request, bounded in size and in time.

    A timeout of the socket alone would start again with each byte, so a client could send one byte
    per second for ever. `until` is one deadline for the whole request.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self.connection, self.until = connection, time.monotonic() + REQUEST_SECONDS
        self.left = MOST_HEAD_BYTES + MOST_BODY_BYTES

    def readable(self) -> bool:
        """Return True: the reader only reads."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read bytes that have arrived, or wait for them; raise an error beyond a bound."""
        if not self.left:
            raise RequestTooLargeError
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self.connection.settimeout(seconds)
        count = self.connection.recv_into(buffer, min(memoryview(buffer).nbytes, self.left))
        self.left -= count
        return count


class Connections:
    """The open connections of the page; of too many, the oldest one without the token is closed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.unknown: dict[socket.socket, None] = {}
        """Connections that have not shown the token, the oldest first."""
        self.known: set[socket.socket] = set()

    def __len__(self) -> int:
        return len(self.unknown) + len(self.known)

    def admit(self, connection: socket.socket) -> bool:
        """Add a new connection; return False if all open connections have shown the token."""
        with self.lock:
            if len(self) >= MOST_CONNECTIONS:
                oldest = next(iter(self.unknown), None)
                if oldest is None:
                    return False
                del self.unknown[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # ends the thread that reads it
            self.unknown[connection] = None
            return True

    def trust(self, connection: socket.socket) -> None:
        """Keep a connection that has shown the token, even if there are too many."""
        with self.lock:
            if connection in self.unknown:
                del self.unknown[connection]
                self.known.add(connection)

    def remove(self, connection: socket.socket) -> None:
        """Forget a connection that is being closed."""
        with self.lock:
            self.unknown.pop(connection, None)
            self.known.discard(connection)


def discard(connection: socket.socket) -> None:
    """End the answer, then read and discard the rest of a refused request, within bounds.

    If unread bytes remained, the system would reset the connection, and the client could lose the
    answer.
    """
    until, left = time.monotonic() + DISCARD_SECONDS, MOST_DISCARD_BYTES
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while left > 0 and (seconds := until - time.monotonic()) > 0:
            connection.settimeout(seconds)
            got = len(connection.recv(min(left, 65_536)))
            if not got:
                return
            left -= got
