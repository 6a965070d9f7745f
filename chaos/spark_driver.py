"""A driver process: it has one Spark session, and runs one query after the other in it.

Each line of its standard input is a run: the query and its folders. It answers with a line that
begins with `REPLY`, and holds the error, or null.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lowwater as lw
from chaos.spark_faults import HaltError, install
from chaos.spark_queries import QUERIES

REPLY = "lowwater-chaos "
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": _SHORT_LIVED,
    "spark.executor.extraJavaOptions": _SHORT_LIVED,
    "spark.executor.memory": "512m",
    "spark.python.daemon.module": "chaos.spark_daemon",
    "spark.log.level": "OFF",
    # An attempt that lost against a speculative copy stays alive, until the harness wakes it.
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.python.task.killTimeout": "60s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeout": "600s",
}


def main(master: str) -> None:
    """Run the queries that standard input names."""
    injector = install(is_worker=False)
    chosen = {} if master == "default" else {"spark.master": master}
    settings = {n.replace(".", "_"): v for n, v in (_SETTINGS | chosen).items()}
    lw.spark_session(**settings)
    _reply(None)
    for line in sys.stdin:
        if injector is not None:
            injector.seen.clear()
        _reply(_run(**json.loads(line)))


def _run(query: str, streams: dict[str, str], folder: str, limit: int) -> dict[str, Any] | None:
    """Run a query to its end; return its error."""
    at = Path(folder)
    try:
        QUERIES[query](streams, limit).run(
            host="spark",
            shards=2,
            checkpoint=str(at / "checkpoint"),
            sink=lw.to_parquet(at / "results"),
            late=lw.to_parquet(at / "late"),
        )
    except Exception as error:  # noqa: BLE001
        halted = isinstance(error, HaltError) or HaltError.__name__ in str(error)
        named = isinstance(error, lw.LowwaterError)
        return {"text": f"{type(error).__name__}: {error}", "named": named, "halted": halted}
    return None


def _reply(error: dict[str, Any] | None) -> None:
    sys.stdout.write(f"{REPLY}{json.dumps(error)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
