"""A real cluster: `spark-submit` to a master with two workers that have never heard of us."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from tests.spark import cluster_job as clustered
from tests.spark.streams import SHORT_LIVED, cut, disordered, ordered_rows

HOME = Path(pyspark.__path__[0])
LOOPBACK = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_HOME": str(HOME),
    "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
    "SPARK_DAEMON_MEMORY": "256m",
}
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.driver.extraJavaOptions": SHORT_LIVED,
}
SOON = 60.0


@contextmanager
def server(log, kind, *words):
    """A part of the cluster; ended by its id."""
    command = [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *words]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, env={**os.environ, **LOOPBACK}, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(SOON)


def said(log, pattern):
    """Wait until a server has said something, and return it."""
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text())
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture
def master(tmp_path):
    """The address of a cluster on loopback."""
    here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    logs = [tmp_path / f"{name}.log" for name in ("master", "worker-0", "worker-1")]
    with ExitStack() as servers:
        servers.enter_context(server(logs[0], "master.Master", *here))
        address = said(logs[0], r"spark://127\.0\.0\.1:\d+")
        for log in logs[1:]:
            small = ["-c", "1", "-m", "1g", "-d", str(log.with_suffix(""))]
            servers.enter_context(server(log, "worker.Worker", *here, *small, address))
        for log in logs[1:]:
            said(log, "Successfully registered with master")
        yield address


@pytest.fixture
def strangers_python(tmp_path):
    """An interpreter that finds all packages of this one but Lowwater."""
    folder = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"

    def ask(text):
        return subprocess.run([python, "-c", text], capture_output=True, text=True, check=False)

    site = ask("import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    # A folder that is merely named has its own .pth files ignored, those of editable installs.
    Path(site, "others.pth").write_text(sysconfig.get_path("purelib"))
    assert "No module named 'lowwater'" in ask("import pyarrow, lowwater").stderr
    return python


def test_the_package_ships_itself_to_the_executors_of_a_cluster(tmp_path, master, strangers_python):
    (tmp_path / "stream").mkdir()
    for i, piece in enumerate(cut(disordered(2_000, seconds=60, late_by=8), 4)):
        pq.write_table(piece, tmp_path / "stream" / f"{i}.parquet")
    pythons = {"PYSPARK_PYTHON": str(strangers_python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    settings = (word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}"))
    subprocess.run(
        [HOME / "bin" / "spark-submit", "--master", master, *settings, clustered.__file__],
        cwd=tmp_path,
        env={**os.environ, **LOOPBACK, **pythons},
        check=True,
        timeout=4 * SOON,
    )
    assert (tmp_path / "master").read_text() == master
    expected = clustered.query(tmp_path / "stream").run(host="local", shards=2).results
    assert len(expected) > 0
    found = pq.read_table(tmp_path / "results")
    assert sorted(ordered_rows(found)) == sorted(ordered_rows(expected))
