"""Control: the records, the durable log and the controller that writes it."""

from lowwater.control.arrived import Arrived
from lowwater.control.controller import ACCOUNTS, TALLIES, Controller, Flow, Gauge, Known
from lowwater.control.log import ControlLog, Entry, Folder, FolderLog, MemoryLog, Opening
from lowwater.control.prods import Prod
from lowwater.control.records import Control, Marks, Pair, Reached, Seen, Source, Standing

__all__ = [
    "ACCOUNTS",
    "TALLIES",
    "Arrived",
    "Control",
    "ControlLog",
    "Controller",
    "Entry",
    "Flow",
    "Folder",
    "FolderLog",
    "Gauge",
    "Known",
    "Marks",
    "MemoryLog",
    "Opening",
    "Pair",
    "Prod",
    "Reached",
    "Seen",
    "Source",
    "Standing",
]
