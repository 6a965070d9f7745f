"""Serves the live page over HTTP, to this machine only; all but static files need a token."""

from __future__ import annotations

import hmac
import io
import json
import logging
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from lowwater.errors import LowwaterError, SpecError
from lowwater.ui.limits import (
    ANSWER_SECONDS,
    MOST_BODY_BYTES,
    MOST_HEAD_BYTES,
    MOST_PAGES,
    Connections,
    RequestReader,
    RequestTooLargeError,
    discard,
)

HOST = "127.0.0.1"
_SCRIPTS = ("words.js", "charts.js", "frontier.js", "page.js", "uPlot.iife.min.js")
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
_LOG = logging.getLogger("lowwater.ui")
_LOG.addHandler(logging.NullHandler())  # without it, Python would print messages on the terminal
_MISTAKES = (LowwaterError, ArithmeticError, KeyError, RecursionError, TypeError, ValueError)
"""Errors that a wrong request causes: it is answered with the text of the error."""
_ALIVE_SECONDS = 10.0
"""The time between comments that keep a silent connection open."""


class Channel:
    """A channel that sends each event to all pages, and a snapshot to a page that missed events."""

    def __init__(self, snapshot: Callable[[], dict[str, Any]]) -> None:
        self.snapshot = snapshot
        self.changed = threading.Condition()
        self.number, self.event = 0, b""
        self.closed, self.pages = False, 0

    def enter(self) -> bool:
        """Count a new page; return False if too many pages are open."""
        with self.changed:
            if self.pages >= MOST_PAGES:
                return False
            self.pages += 1
            return True

    def leave(self) -> None:
        """Count a page that was closed."""
        with self.changed:
            self.pages -= 1
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
    request_queue_size = socket.SOMAXCONN

    def __init__(
        self,
        port: int,
        token: str,
        channel: Channel,
        actions: Mapping[str, Callable[[dict[str, Any]], str]],
        metrics: Callable[[], str] = str,
    ) -> None:
        self.token, self.channel, self.actions, self.metrics = token, channel, actions, metrics
        self.connections = Connections()
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

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether a new connection is served. Called before its thread starts."""
        return self.connections.admit(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection. Called when its thread ends."""
        self.connections.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failed request; the base class would print its trace on the terminal."""
        if not isinstance(sys.exception(), OSError):  # an OSError: the page was closed
            _LOG.warning("a request of the live page failed", exc_info=True)


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
    server_version, sys_version = "lowwater", ""

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal belongs to the query."""

    # -- bounds ---------------------------------------------------------------------------------

    def setup(self) -> None:
        """Replace the reader of the base class, which has no bounds."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(RequestReader(self.connection))

    def handle(self) -> None:
        """Answer the request of a connection, unless the request exceeds a bound."""
        try:
            super().handle()
        except RequestTooLargeError:
            self.requestline, self.request_version = "", self.protocol_version
            body = f"The request has more than {MOST_HEAD_BYTES:,} bytes of headers.\n".encode()
            self._answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, body)
            discard(self.connection)

    def flush_headers(self) -> None:
        """Bound the time of each write of the answer, then send the headers."""
        self.connection.settimeout(ANSWER_SECONDS)
        super().flush_headers()

    def _body(self) -> bytes | None:
        """Return the body of the request; None, after an answer, if the body is refused."""
        lengths = self.headers.get_all("Content-Length") or ["0"]
        if "Transfer-Encoding" in self.headers:
            status, text = HTTPStatus.LENGTH_REQUIRED, "Send Content-Length, and no chunks.\n"
        elif len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,18}", lengths[0].strip()):
            status, text = HTTPStatus.BAD_REQUEST, "Content-Length must be one whole number.\n"
        elif int(lengths[0]) > MOST_BODY_BYTES:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            text = f"The body has {lengths[0].strip()} bytes; at most {MOST_BODY_BYTES} are read.\n"
        else:
            return self.rfile.read(int(lengths[0]))
        self._answer(status, text.encode())
        discard(self.connection)
        return None

    # -- access ---------------------------------------------------------------------------------

    def _refused(self, token: str | None) -> bool:
        """Answer 403 and return True unless the token is right and the host is this machine."""
        host = self.headers.get("Host", "")
        known = {f"{name}:{self.server.port}" for name in (HOST, "localhost")}
        given = (token or "").encode()
        if host in known and hmac.compare_digest(given, self.server.token.encode()):
            self.server.connections.trust(self.connection)
            return False
        body = b"This page needs the token: open the address that the run has printed.\n"
        self._answer(HTTPStatus.FORBIDDEN, body)
        if self.command == "POST":
            discard(self.connection)
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

    def _url(self) -> SplitResult:
        """Return the address of the request; an address without a path if it is not valid."""
        try:
            return urlsplit(self.path)
        except ValueError:
            return urlsplit("")

    # -- requests -------------------------------------------------------------------------------

    def do_GET(self) -> None:
        """Answer with the page, its files, its events, or the metrics."""
        url = self._url()
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
        content = self._body()
        if content is None:
            return
        action = self.server.actions.get(self._url().path)
        if action is None:
            body = b"The page is read-only: open it with controls=True, or --ui-control.\n"
            self._answer(HTTPStatus.NOT_FOUND, body)
            return
        try:
            given = json.loads(content or b"{}")
            answer = action(given if isinstance(given, dict) else {})
        except _MISTAKES as problem:
            self._answer(HTTPStatus.BAD_REQUEST, f"{problem}\n".encode())
        else:
            self._answer(HTTPStatus.OK, f"{answer}\n".encode())

    def _events(self) -> None:
        channel = self.server.channel
        if not channel.enter():
            body = b"Too many pages are open; close one and load this again.\n"
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, body)
            return
        try:
            self._start(HTTPStatus.OK, {"Content-Type": "text/event-stream"})
            received: int | None = None
            while not channel.closed or received != channel.number:
                received, payload = channel.after(received)
                self.wfile.write(payload)
                self.wfile.flush()
        except OSError:
            return  # the page was closed
        finally:
            channel.leave()


def _file(path: str) -> bytes:
    return files("lowwater.ui").joinpath(path.lstrip("/")).read_bytes()
