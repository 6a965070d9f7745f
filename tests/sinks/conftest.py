"""A PostgreSQL server for the tests of sinks."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def server_folder():
    """The folder of `initdb`, which Debian does not put on the path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return debian[-1].parent if debian else None


@pytest.fixture(scope="module")
def dsn(tmp_path_factory):
    """A server on a socket in a folder of the tests; it refuses to be run by root."""
    folder = server_folder()
    if folder is None:
        pytest.skip("no PostgreSQL server is installed (on Debian the package postgresql)")
    home = tmp_path_factory.mktemp("postgres")
    user = "nobody" if os.geteuid() == 0 else None
    if user is not None:
        for parent in (home, *home.parents):
            if parent.owner() == "root" and parent.stat().st_mode & 0o777 == 0o700:
                parent.chmod(0o711)
        shutil.chown(home, user)
    data = home / "data"

    def call(program, *words):
        command = [folder / program, "-D", data, *words]
        subprocess.run(command, user=user, check=True, stdout=subprocess.DEVNULL, cwd="/")

    call("initdb", "-A", "trust", "-U", "me", "-N")
    options = f"-c listen_addresses='' -c unix_socket_directories={home} -c fsync=off"
    call("pg_ctl", "-w", "-s", "-o", options, "start")
    yield f"host={home} user=me dbname=postgres"
    call("pg_ctl", "-m", "immediate", "-s", "stop")
