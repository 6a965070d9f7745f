"""Where results go. A sink sees every epoch once; seen twice after a crash, it must not matter."""

from lowwater.sinks.console import Console, console
from lowwater.sinks.memory import Both, Callback, Memory, both, callback, memory
from lowwater.sinks.parquet import Parquet, parquet
from lowwater.sinks.postgres import Postgres, postgres
from lowwater.sinks.sink import Sink
from lowwater.sinks.text import Csv, Json, csv, json

__all__ = [
    "Both",
    "Callback",
    "Console",
    "Csv",
    "Json",
    "Memory",
    "Parquet",
    "Postgres",
    "Sink",
    "both",
    "callback",
    "console",
    "csv",
    "json",
    "memory",
    "parquet",
    "postgres",
]
