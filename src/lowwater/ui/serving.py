"""The page over HTTP, for this machine only: whoever asks for more than its files needs a token."""

from __future__ import annotations

import hmac
import json
import re
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lowwater.errors import LowwaterError, SpecError

HOST = "127.0.0.1"
_FILES = {
    "/static/words.js": "text/javascript",
    "/static/charts.js": "text/javascript",
    "/static/page.js": "text/javascript",
    "/static/page.css": "text/css",
    "/static/uPlot.iife.min.js": "text/javascript",
    "/static/uPlot.min.css": "text/css",
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_MOST_PAGES = 16
"""So many pages may be open at once."""
_MOST_BYTES = 4_096
_ALIVE_SECONDS = 10.0
"""After so long without news a page is told that somebody is still there."""


class Channel:
    """The newest event, by its number; pages that are slow see only the newest state."""

    def __init__(self, whole: Callable[[], dict[str, Any]]) -> None:
        self.whole = whole
        self.changed = threading.Condition()
        self.number, self.event = 0, b""
        self.closed = False
        self.pages = 0

    def count(self, change: int) -> None:
        """Count a page that has come, or gone."""
        with self.changed:
            self.pages += change
            self.changed.notify_all()

    def publish(self, event: dict[str, Any]) -> None:
        """Tell all pages."""
        payload = _as_event(event)
        with self.changed:
            self.number, self.event = self.number + 1, payload
            self.changed.notify_all()

    def close(self, seconds: float = 0.0) -> None:
        """Send the pages away, after what they have not heard; wait so long for them at most."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.pages, timeout=seconds)

    def after(self, seen: int | None) -> tuple[int | None, bytes]:
        """Wait for what comes after an event; a page that has missed one gets the whole again."""
        with self.changed:
            if seen is not None:
                self.changed.wait_for(
                    lambda: self.closed or self.number > seen, timeout=_ALIVE_SECONDS
                )
                if self.number == seen:
                    return seen, b": still here\n\n"
                if self.number == seen + 1:
                    return self.number, self.event
            number = self.number
        return number, _as_event(self.whole())


def _as_event(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


class Server(ThreadingHTTPServer):
    """Serves one run."""

    daemon_threads = True

    def __init__(
        self,
        port: int,
        token: str,
        channel: Channel,
        actions: dict[str, Callable[[dict[str, Any]], str]],
        metrics: Callable[[], str] = str,
    ) -> None:
        self.token, self.channel, self.actions = token, channel, actions
        self.metrics = metrics
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            raise SpecError(
                f"the page cannot be served on port {port}: {reason.lower()}; choose another port, "
                f"or 0 for any that is free"
            ) from problem

    @property
    def port(self) -> int:
        """The port, also where any was asked for."""
        return int(self.server_address[1])


def check_port(port: int) -> None:
    """Refuse a port that cannot be had, before anything is started."""
    Server(port, "", Channel(dict), {}).server_close()


def check_token(token: str | None) -> None:
    """Refuse a token that could be guessed, or does not fit into an address."""
    if token is not None and not re.fullmatch(r"[A-Za-z0-9._~-]{16,}", token):
        raise SpecError(
            "the token of the page must have 16 characters or more: letters, digits, and . _ ~ -"
        )


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is not for this."""

    # -- who may --------------------------------------------------------------------------------

    def _refused(self, token: str | None) -> bool:
        """Refuse whoever has no token, or came by a name that is not this machine's."""
        host = self.headers.get("Host", "")
        known = {f"{name}:{self.server.port}" for name in (HOST, "localhost")}
        given = (token or "").encode()
        if host in known and hmac.compare_digest(given, self.server.token.encode()):
            return False
        self._answer(HTTPStatus.FORBIDDEN, b"This page needs the token that the run has printed.\n")
        return True

    def _bearer(self) -> str | None:
        """Return the token as programs send it."""
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip() if kind.lower() == "bearer" else None

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # -- what there is --------------------------------------------------------------------------

    def do_GET(self) -> None:
        """Give out the page, its files, and events."""
        asked = urlsplit(self.path)
        token = parse_qs(asked.query).get("token", [self._bearer()])[0]
        if asked.path in _FILES:
            self._answer(HTTPStatus.OK, _file(asked.path), _FILES[asked.path])
        elif self._refused(token):
            return
        elif asked.path == "/":
            self._answer(HTTPStatus.OK, _file("/static/page.html"), "text/html")
        elif asked.path == "/events":
            self._events()
        elif asked.path == "/metrics":
            body = self.server.metrics().encode()
            self._answer(HTTPStatus.OK, body, "text/plain; version=0.0.4")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"There is nothing here.\n")

    def do_POST(self) -> None:
        """Do what a control asks for, if there are controls."""
        if self._refused(self.headers.get("X-Lowwater-Token")):
            return
        action = self.server.actions.get(urlsplit(self.path).path)
        length = int(self.headers.get("Content-Length") or 0)
        if action is None or length > _MOST_BYTES:
            self._answer(HTTPStatus.NOT_FOUND, b"The page is for reading only.\n")
            return
        try:
            given = json.loads(self.rfile.read(length) or b"{}")
            said = action(given if isinstance(given, dict) else {})
        except (LowwaterError, KeyError, TypeError, ValueError) as problem:
            self._answer(HTTPStatus.BAD_REQUEST, f"{problem}\n".encode())
            return
        self._answer(HTTPStatus.OK, f"{said}\n".encode())

    def _events(self) -> None:
        channel = self.server.channel
        if channel.pages >= _MOST_PAGES:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"Too many pages are open.\n")
            return
        self.send_response(HTTPStatus.OK)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        channel.count(1)
        try:
            seen: int | None = None
            while not channel.closed or seen != channel.number:
                seen, payload = channel.after(seen)
                self.wfile.write(payload)
                self.wfile.flush()
        except OSError:
            return  # the page was closed
        finally:
            channel.count(-1)


def _file(path: str) -> bytes:
    return files("lowwater.ui").joinpath(path.lstrip("/")).read_bytes()
