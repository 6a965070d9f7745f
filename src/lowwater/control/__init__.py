"""Control: the records, the durable log and the controller that writes it."""

from lowwater.control.controller import ACCOUNTS, TALLIES, Controller, Pace
from lowwater.control.log import ControlLog, Entry, Folder, FolderLog, MemoryLog, Opening
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
    "Opening",
    "Pace",
    "Seen",
    "Source",
    "Standing",
]
