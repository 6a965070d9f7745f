"""The processes of the harness on Spark: drivers that stay alive between runs, and a cluster."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import pyspark

from chaos.spark_driver import REPLY
from chaos.spark_faults import FOLDER, Orders
from chaos.spark_queries import folders

_ROOT = Path(__file__).parent.parent
_HOME = Path(pyspark.__path__[0])
_START_SECONDS = 120.0
SESSIONS = {"ours": "default", "plain": "local[2]", "cluster": "spark://"}
"""The sessions of drivers: made by Lowwater, without retries of tasks, and on a cluster."""


@dataclass(frozen=True)
class Reply:
    """The end of a run: its error, None if it ended in order; or the death of its process."""

    text: str = ""
    named: bool = True
    halted: bool = False
    died: bool = False

    @property
    def ended(self) -> bool:
        """Whether the run came to its end."""
        return not self.text and not self.died


class Driver:
    """A driver process; it is ready when its session is up."""

    def __init__(self, master: str, orders: Orders, log: Path) -> None:
        self.orders = orders
        environment = {
            **os.environ,
            FOLDER: str(orders.folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        with log.open("a") as errors:
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "chaos.spark_driver", master],
                cwd=_ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._replies: queue.Queue[Reply] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.was_ready = False

    def _listen(self) -> None:
        assert self.process.stdout is not None  # noqa: S101
        with self.process.stdout as answers:
            for line in answers:
                if line.startswith(REPLY):
                    error = json.loads(line.removeprefix(REPLY))
                    self._replies.put(Reply() if error is None else Reply(**error))
        self._replies.put(Reply(died=True))

    def ready(self) -> Self:
        """Wait until the session is up."""
        if not self.was_ready and not self._replies.get(timeout=_START_SECONDS).ended:
            raise RuntimeError("a driver process has not started; see its log")
        self.was_ready = True
        return self

    @property
    def is_alive(self) -> bool:
        """Whether the process and its JVM are alive."""
        if self.process.poll() is not None:
            return False
        children = psutil.Process(self.process.pid).children()
        return any(p.name() == "java" and p.status() != psutil.STATUS_ZOMBIE for p in children)

    def wait_for_death(self, seconds: float) -> None:
        """Wait until the process or its JVM has ended, at most `seconds`."""
        until = time.monotonic() + seconds
        while self.is_alive and time.monotonic() < until:
            time.sleep(0.05)

    def begin(self, query: str, folder: Path, limit: int = 1) -> None:
        """Begin a run; a micro-batch of Spark holds `limit` files."""
        streams = dict(folders())
        order = {"query": query, "streams": streams, "folder": str(folder), "limit": limit}
        assert self.process.stdin is not None  # noqa: S101
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def reply(self, seconds: float) -> Reply | None:
        """Return the end of the run; None if it does not end in time."""
        with suppress(queue.Empty):
            return self._replies.get(timeout=seconds)
        return None

    def freeze(self) -> None:
        """Stop the process, its JVM and its workers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let all stopped processes continue."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process and its children."""
        self._signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None  # noqa: S101
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(psutil.NoSuchProcess):
            me = psutil.Process(self.process.pid)
            for process in (me, *me.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


class Cluster:
    """A standalone cluster on loopback: each worker has a host of its own, for speculation."""

    def __init__(self, folder: Path, orders: Orders) -> None:
        self._folder, self._orders = folder, orders
        self._servers: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def start(self) -> None:
        """Start the master and two workers."""
        master = self._server("master", "127.0.0.1")
        self.address = _said(master, r"spark://127\.0\.0\.1:\d+")
        small = ["-c", "1", "-m", "1g"]
        logs = [
            self._server("worker", host, *small, "-d", str(self._folder / host), self.address)
            for host in ("127.0.0.1", "127.0.0.2")
        ]
        for log in logs:
            _said(log, "Successfully registered with master")

    def _server(self, kind: str, host: str, *words: str) -> Path:
        log = self._folder / f"{kind}-{host}.log"
        name = f"org.apache.spark.deploy.{kind}.{kind.title()}"
        here = ["--host", host, "--port", "0", "--webui-port", "0"]
        environment = {
            **os.environ,
            FOLDER: str(self._orders.folder),
            "SPARK_LOCAL_IP": host,
            "SPARK_HOME": str(_HOME),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        with log.open("w") as out:
            server = subprocess.Popen(  # noqa: S603
                [str(_HOME / "bin" / "spark-class"), name, *here, *words],
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self._servers.append(server)
        return log

    def stop(self) -> None:
        """End the cluster."""
        for server in reversed(self._servers):
            server.terminate()
        for server in self._servers:
            server.wait()


def _said(log: Path, pattern: str) -> str:
    """Wait until a server's log contains `pattern`, and return the match."""
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if found := re.search(pattern, log.read_text()):
            return found[0]
        time.sleep(0.1)
    raise RuntimeError(f"{log} does not contain {pattern!r}")


class Pool:
    """The drivers of the harness, one per session, started when they are needed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lw-")))
        self._drivers: dict[str, Driver] = {}
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for driver in self._drivers.values():
            driver.kill()
        if self._cluster is not None:
            self._cluster.stop()
        self._stack.close()

    def start(self, session: str) -> Driver:
        """Return the driver of a session, which may still be starting; replace a dead one."""
        known = self._drivers.get(session)
        if known is not None and (known.is_alive or not known.was_ready):
            return known
        if known is not None:
            known.kill()
        folder = self.folder / f"orders-{session}"
        folder.mkdir(exist_ok=True)
        orders = Orders(folder)
        orders.clear()
        master = self._address(orders) if session == "cluster" else SESSIONS[session]
        self._drivers[session] = Driver(master, orders, self.folder / f"{session}.log")
        return self._drivers[session]

    def ready(self, session: str) -> Driver:
        """Return the driver of a session, ready for a run."""
        return self.start(session).ready()

    def _address(self, orders: Orders) -> str:
        if self._cluster is None:
            self._cluster = Cluster(self.folder, orders)
            self._cluster.start()
        return self._cluster.address
