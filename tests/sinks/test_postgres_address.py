"""The password of a database is in no error, no repr, no log and no checkpoint."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest

import lowwater as lw
from lowwater.errors import SinkError
from lowwater.sinks.postgres_address import Address, hide_passwords, may_hold_password

psycopg = pytest.importorskip("psycopg")

SECRET = "s3cr3t"  # noqa: S105
DEAD = "127.0.0.1:1"
ADDRESSES = {
    "URL": f"postgresql://me:{SECRET}@{DEAD}/db",
    "short scheme": f"postgres://me:{SECRET}@{DEAD}/db",
    "several hosts": f"postgresql://me:{SECRET}@{DEAD},127.0.0.1:2/db",
    "parameter of a URL": f"postgresql://me@{DEAD}/db?password={SECRET}",
    "percent-encoded": f"postgresql://me:%73{SECRET}%40@{DEAD}/db",
    "question mark": f"postgresql://me:x?{SECRET}@{DEAD}/db",
    "key and value": f"host=127.0.0.1 port=1 user=me password={SECRET}",
    "quoted": f"host=127.0.0.1 port=1 password='a {SECRET} \\' b' user=me",
    "spaces": f"host=127.0.0.1 port=1 password = {SECRET}",
    "secret of a key": f"host=127.0.0.1 port=1 sslpassword={SECRET}",
    "password as the database": f"postgresql://me:{SECRET}@{DEAD}/{SECRET}",
    "password as the host": f"host={SECRET}.invalid password={SECRET}",
}
"""Addresses that libpq can parse, of servers that do not exist."""
WRONG = {
    "bad percent": f"postgresql://me:{SECRET}%zz@{DEAD}/db",
    "at sign": f"postgresql://me:x@{SECRET}@{DEAD}/db",
    "slash": f"postgresql://me:x/{SECRET}@{DEAD}/db",
    "question mark and at sign": f"postgresql://me:x?y@{SECRET}@{DEAD}/db",
    "no host": f"postgresql://me:{SECRET}/db",
    "two words": f"host=127.0.0.1 password=x {SECRET}",
    "two words, one an option": f"host=127.0.0.1 password=x {SECRET}=y",
    "open quote": f"host=127.0.0.1 password='{SECRET}",
    "another scheme": f"psql://me:{SECRET}@{DEAD}/db",
    "bytes": f"postgresql://me:{SECRET}@{DEAD}/db".encode(),
    "zero": f"host=127.0.0.1 password={SECRET}\0x",
}
"""Addresses that cannot be used; libpq quotes most of them, or a part, in its message."""


def printed(error):
    """All that Python prints of an error, causes included, and its own forms."""
    return "".join(traceback.format_exception(error)) + str(error) + repr(error)


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_error_of_a_server_has_no_password(name, caplog):
    caplog.set_level(logging.DEBUG)
    sink = lw.to_postgres(ADDRESSES[name], table="t")
    feed = lw.feed("t bigint")
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(n=lw.count())
    with pytest.raises(lw.LowwaterError) as raised:
        query.run(epochs={feed: [[(1,)]]}, sink=sink)
    assert SECRET not in printed(raised.value)
    assert SECRET not in caplog.text
    for text in (repr(sink), str(sink), repr(vars(sink)), query.explain()):
        assert SECRET not in text


@pytest.mark.parametrize("name", WRONG)
def test_an_address_that_cannot_be_used_is_refused_without_being_quoted(name):
    with pytest.raises(lw.SpecError, match=r"to_postgres\(dsn=...\)") as raised:
        lw.to_postgres(WRONG[name], table="t")
    assert SECRET not in printed(raised.value)


def test_a_password_of_a_service_or_a_file_is_not_in_an_error(tmp_path, monkeypatch):
    services, passwords = tmp_path / "services", tmp_path / "passwords"
    services.write_text(f"[prod]\nhost=127.0.0.1\nport=1\nuser=me\npassword={SECRET}\n")
    passwords.write_text(f"127.0.0.1:1:*:me:{SECRET}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGPASSWORD", SECRET)
    by_file = f"host=127.0.0.1 port=1 user=me passfile={passwords}"
    by_service = ("service=prod", "postgresql:///?service=prod")
    for address in (*by_service, by_file, f"postgresql://me@{DEAD}/db"):
        with pytest.raises(SinkError) as raised:
            lw.to_postgres(address, table="t").write(0, lw.feed("t bigint").table([(1,)]))
        assert SECRET not in printed(raised.value)


def test_a_message_that_quotes_the_password_is_printed_without_it(monkeypatch):
    quoting = psycopg.OperationalError(f'password "{SECRET}%40" or "{SECRET}@" is wrong for db')

    def fail(*_, **__):
        raise quoting

    monkeypatch.setattr(psycopg, "connect", fail)
    sink = lw.to_postgres(f"postgresql://me:{SECRET}%40@host/db", table="t")
    with pytest.raises(SinkError, match="wrong for db") as raised:
        sink.write(0, lw.feed("t bigint").table([(1,)]))
    assert SECRET not in printed(raised.value)
    # Another error keeps its cause.
    quoting.args = ("the server is starting up",)
    with pytest.raises(SinkError, match="starting up") as raised:
        sink.write(0, lw.feed("t bigint").table([(1,)]))
    assert raised.value.__cause__ is quoting


def test_an_address_shows_nothing_of_itself():
    address = Address(f"postgresql://me:{SECRET}@host/db", psycopg)
    assert repr(address) == str(address) == f"{address}" == "Address(***)"
    assert pickle.loads(pickle.dumps(address)).without_secrets(SECRET) == "***"


def test_a_running_query_shows_no_password(dsn, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "1.jsonl").write_text('{"t": 1}\n{"t": 25}\n')
    stream = lw.stream(
        lw.files(folder, format="json", schema="t bigint"), time="t", watermark=lw.ordered()
    )
    query = stream.window(range=10).agg(n=lw.count())
    sink = lw.to_postgres(f"{dsn} password={SECRET}", table="hidden")
    outcome = query.run(sink=sink, checkpoint=str(tmp_path / "ck"), host="local")
    for text in (repr(outcome), repr(outcome.status), query.explain(features=True)):
        assert SECRET not in text
    files = [p for p in (tmp_path / "ck").rglob("*") if p.is_file()]
    assert files
    assert not any(SECRET.encode() in p.read_bytes() for p in files)


@pytest.mark.parametrize("name", ADDRESSES)
def test_passwords_in_a_text_are_found_and_hidden(name):
    text = f"it is {ADDRESSES[name]}, or not"
    assert may_hold_password(text)
    if not name.startswith("password as"):
        assert SECRET not in hide_passwords(text)


@pytest.mark.parametrize(
    "text", ["postgresql://me@host:5432/db", "host=h user=me", "12:30", "a: b@c", "s3://a/b"]
)
def test_a_text_without_a_password_stays_as_it_is(text):
    assert not may_hold_password(text)
    assert hide_passwords(text) == text
