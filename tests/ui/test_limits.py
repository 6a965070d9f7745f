"""The page under attack: slow, endless, idle and broken requests of any program on the machine."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from lowwater.ui.limits import MOST_BODY_BYTES, MOST_CONNECTIONS, MOST_HEAD_BYTES, MOST_PAGES
from lowwater.ui.server import Channel, Server

TOKEN = "a-token-of-the-tests"  # noqa: S105
GIGABYTE = 1 << 30


@pytest.fixture
def server(monkeypatch):
    """The server of a page whose only action returns its argument; requests last half a second."""
    monkeypatch.setattr("lowwater.ui.limits.REQUEST_SECONDS", 0.5)
    monkeypatch.setattr("lowwater.ui.limits.DISCARD_SECONDS", 0.2)
    monkeypatch.setattr("lowwater.ui.server.ANSWER_SECONDS", 0.5)
    actions = {"/retune": lambda given: f"{float(given['quality']):.2f}"}
    served = Server(0, TOKEN, Channel(lambda: {"whole": True}), actions, lambda: "metric 1\n")
    thread = threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield served
    served.channel.close()
    served.shutdown()
    served.server_close()
    thread.join()


def connect(server):
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.settimeout(10)
    return connection


def head(server, method, path, **headers):
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def rest(connection):
    """All that the server sends until it closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65_536):
            received += chunk
    return received


def status(answer):
    return int(answer.split(b" ", 2)[1])


def sent(server, request):
    with connect(server) as connection:
        connection.sendall(request)
        return rest(connection)


def posted(server, body, **headers):
    headers = {"X_Lowwater_Token": TOKEN, "Content_Length": len(body), **headers}
    return sent(server, head(server, "POST", "/retune", **headers) + body)


def works(server):
    answer = sent(server, head(server, "GET", f"/metrics?token={TOKEN}"))
    return status(answer) == 200 and answer.endswith(b"metric 1\n")


def drip(connection, text):
    """Send a byte every 50 ms until the server hangs up; return whether it did."""
    connection.settimeout(0.05)
    for i in range(200):
        try:
            connection.sendall(text[i % len(text) :][:1])
            if connection.recv(65_536) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


# -- time -----------------------------------------------------------------------------------------


def test_an_idle_connection_is_closed(server):
    with connect(server) as connection:
        assert rest(connection) == b""
    assert works(server)


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (b"", b"GET"),
        (b"GET /static/page.js HTTP/1.1\r\n", b"a: b\r\n"),
        (b"GET /static/page.js HTTP/1.1\r\na: ", b"b"),
    ],
    ids=["request line", "headers", "one header"],
)
def test_headers_that_come_byte_by_byte_end_the_connection(server, before, text):
    with connect(server) as connection:
        connection.sendall(before)
        assert drip(connection, text)
    assert works(server)


def test_a_body_that_comes_byte_by_byte_ends_the_connection(server):
    with connect(server) as connection:
        headers = {"X_Lowwater_Token": TOKEN, "Content_Length": MOST_BODY_BYTES}
        connection.sendall(head(server, "POST", "/retune", **headers))
        assert drip(connection, b" ")
    assert works(server)


def test_a_page_that_does_not_read_is_disconnected(server):
    server.channel.snapshot = lambda: {"whole": "x" * 50_000_000}
    with connect(server) as connection:
        connection.sendall(head(server, "GET", f"/events?token={TOKEN}"))
        wait_for(lambda: server.channel.pages == 1)
        wait_for(lambda: server.channel.pages == 0)


# -- size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /" + b"a" * MOST_HEAD_BYTES * 4,
        b"GET / HTTP/1.1\r\na: " + b"b" * MOST_HEAD_BYTES * 4,
        b"GET / HTTP/1.1\r\n" + b"a: bbbbbbbb\r\n" * MOST_HEAD_BYTES,
    ],
    ids=["request line", "one header", "many headers"],
)
def test_headers_without_end_are_refused(server, request_head):
    assert status(sent(server, request_head)) in (431, 414)
    assert works(server)


@pytest.mark.parametrize("size", [MOST_BODY_BYTES + 1, GIGABYTE, 10**17])
def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(server, size):
    answer = posted(server, b"", Content_Length=size)
    assert status(answer) == 413
    assert f"at most {MOST_BODY_BYTES}".encode() in answer
    assert works(server)


@pytest.mark.parametrize(("right", "wanted"), [(True, 413), (False, 403)])
def test_a_gigabyte_is_not_read(server, right, wanted):
    token = TOKEN if right else "wrong"
    headers = {"X_Lowwater_Token": token, "Content_Length": GIGABYTE}
    with connect(server) as connection:
        connection.sendall(head(server, "POST", "/retune", **headers))
        accepted, chunk = 0, b"x" * (1 << 20)
        with suppress(OSError):
            while accepted < GIGABYTE:
                connection.sendall(chunk)
                accepted += len(chunk)
        assert accepted < 64 << 20  # what fits into the buffers of two sockets
        answer = rest(connection)
    # The reset of the connection may have overtaken the answer.
    assert not answer or status(answer) == wanted
    assert works(server)


