"""Control: the records, the durable log and the controller that writes it."""

from lowwater.control.controller import ACCOUNTS, TALLIES, Controller, Flow, Gauge
from lowwater.control.log import ControlLog, Entry, Folder, FolderLog, MemoryLog, Opening
from lowwater.control.records import Control, Marks, Pair, Reached, Seen, Source, Standing

__all__ = [
    "ACCOUNTS",
    "TALLIES",
    "Control",
    "ControlLog",
    "Controller",
    "Entry",
    "Flow",
    "Folder",
    "FolderLog",
    "Gauge",
    "Marks",
    "MemoryLog",
    "Opening",
    "Pair",
    "Reached",
    "Seen",
    "Source",
    "Standing",
]
