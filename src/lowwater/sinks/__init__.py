"""Where results go. A sink sees every epoch once; seen twice after a crash, it must not matter."""

from lowwater.sinks.console import Console, console
from lowwater.sinks.memory import Callback, Memory, callback, memory
from lowwater.sinks.parquet import Parquet, parquet
from lowwater.sinks.postgres import Postgres, postgres
from lowwater.sinks.sink import Sink

__all__ = [
    "Callback",
    "Console",
    "Memory",
    "Parquet",
    "Postgres",
    "Sink",
    "callback",
    "console",
    "memory",
    "parquet",
    "postgres",
]