def test_a_body_in_chunks_is_refused(server):
    chunked = {"X_Lowwater_Token": TOKEN, "Transfer_Encoding": "chunked"}
    body = b"ffffffff\r\n" + b"x" * 100_000
    assert status(sent(server, head(server, "POST", "/retune", **chunked) + body)) == 411
    both = {**chunked, "Content_Length": 2}
    assert status(sent(server, head(server, "POST", "/retune", **both) + b"{}")) == 411


@pytest.mark.parametrize("length", ["-1", "x", "1e9", "+2", "0x2", "", "2, 2", "٢", "9" * 40])
def test_a_length_that_is_not_a_number_is_refused(server, capfd, length):
    request = head(server, "POST", "/retune", X_Lowwater_Token=TOKEN)
    line = f"Content-Length: {length}\r\n\r\n".encode()
    assert status(sent(server, request[:-2] + line + b"{}")) == 400
    assert capfd.readouterr().err == ""


def test_two_lengths_are_refused(server):
    request = head(server, "POST", "/retune", X_Lowwater_Token=TOKEN, Content_Length=2)
    assert status(sent(server, request[:-2] + b"Content-Length: 3\r\n\r\n{} ")) == 400


# -- numbers --------------------------------------------------------------------------------------


def test_hundreds_of_idle_connections_take_no_more_threads_than_allowed(server, monkeypatch):
    monkeypatch.setattr("lowwater.ui.limits.REQUEST_SECONDS", 60.0)
    before = threading.active_count()
    with ExitStack() as opened:
        page = opened.enter_context(connect(server))
        page.sendall(head(server, "GET", f"/events?token={TOKEN}"))
        wait_for(lambda: server.channel.pages == 1)
        for number in range(6 * MOST_CONNECTIONS):
            idle = opened.enter_context(connect(server))
            if number % 2:
                idle.sendall(b"GET / HTTP/1.1\r\n")
        wait_for(lambda: threading.active_count() <= before + MOST_CONNECTIONS + 1)
        assert len(server.connections) <= MOST_CONNECTIONS
        assert works(server)
        # The page with the token is still open.
        server.channel.publish({"epoch": 7})
        received = b""
        while b'"epoch":7' not in received:
            received += page.recv(65_536)
    wait_for(lambda: not server.connections.unknown)


def test_connections_with_the_token_are_not_closed_for_others(server, monkeypatch):
    monkeypatch.setattr("lowwater.ui.limits.MOST_CONNECTIONS", 3)
    with ExitStack() as opened:
        for number in range(3):
            page = opened.enter_context(connect(server))
            page.sendall(head(server, "GET", f"/events?token={TOKEN}"))
            wait_for(lambda n=number: server.channel.pages == n + 1)
        assert sent(server, b"") == b""
        assert server.channel.pages == 3


def test_only_so_many_pages_are_open_at_once(server):
    with ExitStack() as opened:
        pages = [opened.enter_context(connect(server)) for _ in range(MOST_PAGES)]
        for page in pages:
            page.sendall(head(server, "GET", f"/events?token={TOKEN}"))
        wait_for(lambda: server.channel.pages == MOST_PAGES)
        assert status(sent(server, head(server, "GET", f"/events?token={TOKEN}"))) == 503


# -- nonsense -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"[" * MOST_BODY_BYTES,
        b'{"quality":' * 300,
        b'{"quality": 1' + b"0" * 4_000 + b"}",
        b'{"quality": "\xff"}',
        b"\xff\xfe",
        b'{"quality": [1]}',
        b"null",
    ],
    ids=lambda body: body[:12].decode("latin-1"),
)
def test_a_wrong_body_is_answered_and_prints_nothing(server, capfd, body):
    assert status(posted(server, body)) == 400
    assert capfd.readouterr().err == ""
    assert posted(server, json.dumps({"quality": 0.5}).encode()).endswith(b"0.50\n")


@pytest.mark.parametrize(
    "request_text",
    [
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"GET //[::1 HTTP/1.1\r\n\r\n",
        b"GET /?token=%ff%00 HTTP/1.1\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PUT / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nAuthorization: \xff\r\n\r\n",
        b"\r\n" * 100,
    ],
)
def test_a_broken_request_prints_nothing(server, capfd, request_text):
    answer = sent(server, request_text)
    assert not answer or b"200 OK" not in answer
    assert capfd.readouterr().err == ""
    assert works(server)


def test_a_failure_of_the_page_goes_to_the_log_and_not_to_the_terminal(server, capfd, caplog):
    def fail():
        raise ZeroDivisionError("in the metrics")

    server.metrics = fail
    assert sent(server, head(server, "GET", f"/metrics?token={TOKEN}")) == b""
    wait_for(lambda: caplog.records)
    assert "ZeroDivisionError: in the metrics" in caplog.text
    assert capfd.readouterr().err == ""


def wait_for(condition):
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)
