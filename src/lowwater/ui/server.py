"""Serves the live page over HTTP, to this machine only; all but static files need a token."""

from __future__ import annotations

import hmac
import json
import re
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lowwater.errors import LowwaterError, SpecError

HOST = "127.0.0.1"
_SCRIPTS = ("words.js", "charts.js", "page.js", "uPlot.iife.min.js")
_FILES = {
    **{f"/static/{name}": "text/javascript" for name in _SCRIPTS},
    **{f"/static/{name}": "text/css" for name in ("page.css", "uPlot.min.css")},
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
"""The largest number of open pages."""
_MOST_BYTES = 4_096
_ALIVE_SECONDS = 10.0
"""The time between comments that keep a silent connection open."""


class Channel:
    """A channel that sends each event to all pages, and a snapshot to a page that missed events."""

    def __init__(self, snapshot: Callable[[], dict[str, Any]]) -> None:
        self.snapshot = snapshot
        self.changed = threading.Condition()
        self.number, self.event = 0, b""
        self.closed, self.pages = False, 0

    def count(self, change: int) -> None:
        """Add `change`, 1 or -1, to the number of open pages."""
        with self.changed:
            self.pages += change
            self.changed.notify_all()

    def publish(self, event: dict[str, Any]) -> None:
        """Send `event` to all pages."""
        payload = _as_event(event)
        with self.changed:
            self.number, self.event = self.number + 1, payload
            self.changed.notify_all()

    def close(self, seconds: float = 0.0) -> None:
        """Close the channel; wait at most `seconds` until all pages have the last event."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.pages, timeout=seconds)

    def after(self, received: int | None) -> tuple[int | None, bytes]:
        """Wait for the event after `received`; return (number, bytes) of it or of a snapshot."""
        with self.changed:
            if received is not None:
                self.changed.wait_for(
                    lambda: self.closed or self.number > received, timeout=_ALIVE_SECONDS
                )
                if self.number == received:
                    return received, b": still here\n\n"
                if self.number == received + 1:
                    return self.number, self.event
            number = self.number
        return number, _as_event(self.snapshot())


def _as_event(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


class Server(ThreadingHTTPServer):
    """The HTTP server for the page of one run."""

    daemon_threads = True

    def __init__(
        self,
        port: int,
        token: str,
        channel: Channel,
        actions: Mapping[str, Callable[[dict[str, Any]], str]],
        metrics: Callable[[], str] = str,
    ) -> None:
        self.token, self.channel, self.actions, self.metrics = token, channel, actions, metrics
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            raise SpecError(
                f"the page cannot be served on port {port}: {reason.lower()}; choose another port, "
                f"or 0 for any free port"
            ) from problem

    @property
    def port(self) -> int:
        """The port of the server; if 0 was requested, the port that the system chose."""
        return int(self.server_address[1])


def check_port(port: int) -> None:
    """Raise SpecError if `port` is not free. Called before the run starts."""
    Server(port, "", Channel(dict), {}).server_close()


def check_token(token: str | None) -> None:
    """Raise SpecError if `token` is too short, or cannot be part of a URL."""
    if token is not None and not re.fullmatch(r"[A-Za-z0-9._~-]{16,}", token):
        raise SpecError(
            "the token of the page must have 16 characters or more, from letters, digits, and "
            ". _ ~ -; leave it out for a random token"
        )


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal belongs to the query."""

    # -- access ---------------------------------------------------------------------------------

    def _refused(self, token: str | None) -> bool:
        """Answer 403 and return True unless the token is right and the host is this machine."""
        host = self.headers.get("Host", "")
        known = {f"{name}:{self.server.port}" for name in (HOST, "localhost")}
        given = (token or "").encode()
        if host in known and hmac.compare_digest(given, self.server.token.encode()):
            return False
        body = b"This page needs the token: open the address that the run has printed.\n"
        self._answer(HTTPStatus.FORBIDDEN, body)
        return True

    def _bearer(self) -> str | None:
        """Return the bearer token of the request."""
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip() if kind.lower() == "bearer" else None

    def _start(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        """Send the status line and the headers of a response."""
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain") -> None:
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        self._start(status, headers)
        self.wfile.write(body)

    # -- requests -------------------------------------------------------------------------------

    def do_GET(self) -> None:
        """Answer with the page, its files, its events, or the metrics."""
        url = urlsplit(self.path)
        token = parse_qs(url.query).get("token", [self._bearer()])[0]
        if url.path in _FILES:
            self._answer(HTTPStatus.OK, _file(url.path), _FILES[url.path])
        elif self._refused(token):
            return
        elif url.path == "/":
            self._answer(HTTPStatus.OK, _file("/static/page.html"), "text/html")
        elif url.path == "/events":
            self._events()
        elif url.path == "/metrics":
            body = self.server.metrics().encode()
            self._answer(HTTPStatus.OK, body, "text/plain; version=0.0.4")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"This address does not exist.\n")

    def do_POST(self) -> None:
        """Run the action that a control of the page requests, if the page has controls."""
        if self._refused(self.headers.get("X-Lowwater-Token")):
            return
        action = self.server.actions.get(urlsplit(self.path).path)
        length = int(self.headers.get("Content-Length") or 0)
        if action is None or length > _MOST_BYTES:
            body = b"The page is read-only: open it with controls=True, or --ui-control.\n"
            self._answer(HTTPStatus.NOT_FOUND, body)
            return
        try:
            given = json.loads(self.rfile.read(length) or b"{}")
            answer = action(given if isinstance(given, dict) else {})
        except (LowwaterError, KeyError, TypeError, ValueError) as problem:
            self._answer(HTTPStatus.BAD_REQUEST, f"{problem}\n".encode())
            return
        self._answer(HTTPStatus.OK, f"{answer}\n".encode())

    def _events(self) -> None:
        channel = self.server.channel
        if channel.pages >= _MOST_PAGES:
            body = b"Too many pages are open; close one and load this again.\n"
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, body)
            return
        self._start(HTTPStatus.OK, {"Content-Type": "text/event-stream"})
        channel.count(1)
        try:
            received: int | None = None
            while not channel.closed or received != channel.number:
                received, payload = channel.after(received)
                self.wfile.write(payload)
                self.wfile.flush()
        except OSError:
            return  # the page was closed
        finally:
            channel.count(-1)


def _file(path: str) -> bytes:
    return files("lowwater.ui").joinpath(path.lstrip("/")).read_bytes()
