"""Streams and queries: the builder, the plan, explain, and what a host must offer."""

from lowwater.query.assembly import Assembly, assemble
from lowwater.query.handle import Run
from lowwater.query.hosting import Clock, Host, Outcome, Outputs, VirtualClock
from lowwater.query.leaving import Leaving, given_out, leaving
from lowwater.query.query import Query
from lowwater.query.status import Status
from lowwater.query.stream import Stream
from lowwater.query.windowed import Windowed

__all__ = [
    "Assembly",
    "Clock",
    "Host",
    "Leaving",
    "Outcome",
    "Outputs",
    "Query",
    "Run",
    "Status",
    "Stream",
    "VirtualClock",
    "Windowed",
    "assemble",
    "given_out",
    "leaving",
]
