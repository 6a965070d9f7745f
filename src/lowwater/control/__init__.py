"""Control: the records, the durable log and the controller that writes it."""

from lowwater.control.controller import ACCOUNTS, TALLIES, Controller, Pace
from lowwater.control.log import ControlLog, Entry, Folder, FolderLog, MemoryLog
from lowwater.control.records import Control, Marks, Seen, Source, Standing

__all__ = [
    "ACCOUNTS",
    "TALLIES",
    "Control",
    "ControlLog",
    "Controller",
    "Entry",
    "Folder",
    "FolderLog",
    "Marks",
    "MemoryLog",
    "Pace",
    "Seen",
    "Source",
    "Standing",
]
