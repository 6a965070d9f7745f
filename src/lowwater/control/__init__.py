"""Control: the records, the durable log and the controller that writes it."""

from lowwater.control.accounts import ACCOUNTS, TALLIES
from lowwater.control.arrived import Arrived
from lowwater.control.aside import Aside, Backlog
from lowwater.control.controller import Controller
from lowwater.control.dropped import Dropped, Loaded, Shed
from lowwater.control.intervals import Stretches
from lowwater.control.log import ControlLog, Entry, Folder, FolderLog, MemoryLog, Opening
from lowwater.control.policies import Flow, Gauge, Known
from lowwater.control.prods import Prod
from lowwater.control.records import Control, Marks, Pair, Reached, Seen, Source, Standing
from lowwater.control.sidelined import Sidelined
from lowwater.control.tuning import Retuning, Tuned

__all__ = [
    "ACCOUNTS",
    "TALLIES",
    "Arrived",
    "Aside",
    "Backlog",
    "Control",
    "ControlLog",
    "Controller",
    "Dropped",
    "Entry",
    "Flow",
    "Folder",
    "FolderLog",
    "Gauge",
    "Known",
    "Loaded",
    "Marks",
    "MemoryLog",
    "Opening",
    "Pair",
    "Prod",
    "Reached",
    "Retuning",
    "Seen",
    "Shed",
    "Sidelined",
    "Source",
    "Standing",
    "Stretches",
    "Tuned",
]
