"""The address of a PostgreSQL server, whose password must not appear in any text.

libpq quotes parts of an address that it cannot parse, and a password with an unescaped `@` or `/`
becomes part of a host or port in its messages. So an address is checked first, errors about it do
not quote it, and all other messages are printed without its secrets.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

from lowwater.errors import SpecError

HIDDEN = "***"
"""The text in place of a password."""
_SECRETS = frozenset({
    "password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key",
})  # fmt: skip
"""The parameters of libpq that are secret."""
_PASSWORD = re.compile(r"://[^/\s]*:[^\s]*@|(?i:password|client_secret|(client|server)_key)\s*=")
_IN_URL = re.compile(r"(://[^:/@\s]*:)[^\s]+@")
_AFTER_NAME = re.compile(
    r"((?:password|client_secret|(?:client|server)_key)\s*=\s*)('(?:\\.|[^'\\])*'|[^\s,'\"]+)",
    re.IGNORECASE,
)
_URL = re.compile(r"postgres(?:ql)?://(?P<authority>[^/]*)(?P<path>[^?]*)", re.DOTALL)


def may_hold_password(text: str) -> bool:
    """Return whether `text` looks like an address with a password.

    >>> [may_hold_password(t) for t in ("postgresql://me:x@host/db", "host=h user=me", "a:b")]
    [True, False, False]
    """
    return _PASSWORD.search(text) is not None


def hide_passwords(text: str) -> str:
    """Return `text` with `HIDDEN` in place of each password of an address.

    >>> hide_passwords("postgresql://me:x@host/db, host=h password='a b' user=me")
    'postgresql://me:***@host/db, host=h password=*** user=me'
    """
    in_urls = _IN_URL.sub(rf"\g<1>{HIDDEN}@", text)
    return _AFTER_NAME.sub(rf"\g<1>{HIDDEN}", in_urls)


class Address:
    """An address of libpq: a URL, or `host=… user=…`. Its text leaves only towards libpq."""

    def __init__(self, text: str, driver: Any) -> None:
        if not isinstance(text, str):
            raise SpecError(
                f"to_postgres(dsn=...) is a {type(text).__name__}; give the address of a server as "
                f"text, like 'postgresql://me@host/db'"
            )
        if "\0" in text:
            raise _refusal("it contains a NUL character")
        _check_url(text)
        try:
            parameters = driver.conninfo.conninfo_to_dict(text)
        except Exception:  # noqa: BLE001  # its message, and its cause, may quote the password
            raise _refusal("libpq cannot parse it") from None
        if not re.fullmatch(r"[0-9, ]*", str(parameters.get("port", ""))):
            raise _refusal("its port is not a number")
        self._text = text
        values = {str(value) for name, value in parameters.items() if name in _SECRETS and value}
        written = set(re.findall(r"://[^:/@]*:([^@]+)@", text))
        forms = {form for v in values | written for form in (v, quote(v), quote(v, safe=""))}
        # The longest first: a form may contain a shorter one.
        self._secrets = sorted(forms | {unquote(v) for v in written}, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Address({HIDDEN})"

    def connect(self, driver: Any, **options: Any) -> Any:
        """Return a new connection to the server."""
        return driver.connect(self._text, **options)

    def without_secrets(self, text: str) -> str:
        """Return `text` with `HIDDEN` in place of each secret."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text


def _check_url(text: str) -> None:
    """Raise SpecError if libpq would take a part of the password for a host, port or database."""
    url = _URL.match(text)
    if url is None:
        return
    if url["authority"].count("@") > 1 or "@" in url["path"]:
        raise _refusal("its password seems to contain @ or /")


def _refusal(problem: str) -> SpecError:
    return SpecError(
        f"to_postgres(dsn=...): {problem}. The address is not printed, because it may contain a "
        f"password. Write postgresql://user:password@host/db with @ as %40, / as %2F and : as %3A, "
        f"or host=... user=... password='...'; better, leave the password to ~/.pgpass"
    )
