"""Load shedding: which windows are left out when a stream outruns the machine (DROP)."""

from lowwater.shedding.policy import Shedding, gap_of, results_in, shed
from lowwater.shedding.rules import Params, Root, Slots, fan_out, pipeline
from lowwater.shedding.shedder import LoadShedder

__all__ = [
    "LoadShedder",
    "Params",
    "Root",
    "Shedding",
    "Slots",
    "fan_out",
    "gap_of",
    "pipeline",
    "results_in",
    "shed",
]
